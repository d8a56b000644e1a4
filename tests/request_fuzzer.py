"""Malformed HTTP requests: valid ones, changed at random, reproducible from a seed.

Secrets differ between servers. They are placeholders here, such as ``<token-ann>``, which are
replaced by those of the server before a request is sent.
"""

import json
import random
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

_EPSILONS = (0.5, 0.25, 0.1, 1.0, 2.0, 0.01, 1e-3)
_PARAMETER = re.compile(r"\{(\w+)\}")
_SAFE = "/<>~!*'()"
_PEOPLE = ("ann", "bob", "owner", "carl", "dora", "none")
_STRANGERS = ("carl", "dora", "none")
"""Principals that may be locked out; the others stay to send further requests."""
_LOCKS = ("revoke", "disable", "tokens", "close")
_CHOICES: dict[str, tuple[object, ...]] = {
    "products": (["clusters"], ["labels"], ["load", "labels"], [], ["load", "load"], None),
    "by": ("class", "street", "none"),
    "n_clusters": (3, 0, 1, 101, 1001),
    "tier": ("instance", "none"),
    "delta": (1e-6, 1e-9, 0.0, 1.0),
    "label_epsilon": (0.1, 9.0),
    "clusters_by_group": (True, False),
    "normalise": (True, False),
}
_ODD_TEXTS = (
    *("", " ", ".", "..", "../homes", "a" * 300, "a" * 70, "Homes", "homes ", "-homes", "1e5"),
    *(
        "\0",
        "a\0b",
        "\n",
        "\ud800",
        "\u202e",
        "é",
        "\uff11",
        "%",
        "%00",
        "'; --",
        "<script>",
        "null",
    ),
)
_ODD_VALUES: tuple[object, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**30, 0.1, -0.0, 1e-320, 1e308, -1e308),
    *(float("nan"), float("inf"), "1.0", [], {}, [[]], [None], {"a": {}}, [1] * 20, *_ODD_TEXTS),
)


@dataclass(frozen=True)
class HttpRequest:
    """A request."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class RequestFuzzer:
    """Makes requests to the routes of a server."""

    def __init__(self, routes: list[tuple[str, str]], seed: int) -> None:
        requests = [one for one in routes if one[1].endswith(("/quotes", "/releases"))]
        self._routes = [*routes, *requests * 5]
        self._random = random.Random(seed)  # noqa: S311 - requests, no secrets

    def next(self) -> HttpRequest:
        """Return the next request."""
        choose = self._random
        method, template = choose.choice(self._routes)
        if choose.random() < 0.02:
            method = choose.choice(("HEAD", "OPTIONS", "PUT", "DELETE", "TRACE", "get", "X" * 50))
        path = _PARAMETER.sub(lambda found: self._name(found[1], template), template)
        if choose.random() < 0.02:
            path += choose.choice(("/", "//", "/..", ";x", "/<token-ann>"))
        page = not template.startswith("/v1")
        body = self._body(template, page=page) if method == "POST" else b""
        headers = [*self._credentials(page=page), *self._aside(page=page)]
        return HttpRequest(method, path, self._query(), tuple(headers), body)

    def _name(self, parameter: str, template: str) -> str:
        choose = self._random
        if choose.random() < 0.15:
            return quote(choose.choice(_ODD_TEXTS).encode("utf-8", "surrogatepass"), safe="")
        locked = template.rsplit("/", 1)[-1] in _LOCKS
        file = choose.choice(("load_shapes", "groups", "x", "manifest")) + self._kind()
        known = {
            "dataset": "spare" if locked else choose.choice(("homes", "homes", "spare", "no")),
            "name": choose.choice(_STRANGERS if locked else (*_PEOPLE, "homes", "site.css")),
            "release": f"{choose.choice((1, 1, 1, 2, 0))}-{choose.randrange(25)}",
            "file": file,
            "act": choose.choice(("datasets", "budgets", "people", "none")),
        }
        return known.get(parameter, "ann")

    def _kind(self) -> str:
        return self._random.choice((".csv", ".json", ".parquet", "", ".exe"))

    def _query(self) -> str:
        choose = self._random
        if choose.random() < 0.8:
            return ""
        field = choose.choice(("tier", "journal", "after", "before", "x"))
        value = choose.choice((1, 2, 20, "global", "instance", "2024", *_ODD_VALUES))
        return quote(f"{field}={value}".encode("utf-8", "surrogatepass"), safe="=")

    def _credentials(self, *, page: bool) -> list[tuple[str, str]]:
        """Return credentials, valid or not."""
        choose = self._random
        who = choose.choice(("ann", "ann", "bob", "owner", "owner"))
        if choose.random() < 0.06:
            bad = (
                "",
                "Basic x",
                "Bearer",
                "Bearer x",
                "Bearer <token-ann>x",
                "bearer  <token-ann>",
            )
            return [("Authorization", choose.choice((*bad, "Bearer é", "Bearer <token-gone>")))]
        if page:
            return [("Cookie", f"wattveil_session=<cookie-{who}>"), ("Accept", "text/html")]
        return [("Authorization", f"Bearer <token-{who}>")]

    def _aside(self, *, page: bool) -> list[tuple[str, str]]:
        choose = self._random
        headers = []
        if choose.random() < 0.9:
            key = f"key-{choose.randrange(300)}"
            headers.append(
                ("Idempotency-Key", key if choose.random() < 0.95 else choose.choice(_ODD_TEXTS))
            )
        kinds = ("application/json", "text/plain", "application/xml", "multipart/form-data", "é")
        usual = "application/x-www-form-urlencoded" if page else "application/json"
        headers.append(("Content-Type", usual if choose.random() < 0.97 else choose.choice(kinds)))
        if choose.random() < 0.02:
            odd = ("Content-Length", choose.choice(("0", "-1", "x", "9" * 30, "1e3")))
            headers.append(choose.choice((odd, ("Accept", "text/html"), ("X" * 100, "y" * 2000))))
        return headers

    def _body(self, template: str, *, page: bool) -> bytes:
        choose = self._random
        fields = self._fields(template)
        if not page:  # what only forms carry
            fields = {
                name: value for name, value in fields.items() if name not in ("key", "dataset")
            }
        for _ in range(choose.choice((0, 0, 0, 1, 1, 2))):
            name = choose.choice([*fields, "x"])
            if choose.random() < 0.3:
                fields.pop(name, None)
            else:
                fields[name] = choose.choice(_ODD_VALUES)
        if page:
            flat = {
                **fields,
                **_flattened(fields.pop("allowance", None)),
                "csrf_token": self._word(),
            }
            return _in_utf8(urlencode(flat, doseq=True, errors="surrogatepass", safe="<>"))
        body = json.dumps(fields).encode()
        return body if choose.random() < 0.95 else self._broken(body)

    def _word(self) -> str:
        return self._random.choice(("<csrf-ann>", "<csrf-owner>", "<csrf-owner>", "é"))

    def _fields(self, template: str) -> dict[str, Any]:
        """Return a right body for a route; more or less right for a page."""
        choose = self._random
        epsilon = choose.choice(_EPSILONS) if choose.random() < 0.98 else choose.uniform(-1, 30)
        allowance = {
            "epsilon": epsilon * 3,
            "delta": 1e-6,
            "label_epsilon": choose.choice((0.0, 0.1)),
        }
        end = template.rsplit("/", 1)[-1]
        if end in ("quotes", "quote", "releases") or template == "/datasets/{name}":
            fields: dict[str, Any] = {"epsilon": epsilon, "products": ["load"], "n_clusters": 6}
            field, values = choose.choice((*_CHOICES.items(), *[("clusters", (6,))] * 5))
            return {**fields, field: choose.choice(values), "key": f"key-{choose.randrange(300)}"}
        person = choose.choice(_STRANGERS)
        data: dict[str, Any] = {
            "name": choose.choice(("homes", "spare", "new", "Ü")),
            "clip_kw": choose.choice((5.0, 0.0)),
            "file": choose.choice(
                ("homes.parquet", "spare.parquet", "customers.txt", "none", "../x")
            ),
            "groups": choose.choice(
                ({}, {"class": ["home", "shop"]}, {"street": ["a"]}, {"zip": []})
            ),
            "allowance": allowance,
        }
        bodies: dict[str, dict[str, Any]] = {
            "datasets": data,
            "budgets": {
                "allowance": allowance,
                "reason": "r",
                "tier": choose.choice(("global", "instance")),
                "principal": choose.choice((None, "ann", "bob", *_STRANGERS)),
                "dataset": "homes",
            },
            "close": {"reason": "r"},
            "principals": {"name": person, "token_days": choose.choice((1, 90, 0, 10**6))},
            "tokens": {"days": choose.choice((1, 90, 0))},
            "sign-in": {"token": choose.choice(("<token-gone>", "", "x", "é"))},
            "{act}": {
                **data,
                "name": person,
                "reason": "r",
                "tier": "global",
                "principal": "carl",
                "dataset": "homes",
            },
        }
        return bodies.get(end, {})

    def _broken(self, body: bytes) -> bytes:
        """Return what is no JSON any more, or JSON of another kind."""
        choose, at = self._random, self._random.randrange(len(body))
        return choose.choice(
            (
                body[:at],
                body[:at] + bytes([choose.randrange(256)]) + body[at + 1 :],
                b"\xef\xbb\xbf" + body,
                body.decode().encode("utf-16"),
                b"[" * 5000,
                b'{"epsilon": 1' + b"0" * 5000 + b"}",
                b'{"epsilon": 0.5, "epsilon": 0.25, "products": ["load"]}',
                b"null",
                b"[]",
                b"\0",
                b"x" * 300_000,
            )
        )


def _flattened(allowance: object) -> dict[str, Any]:
    return allowance if isinstance(allowance, dict) else {"epsilon": allowance}


def _in_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

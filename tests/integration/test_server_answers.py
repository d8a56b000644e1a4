"""What the server says of its answers is what it answers: every route, to the field."""

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.live_server import QUICK, Answer, Running, put_profiles, registration
from tests.sample_bundles import some_profiles
from tests.series_bundles import CHOICES, quarter
from tools.reference.http import description, problem_codes

_TO_FILL = re.compile(r"\{\w+\}")


class DescribedClient:
    """Sends requests by route, and compares each response with its OpenAPI description."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.met: set[str] = set()

    def send(self, route: str, *names: str, status: int, query: str = "", **how: Any) -> Answer:  # noqa: ANN401 - see `Running.send`
        """Send a request that must be answered with a status."""
        method, _, path = route.partition(" ")
        filled = iter(names)
        address = _TO_FILL.sub(lambda _: next(filled), path) + query
        answer = self.server.send(method, address, how.pop("body", None), **how)
        assert answer.status == status, (route, answer.status, answer.body)
        self.met.add(route)
        described = description()["paths"][path][method.lower()]["responses"]
        faults = list(unlike(answer, described))
        assert faults == [], (route, faults)
        return answer


def unlike(answer: Answer, described: dict[str, Any]) -> list[str]:
    """Return the differences between a response and the description of its route."""
    if str(answer.status) not in described:
        return [f"status {answer.status}"]
    content = described[str(answer.status)]["content"]
    kind = answer.headers["content-type"]
    known = [one for one in content if kind.partition(";")[0] == one.partition(";")[0]]
    if not known:
        return [f"media type {kind}"]
    schema = content[known[0]].get("schema")
    if schema is None:
        return []
    whole = {**schema, "components": description()["components"]}
    return [error.message for error in Draft202012Validator(whole).iter_errors(answer.json)]


def see_series(server: Running, see: DescribedClient) -> None:
    """Open a series, add a period, and close it."""
    quarter(0, customers=60).write_parquet(server.state.folder / "profiles" / "quarter.parquet")
    opened = {**CHOICES, "name": "quarters", "epsilon": 0.1}
    opening = "POST /v1/admin/datasets/{dataset}/series"
    asked = {**CHOICES, "epsilon": 0.1, "group_customers": [1000]}
    see.send(f"{opening}/plan", "answers", status=200, body=asked)
    see.send(opening, "answers", status=201, body=opened)
    of_series = "POST /v1/admin/datasets/{dataset}/series/{series}"
    place, period = ("answers", "quarters"), {"period": "2026-Q1", "file": "quarter.parquet"}
    added = see.send(f"{of_series}/periods", *place, status=202, body=period).json["release"]
    assert server.finished(added, as_="reader")["state"] == "ok"
    see.send("GET /v1/datasets/{dataset}/series", "answers", status=200, as_="reader")
    see.send(f"{of_series}/erase", *place, status=200, body={"customer_ids": ["nobody"]})
    see.send(f"{of_series}/close", *place, status=200, body={"reason": "x"})
    closed = "GET /v1/datasets/{dataset}/series/{series}/closed.json"
    see.send(closed, *place, status=200, as_="reader")


def test_every_answer_is_as_described(server: Running) -> None:
    """Each route is requested at least once; every field is present and described."""
    see, act = DescribedClient(server), "POST /v1/admin"
    for path in ("/healthz", "/livez", "/readyz"):
        see.send(f"GET {path}", status=200, as_=None)
    see.send("GET /metrics", status=200)
    file = put_profiles(server.state.folder, "answers.parquet", some_profiles(211))
    see.send(f"{act}/datasets", status=201, body=registration(file, "answers"))
    for name in ("reader", "leaver"):
        made = see.send(f"{act}/principals", status=201, body={"name": name})
        server.tokens[name] = made.json["token"]
    allowance = {"epsilon": 2.0, "delta": 1e-6}
    budget = {"allowance": allowance, "reason": "x", "principal": "reader"}
    see.send(f"{act}/datasets/{{dataset}}/budgets", "answers", status=200, body=budget)
    see.send("GET /v1/me", status=200, as_="reader")
    see.send("GET /v1/datasets", status=200, as_="reader")
    see.send("GET /v1/datasets/{dataset}", "answers", status=200, as_="reader")
    of_budget = "GET /v1/datasets/{dataset}/budget"
    see.send(of_budget, "answers", status=200, as_="reader")
    see.send(of_budget, "answers", query="?tier=instance", status=200, as_="reader")
    quotes = "POST /v1/datasets/{dataset}/quotes"
    see.send(quotes, "answers", status=200, body=QUICK, as_="reader")
    order: dict[str, Any] = {"body": QUICK, "as_": "reader", "headers": {"Idempotency-Key": "a"}}
    orders = "POST /v1/datasets/{dataset}/releases"
    number = see.send(orders, "answers", status=202, **order).json["id"]
    assert server.finished(number, as_="reader")["state"] == "ok"
    see.send(orders, "answers", status=200, **order)

    one = "GET /v1/releases/{release}"
    assert "load_shapes" in see.send(one, number, status=200, as_="reader").json["tables"]
    see.send("GET /v1/releases", status=200, as_="reader")
    for part in ("manifest", "report"):
        see.send(f"{one}/{part}", number, status=200, as_="reader")
    for kind in ("csv", "json", "parquet"):
        table = f"load_shapes.{kind}"
        see.send(f"{one}/payload/{{file}}", number, table, status=200, as_="reader")
    bundle = see.send(f"{one}/bundle.zip", number, status=200, as_="reader").body
    zipped = {"Content-Type": "application/zip"}
    see.send("POST /v1/verify", status=200, body=bundle, headers=zipped, as_="reader")
    share = "POST /v1/releases/{release}/shares"
    see.send(share, number, status=201, body={"reader": "*"}, as_="reader")

    see_series(server, see)
    see.send("GET /v1/admin/datasets/{dataset}/accounts", "answers", status=200)
    see.send("GET /v1/admin/ledger", status=200)
    for what in ("principals", "events"):
        see.send(f"GET /v1/admin/{what}", status=200)
    see.send(f"{act}/principals/{{name}}/tokens", "leaver", status=201, body={})
    listed = see.send("GET /v1/admin/principals/{name}/tokens", "leaver", status=200).json
    single = f"{act}/principals/{{name}}/tokens/{{token}}/revoke"
    see.send(single, "leaver", str(listed["tokens"][0]["id"]), status=200)
    see.send(f"{act}/principals/{{name}}/revoke", "leaver", status=200)
    see.send(f"{act}/principals/{{name}}/disable", "leaver", status=200)
    see.send(f"{act}/datasets/{{dataset}}/close", "answers", status=200, body={"reason": "x"})
    routes = {
        f"{method.upper()} {path}"
        for path, methods in description()["paths"].items()
        for method in methods
    }
    assert see.met == routes


def test_problems_are_as_described(server: Running) -> None:
    """What is refused has the fields of a problem, and a code that the route is said to have."""
    see = DescribedClient(server)
    orders, one = "POST /v1/datasets/{dataset}/releases", "GET /v1/releases/{release}"
    key: dict[str, Any] = {"as_": "ann", "headers": {"Idempotency-Key": "problems"}}
    see.send("GET /v1/me", status=401, as_=None)
    see.send("GET /v1/admin/events", status=403, as_="ann")
    see.send("GET /v1/datasets/{dataset}", "nobodys", status=403, as_="ann")
    see.send(one, "1-999999", status=404, as_="ann")
    see.send(f"{one}/manifest", "1-999999", status=404, as_="ann")
    see.send("GET /v1/admin/ledger", query="?journal=0", status=422)
    see.send("POST /v1/admin/principals/{name}/revoke", "nobody", status=422)
    see.send("POST /v1/verify", status=422, body=b"no bundle", as_="ann")
    see.send(orders, "homes", status=422, body={"epsilon": -1.0}, **key)
    see.send(orders, "homes", status=422, body=QUICK, as_="ann")  # without a key
    see.send(orders, "homes", status=403, body={**QUICK, "epsilon": 90.0}, **key)
    see.send("POST /v1/admin/principals", status=413, body=b" " * 300_000)


@pytest.mark.parametrize(
    "body",
    [b'{"name": "ann"}', b'{"name": "ann", "kind": "analyst", "age": 7}', b'{"name": 1}', b"[]"],
)
def test_an_answer_that_differs_is_found(body: bytes) -> None:
    """A field too few, one too many, one of another kind; another status, media type or code."""
    described = description()["paths"]["/v1/me"]["get"]["responses"]
    right = Answer(200, {"content-type": "application/json"}, b'{"name": "a", "kind": "admin"}')
    assert unlike(right, described) == []
    assert unlike(Answer(200, right.headers, body), described) != []
    assert unlike(Answer(201, right.headers, right.body), described) != []
    assert unlike(Answer(200, {"content-type": "text/html"}, right.body), described) != []
    assert problem_codes(described["401"]) == ["unauthorized"]
    assert "forbidden" not in {code for one in described.values() for code in problem_codes(one)}

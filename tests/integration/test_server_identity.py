"""Sign-in at a real OpenID Connect provider on the loopback, JWTs, single tokens, sessions."""

import base64
import hashlib
import hmac
import http.client
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import flask
import oidc_provider_mock
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from sqlalchemy import select
from typer.testing import CliRunner

from tests.integration.conftest import Place
from tests.live_server import Answer, Browser, Running, refused, serving
from wattveil.cli import app
from wattveil.errors import InvalidParameterError
from wattveil.server.auth import openid
from wattveil.server.auth.identities import principal_of
from wattveil.server.auth.identity_provider import Identity, OpenIdSettings
from wattveil.server.auth.openid import OpenIdProvider
from wattveil.server.http.problems import Code
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.ledger_tables import principal

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"  # of the provider, which runs in this process
)

CLIENT, AUDIENCE = "wattveil-pages", "wattveil-api"
PEOPLE = {
    "sub-1": {"preferred_username": "Carol", "groups": ["grid", "energy-analysts"]},
    "sub-2": {"preferred_username": "dave", "groups": ["energy-admins"]},
    "sub-3": {"preferred_username": "eve", "groups": ["visitors"]},
    "sub-4": {"preferred_username": "owner", "groups": ["energy-analysts"]},
    "sub-5": {"preferred_username": "no groups"},
}


@dataclass
class Provider:
    """The provider, and the challenges that it was sent: the package does not check PKCE itself."""

    url: str
    challenges: dict[str, str] = field(default_factory=dict)
    last: dict[str, str] = field(default_factory=dict)

    def sign_in(self, address: str, subject: str) -> str:
        """Sign in as a person at the address that a browser was sent to; return where to go."""
        parts = urlsplit(address)
        body = urlencode({"sub": subject})
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        connection = http.client.HTTPConnection(parts.netloc, timeout=600)
        connection.request("POST", f"{parts.path}?{parts.query}", body, form)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 302, answer.status
        sent, back = parse_qs(parts.query), answer.headers["Location"]
        code = parse_qs(urlsplit(back).query)["code"][0]
        self.last = {name: values[0] for name, values in sent.items()}
        assert self.last["code_challenge_method"] == "S256"
        self.challenges[code] = self.last["code_challenge"]
        return back


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """Run the provider; it refuses a code whose verifier does not fit its challenge."""
    users = [oidc_provider_mock.User(sub=sub, claims=claims) for sub, claims in PEOPLE.items()]
    found = Provider("")
    application = oidc_provider_mock.app(require_nonce=True, user_claims=users)

    def check_pkce() -> tuple[str, int] | None:
        if flask.request.path != "/oauth2/token":
            return None
        verifier = flask.request.form.get("code_verifier", "")
        digest = hashlib.sha256(verifier.encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        fits = found.challenges.get(flask.request.form.get("code", "")) == challenge
        return None if fits else ("{}", 400)

    application.before_request(check_pkce)

    from oidc_provider_mock._server import _threaded_server  # noqa: PLC0415 - with our check

    with _threaded_server(app=application) as server:
        found.url = f"http://localhost:{server.server_port}"
        yield found


def settings(provider: Provider, **changed: Any) -> OpenIdSettings:  # noqa: ANN401 - any setting
    """Return the settings of a server."""
    usual: dict[str, Any] = {
        "issuer": provider.url,
        "client_id": CLIENT,
        "client_secret": "some secret",
        "audience": AUDIENCE,
        "groups_claim": "groups",
        "admin_groups": frozenset({"energy-admins"}),
        "analyst_groups": frozenset({"energy-analysts"}),
    }
    return OpenIdSettings(**{**usual, **changed})


@pytest.fixture(scope="module")
def server(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a server with the provider."""
    with serving(
        tmp_path_factory.mktemp("identity"), provider=OpenIdProvider(settings(provider))
    ) as running:
        yield running


def begin(server: Running, to: str = "/releases") -> tuple[str, str]:
    """Go to the provider; return where the browser is sent, and its cookie."""
    answer = server.send("GET", f"/sign-in/provider?{urlencode({'to': to})}", as_=None)
    assert answer.status == 303
    assert "HttpOnly" in answer.headers["set-cookie"]
    return answer.headers["location"], answer.headers["set-cookie"].partition(";")[0]


def finish(server: Running, back: str, cookie: str) -> Answer:
    """Come back from the provider."""
    parts = urlsplit(back)
    headers = {"Cookie": cookie, "Accept": "text/html"}
    return server.send("GET", f"{parts.path}?{parts.query}", as_=None, headers=headers)


class Person(Browser):
    """A browser that signed in at the provider."""

    def __init__(self, server: Running, provider: Provider, subject: str) -> None:
        self._server = server
        address, cookie = begin(server)
        self.answer = finish(server, provider.sign_in(address, subject), cookie)
        if self.answer.status == 200:
            self.cookie = self.answer.headers["set-cookie"].partition(";")[0]
            page = self.get("/").body.decode()
            self.word = re.findall(r'name="csrf_token" value="([^"]+)"', page)[0]


def api_token(provider: Provider, subject: str, *, audience: str = AUDIENCE) -> str:
    """Return a JWT of the provider for an audience."""
    client = OpenIdProvider(settings(provider, client_id=audience, audience=None))
    address, pending = client.begin("http://localhost/callback", to="/", seconds=60)
    code = parse_qs(urlsplit(provider.sign_in(address, subject)).query)["code"][0]
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": pending.redirect_uri,
        "client_id": audience,
        "code_verifier": pending.verifier,
    }
    answer = openid._request("POST", f"{provider.url}/oauth2/token", fields, (audience, "x"))
    return str(answer["id_token"])


def bearer(server: Running, text: str, path: str = "/v1/me") -> Answer:
    """Send a request with a token."""
    return server.send("GET", path, as_=None, headers={"Authorization": f"Bearer {text}"})


def test_a_person_signs_in_with_the_role_of_its_groups(server: Running, provider: Provider) -> None:
    """The page leads on, the account has the preferred name, and an analyst is no administrator."""
    assert b"/sign-in/provider" in server.send("GET", "/sign-in", as_=None).body
    carol = Person(server, provider, "sub-1")
    assert b'content="0;url=/releases"' in carol.answer.body
    assert b"carol" in carol.get("/").body
    assert carol.get("/admin").status == 403
    dave = Person(server, provider, "sub-2")
    assert dave.get("/admin").status == 200
    found = server.send("GET", "/v1/admin/principals").json["principals"]
    roles = {one["name"]: one["kind"] for one in found}
    assert (roles["carol"], roles["dave"]) == ("analyst", "admin")
    assert Person(server, provider, "sub-1").get("/").status == 200
    again = server.send("GET", "/v1/admin/principals").json["principals"]
    assert len(again) == len(found), "the same person has one account"


def test_people_without_a_group_are_refused(server: Running, provider: Provider) -> None:
    """No account is made for them."""
    for subject in ("sub-3", "sub-5"):
        answer = Person(server, provider, subject).answer
        assert answer.status == 401
        assert "wattveil_session" not in answer.headers.get("set-cookie", "")
    names = {one["name"] for one in server.send("GET", "/v1/admin/principals").json["principals"]}
    assert "eve" not in names


def test_a_name_that_is_taken_leads_to_no_account(server: Running, provider: Provider) -> None:
    """Whoever calls himself owner at the provider is not the owner here."""
    person = Person(server, provider, "sub-4")
    assert person.answer.status == 200
    assert person.get("/admin").status == 403
    assert b"person-" in person.get("/").body


def test_forged_and_repeated_callbacks_are_refused(server: Running, provider: Provider) -> None:
    """Another state, another browser, a code twice, an error of the provider, nothing at all."""
    address, cookie = begin(server)
    back = provider.sign_in(address, "sub-1")
    assert finish(server, back.replace("state=", "state=x"), cookie).status == 401
    assert finish(server, back, cookie.replace("=", "=x", 1)).status == 401
    assert finish(server, back, cookie).status == 200
    assert finish(server, back, cookie).status == 401, "a code is used once"
    address, cookie = begin(server)
    _, other = begin(server)
    back = provider.sign_in(address, "sub-1")
    assert finish(server, back, other).status == 401, "of another browser"
    assert finish(server, back, "").status == 401
    assert finish(server, "/sign-in/callback?error=access_denied", cookie).status == 401
    address, cookie = begin(server)
    back = provider.sign_in(address, "sub-1")
    code = parse_qs(urlsplit(back).query)["code"][0]
    provider.challenges[code] = "of another verifier"
    assert finish(server, back, cookie).status == 401


def test_a_sign_in_with_another_nonce_is_refused(
    server: Running, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ID token of another sign-in is not accepted in this one."""
    address, cookie = begin(server)
    changed = re.sub(r"nonce=[^&]+", "nonce=other", address)
    assert finish(server, provider.sign_in(changed, "sub-1"), cookie).status == 401
    with monkeypatch.context() as patch:
        patch.setattr(openid, "_LEEWAY_SECONDS", -10_000)  # every token has expired
        address, cookie = begin(server)
        assert finish(server, provider.sign_in(address, "sub-1"), cookie).status == 401


def test_only_pages_of_this_server_follow_a_sign_in(server: Running, provider: Provider) -> None:
    """An address that names another host is replaced."""
    address, cookie = begin(server, to="//evil.example/")
    answer = finish(server, provider.sign_in(address, "sub-1"), cookie)
    assert b'content="0;url=/"' in answer.body


def test_the_api_accepts_jwts_of_its_audience(server: Running, provider: Provider) -> None:
    """Beside tokens, with the same roles."""
    assert bearer(server, api_token(provider, "sub-1")).json == {
        "name": "carol",
        "kind": "analyst",
    }
    dave = api_token(provider, "sub-2")
    assert bearer(server, dave, "/v1/admin/principals").status == 200
    refused(bearer(server, api_token(provider, "sub-3")), Code.UNAUTHORIZED)
    refused(bearer(server, api_token(provider, "sub-1", audience="other")), Code.UNAUTHORIZED)
    refused(bearer(server, api_token(provider, "sub-1", audience=CLIENT)), Code.UNAUTHORIZED)
    assert server.send("GET", "/v1/me").json["name"] == "owner"


def test_a_jwt_begins_no_session(server: Running, provider: Provider) -> None:
    """A session of 8 hours would outlive it: the form takes tokens of the server only."""
    text = api_token(provider, "sub-1")
    for token, status in ((text, 401), (server.tokens["owner"], 303)):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode({"token": token}).encode()
        assert server.send("POST", "/sign-in", body, as_=None, headers=form).status == status
    assert bearer(server, text).status == 200


def test_forged_jwts_are_refused(server: Running, provider: Provider) -> None:
    """Another key, another issuer, no signature, the public key as a secret, expired, changed."""
    good = api_token(provider, "sub-2")
    head, body, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    header = json.loads(base64.urlsafe_b64decode(head + "=="))
    assert bearer(server, good).status == 200
    key = RSAKey.generate_key(2048)
    keys = openid._request("GET", f"{provider.url}/jwks")["keys"]
    public = RSAKey.import_key(keys[0]).as_pem(private=False)
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    later = {**claims, "groups": ["energy-admins"], "sub": "sub-1"}
    changed = base64.urlsafe_b64encode(json.dumps(later).encode()).rstrip(b"=").decode()
    hs256 = base64.urlsafe_b64encode(b'{"alg":"HS256"}').rstrip(b"=").decode()
    mac = hmac.digest(public, f"{hs256}.{body}".encode(), "sha256")
    forged = [
        jwt.encode(header, claims, key),
        jwt.encode({"alg": "RS256"}, {**claims, "iss": "https://evil.example"}, key),
        f"{hs256}.{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}",
        f"{none}.{body}.{signature}",
        f"{head}.{changed}.{signature}",
        f"{head}.{body}.{'A' * len(signature)}",
    ]
    for text in forged:
        refused(bearer(server, text), Code.UNAUTHORIZED)


def test_roles_follow_the_groups(server: Running, provider: Provider) -> None:
    """A person who leaves the group of administrators is none at the next token, in open sessions
    too, and an older token does not change that; a disabled one stays out.
    """
    set_groups(provider, "sub-9", "energy-admins")
    old = api_token(provider, "sub-9")
    person = Person(server, provider, "sub-9")
    assert person.get("/admin").status == 200
    set_groups(provider, "sub-9", "energy-analysts")
    text = api_token(provider, "sub-9")
    for one in (text, old):
        refused(bearer(server, one, "/v1/admin/principals"), Code.FORBIDDEN)
        assert person.get("/admin").status == 403
    events = server.send("GET", "/v1/admin/events").json["events"]
    assert events[0]["action"] == "role changed"
    name = bearer(server, text).json["name"]
    assert server.send("POST", f"/v1/admin/principals/{name}/disable", {}).status == 200
    refused(bearer(server, text), Code.UNAUTHORIZED)
    assert person.get("/").status == 303
    assert Person(server, provider, "sub-9").answer.status == 401


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_older_tokens_change_no_role(place: Place) -> None:
    """They have the lower of both roles; of two tokens of one second, the lower role counts."""
    admin, analyst = PrincipalKind.ADMIN, PrincipalKind.ANALYST
    with place.open() as ledger:
        for issued_at, stated, given, stored in (
            (10, admin, admin, admin),
            (20, analyst, analyst, analyst),
            (10, admin, analyst, analyst),
            (20, admin, analyst, analyst),
            (30, analyst, analyst, analyst),
            (25, admin, analyst, analyst),
            (40, admin, admin, admin),
            (35, analyst, analyst, admin),
            (40, analyst, analyst, analyst),
        ):
            person = Identity(
                issuer="https://identity.example",
                subject="sub-1",
                name="frank",
                role=stated,
                issued_at=issued_at,
            )
            found = principal_of(ledger, person)
            assert found is not None
            with ledger.reading() as connection:
                kept = connection.execute(select(principal.c.kind)).scalar_one()
            assert (found.kind, kept) == (given, stored), (issued_at, stated)


def set_groups(provider: Provider, subject: str, *groups: str) -> None:
    """Change a person at the provider."""
    parts = urlsplit(provider.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=600)
    claims = {"preferred_username": "frank", "groups": list(groups)}
    headers = {"Content-Type": "application/json"}
    connection.request("PUT", f"/users/{subject}", json.dumps(claims), headers)
    assert connection.getresponse().status == 204
    connection.close()


def test_a_provider_that_is_gone_is_unavailable(provider: Provider, tmp_path: Path) -> None:
    """Tokens of the server still work, and another issuer in its description is refused."""
    gone = OpenIdProvider(settings(provider, issuer="http://localhost:9"))
    other = OpenIdProvider(settings(provider, issuer=f"{provider.url}/"))
    for broken in (gone, other):
        folder = tmp_path / str(time.monotonic_ns())
        folder.mkdir()
        with serving(folder, provider=broken) as server:
            refused(server.send("GET", "/sign-in/provider", as_=None), Code.UNAVAILABLE)
            refused(bearer(server, f"{'a' * 20}.{'b' * 20}.{'c' * 20}"), Code.UNAUTHORIZED)
            assert server.send("GET", "/v1/me").status == 200


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "http://identity.example"},
        {"issuer": "identity"},
        {"audience": CLIENT},
        {"admin_groups": frozenset(), "analyst_groups": frozenset()},
        {"admin_groups": frozenset({"a"}), "analyst_groups": frozenset({"a", "b"})},
    ],
)
def test_unsafe_settings_are_refused(provider: Provider, changed: dict[str, Any]) -> None:
    """Before the server starts."""
    with pytest.raises(InvalidParameterError):
        settings(provider, **changed)


def test_single_tokens_are_listed_and_revoked(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By number, on the command line; other tokens and their sessions stay."""
    made = server.send("POST", "/v1/admin/principals", {"name": "gina"}).json
    server.tokens["gina"] = made["token"]
    second = server.send("POST", "/v1/admin/principals/gina/tokens", {}).json["token"]
    monkeypatch.setenv("WATTVEIL_TOKEN", server.tokens["owner"])
    monkeypatch.setenv("WATTVEIL_URL", server.url)
    listed = CliRunner().invoke(app, ["admin", "tokens", "--name", "gina", "--json"])
    numbers = [one["id"] for one in json.loads(listed.stdout)["tokens"]]
    assert len(numbers) == 2
    browser = Browser(server, "gina")
    revoke = ["admin", "revoke", "--name", "gina", "--number", str(numbers[0])]
    assert CliRunner().invoke(app, revoke).exit_code == 0
    refused(bearer(server, second), Code.UNAUTHORIZED)
    assert server.send("GET", "/v1/me", as_="gina").status == 200
    assert browser.get("/sessions").status == 200
    answer = server.send("POST", f"/v1/admin/principals/owner/tokens/{numbers[1]}/revoke", {})
    refused(answer, Code.INVALID_REQUEST)
    refused(server.send("GET", "/v1/admin/principals/gina/tokens", as_="gina"), Code.FORBIDDEN)


def test_people_end_their_own_sessions_and_tokens(server: Running) -> None:
    """Those of others are not found, and a form needs its word."""
    for name in ("hugo", "ines"):
        made = server.send("POST", "/v1/admin/principals", {"name": name}).json
        server.tokens[name] = made["token"]
    extra = server.send("POST", "/v1/admin/principals/hugo/tokens", {}).json["token"]
    with ExitStack():
        here, there, ines = (Browser(server, name) for name in ("hugo", "hugo", "ines"))
    page = here.get("/sessions").body.decode()
    assert "this session" in page
    (short,) = re.findall(r'name="session" value="([0-9a-f]{16})"', page)
    assert ines.post("/sessions/end", session=short).status == 404
    assert here.post("/sessions/end", session=short, csrf_token="no").status == 403  # noqa: S106 - wrong
    assert here.post("/sessions/end", session=short).status == 200
    assert there.get("/").status == 303
    assert here.get("/").status == 200
    (number,) = re.findall(r'name="token" value="(\d+)"', here.get("/sessions").body.decode())
    assert ines.post("/sessions/revoke", token=number).status == 422
    assert bearer(server, extra).status == 200
    assert here.post("/sessions/revoke", token="x").status == 404  # noqa: S106 - none
    assert here.post("/sessions/revoke", token=number).status == 200
    refused(bearer(server, extra), Code.UNAUTHORIZED)

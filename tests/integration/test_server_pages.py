"""The pages over HTTP: sessions, forms of other sites, roles, orders without scripts, error pages.

How they look: tests/browser.
"""

import json
import re

import pytest
from sqlalchemy import select

from tests.live_server import Answer, Browser, Running, refused
from wattveil.server.auth import sessions
from wattveil.server.http import pages_analyst
from wattveil.server.http.problems import Code
from wattveil.server.http.server_pages import PROBLEM_WORDS
from wattveil.server.ledger.ledger_tables import reviewed_order

ORDER = {"epsilon": "0.1", "products": "load"}


def own_budget(server: Running) -> bytes:
    """Return what ann's accounts hold."""
    return server.send("GET", "/v1/datasets/homes/budget", as_="ann").body


def test_a_session_is_a_cookie_that_scripts_and_other_sites_do_not_get(server: Running) -> None:
    """HttpOnly and strict; the token itself is in no page and no cookie."""
    ann = Browser(server, "ann")
    cookie = ann.signed_in.headers["set-cookie"].lower()
    assert ann.signed_in.status == 303
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    token = server.tokens["ann"]
    assert token not in cookie
    for path in ("/", "/datasets/homes", "/releases"):
        shown = ann.get(path)
        assert shown.status == 200
        assert token.encode() not in shown.body
        assert "script-src 'self';" in shown.headers["content-security-policy"]


def test_who_signs_in_too_often_closes_only_sessions_of_their_own(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of that token goes, also when others sign in; expired sessions do not count."""
    monkeypatch.setattr(sessions, "_MAX_PER_TOKEN", 3)
    owner = Browser(server, "owner")
    anns = [Browser(server, "ann") for _ in range(5)]
    assert [one.get("/").status for one in anns] == [303, 303, 200, 200, 200]
    assert owner.get("/").status == 200
    bob = Browser(server, "bob")
    monkeypatch.setattr(sessions, "_SECONDS", -1)
    for _ in range(5):  # each is over as soon as it begins
        assert bob.post("/sign-in", token=server.tokens["bob"]).status == 303
    assert bob.get("/").status == 200


def test_pages_send_strangers_to_the_door(server: Running) -> None:
    """Without a session, with a false one, and after signing out."""
    for cookie, ended in (("", ""), ("wattveil_session=x", "ended=yes&")):
        for path in ("/datasets/homes", "/releases", "/admin", "/ledger"):
            said = server.send("GET", path, as_=None, headers={"Cookie": cookie})
            address = f"/sign-in?{ended}to={path.replace('/', '%2F')}"
            assert (said.status, said.headers["location"]) == (303, address)
    assert server.send("GET", "/", as_=None).headers["location"] == "/sign-in"
    ann = Browser(server, "ann")
    assert ann.post("/sign-out").status == 303
    assert ann.get("/").status == 303
    assert server.send("POST", "/sign-in", b"token=wattveil_x", as_=None).status == 401


def test_an_ended_session_is_stated_and_signing_in_leads_back(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In words; a page of this server alone, never another host; nothing sent is processed."""
    before = own_budget(server)
    monkeypatch.setattr(sessions, "_SECONDS", -1)
    ann = Browser.__new__(Browser)
    ann._server = server
    ann.cookie = ann.post("/sign-in", token=server.tokens["ann"]).headers["set-cookie"]
    ann.cookie = ann.cookie.partition(";")[0]
    sent = ann.post("/datasets/homes", **ORDER)
    assert (sent.status, sent.headers["location"]) == (303, "/sign-in?ended=yes")
    page = ann.get("/sign-in?ended=yes&to=/releases").body.decode()
    assert "Your session has ended" in page
    assert 'name="to" value="/releases"' in page
    assert own_budget(server) == before
    for to, leads in (("/releases", "/releases"), ("//evil.example", "/"), ("https://e.x/", "/")):
        said = ann.post("/sign-in", token=server.tokens["ann"], to=to)
        assert (said.status, said.headers["location"]) == (303, leads)


# --- orders, by a browser without scripts ---------------------------------------------------------


def stated(page: bytes, account: str) -> tuple[str, str]:
    """Return what an account has spent now and will have spent, as the confirmation states it."""
    part = page.decode().partition(f'data-account="{account}"')[2]
    found = re.search(r"now epsilon (\S+) of \S+ spent; afterwards ([0-9.e+-]+)", part)
    assert found is not None
    return found[1], found[2]


def reviewed(ann: Browser, **fields: str) -> tuple[str, Answer]:
    """Send the form; return the address of the confirmation, and its page."""
    said = ann.post("/datasets/homes", **{**ORDER, **fields})
    assert said.status == 303, said.body
    address = said.headers["location"]
    assert address.startswith("/orders/page-")
    return address, ann.get(address)


def test_an_order_is_confirmed_before_it_is_charged(server: Running) -> None:
    """The confirmation states what is charged; a second click and a reload charge nothing."""
    ann, before = Browser(server, "ann"), own_budget(server)
    address, page = reviewed(ann, epsilon="0.1171", n_clusters="3", label_epsilon="0.05")
    text = page.body.decode()
    assert page.status == 200
    assert own_budget(server) == before  # a review charges nothing
    assert re.findall(r"<tr><td>([^<]+)", text.partition('id="products"')[2]) == ["Load"]
    assert "Not in this order: Customer segments, Synthetic customers" in text
    assert ann.post(address, csrf_token="").status == 403
    assert own_budget(server) == before
    placed = ann.post(address)
    assert placed.status == 303
    release = placed.headers["location"].removeprefix("/releases/")
    found = server.finished(release)
    # What shapes no ticked product is not part of the request.
    assert (found["request"]["n_clusters"], found["request"]["label_epsilon"]) == (6, None)
    weights = found["request"]["weights"]
    assert {name for name in weights if weights[name]} == {"load"}
    spent = server.send("GET", "/v1/datasets/homes/budget", as_="ann").json["own"]
    assert f"{float(spent['epsilon_spent']):.3g}" == stated(page.body, "own")[1]
    paid = own_budget(server)
    assert ann.post(address).headers["location"] == placed.headers["location"]
    shown = ann.get(address).body.decode()
    assert f'href="/releases/{release}"' in shown
    assert "Order this release" not in shown
    assert own_budget(server) == paid != before


def test_an_order_that_is_changed_starts_from_its_choices(server: Running) -> None:
    """*Change the order* and a refusal show the form as it was sent, not as it is at first."""
    ann = Browser(server, "ann")
    _, page = reviewed(ann, epsilon="0.0671", products="clusters", n_clusters="3", normalise="yes")
    link = re.search(r'href="(/datasets/homes\?order=[^"]+)"', page.body.decode())
    assert link is not None
    refused = ann.post(
        "/datasets/homes", epsilon="0", products="clusters", n_clusters="3", normalise="yes"
    )
    assert refused.status == 422
    for body, epsilon in ((ann.get(link[1]).body, "0.0671"), (refused.body, "0")):
        form = body.decode().partition('id="request"')[2]
        assert re.findall(r'name="products" value="(\w+)" checked', form) == ["clusters"]
        assert f'name="epsilon" value="{epsilon}"' in form
        assert 'name="n_clusters" value="3"' in form
        assert 'name="normalise" value="yes" checked' in form
    first = Browser(server, "ann").get(link[1]).body.decode()  # another session
    assert re.findall(r'name="products" value="(\w+)" checked', first) == ["load"]


def test_a_reviewed_order_keeps_no_secret_and_no_long_form(server: Running) -> None:
    """The anti-forgery token of the form is not stored, nor are fields beyond a limit."""
    ann = Browser(server, "ann")
    short, _ = reviewed(ann, epsilon="0.0972")
    long, _ = reviewed(ann, epsilon="0.0973", unknown="x" * 100_000)
    with server.state.ledger.reading() as connection:
        rows = connection.execute(select(reviewed_order.c.key, reviewed_order.c.content)).all()
    contents = {row.key: json.loads(row.content) for row in rows}
    kept, dropped = (contents[address.rpartition("/")[2]] for address in (short, long))
    assert kept["sent"]["epsilon"] == ["0.0972"]
    assert "csrf_token" not in kept["sent"]
    assert dropped["sent"] == {}
    assert dropped["body"]["epsilon"] == 0.0973


def test_an_order_belongs_to_the_session_that_reviewed_it(server: Running) -> None:
    """Another user, another session and an unknown key find nothing."""
    ann, bob, again = (Browser(server, name) for name in ("ann", "bob", "ann"))
    address, _ = reviewed(ann, epsilon="0.0971")
    before = own_budget(server)
    for other in (bob, again):
        assert other.get(address).status == 404
        assert other.post(address).status == 404
    assert ann.get("/orders/page-none").status == 404
    assert own_budget(server) == before


def test_a_confirmation_that_no_longer_holds_is_shown_again(server: Running) -> None:
    """The same release was ordered in between: what would be charged is another amount."""
    ann = Browser(server, "ann")
    address, page = reviewed(ann, epsilon="0.0871")
    assert b"It cannot be refunded" in page.body
    made = server.order("between", {"epsilon": 0.0871, "products": ["load"]})
    server.finished(made.json["id"])
    before = own_budget(server)
    changed = ann.post(address)
    assert changed.status == 409
    assert b"has changed since you reviewed it" in changed.body
    assert b"Nothing: you have ordered this release before" in changed.body
    assert ann.post(address).status == 303
    assert own_budget(server) == before


@pytest.mark.parametrize("page_first", [False, True])
def test_a_click_that_overtakes_the_record_of_the_first_finds_its_release(
    server: Running, *, page_first: bool
) -> None:
    """The order was charged under its key; its session does not hold the release yet."""
    ann, epsilon = Browser(server, "ann"), 0.0861 + 0.0001 * page_first
    address, _ = reviewed(ann, epsilon=str(epsilon))
    body = {"epsilon": epsilon, "products": ["load"]}
    made = server.order(address.rpartition("/")[2], body).json["id"]
    once = own_budget(server)
    if page_first:
        assert b"This order has been placed" in ann.get(address).body
    second = ann.post(address)
    assert (second.status, second.headers["location"]) == (303, f"/releases/{made}")
    assert b"This order has been placed" in ann.get(address).body
    assert own_budget(server) == once


def test_an_order_beyond_the_budget_cannot_be_confirmed(server: Running) -> None:
    """The page states what fits; a form that is sent all the same is refused."""
    ann, before = Browser(server, "ann"), own_budget(server)
    address, page = reviewed(ann, epsilon="100")
    found = re.search(
        r"too small: the largest epsilon you can order is ([0-9.]+) ", page.body.decode()
    )
    assert found is not None
    _, fits = reviewed(ann, epsilon=found[1])  # what the page states is accepted
    assert b"Order this release" in fits.body
    assert b"expected accuracy" in fits.body
    assert b"Order this release" not in page.body
    said = ann.post(address)
    assert said.status == 422
    assert b"The budget does not cover the price" in said.body
    assert own_budget(server) == before


# --- error pages ----------------------------------------------------------------------------------


def test_every_problem_has_a_page_in_plain_words() -> None:
    """The closed list of problems is the list of pages."""
    assert {*PROBLEM_WORDS} == {*Code}


def test_browsers_get_a_page_and_programs_a_problem(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """404, 403, 405, 413 and 500, each with a way back; JSON below /v1 and without text/html."""
    ann = Browser(server, "ann")

    def broken(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(pages_analyst, "visible_releases", broken)
    for method, path, code in (
        ("GET", "/nothing/here", Code.NOT_FOUND),
        ("GET", "/releases/9-9", Code.NOT_FOUND),
        ("GET", "/datasets/none", Code.NOT_FOUND),
        ("GET", "/admin", Code.FORBIDDEN),
        ("DELETE", "/releases", Code.METHOD_NOT_ALLOWED),
        ("GET", "/admin/people", Code.METHOD_NOT_ALLOWED),
        ("POST", "/datasets/homes", Code.TOO_LARGE),
        ("GET", "/releases", Code.INTERNAL),
    ):
        headers = {"Cookie": ann.cookie, "Accept": "text/html"}
        body = b"x" * 300_000 if code is Code.TOO_LARGE else None
        page = server.send(method, path, body, as_=None, headers=headers)
        text = page.body.decode()
        assert (page.status, page.headers["content-type"]) == (
            code.status,
            "text/html; charset=utf-8",
        )
        assert f"<h1>{PROBLEM_WORDS[code].heading}</h1>" in text
        assert '<a href="/">' in text
        assert "secret" not in text
        del headers["Accept"]
        refused(server.send(method, path, body, as_=None, headers=headers), code)
    headers = {"Accept": "text/html"}
    refused(server.send("GET", "/v1/nothing", headers=headers), Code.NOT_FOUND)


def test_a_form_of_another_site_does_nothing(server: Running) -> None:
    """The cookie alone is not enough."""
    ann, owner = Browser(server, "ann"), Browser(server, "owner")
    before = own_budget(server)
    assert ann.post("/datasets/homes", **ORDER, csrf_token="").status == 403
    assert ann.post("/datasets/homes", **ORDER, csrf_token=owner.word).status == 403
    assert owner.post("/admin/people", name="mallory", csrf_token="\xe9").status == 403  # noqa: S106 - no secret
    assert own_budget(server) == before
    names = [one["name"] for one in server.send("GET", "/v1/admin/principals").json["principals"]]
    assert "mallory" not in names


def test_another_site_cannot_sign_a_user_in(server: Running) -> None:
    """It would have them act, and register data, under a name of its own."""
    body = f"token={server.tokens['ann']}".encode()
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 303)):
        headers = {"Sec-Fetch-Site": site}
        said = server.send("POST", "/sign-in", body, as_=None, headers=headers)
        assert (said.status, "set-cookie" in said.headers) == (status, status == 303)


def test_pages_of_owners_are_for_owners(server: Running) -> None:
    """An analyst gets a page with the refusal."""
    ann = Browser(server, "ann")
    for path in ("/admin", "/ledger"):
        said = ann.get(path)
        assert said.status == 403
        assert b"<!doctype html>" in said.body
    assert ann.post("/admin/people", name="mallory", kind="admin").status == 403
    assert b"/admin" not in ann.get("/").body


def test_errors_are_shown_beside_the_form(server: Running) -> None:
    """In words, escaped; nothing is charged."""
    ann, owner = Browser(server, "ann"), Browser(server, "owner")
    for change in ({"epsilon": "much"}, {"epsilon": "-1"}, {"by": "<b>"}, {"n_clusters": "0"}):
        order = {"epsilon": "0.1", "products": "clusters", **change}
        for path in ("/datasets/homes", "/datasets/homes/quote"):
            said = ann.post(path, **order).body
            assert b'role="alert"' in said
            assert b"<b>" not in said.partition(b'role="alert"')[2].partition(b"</p>")[0]
    bad = owner.post("/admin/datasets", name="Bad Name", file="none", clip_kw="5")
    assert bad.status == 422

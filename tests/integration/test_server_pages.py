"""The pages over HTTP: sessions, forms of other sites, roles. How they look: tests/browser."""

import pytest

from tests.live_server import Browser, Running
from wattveil.server.auth import sessions


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
    for cookie in ("", "wattveil_session=x"):
        for path in ("/", "/datasets/homes", "/releases", "/admin", "/ledger"):
            said = server.send("GET", path, as_=None, headers={"Cookie": cookie})
            assert (said.status, said.headers["location"]) == (303, "/sign-in")
    ann = Browser(server, "ann")
    assert ann.post("/sign-out").status == 303
    assert ann.get("/").status == 303
    assert server.send("POST", "/sign-in", b"token=wattveil_x", as_=None).status == 401


def test_a_form_of_another_site_does_nothing(server: Running) -> None:
    """The cookie alone is not enough."""
    ann, owner = Browser(server, "ann"), Browser(server, "owner")
    order = {"epsilon": "0.1", "n_clusters": "6", "products": "load", "key": "k"}
    before = server.send("GET", "/v1/datasets/homes/budget", as_="ann").body
    assert ann.post("/datasets/homes", **order, csrf_token="").status == 403
    assert ann.post("/datasets/homes", **order, csrf_token=owner.word).status == 403
    assert owner.post("/admin/people", name="mallory", csrf_token="\xe9").status == 403  # noqa: S106 - no secret
    assert server.send("GET", "/v1/datasets/homes/budget", as_="ann").body == before
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
        order = {"epsilon": "0.1", "n_clusters": "6", "products": "load", "key": "k", **change}
        for path in ("/datasets/homes", "/datasets/homes/quote"):
            said = ann.post(path, **order).body
            assert b'role="alert"' in said
            assert b"<b>" not in said.partition(b'role="alert"')[2].partition(b"</p>")[0]
    bad = owner.post("/admin/datasets", name="Bad Name", file="none", clip_kw="5", epsilon="1")
    assert bad.status == 422

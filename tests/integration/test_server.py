"""The server over HTTP: who may do what, what is said, what is paid."""

import io
import json
from contextlib import ExitStack
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select, update

from tests.live_server import (
    QUICK,
    Answer,
    Browser,
    Running,
    computing_here,
    furnish,
    put_profiles,
    refused,
    registration,
    serving,
)
from tests.sample_bundles import LEVELS, only, some_profiles
from wattveil import Profiles
from wattveil.products.request import About, ReleaseRequest
from wattveil.server import datasets
from wattveil.server.auth.access import Access, Limiter, Limits, Rate
from wattveil.server.auth.principals import principal_of_token, sha256
from wattveil.server.http.middleware import HEADERS, MAX_BYTES
from wattveil.server.http.problems import Code, Problem
from wattveil.server.ledger.journal import now
from wattveil.server.ledger.ledger_tables import registration as registered
from wattveil.server.ledger.ledger_tables import token
from wattveil.server.ledger.pricing import release_price

# --- requests -------------------------------------------------------------------------------------


def test_a_release_is_ordered_computed_and_read(server: Running) -> None:
    """The whole way: order, wait, manifest, a table in three formats, report."""
    ordered = server.order("first", QUICK)
    assert ordered.status == 202
    address = ordered.headers["location"]
    found = server.finished(ordered.json["id"])
    assert found["tables"] == ["groups", "load_duration", "load_shapes"]
    manifest = server.send("GET", f"{address}/manifest", as_="ann").json
    assert manifest["guarantee"]["epsilon"] == "0.5"
    assert "signature" in manifest
    kinds = {
        kind: server.send("GET", f"{address}/payload/load_shapes.{kind}", as_="ann").body
        for kind in ("json", "csv", "parquet")
    }
    table = pq.read_table(io.BytesIO(kinds["parquet"]))
    assert pc.read_csv(io.BytesIO(kinds["csv"])).column_names == table.column_names
    as_json = Answer(200, {}, kinds["json"]).json
    assert as_json["load_kw"] == table["load_kw"].to_pylist()
    report = server.send("GET", f"{address}/report", as_="ann")
    assert b"<!doctype html>" in report.body
    assert "sandbox" in report.headers["content-security-policy"]
    refused(server.send("GET", f"{address}/payload/manifest.json", as_="ann"), Code.NOT_FOUND)
    refused(server.send("GET", f"{address}/payload/..%2Fmanifest.json", as_="ann"), Code.NOT_FOUND)


def test_a_repeat_is_free_and_has_the_same_bytes(server: Running) -> None:
    """I5 over HTTP."""
    body = {**QUICK, "epsilon": 0.25}
    first = server.order("again", body)
    server.finished(first.json["id"])
    address = f"/v1/releases/{first.json['id']}"
    bundle = server.send("GET", f"{address}/bundle.zip", as_="ann").body
    budget = server.send("GET", "/v1/datasets/homes/budget", as_="ann").body
    repeated = server.order("again", body)
    assert (repeated.status, repeated.json["id"]) == (200, first.json["id"])
    assert server.send("GET", f"{address}/bundle.zip", as_="ann").body == bundle
    assert server.send("GET", "/v1/datasets/homes/budget", as_="ann").body == budget
    refused(server.order("again", {**body, "epsilon": 0.26}), Code.KEY_CONFLICT)
    other_key = server.order("again-otherwise", body).json["id"]
    assert server.send("GET", "/v1/datasets/homes/budget", as_="ann").body == budget
    listed = server.send("GET", "/v1/releases", as_="ann").json["releases"]
    same = {one["id"]: one.get("same_as") for one in listed}
    assert (same[first.json["id"]], same[other_key]) == (None, first.json["id"])


def test_what_another_paid_for_costs_the_data_set_nothing(server: Running) -> None:
    """I6 over HTTP: the same bytes, from one's own account."""
    body = {**QUICK, "epsilon": 0.125}
    mine = server.order("shared", body)
    server.finished(mine.json["id"])
    before = server.send("GET", "/v1/datasets/homes/budget", as_="bob").json
    theirs = server.order("shared", body, as_="bob")
    after = server.send("GET", "/v1/datasets/homes/budget", as_="bob").json
    assert theirs.json["state"] == "ok"
    assert after["dataset"] == before["dataset"]
    assert int(after["own"]["spent"]["rho"]) - int(before["own"]["spent"]["rho"]) == int(
        theirs.json["price"]["rho"]
    )
    bundles = {
        server.send("GET", f"/v1/releases/{one.json['id']}/bundle.zip", as_=name).body
        for one, name in ((mine, "ann"), (theirs, "bob"))
    }
    assert len(bundles) == 1
    listed = server.send("GET", "/v1/releases", as_="bob").json["releases"]
    (found,) = (one for one in listed if one["id"] == theirs.json["id"])
    assert "same_as" not in found  # it was charged, and what others ordered is not told


def test_a_budget_that_is_spent_ends_the_answers(server: Running) -> None:
    """The refusal names the account and the largest epsilon, that of a quote; it is covered."""
    said = refused(
        server.order("too-much", {**QUICK, "epsilon": 0.9}, as_="bob"), Code.BUDGET_REFUSED
    )
    assert said.json["account_scope"] == "own"
    assert said.json["short_of"] == "epsilon"
    assert not set("123456789") & set(said.json["title"] + said.json["account_scope"])
    largest = said.json["largest_epsilon"]
    quote = {**QUICK, "epsilon": 0.9}
    quoted = server.send("POST", "/v1/datasets/homes/quotes", quote, as_="bob").json
    assert largest == quoted["largest_epsilon"]
    fitting = {**QUICK, "epsilon": float(largest)}
    covered = server.send("POST", "/v1/datasets/homes/quotes", fitting, as_="bob").json
    assert covered["more_of_this_kind"]["own"] >= 1
    refused(server.order("instance", {"epsilon": 1.0, "tier": "instance"}), Code.REFUSED)


def test_a_refusal_names_the_budget_for_labels(server: Running) -> None:
    """If it is the one that is too small: quote, order and page; the rest would suffice."""
    sizes = {"epsilon": 1.0, "label_epsilon": 0.5, "n_clusters": 2}
    products = ["clusters", "labels"]
    labelled = {**sizes, "products": products}
    quoted = server.send("POST", "/v1/datasets/homes/quotes", labelled, as_="ann").json
    assert quoted["more_of_this_kind"]["own"] == 0
    assert int(quoted["price"]["epsilon"]) > int(quoted["left"]["epsilon"]) == 0
    assert int(quoted["price"]["rho"]) <= int(quoted["left"]["rho"])
    said = refused(server.order("labels", labelled, as_="ann"), Code.BUDGET_REFUSED)
    assert said.json["short_of"] == "label_epsilon"
    fields = {name: str(value) for name, value in sizes.items()}
    page = Browser(server, "ann").post("/datasets/homes/quote", **fields, products=products)
    assert b"The remaining budget for labels is too small" in page.body


def test_an_unknown_field_is_refused_with_the_nearest_one(server: Running) -> None:
    """The nearest of the body, not of other bodies; none for a name that is like no other."""
    for name, near in (("clusters", "n_clusters"), ("epsilons", "epsilon"), ("xyzzy", "")):
        body = {**QUICK, name: 3}
        said = server.send("POST", "/v1/datasets/homes/quotes", body)
        (broken,) = refused(said, Code.INVALID_REQUEST).json["errors"]
        assert broken["field"] == name
        assert broken["rule"].partition("did you mean ")[2].rstrip("?") == near


def test_a_quote_is_the_price_and_costs_nothing(server: Running) -> None:
    """The price over HTTP equals that of the request; the plan has an expected error."""
    before = server.send("GET", "/v1/datasets/homes/budget", as_="bob").body
    said = server.send("POST", "/v1/datasets/homes/quotes", QUICK, as_="bob").json
    request = ReleaseRequest(
        epsilon=0.5,
        delta=1e-6,
        clip_kw=5.0,
        weights=only("load"),
        customers=300,
        about=About(),
    )
    assert said["price"]["rho"] == str(release_price(request).rho)
    assert said["plan"]["products"][0]["expected"][0]["value"] > 0.0
    assert said["plan"]["warnings"] == []
    assert server.send("GET", "/v1/datasets/homes/budget", as_="bob").body == before
    most = {**QUICK, "epsilon": float(said["largest_epsilon"])}
    assert (
        server.send("POST", "/v1/datasets/homes/quotes", most, as_="bob").json["more_of_this_kind"][
            "own"
        ]
        == 1
    )
    again = server.send("POST", "/v1/datasets/homes/quotes", QUICK, as_="bob").json
    assert again["plan"] == said["plan"]


# --- who may do what ------------------------------------------------------------------------------


def test_nothing_but_health_and_schema_opens_without_a_token(server: Running) -> None:
    """Deny by default: every address of the schema, without a token and with a false one."""
    schema = server.send("GET", "/v1/openapi.json", as_=None).json
    tried = 0
    for path, methods in schema["paths"].items():
        for method in methods:
            if path in ("/healthz", "/livez", "/readyz"):
                continue
            address = path.replace("{", "").replace("}", "")
            for sent in ({}, {"Authorization": "Bearer wattveil_x"}, {"Authorization": "Basic x"}):
                said = server.send(method.upper(), address, {}, as_=None, headers=sent)
                refused(said, Code.UNAUTHORIZED)
                tried += 1
    assert tried > 40
    assert server.send("GET", "/healthz", as_=None).json == {"status": "ok"}


def test_analysts_do_not_act_as_owners(server: Running) -> None:
    """Every address of administrators refuses an analyst, whatever is sent."""
    schema = server.send("GET", "/v1/openapi.json", as_=None).json
    for path, methods in schema["paths"].items():
        if path.startswith("/v1/admin"):
            for method in methods:
                address = path.replace("{dataset}", "homes").replace("{name}", "ann")
                refused(server.send(method.upper(), address, {}, as_="ann"), Code.FORBIDDEN)


def test_what_is_not_ones_own_looks_as_if_it_were_not_there(server: Running) -> None:
    """The same bytes for what is hidden and for what does not exist."""
    file = put_profiles(server.state.folder, "other.parquet", some_profiles(20))
    made = server.send("POST", "/v1/admin/datasets", registration(file, "hidden"))
    assert made.status == 201, made.body
    hidden, missing = (
        [
            server.send("GET", f"/v1/datasets/{name}", as_="ann"),
            server.send("GET", f"/v1/datasets/{name}/budget", as_="ann"),
            server.send("POST", f"/v1/datasets/{name}/quotes", QUICK, as_="ann"),
            server.order("x", QUICK, dataset=name),
        ]
        for name in ("hidden", "nowhere")
    )
    assert [one.body for one in hidden] == [one.body for one in missing]
    assert {one.status for one in hidden} == {403}
    mine = server.order("mine", {**QUICK, "epsilon": 0.16}).json["id"]
    theirs, missing_release = (
        server.send("GET", f"/v1/releases/{name}", as_="bob") for name in (mine, "9-999")
    )
    assert (theirs.status, theirs.body) == (missing_release.status, missing_release.body)
    listed = server.send("GET", "/v1/datasets", as_="ann").json["datasets"]
    assert [one["name"] for one in listed] == ["homes"]


def test_tokens_expire_and_are_taken_away(server: Running) -> None:
    """A token that was revoked, or whose holder is disabled, opens nothing."""
    server.admit("eve", epsilon=1.0)
    assert server.send("GET", "/v1/me", as_="eve").json == {"name": "eve", "kind": "analyst"}
    assert server.send("POST", "/v1/admin/principals/eve/revoke").json["revoked"] == 1
    refused(server.send("GET", "/v1/me", as_="eve"), Code.UNAUTHORIZED)
    server.tokens["eve"] = server.send("POST", "/v1/admin/principals/eve/tokens", {"days": 1}).json[
        "token"
    ]
    assert server.send("GET", "/v1/me", as_="eve").status == 200
    expired = update(token).where(token.c.sha256 == sha256(server.tokens["eve"]))
    with server.state.ledger.engine.begin() as connection:
        connection.execute(expired.values(expires_at=now()))
    while (got := server.send("GET", "/v1/me", as_="eve")).status == 200:
        pass  # what another process writes takes effect within a second
    refused(got, Code.UNAUTHORIZED)
    server.tokens["eve"] = server.send("POST", "/v1/admin/principals/eve/tokens", {}).json["token"]
    assert server.send("GET", "/v1/me", as_="eve").status == 200
    server.send("POST", "/v1/admin/principals/eve/disable")
    refused(server.send("GET", "/v1/me", as_="eve"), Code.UNAUTHORIZED)
    for days in (0, 10**6, "1", None):
        body = {"days": days}
        refused(server.send("POST", "/v1/admin/principals/ann/tokens", body), Code.INVALID_REQUEST)


def test_no_token_is_kept(server: Running) -> None:
    """The data folder holds hashes of tokens only."""
    files = [path for path in server.state.folder.rglob("*") if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)
    for text in server.tokens.values():
        assert text.encode() not in content


def test_no_customer_is_in_ledger_log_or_release(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """Canaries: names of customers, which are in the profiles, and names in requests."""
    caplog.set_level("INFO")
    ordered = server.order("canary", {**QUICK, "epsilon": 0.05})
    assert server.finished(ordered.json["id"])["state"] == "ok"
    for path in ("/v1/datasets/CUSTOMER-00007", "/CUSTOMER-00007", "/v1/me?x=CUSTOMER-00007"):
        server.send("GET", path, headers={"User-Agent": "CUSTOMER-00007"})
    assert "/v1/datasets/{dataset}" in caplog.text
    assert "CUSTOMER" not in caplog.text
    folder = server.state.folder
    private = folder / "profiles"
    files = [path for path in folder.rglob("*") if path.is_file() and private not in path.parents]
    assert any(path.suffix == ".sqlite" for path in files)
    assert [path.name for path in files if b"CUSTOMER-" in path.read_bytes()] == []


# --- what is sent ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"epsilon": True}, "epsilon"),
        ({"epsilon": 10**400}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 6.5}, "n_clusters"),
        ({"n_clusters": 101}, "n_clusters"),
        ({"products": ["everything"]}, "products.0"),
        ({"products": []}, "products"),
        ({"products": ["load", "shares"]}, "products"),
        ({"products": ["load", "shares"], "by": "class"}, "products"),
        ({"products": ["clusters", "synthesis"], "normalise": True}, "products"),
        ({"products": ["clusters", "labels"]}, "products"),
        ({"clusters_by_group": True}, "clusters_by_group"),
        ({"by": "zip"}, "by"),
        ({"label_epsilon": 0.1}, "label_epsilon"),
        ({"tier": "none"}, "tier"),
        ({"seed": 1}, "seed"),
        ({"\ud800": 1}, "body"),
        ({"no name": 1}, "?"),
    ],
)
def test_an_invalid_request_names_the_field(
    server: Running, change: dict[str, object], field: str
) -> None:
    """The field and its rule; quotes and orders say the same, and nothing is charged."""
    body = {**QUICK, **change}
    said = refused(server.order("never", body), Code.INVALID_REQUEST)
    assert field in [one["field"] for one in said.json["errors"]]
    assert "--" not in str(said.json)
    quoted = server.send("POST", "/v1/datasets/homes/quotes", body, as_="ann")
    assert quoted.body == said.body


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff", b'"' + b"x" * 1000, b"[" * 100_000, b'{"epsilon": 1e999}'],
)
def test_what_is_no_request_is_refused(server: Running, body: bytes) -> None:
    """Bytes that are no JSON object."""
    headers = {"Content-Type": "application/json"}
    path = "/v1/datasets/homes/quotes"
    refused(server.send("POST", path, body, as_="ann", headers=headers), Code.INVALID_REQUEST)


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 129, "\xe9"])
def test_a_key_must_be_writable(server: Running, key: str) -> None:
    """Printable ASCII, and not too long."""
    refused(server.order(key, QUICK), Code.INVALID_REQUEST)


def test_a_body_that_is_too_large_is_not_read(server: Running) -> None:
    """Whether it says so at the beginning or not."""
    path = "/v1/datasets/homes/quotes"
    refused(server.send("POST", path, b" " * (MAX_BYTES + 1), as_="ann"), Code.TOO_LARGE)
    said = {"Content-Length": str(10**9)}
    refused(server.send("POST", path, b" ", as_="ann", headers=said), Code.TOO_LARGE)


def test_every_answer_has_the_headers(server: Running) -> None:
    """Also problems, and addresses that do not exist."""
    for path in ("/healthz", "/v1/me", "/v1/datasets/none", "/nowhere", "/v1/openapi.json"):
        found = server.send("GET", path).headers
        assert {name: found[name.lower()] for name in HEADERS} == HEADERS
        assert "server" not in found
    refused(server.send("DELETE", "/v1/me"), Code.METHOD_NOT_ALLOWED)


# --- owners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "Homes!"}, "dataset"),
        ({"name": "homes"}, "dataset"),
        ({"file": "../server.key"}, "file"),
        ({"file": "a" * 300}, "file"),  # longer than a file system has names
        ({"file": "."}, "file"),
        ({"file": "a\0"}, "file"),
        ({"file": "none.parquet"}, "file"),
        ({"file": "customers.txt"}, "file"),
        ({"clip_kw": 0.0}, "clip_kw"),
        ({"groups": {"zip": ["1"]}}, "groups"),
        ({"groups": {"class": ["home", "home"]}}, "levels"),
        ({"customer_list_file": None}, "customer_list_file"),
        ({"title": "two\nlines"}, "title"),
        ({"allowance": None}, "allowance, linked_to"),
        ({}, "fingerprint"),
    ],
)
def test_a_data_set_that_cannot_be_served_is_not_registered(
    server: Running, change: dict[str, object], field: str
) -> None:
    """A copy is refused too, whatever the order of its rows."""
    profiles = some_profiles()
    turned = replace(
        profiles,
        customer_ids=profiles.customer_ids[::-1],
        load_kw=np.array(profiles.load_kw[::-1]),
        attributes={name: values[::-1] for name, values in profiles.attributes.items()},
    )
    file = put_profiles(server.state.folder, "copy.parquet", turned)
    body = {**registration(file, "copied"), **change}
    said = refused(server.send("POST", "/v1/admin/datasets", body), Code.INVALID_REQUEST)
    assert [one["field"] for one in said.json["errors"]] == [field]


def test_owners_read_the_ledger(server: Running) -> None:
    """Every entry, in pages."""
    entries = server.send("GET", "/v1/admin/ledger?journal=1").json["entries"]
    assert [one["kind"] for one in entries[:4]] == ["open", "cap", "cap", "cap"]
    later = server.send("GET", "/v1/admin/ledger?journal=1&after=2").json["entries"]
    assert later == entries[2:]
    refused(server.send("GET", "/v1/admin/ledger?after=-1"), Code.INVALID_REQUEST)


def test_a_closed_data_set_answers_what_it_has_answered(server: Running) -> None:
    """New requests are refused, old ones are read."""
    file = put_profiles(server.state.folder, "old.parquet", some_profiles(30))
    server.send("POST", "/v1/admin/datasets", registration(file, "old"))
    server.admit("dan", epsilon=2.0, dataset="old")
    done = server.order("x", QUICK, as_="dan", dataset="old")
    assert server.finished(done.json["id"], as_="dan")["state"] == "ok"
    server.send("POST", "/v1/admin/datasets/old/close", {"reason": "moved"})
    assert server.order("x", QUICK, as_="dan", dataset="old").json["state"] == "ok"
    said = server.order("y", {**QUICK, "epsilon": 0.4}, as_="dan", dataset="old")
    assert "closed" in refused(said, Code.REFUSED).json["reason"]


def test_a_file_that_was_exchanged_answers_nothing(server: Running) -> None:
    """Other people's data on this budget: the computation fails, and says no more than that."""
    file = put_profiles(server.state.folder, "mine.parquet", some_profiles(40))
    server.send("POST", "/v1/admin/datasets", registration(file, "exchanged"))
    server.admit("flo", epsilon=2.0, dataset="exchanged")
    put_profiles(server.state.folder, "mine.parquet", some_profiles(41))
    ordered = server.order("x", QUICK, as_="flo", dataset="exchanged")
    assert server.finished(ordered.json["id"], as_="flo")["state"] == "failed"
    said = server.send("GET", f"/v1/releases/{ordered.json['id']}/manifest", as_="flo")
    assert set(refused(said, Code.FAILED).json) == {"type", "title", "status", "code"}


# --- neighbours, rates ----------------------------------------------------------------------------


def battery(server: Running) -> list[tuple[int, bytes]]:
    """Return the answers to requests that are refused, or answered from public things."""
    responses = [
        server.send("GET", "/v1/datasets", as_="ann"),
        server.send("GET", "/v1/datasets/homes", as_="ann"),
        server.send("GET", "/v1/datasets/homes/budget", as_="ann"),
        server.send("GET", "/v1/releases/1-99", as_="ann"),
        server.order("k", {"epsilon": 50.0}),
        server.order("k", {"epsilon": 1.0, "tier": "instance"}),
        server.order("k", {"epsilon": 1.0, "by": "class", "n_clusters": 1001}),
        server.order("k", {"epsilon": 1.0, "by": "nothing"}),
        server.order("k", {"epsilon": 1e-12}),
        server.order("k", {"epsilon": 1e-3}),
        server.order("k", {"epsilon": 1.0, "label_epsilon": 0.9999999}),
        server.order("k", {"epsilon": 1.0, "label_epsilon": 2.0}),
        server.send("POST", "/v1/datasets/homes/quotes", {"epsilon": -1.0}, as_="ann"),
    ]
    return [(one.status, one.body) for one in responses]


def with_large_customer() -> Profiles:
    """Return the same customers, one of them a thousand times as large."""
    profiles = some_profiles()
    load_kw = np.array(profiles.load_kw)
    load_kw[7] *= 1000.0
    return replace(profiles, load_kw=load_kw)


@pytest.mark.usefixtures("computing_here")
def test_neighbouring_data_are_answered_alike(tmp_path: Path) -> None:
    """Two servers whose data differ in one customer send identical bytes."""
    said = []
    for name, profiles in (("one", some_profiles()), ("other", with_large_customer())):
        (tmp_path / name).mkdir()
        with serving(tmp_path / name) as running:
            put_profiles(running.state.folder, profiles=profiles)
            body = registration("homes.parquet")
            assert running.send("POST", "/v1/admin/datasets", body).status == 201
            running.admit("ann", epsilon=3.0)
            said.append(battery(running))
    assert said[0] == said[1]
    assert {status for status, _ in said[0]} == {200, 403, 404, 422}


def test_requests_and_failed_tokens_are_rate_limited(tmp_path: Path) -> None:
    """Three at once, then refused for a while; other clients are unaffected."""
    slow = Limits(requests=Rate(3, 1e-6), failed_tokens=Rate(2, 1e-6))
    with serving(tmp_path, limits=slow) as running:
        assert [running.send("GET", "/v1/me").status for _ in range(5)] == [200] * 3 + [429] * 2
        guesses = [running.send("GET", "/v1/me", as_=None).status for _ in range(4)]
        assert guesses == [401, 401, 429, 429]


def test_quotes_and_orders_are_rate_limited_apart(tmp_path: Path) -> None:
    """To price one takes the time of many requests; others, and other principals, go on."""
    slow = Limits(requests=Rate(1e9, 1e9), priced=Rate(2, 1e-6), failed_tokens=Rate(1e9, 1e9))
    with computing_here(), serving(tmp_path, limits=slow) as running:
        furnish(running)
        where = "/v1/datasets/homes"
        said = [running.send("POST", f"{where}/quotes", QUICK, as_="ann").status for _ in range(3)]
        assert (said[0], said[-1]) == (200, 429)  # the second is counted by its time too
        refused(running.order("k", QUICK, as_="ann"), Code.BUSY)
        page = Browser(running, "ann").post("/datasets/homes/quote", epsilon="0.5", products="load")
        assert "Too many requests" in page.body.decode()
        assert running.send("GET", f"{where}/budget", as_="ann").status == 200
        assert running.send("POST", f"{where}/quotes", QUICK, as_="bob").status == 200


def test_few_prices_of_one_principal_are_computed_at_the_same_time(server: Running) -> None:
    """Their time is known afterwards; quick ones then count little, and others go on."""
    access = Access(server.state, Limits())
    with server.state.ledger.reading() as connection:
        found = (principal_of_token(connection, server.tokens[name]) for name in ("ann", "bob"))
        ann, bob = (one for one in found if one is not None)
    with ExitStack() as at_once:
        for _ in range(4):
            at_once.enter_context(access.pricing(ann))
        with pytest.raises(Problem), access.pricing(ann):
            pass
        with access.pricing(bob):
            pass
    with access.pricing(ann):
        pass


def test_a_price_that_takes_long_counts_more() -> None:
    """What was taken is counted afterwards, and paid back at the rate."""
    limiter = Limiter(Rate(4, 1e-6))
    assert limiter.admits("ann")
    limiter.count("ann", 5.5)
    assert not limiter.admits("ann")
    assert limiter.admits("bob")


def test_a_quote_warns_of_a_large_delta(server: Running) -> None:
    """In the API and on the page; the estimate that it is compared with is rounded."""
    large = {**QUICK, "delta": 0.005}
    said = server.send("POST", "/v1/datasets/homes/quotes", large, as_="ann").json["plan"]
    (warning,) = said["warnings"]
    assert f"public estimate of {said['customers_estimate']:,} customers" in warning
    fields = {"epsilon": "0.5", "n_clusters": "6", "products": "load", "delta": "0.005"}
    page = Browser(server, "ann").post("/datasets/homes/quote", **fields).body.decode()
    assert f"Warning: {warning}" in unescape(page)


def test_a_quote_warns_of_another_list_of_groups_under_a_rule(server: Running) -> None:
    """Also of a linked data set. By default, a data set with a rule offers what applies it."""
    names, levels = ("ruled", "ruled-later"), [*LEVELS]
    for number, name in enumerate(names):
        file = put_profiles(server.state.folder, f"{name}.parquet", some_profiles(41 + number))
        body = registration(file, name, groups={"class": levels[:: 1 - 2 * number]}, rule="2/100")
        del body["products"]
        if number:
            body |= {"linked_to": names[0]}
            del body["allowance"]
        refused_name = {**body, "groups": {"class": ["=1+1"]}}
        assert server.send("POST", "/v1/admin/datasets", refused_name).status == 422
        wider = {**body, "products": ["load", "clusters"]}
        assert server.send("POST", "/v1/admin/datasets", wider).status == 422
        assert server.send("POST", "/v1/admin/datasets", body).status == 201
        assert server.send("GET", f"/v1/datasets/{name}").json["products"] == ["load"]
        series = {"name": "quarters", "epsilon": 1.0, "delta": 1e-6, "periods": 4}
        series |= {"first": "2026-Q1", "timezone": "Europe/London"}
        refused = server.send("POST", f"/v1/admin/datasets/{name}/series", series)
        assert refused.json["errors"][0]["field"] == "dataset", "a series applies no rule"
    server.admit("rea", epsilon=2.0, dataset=names[0])
    asked = {"epsilon": 0.5, "by": "class"}

    def warnings(name: str) -> list[str]:
        quote = server.send("POST", f"/v1/datasets/{name}/quotes", asked, as_="rea")
        assert quote.status == 200, quote.body
        found: list[str] = quote.json["plan"]["warnings"]
        return [text for text in found if "another list of groups" in text]

    assert not warnings(names[1])
    ordered = server.order("ruled-first", asked, as_="rea", dataset=names[0])
    assert ordered.status in {200, 202}, ordered.body
    assert not warnings(names[0])
    assert warnings(names[1])


def test_the_public_estimate_is_rounded_before_it_is_stored(server: Running) -> None:
    """By the API and by the form, which says so; one that an older version stored when shown."""
    file = put_profiles(server.state.folder, "estimate.parquet", some_profiles(31))
    body = {**registration(file, "estimate"), "customers": 1409, "typical_kw": 0.5417}
    assert server.send("POST", "/v1/admin/datasets", body).status == 201
    shown = server.send("GET", "/v1/datasets/estimate").json
    assert (shown["customers"], shown["typical_kw"]) == (1000, 0.5)
    file = put_profiles(server.state.folder, "form.parquet", some_profiles(32))
    form = {"name": "form", "file": file, "clip_kw": "5", "typical_kw": "0.5417"}
    more = {"customers": "1409", "allowance.epsilon": "1", "allowance.delta": "1e-6"}
    shown = Browser(server, "owner").post("/admin/datasets", **form, **more).body.decode()
    assert (
        "form is registered. Note: public estimate of the number of customers: 1,409, rounded"
        in shown
    )
    assert "Note: public estimate of the median size: 0.5417 kW, rounded to 0.5 kW." in shown
    with server.state.ledger.reading() as connection:
        stored = connection.execute(select(registered.c.public)).scalars().all()
        assert all('"customers":1409' not in text.replace(" ", "") for text in stored)
        assert all("0.5417" not in text for text in stored)
        old = connection.execute(datasets._DATASET.limit(1)).one()._mapping
    public = json.dumps({**json.loads(old["public"]), "customers": 1409, "typical_kw": 0.5417})
    row = SimpleNamespace(**{**old, "public": public})
    described = datasets._dataset_of(row).description()
    assert (described.customers, described.typical_kw) == (1000, 0.5)
    for customers in (0, -1, 10**12 + 1, 1.5, True, "1000"):
        bad = {**registration(file, "bad"), "customers": customers}
        refused(server.send("POST", "/v1/admin/datasets", bad), Code.INVALID_REQUEST)

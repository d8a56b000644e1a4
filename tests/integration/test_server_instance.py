"""The instance tier over HTTP: opened by an administrator, with a separate budget, labelled."""

from pathlib import Path
from typing import Any

from tests.live_server import QUICK, Browser, Running, put_profiles, refused, registration
from tests.sample_bundles import some_profiles
from wattveil import connect
from wattveil.bundle.cumulative import OTHER_TIER
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.release.weak_guarantees import NOT_PRIVATE
from wattveil.server.http.problems import Code

INSTANCE: dict[str, Any] = {"epsilon": 6.0, "n_clusters": 2, "tier": "instance"}


def test_the_instance_tier_is_opened_released_and_labelled(server: Running, tmp_path: Path) -> None:
    """Closed, opened by a reason in the ledger, released by the client, labelled in every view."""
    file = put_profiles(server.state.folder, "few.parquet", some_profiles(60))
    body = registration(file, "few", customer_list_file=None, products=["clusters", "load"])
    assert server.send("POST", "/v1/admin/datasets", body).status == 201
    server.admit("ida", epsilon=3.0, dataset="few")
    said = refused(server.order("i", INSTANCE, as_="ida", dataset="few"), Code.REFUSED)
    assert "not open" in said.json["reason"]
    page = Browser(server, "ida").get("/datasets/few").body.decode()
    assert 'value="instance"' not in page

    budget = {
        "allowance": {"epsilon": 9.0, "delta": 1e-6, "label_epsilon": 4.0},
        "tier": "instance",
    }
    for principal in (None, "ida"):
        sent = {**budget, "principal": principal, "reason": "teaching"}
        assert server.send("POST", "/v1/admin/datasets/few/budgets", sent).status == 200
    page = Browser(server, "ida").get("/datasets/few").body.decode()
    assert "<b>not</b> differential privacy" in page
    assert "separate budget" in page

    few = connect(server.url, server.tokens["ida"]).dataset("few")
    before = few.budget(tier="global")
    quote = few.quote(**INSTANCE)
    assert quote["more_of_this_kind"] == {"dataset": 1, "own": 1}
    assert quote["plan"]["warnings"][0] == NOT_PRIVATE
    ida = Browser(server, "ida")
    review = ida.post("/datasets/few", epsilon="6.0", n_clusters="2", tier="instance")
    page = ida.get(review.headers["location"]).body.decode()
    assert "Confirm the order" in page
    assert page.count(NOT_PRIVATE) == 1
    release = few.release(**INSTANCE)
    ordered = server.send("GET", f"/v1/releases/{release.id}", as_="ida").json
    assert ordered["warnings"] == quote["plan"]["warnings"]
    assert few.budget(tier="global") == before
    assert few.budget(tier="instance")["own"]["spent"] == quote["price"]
    manifest = release.manifest
    assert manifest["variant"] == "instance"
    assert manifest["cumulative"]["tier"] == "instance"
    assert "differential" not in manifest["guarantee_text"].lower()
    bundle = release.download(tmp_path / "bundle")
    verdict = verify_bundle(bundle)
    assert verdict.accepted, [one for one in verdict.findings if not one.holds]
    assert not any(
        "CUSTOMER" in name for name in release.to_arrow("labels")["customer"].to_pylist()
    )
    shown = Browser(server, "ida").get(f"/releases/{release.id}").body
    assert b"This is not differential privacy" in shown
    refused(
        server.order("j", {**INSTANCE, "products": ["load"]}, as_="ida", dataset="few"),
        Code.INVALID_REQUEST,
    )
    wide = server.order("g", QUICK, as_="ida", dataset="few")
    server.finished(wide.json["id"], as_="ida")
    stated = server.send("GET", f"/v1/releases/{wide.json['id']}/manifest", as_="ida").json
    assert stated["cumulative"]["other_tier"] == OTHER_TIER[True]


def test_the_form_offers_both_tiers(server: Running) -> None:
    """Fields of the other tier are left out, also by browsers without scripts."""
    ann = Browser(server, "ann")
    fields = {
        "epsilon": "1",
        "n_clusters": "2",
        "tier": "instance",
        "products": "load",
        "by": "class",
    }
    quoted = ann.post("/datasets/homes/quote", **fields, label_epsilon="0.4").body.decode()
    assert "not available" in quoted
    assert "budget is too small" in quoted  # that tier is not open here
    wrong = ann.post("/datasets/homes/quote", **{**fields, "tier": "both"}).body
    assert b'role="alert"' in wrong
    choices = {"normalise": "yes", "clusters_by_group": "yes", "delta": "1e-7"}
    plain = {"epsilon": "1", "n_clusters": "2", "products": "load", "by": "class"}
    assert b"load" in ann.post("/datasets/homes/quote", **plain, **choices).body
    bad = ann.post("/datasets/homes/quote", **plain, delta="2").body
    assert b"delta must be" in bad

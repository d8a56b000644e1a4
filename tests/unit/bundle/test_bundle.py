"""A bundle is written whole or not at all, and holds nothing that is private."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec

from tests.release_transcripts import record
from tests.sample_bundles import (
    EVERYTHING,
    make_bundle,
    only,
    some_profiles,
    without_plan_simulation,
)
from wattveil.bundle import bundle_files as bundles
from wattveil.bundle import produce
from wattveil.bundle.bundle_files import read_manifest, read_table, write_bundle
from wattveil.bundle.keys import read_key, read_public_key, write_key
from wattveil.bundle.manifest import build_manifest, check_schema
from wattveil.bundle.plan import plan_release, requested_products
from wattveil.bundle.produce import release_bundle, release_products
from wattveil.bundle.release_tables import read_bundle
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.privacy.guarantee import Budget, Spend, Tier
from wattveil.products.instance_tier import InstanceLabels
from wattveil.products.product import Choice, PublicFacts, Run, Work
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import Table
from wattveil.profiles import TimeGrid
from wattveil.release.weak_guarantees import NOT_PRIVATE, REAL_IDS

LIGHT = EVERYTHING.replace(weights=only("load"), label_epsilon=None)


def test_everything_is_there_in_both_formats(whole: Path) -> None:
    """Tables, statement, page and card; Parquet and CSV of each table."""
    files = {path.relative_to(whole).as_posix() for path in whole.rglob("*") if path.is_file()}
    choice = Choice(request=EVERYTHING, grid=TimeGrid())
    products = requested_products(EVERYTHING)
    names = [layout.name for product in products for layout in product.layouts(choice)]
    tables = {f"tables/{name}.{kind}" for name in names for kind in ("parquet", "csv")}
    documents = {name for product in products for name in product.documents}
    assert files == {"manifest.json", "report.html", "CARD.md"} | documents | tables
    assert len(read_table(whole, "labels")) == 300
    duration = read_table(whole, "load_duration").to_pydict()
    home = np.array(duration["load_kw"])[np.array(duration["group"]) == "home"]
    assert (np.diff(home) <= 0.0).all()


def test_no_private_word_leaves(whole: Path) -> None:
    """Neither ids nor internal file names nor exact counts."""
    for path in whole.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for word in (b"CUSTOMER-", b"secret/meters", b"a gap"):
                assert word not in content, path.name


def test_numbers_leave_with_noise(whole: Path) -> None:
    """The true number of customers is in no count, the true means are in no mean."""
    groups = read_table(whole, "groups").to_pydict()
    assert all(count not in {100.0, 200.0} for count in groups["customers"])
    exact = some_profiles().load_kw
    released = np.array(read_table(whole, "load_shapes")["load_kw"].to_pylist())[:24]
    assert not np.isclose(released, exact[1::3].mean(axis=0), rtol=1e-9).any()


def test_the_load_tells_of_customers_above_the_public_bound(tmp_path: Path) -> None:
    """A third has 30 kW, the bound is 5: how many they are and what they add, not what is left."""
    homes = some_profiles()
    load_kw = np.where(np.arange(300)[:, None] % 3 == 0, 30.0, 1.0) * np.linspace(0.7, 1.3, 24)
    request = LIGHT.replace(by=None, levels=(), epsilon=8.0)
    manifest = release_bundle(
        replace(homes, load_kw=load_kw), plan_release(request, TimeGrid()), tmp_path / "bundle"
    )
    (group,) = read_table(tmp_path / "bundle", "groups").to_pylist()
    assert group["clip_kw"] <= 5.0
    assert group["clipped_share"] == pytest.approx(1 / 3, abs=0.1)
    shape = read_table(tmp_path / "bundle", "load_shapes").to_pydict()
    most = np.mean(shape["load_kw"]) + 2.0 * max(shape["std_kw"]) + group["max_clipping_bias_kw"]
    assert most >= load_kw.mean() > 5.0
    assert verify_bundle(tmp_path / "bundle").accepted
    assert any(
        "bias of a mean load from clipping" in step
        for step in manifest["products"][0]["postprocessing"]
    )


def test_the_schema_lists_every_permitted_field(whole: Path) -> None:
    """A field more anywhere, and the statement is refused: rows, hashes, iterations."""
    manifest = read_manifest(whole)
    assert check_schema(manifest) == []
    for place in (
        manifest,
        manifest["products"][0],
        manifest["products"][0]["grant"],
        manifest["products"][0]["runs"][0]["mechanisms"][0],
        manifest["request"],
        manifest["implementation"],
    ):
        place["iterations"] = 7
        assert check_schema(manifest)
        del place["iterations"]
    manifest["profiles"]["reading_rules"]["meters"] = "secret/meters.csv"
    assert check_schema(manifest)
    with pytest.raises(ValueError, match="breaks its own schema"):
        write_bundle(whole.with_name("other"), {**manifest, "rows": 1}, [], {}, key=None)
    assert not whole.with_name("other").exists()


def test_the_statement_tells_what_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags in the order of the charges, and the noise scales that the kernel drew with."""
    profiles, released = some_profiles(), []
    charged: list[str] = []
    charge = Budget.charge

    def recorded(budget: Budget, spend: Spend) -> Spend:
        charged.extend([spend.tag] if spend.rho_units else [])
        return charge(budget, spend)

    monkeypatch.setattr(Budget, "charge", recorded)
    with without_plan_simulation():
        plan = plan_release(EVERYTHING, TimeGrid())
    listed = profiles.customer_ids
    drawn = record(lambda: released.append(release_products(profiles, plan, customer_list=listed)))
    statement = build_manifest(PublicFacts.of(profiles), plan, released[0])
    told = [
        (mechanism["tag"], mechanism["gaussian"])
        for part in statement["products"]
        for run in part["runs"]
        for mechanism in run["mechanisms"]
        if "gaussian" in mechanism
    ]
    assert [tag for tag, _ in told] == charged
    for (_, gaussian), draw in zip(told, drawn, strict=True):
        assert float(gaussian["noise_scale_steps"]) == draw.scale
        assert gaussian["numbers"] == draw.exact.size


def test_labels_do_not_tell_who_has_a_profile() -> None:
    """All customers on the public list have a label, also without a profile; others have none."""
    profiles = some_profiles(20)
    request = EVERYTHING.replace(weights=only("clusters"), real_ids=True)
    with without_plan_simulation():
        plan = plan_release(request, TimeGrid())
    listed = ("NO-READINGS", *profiles.customer_ids[5:])
    *_, labels = release_products(profiles, plan, customer_list=listed)
    assert sorted(labels.tables[0].data["customer"].to_pylist()) == sorted(listed)
    for bad in ((), ("A", "A")):
        with pytest.raises(
            InvalidParameterError, match="customer_list must be given for labels: the public list"
        ):
            release_products(profiles, plan, customer_list=bad)


def test_a_mechanism_without_a_proof_is_not_stated() -> None:
    """A new mechanism must be listed with its page before a statement may name it."""
    profiles = some_profiles(20)
    plan = plan_release(LIGHT, TimeGrid())
    (part,) = release_products(profiles, plan)
    spend = replace(part.runs[0].spends[0], mechanism="magic")
    strange = replace(part, runs=(Run(group=None, spends=(spend,)),))
    with pytest.raises(InvalidParameterError, match="mechanism"):
        build_manifest(PublicFacts.of(profiles), plan, [strange])


def test_a_crash_leaves_nothing(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the writing stops: no bundle, no half of one, no hidden folder."""
    manifest = read_manifest(whole)
    left_out = ("payload", "signature")
    statement = {name: value for name, value in manifest.items() if name not in left_out}
    tables = [
        Table(name=file.stem, text="", columns=(), data=pq.read_table(file))
        for file in sorted(whole.glob("tables/*.parquet"))
    ]
    names = ("report.html", "CARD.md", "synthetic_model.json")
    pages = {name: (whole / name).read_bytes() for name in names}
    for stop in (1, 7, 22, 23, 24):  # 22 files, the folder of tables, the bundle itself
        done = iter([*[os.fsync] * (stop - 1), full_disk])
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", lambda handle, done=done: next(done)(handle))
            with pytest.raises(OSError, match="disk full"):
                write_bundle(tmp_path / "bundle", statement, tables, pages, key=None)
        assert list(tmp_path.iterdir()) == []
    write_bundle(tmp_path / "bundle", statement, tables, pages, key=None)
    assert verify_bundle(tmp_path / "bundle").accepted


def full_disk(_: int) -> None:
    """Fail as a disk does."""
    raise OSError("disk full")


def test_a_bundle_is_never_changed(tmp_path: Path) -> None:
    """An existing folder and a folder in nowhere are refused."""
    (tmp_path / "there").mkdir()
    with pytest.raises(
        InvalidParameterError, match="already exists; bundles are never overwritten"
    ):
        make_bundle(tmp_path / "there", LIGHT)
    with pytest.raises(InvalidParameterError, match="a new folder in one that exists"):
        bundles.check_out(tmp_path / "no" / "bundle")
    made = tmp_path / "made"
    make_bundle(made, LIGHT)
    for inside in (made / "second", made / "tables" / "second"):
        with pytest.raises(InvalidParameterError, match="outside of the bundle"):
            bundles.outside_bundle("out", inside)
        bundles.check_out(made / "second")  # a server has charged when it writes
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}', encoding="utf-8")
    bundles.outside_bundle("out", tmp_path / "beside")


def test_what_cannot_be_written_is_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that no folder can have, and rules of profiles that no statement has room for."""
    monkeypatch.setattr(produce, "release_products", lambda *_, **__: pytest.fail("spent"))
    plan = plan_release(LIGHT, TimeGrid())
    with pytest.raises(InvalidParameterError, match="where a folder can be made"):
        release_bundle(some_profiles(), plan, tmp_path / ("x" * 250))
    odd = replace(some_profiles(), rules={"min_days": "many"})
    with pytest.raises(InvalidParameterError, match=r"profiles must be .*min_days: 'many'"):
        release_bundle(odd, plan, tmp_path / "bundle")
    assert not list(tmp_path.iterdir())


def test_a_request_in_place_of_its_plan_is_refused_by_name(tmp_path: Path) -> None:
    """The error names what to pass."""
    given: Any = LIGHT
    with pytest.raises(InvalidParameterError, match=r"plan_release\(request, profiles\.grid\)"):
        release_bundle(some_profiles(), given, tmp_path / "bundle")
    given = some_profiles()
    with pytest.raises(InvalidParameterError, match=r"grid must be .*pass profiles\.grid"):
        plan_release(LIGHT, given)


def test_groups_by_themselves_are_paid_once(tmp_path: Path) -> None:
    """Clusters of each class, normalised: two runs, each within the grant of the part."""
    request = EVERYTHING.replace(
        label_epsilon=None, clusters_by_group=True, normalise=True, weights=only("clusters")
    )
    manifest = make_bundle(tmp_path / "bundle", request)
    (clusters,) = manifest["products"]
    assert [run["group"] for run in clusters["runs"]] == ["home", "shop"]
    assert verify_bundle(tmp_path / "bundle").accepted
    groups = pq.read_table(tmp_path / "bundle/tables/cluster_sizes.parquet")["group"]
    assert groups.to_pylist() == ["home"] * 3 + ["shop"] * 3


def test_labels_that_cost_nothing(tmp_path: Path) -> None:
    """At a small epsilon the best channel may draw one label always: price 0, stated as such."""
    request = EVERYTHING.replace(label_epsilon=0.001, weights=only("clusters"))
    manifest = make_bundle(tmp_path / "bundle", request)
    (draw,) = manifest["products"][-1]["runs"][0]["mechanisms"]
    assert draw["response_epsilon"] == "0.0"
    assert verify_bundle(tmp_path / "bundle").accepted
    # Such labels determine no size: none is stated, not even that of the prior.
    sizes = pq.read_table(tmp_path / "bundle/tables/label_sizes.parquet")
    assert sizes["customers"].null_count == sizes["customers_std"].null_count == len(sizes)


def test_the_instance_tier_is_named(tmp_path: Path) -> None:
    """Its bundle verifies, states its weaker guarantee, and does not contain its noise scale."""
    request = ReleaseRequest(
        epsilon=8.0, delta=1e-3, n_clusters=2, clip_kw=5.0, tier=Tier.INSTANCE, real_ids=False
    )
    manifest = make_bundle(tmp_path / "bundle", request)
    verdict = verify_bundle(tmp_path / "bundle")
    assert verdict.accepted
    assert any("weaker" in line for line in verdict.not_proved)
    assert manifest["variant"] == "instance"
    text = (tmp_path / "bundle" / "manifest.json").read_text(encoding="utf-8")
    assert "noise_scale" not in text
    assert "std" not in "".join(read_table(tmp_path / "bundle", "centroids").column_names)
    for page in ("CARD.md", "report.html"):
        words = (tmp_path / "bundle" / page).read_text(encoding="utf-8")
        assert "ifferentially private" not in words
        assert "No bound holds for the release as a whole" in words
        assert "This is not differential privacy" in words
        assert "that protects individual customers" not in words
        assert "Anyone can recompute" not in words
        assert "randomised label" not in words
        assert "The noise cannot be checked" in words
    assert not any("noise scale" in one.seen for one in verdict.findings)
    report = (tmp_path / "bundle" / "report.html").read_text(encoding="utf-8")
    assert 'class="banner"' in report
    assert "instance epsilon (not differential privacy)" in report
    assert NOT_PRIVATE in verdict.warnings
    assert NOT_PRIVATE in manifest["known_limits"]


def test_real_ids_are_warned_of_wherever_a_release_is_described(tmp_path: Path) -> None:
    """First in card and report; in the manifest, `verify` and a notebook. Pseudonyms are not."""
    for real_ids in (True, False):
        out = tmp_path / str(real_ids)
        request = EVERYTHING.replace(weights=only("clusters"), real_ids=real_ids)
        manifest = make_bundle(out, request)
        report = (out / "report.html").read_text(encoding="utf-8")
        card = (out / "CARD.md").read_text(encoding="utf-8")
        assert (f'<p class="banner">{REAL_IDS}</p>' in report.partition("<section>")[0]) == real_ids
        assert "Anyone can recompute" in report  # the guarantee is that of the global tier
        assert (f"**{REAL_IDS}**" in card) == real_ids
        assert (REAL_IDS in manifest["known_limits"]) == real_ids
        assert (REAL_IDS in verify_bundle(out).warnings) == real_ids
        assert verify_bundle(out).accepted
        assert (REAL_IDS in read_bundle(out)._repr_html_()) == real_ids


def test_ids_that_spreadsheets_evaluate_are_not_published(tmp_path: Path) -> None:
    """In the instance tier ids are those of the profiles; pseudonyms replace any id."""
    profiles = some_profiles(20)
    ids = ("=1+1", *profiles.customer_ids[1:])
    profiles = replace(profiles, customer_ids=ids)
    request = ReleaseRequest(
        epsilon=8.0, delta=1e-3, label_epsilon=4.0, n_clusters=2, clip_kw=5.0, tier=Tier.INSTANCE
    )
    release_bundle(profiles, plan_release(request, TimeGrid()), tmp_path / "pseudonyms")
    plan = plan_release(request.replace(real_ids=True), TimeGrid())
    with pytest.raises(InvalidParameterError, match="spreadsheets"):
        release_bundle(profiles, plan, tmp_path / "ids")
    assert not (tmp_path / "ids").exists()


def test_an_unknown_attribute_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """By name, with those that there are."""
    with pytest.raises(InvalidParameterError, match=r"by must be .*one of: class"):
        make_bundle(tmp_path / "bundle", LIGHT.replace(by="street"))


def test_keys_are_made_once_and_kept_private(tmp_path: Path) -> None:
    """The private half is readable by its owner alone; nothing is overwritten or mistaken."""
    public = write_key(tmp_path / "utility.key")
    assert (tmp_path / "utility.key").stat().st_mode & 0o777 == 0o600
    key = read_key(tmp_path / "utility.key")
    assert key.public_key().public_bytes_raw() == read_public_key(public).public_bytes_raw()
    with pytest.raises(InvalidParameterError, match="never overwritten"):
        write_key(tmp_path / "utility.key")
    with pytest.raises(InvalidFileError, match="private key"):
        read_key(public)
    with pytest.raises(InvalidFileError, match="public key"):
        read_public_key(tmp_path / "utility.key")


def test_other_kinds_of_keys_are_refused(tmp_path: Path) -> None:
    """An elliptic-curve key signs too, but not here."""
    key = ec.generate_private_key(ec.SECP256R1())
    secret, public = tmp_path / "ec.key", tmp_path / "ec.pub"
    plain = form.NoEncryption()
    secret.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, plain))
    public.write_bytes(
        key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(InvalidFileError, match="an Ed25519 key"):
        read_key(secret)
    with pytest.raises(InvalidFileError, match="an Ed25519 key"):
        read_public_key(public)


def test_labels_come_after_clusters() -> None:
    """The labels of the instance tier belong to a fit that must be there."""
    request = ReleaseRequest(epsilon=1.0, delta=1e-6, tier=Tier.INSTANCE)
    plan = plan_release(request, TimeGrid())
    work = Work(profiles=some_profiles(10), request=request)
    with pytest.raises(ValueError, match="come first"):
        InstanceLabels().release(work, plan.allotments["labels"])


def test_a_path_that_is_no_bundle_is_named(tmp_path: Path) -> None:
    """A missing one, another file, and a folder without a manifest."""
    with pytest.raises(InvalidFileError) as caught:
        read_bundle(tmp_path / "nothere")
    assert str(caught.value) == f"{tmp_path / 'nothere'}: no such file or folder"
    (tmp_path / "file").write_text("x")
    for other in (tmp_path / "file", tmp_path):
        with pytest.raises(InvalidFileError) as caught:
            read_bundle(other)
        assert str(caught.value) == f"{other} is neither a bundle folder nor a zip archive"


def test_a_notebook_states_which_checks_were_not_run(whole: Path) -> None:
    """Beside the verdict, and as a table with reason and remedy."""
    report = read_bundle(whole).verify()
    n_checks, names = len(report.findings), [one.check for one in report.not_run]
    assert names == ["total with other releases"]
    assert (
        f"Accepted: all {n_checks} checks passed; 1 not run (total with other releases)."
        in report._repr_html_()
    )
    table = report.to_pandas("not_run")
    assert [*table.index] == names
    assert [*table.columns] == ["reason", "remedy"]
    key = read_public_key(str(whole.with_name("utility.key.pub")))
    assert read_bundle(whole).verify(trusted=key).accepted


def test_duration_curves_are_of_the_average_day(whole: Path) -> None:
    """Not of the year: the axis says so. The model speaks of segments, and has times."""
    bundle = read_bundle(whole)
    axis = bundle.plot("load_duration").layout.xaxis.title.text
    assert axis == "% of the average day at or above"
    drawn = bundle.model.sample(5, random_state=1)
    assert "segments" in repr(drawn)
    assert repr(bundle.model).startswith("SyntheticModel(3 segments, 24 slots")
    for one in (bundle.model, drawn):
        assert all(curve.name.startswith("segment ") for curve in one._chart().curves)
    assert drawn.to_pandas()["time"].tolist()[:2] == ["00:00", "01:00"]

"""A true bundle is accepted; every fault that is planted is found, and named."""

import gc
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.sample_bundles import broken, only, some_profiles
from wattveil.bundle.bundle_archive import write_archive
from wattveil.bundle.bundle_files import MANIFEST, read_manifest
from wattveil.bundle.keys import read_public_key, write_key
from wattveil.bundle.manifest import GUARANTEE_SCOPES, PROOFS, Manifest, request_sha256
from wattveil.bundle.plan import plan_release, split_budget
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.release_tables import read_bundle
from wattveil.bundle.verify import verify_budget, verify_content
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.cli import app
from wattveil.errors import InvalidFileError
from wattveil.privacy.guarantee import Tier
from wattveil.products.product import Choice
from wattveil.products.registry import product_named
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import TimeGrid

INDEPENDENT = "independent accountant (privacy loss distributions)"
INSTANCE = ReleaseRequest(epsilon=3.0, delta=1e-6, tier=Tier.INSTANCE, label_epsilon=1.0)

Rewrite = Callable[[Path, Manifest], None]


def part(manifest: Manifest, name: str) -> dict[str, Any]:
    """Return one part of a statement."""
    return next(one for one in manifest["products"] if one["name"] == name)


def gaussian(manifest: Manifest, name: str = "load") -> dict[str, Any]:
    """Return the last draw of a part."""
    found: dict[str, Any] = part(manifest, name)["runs"][0]["mechanisms"][-1]
    return found


def test_a_true_bundle_is_accepted(whole: Path) -> None:
    """Every check holds, and the verdict says what it could not prove."""
    verdict = verify_bundle(whole, trusted=read_public_key(whole.with_name("utility.key.pub")))
    assert verdict.accepted, broken(whole)
    assert len(verdict.findings) > 40
    both = [one for one in verdict.findings if one.check.startswith("the release")]
    assert len(both) == 2
    assert both[0].seen.startswith("claimed 4.0 at delta 1e-06, closed form ")
    assert float(both[0].seen.split()[-1]) == pytest.approx(4.0, rel=1e-4)
    assert float(both[1].seen.split()[2]) == pytest.approx(4.0, rel=1e-3)
    assert any("ran this software unchanged" in line for line in verdict.not_proved)
    assert not any("Whose key" in line for line in verdict.not_proved)
    assert json.loads(json.dumps(verdict.to_json()))["accepted"] is True


@pytest.mark.usefixtures("no_budget", "no_content")
def test_an_archive_is_verified_and_read_like_its_folder(whole: Path, tmp_path: Path) -> None:
    """The zip that a server sends; a broken one, or one that leaves its folder, is refused."""
    archive = tmp_path / "release.zip"
    write_archive(whole, archive)
    run = CliRunner().invoke(app, ["verify", str(archive), "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.output) == verify_bundle(whole).to_json()
    bundle = read_bundle(archive)
    assert bundle.manifest == read_manifest(whole)
    assert bundle.to_arrow("load_shapes") == read_bundle(whole).to_arrow("load_shapes")
    assert bundle.verify().accepted
    unpacked = bundle.folder
    del bundle
    gc.collect()
    assert not unpacked.exists()
    outside = tmp_path / "outside.zip"
    with zipfile.ZipFile(outside, "w") as packed:
        packed.writestr("../manifest.json", "{}")
    (tmp_path / "text.zip").write_text("no archive")
    for name, rule in (("outside", "names of files inside it"), ("text", "nor a zip archive")):
        with pytest.raises(InvalidFileError, match=rule):
            read_bundle(tmp_path / f"{name}.zip")
        assert CliRunner().invoke(app, ["verify", str(tmp_path / f"{name}.zip")]).exit_code == 1


@pytest.mark.usefixtures("no_budget", "no_content")
def test_every_byte_counts(whole: Path, copy: Path) -> None:
    """A changed byte in any file is found, in the manifest by its signature."""
    for file in sorted(path for path in whole.rglob("*") if path.is_file()):
        place = copy / file.relative_to(whole)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        place.write_bytes(data)
        try:
            assert not verify_bundle(copy).accepted, file.name
        except InvalidFileError:
            assert file.name == MANIFEST
        shutil.copyfile(file, place)
    assert verify_bundle(copy).accepted


@pytest.mark.usefixtures("no_budget", "no_content")
def test_a_missing_and_a_foreign_file_are_found(copy: Path) -> None:
    """Both by name."""
    (copy / "tables" / "centroids.csv").unlink()
    (copy / "tables" / "customers.csv").write_text("id,name\n", encoding="utf-8")
    found = broken(copy)
    assert found["every file is the one that was published"] == "tables/centroids.csv"
    assert found["no unlisted files"] == "tables/customers.csv"


def test_a_key_that_stands_twice_is_refused(copy: Path) -> None:
    """A second guarantee cannot precede the signed one."""
    text = (copy / MANIFEST).read_text(encoding="utf-8")
    (copy / MANIFEST).write_text(text.replace("{", '{"guarantee": {}, ', 1), encoding="utf-8")
    with pytest.raises(InvalidFileError, match="a key stands twice"):
        verify_bundle(copy)


@pytest.mark.usefixtures("no_budget", "no_content")
def test_a_link_is_a_foreign_file(copy: Path, tmp_path: Path) -> None:
    """Also one to a folder, whose files are not listed."""
    (copy / "more").symlink_to(tmp_path)
    assert broken(copy)["no unlisted files"] == "more"
    (copy / "more").unlink()
    (copy / "C17 used 3 kWh").mkdir()  # a name can say something without a file
    assert broken(copy)["no unlisted files"] == "C17 used 3 kWh"


@pytest.mark.usefixtures("no_budget", "no_content")
def test_a_missing_part_is_found(copy: Path, rewrite: Rewrite) -> None:
    """A part that was requested and is not stated, and a part whose files are not listed."""
    manifest = read_manifest(copy)
    without = {
        **manifest,
        "products": [one for one in manifest["products"] if one["name"] != "shares"],
    }
    rewrite(copy, without)
    assert "requested were" in broken(copy)["the manifest is consistent"]
    unlisted = [one for one in manifest["payload"] if "shares" not in one["path"]]
    rewrite(copy, {**manifest, "payload": unlisted})
    assert (
        "cluster_shares" in broken(copy)["every page, and every table of every product, is present"]
    )


def understate(manifest: Manifest) -> None:
    """Claim a smaller epsilon, consistently."""
    manifest["guarantee"]["epsilon"] = manifest["request"]["epsilon"] = "3.9"
    manifest["guarantee_text"] = manifest["guarantee_text"].replace("(4.0,", "(3.9,")


def understate_delta(manifest: Manifest) -> None:
    """Claim a smaller delta."""
    manifest["guarantee"]["delta"] = "1e-08"


def understate_part(manifest: Manifest) -> None:
    """Claim that a part is cheaper than it is."""
    part(manifest, "clusters")["epsilon"] = "0.5"


def shrink_grant(manifest: Manifest) -> None:
    """Count less of a part than it spent."""
    grant = part(manifest, "load")["grant"]
    grant["rho_units"] = str(int(grant["rho_units"]) // 2)


def shrink_charge(manifest: Manifest) -> None:
    """Charge less than the noise is worth."""
    draw = gaussian(manifest)
    draw["rho_units"] = str(int(draw["rho_units"]) - 1000)


def shrink_noise(manifest: Manifest) -> None:
    """Draw less noise than was charged for."""
    draw = gaussian(manifest)["gaussian"]
    draw["noise_scale_steps"] = repr(float(draw["noise_scale_steps"]) * 0.999)


def shrink_sensitivity(manifest: Manifest) -> None:
    """Pretend that a customer moves the sum by less."""
    gaussian(manifest)["gaussian"]["squared_sensitivity_steps"] = str(2**50 - 1)


def shrink_eta(manifest: Manifest) -> None:
    """Forget the grid."""
    gaussian(manifest)["gaussian"]["eta"] = "0.0"


def shrink_granted_eta(manifest: Manifest) -> None:
    """Grant less than what the grid costs."""
    part(manifest, "load")["grant"]["eta"] = "0.0"


def sharpen_channel(manifest: Manifest) -> None:
    """State a channel that gives more away than was charged."""
    row = part(manifest, "labels")["channel"][0]
    drawn, other = [label for label, chance in enumerate(row) if int(chance)][:2]
    moved = int(row[other]) * 999 // 1000
    row[drawn], row[other] = str(int(row[drawn]) + moved), str(int(row[other]) - moved)


def close_channel(manifest: Manifest) -> None:
    """State a channel in which one label proves its cluster."""
    row = part(manifest, "labels")["channel"][0]
    drawn, other = [label for label, chance in enumerate(row) if int(chance)][:2]
    row[drawn], row[other] = str(int(row[drawn]) + int(row[other])), "0"


def cheapen_labels(manifest: Manifest) -> None:
    """Charge the labels less than their channel costs."""
    gaussian(manifest, "labels")["response_epsilon"] = "0.1"


def forget_labels(manifest: Manifest) -> None:
    """Grant the labels nothing."""
    part(manifest, "labels")["grant"]["response_epsilon"] = "0.0"


def soften(manifest: Manifest) -> None:
    """Say something nicer than the fields."""
    manifest["guarantee_text"] = "Nothing can be learned about any customer."


def relabel(manifest: Manifest) -> None:
    """Label the guarantee as one of the other tier."""
    manifest["variant"], manifest["guarantee_scope"] = "instance", GUARANTEE_SCOPES[Tier.INSTANCE]


def reword_request(manifest: Manifest) -> None:
    """State a different request."""
    manifest["request"]["n_clusters"] = 4


def absurd(manifest: Manifest) -> None:
    """Write a number that no release has."""
    manifest["guarantee"]["delta"] = "1.5"


def not_written_by_us(manifest: Manifest) -> None:
    """Write a number in another way than ours."""
    part(manifest, "load")["epsilon"] = "00.5"


def instance_draw(manifest: Manifest) -> None:
    """Name a mechanism whose noise is not stated."""
    draw = gaussian(manifest)
    del draw["gaussian"]
    draw["mechanism"] = "gaussian_answer"


def no_noise(manifest: Manifest) -> None:
    """State a scale of 0."""
    gaussian(manifest)["gaussian"]["noise_scale_steps"] = "0.0"


def repeat_a_run(manifest: Manifest) -> None:
    """State five draws on all customers as draws on five disjoint groups."""
    part(manifest, "load")["runs"] *= 5


def one_label_channel(manifest: Manifest) -> None:
    """State a channel of one label, which costs nothing, beside labels of more."""
    part(manifest, "labels")["channel"] = [[str(2**62)], [str(2**62)]]


def labels_by_histogram(manifest: Manifest) -> None:
    """Pay for labels with a draw that has nothing to do with them."""
    part(manifest, "labels")["runs"][0]["mechanisms"] = [gaussian(manifest)]


def channel_of_another_part(manifest: Manifest) -> None:
    """Let labels leave in a part that has none."""
    channel = gaussian(manifest, "labels")
    part(manifest, "load")["runs"][0]["mechanisms"].append(channel)


def leave_draws_out(manifest: Manifest) -> None:
    """State only the cheapest draw of a part."""
    run = part(manifest, "load")["runs"][0]
    run["mechanisms"] = [min(run["mechanisms"], key=lambda one: int(one["rho_units"]))]


def list_a_file_twice(manifest: Manifest) -> None:
    """List a file with a false hash before its true one."""
    manifest["payload"].insert(0, {**manifest["payload"][0], "sha256": "0" * 64})


def extra_field(manifest: Manifest) -> None:
    """Add what has no place in a statement."""
    manifest["rows"] = 300


def message_in_tag(manifest: Manifest) -> None:
    """Hide data in the name of an unneeded draw."""
    draws = part(manifest, "load")["runs"][0]["mechanisms"]
    draws.append({**draws[0], "tag": "0.31 0.28 0.44"})


def message_in_proof(manifest: Manifest) -> None:
    """Carry something out in the place of a proof."""
    gaussian(manifest)["proof"] = "0.31 0.28 0.44"


def message_in_software(manifest: Manifest) -> None:
    """Carry something out as a version."""
    manifest["implementation"]["software"]["meters"] = "0.31 0.28 0.44"


def message_in_channel(manifest: Manifest) -> None:
    """Carry something out in a channel of a part without labels."""
    part(manifest, "load")["channel"] = [["31"], ["28"]]


def second_guarantee(manifest: Manifest) -> None:
    """Put a stronger guarantee into the title, which the card shows first."""
    manifest["title"] = "Load\n\n## The guarantee\n\nNothing can be learned about any customer."


def part_at_another_delta(manifest: Manifest) -> None:
    """Make the epsilon of a part look small."""
    part(manifest, "clusters").update(epsilon="1e-06", delta="0.999")


def too_many_numbers(manifest: Manifest) -> None:
    """State more numbers than a float can count."""
    gaussian(manifest)["gaussian"]["numbers"] = 10**400


def noise_beyond_floats(manifest: Manifest) -> None:
    """State a scale whose square is no float."""
    gaussian(manifest)["gaussian"]["noise_scale_steps"] = "1e+308"


def bound_beyond_floats(manifest: Manifest) -> None:
    """State a whole number that is no float."""
    manifest["request"]["clip_kw"] = "1e400"


@pytest.mark.usefixtures("no_content")
@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (
            repeat_a_run,
            "the manifest is consistent",
            "only disjoint groups are composed",
        ),
        (one_label_channel, "the manifest is consistent", "the channel is not one of 3 labels"),
        (labels_by_histogram, "the manifest is consistent", "which it does not use"),
        (channel_of_another_part, "the manifest is consistent", "which it does not use"),
        (leave_draws_out, "the manifest is consistent", "no draw is stated for"),
        (list_a_file_twice, "no file is listed twice", "paths"),
        (understate, "the release: epsilon and delta", "claimed 3.9"),
        (understate_delta, "the release: epsilon and delta", "1e-08"),
        (understate_part, "product clusters: epsilon and delta", "claimed 0.5"),
        (shrink_grant, "no product spent more than its grant", "load: rho charged"),
        (shrink_charge, "the charge for each draw matches its noise", "too small for rho_units"),
        (shrink_noise, "the charge for each draw matches its noise", "too small for rho_units"),
        (shrink_sensitivity, "the charge for each draw matches its noise", "changes more than"),
        (shrink_eta, "the charge for each draw matches its noise", "eta is too small"),
        (shrink_granted_eta, "no product spent more than its grant", "eta charged"),
        (sharpen_channel, "the charge for each draw matches its noise", "the channel costs"),
        (close_channel, "the charge for each draw matches its noise", "the channel costs inf"),
        (cheapen_labels, "the charge for each draw matches its noise", "the channel costs"),
        (forget_labels, "no product spent more than its grant", "response_epsilon charged"),
        (soften, "the manifest is consistent", "guarantee_text"),
        (relabel, "the manifest is consistent", "another tier"),
        (reword_request, "the manifest is consistent", "request_sha256"),
        (absurd, "the manifest can be read", "delta must be"),
        (not_written_by_us, "the manifest can be read", "00.5"),
        (no_noise, "the manifest can be read", "noise_scale_steps must be"),
        (instance_draw, "the manifest is consistent", "which it does not use"),
        (extra_field, "the manifest follows its schema", "rows"),
        (message_in_tag, "the manifest is consistent", "draws that it does not make"),
        (message_in_proof, "the manifest is consistent", "another proof"),
        (message_in_software, "the manifest follows its schema", "meters"),
        (message_in_channel, "the manifest is consistent", "the channel is not one of no labels"),
        (second_guarantee, "the manifest can be read", "title must be one line"),
        (part_at_another_delta, "the manifest is consistent", "delta 0.999"),
        (too_many_numbers, "the manifest follows its schema", "sums of load"),
        (noise_beyond_floats, "the manifest can be read", "out of range"),
        (bound_beyond_floats, "the manifest can be read", "clip_kw must be"),
    ],
)
def test_a_false_statement_is_found(
    *,
    copy: Path,
    rewrite: Rewrite,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Manifest], None],
    check: str,
    words: str,
) -> None:
    """Although its signature holds: each lie meets the check that is there for it.

    Without the independent accountant, which takes a second: the checks stand by themselves.
    """
    monkeypatch.setattr(verify_budget, "_losses", lambda _: verify_budget.loss_distribution())
    manifest = read_manifest(copy)
    spoil(manifest)
    rewrite(copy, manifest)
    assert words in broken(copy)[check]


def test_the_choice_of_a_merge_is_stated_once_or_not_at_all(whole: Path) -> None:
    """Clusters may have queried it; no other part does, and none twice."""

    def agrees(name: str, times: int) -> bool:
        manifest = read_manifest(whole)
        run = part(manifest, name)["runs"][0]
        others = [one for one in run["mechanisms"] if one["tag"] != "merge selection"]
        run["mechanisms"] = others + times * [{**others[-1], "tag": "merge selection"}]
        return verify_content.consistency(manifest).holds

    assert [agrees("clusters", times) for times in range(3)] == [True, True, False]
    assert [agrees("load", times) for times in range(2)] == [True, False]


def test_population_mean_steps_belong_to_clusters(whole: Path) -> None:
    """Two or three, unless the signal is strong; a single cluster then needs no coarse steps."""

    def agrees(name: str, *, middle: int, coarse: bool, n_clusters: int = 4) -> bool:
        manifest = read_manifest(whole)
        manifest["request"]["n_clusters"] = n_clusters
        run = part(manifest, name)["runs"][0]
        left_out = ("population mean",) if coarse else ("population mean", "coarse")
        kept = [
            one for one in run["mechanisms"] if not any(word in one["tag"] for word in left_out)
        ]
        steps = [
            {**kept[-1], "tag": f"population mean step {step + 1}: {what}"}
            for step in range(middle)
            for what in ("counts", "offsets")
        ]
        run["mechanisms"] = kept + steps
        return f"{name}: " not in verify_content.consistency(manifest).seen

    assert [n for n in range(4) if agrees("clusters", middle=n, coarse=True)] == [0, 2, 3]
    assert not agrees("clusters", middle=3, coarse=False)
    assert agrees("clusters", middle=3, coarse=False, n_clusters=1)
    assert not agrees("clusters", middle=0, coarse=False, n_clusters=1)
    assert agrees("clusters", middle=0, coarse=True, n_clusters=1)
    assert not agrees("load", middle=3, coarse=True)


def test_the_independent_accountant_finds_an_understated_budget_by_itself(whole: Path) -> None:
    """Half the noise that is stated: the distributions of the mechanisms say so."""
    manifest = read_manifest(whole)
    for draw in part(manifest, "shares")["runs"][0]["mechanisms"]:
        scale = float(draw["gaussian"]["noise_scale_steps"])
        draw["gaussian"]["noise_scale_steps"] = repr(scale / 2.0)
    manifest["products"] = [part(manifest, "shares")]
    findings = {one.check: one for one in verify_budget.budget_findings(manifest)}
    assert findings["product shares: epsilon and delta"].holds
    assert not findings[f"product shares: {INDEPENDENT}"].holds


def test_a_budget_beyond_reason_is_not_composed(whole: Path) -> None:
    """Where distributions would fill the memory, they are not computed, and the verdict says so."""
    manifest = read_manifest(whole)
    manifest["products"] = [part(manifest, "shares")]
    (draw,) = part(manifest, "shares")["runs"][0]["mechanisms"]
    draw["gaussian"]["noise_scale_steps"] = "1e-300"
    findings = {one.check: one for one in verify_budget.budget_findings(manifest)}
    assert not findings["the charge for each draw matches its noise"].holds
    assert "not computed" in findings[f"the release: {INDEPENDENT}"].seen


def test_a_delta_below_what_distributions_resolve_is_no_lie(tmp_path: Path) -> None:
    """The closed form holds at any delta; for a tiny one distributions are not computed."""
    profiles = some_profiles()
    for delta, taken in ((1e-12, True), (1e-20, False)):
        request = ReleaseRequest(epsilon=0.5, delta=delta, clip_kw=5.0, weights=only("load"))
        out = tmp_path / repr(delta)
        manifest = release_bundle(profiles, plan_release(request, profiles.grid), out)
        findings = {one.check: one for one in verify_budget.budget_findings(manifest)}
        assert all(one.holds for one in findings.values())
        assert ("not computed" not in findings[f"the release: {INDEPENDENT}"].seen) == taken


@pytest.mark.usefixtures("no_budget", "no_content")
def test_signatures_are_checked(copy: Path, whole: Path, tmp_path: Path) -> None:
    """A false one, one by a stranger, and none at all."""
    manifest = read_manifest(copy)
    honest = manifest["title"]
    manifest["title"] = "Another title"
    (copy / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    assert "not of this manifest" in broken(copy)["the signature"]
    stranger = read_public_key(write_key(tmp_path / "stranger.key"))
    seen = {one.check: one for one in verify_bundle(whole, trusted=stranger).findings}
    assert "not by the one given" in seen["the signature"].seen
    assert not seen["the signature"].holds
    del manifest["signature"]
    manifest["title"] = honest
    (copy / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    verdict = verify_bundle(copy)
    assert verdict.accepted
    assert any("there is no signature" in line for line in verdict.not_proved)
    assert not verify_bundle(copy, trusted=stranger).accepted


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    """No manifest, no JSON, no object."""
    with pytest.raises(InvalidFileError, match="the folder has no manifest"):
        verify_bundle(tmp_path)
    with pytest.raises(InvalidFileError, match="a bundle: a folder"):
        verify_bundle(tmp_path / "absent")
    (tmp_path / MANIFEST).write_text("{", encoding="utf-8")
    with pytest.raises(InvalidFileError, match="JSON"):
        verify_bundle(tmp_path)
    (tmp_path / MANIFEST).write_text('{"rows": NaN}', encoding="utf-8")
    with pytest.raises(InvalidFileError, match="JSON"):
        verify_bundle(tmp_path)
    (tmp_path / MANIFEST).write_text('{"title": "\\ud800"}', encoding="utf-8")
    with pytest.raises(InvalidFileError, match="UTF-8"):
        verify_bundle(tmp_path)
    (tmp_path / MANIFEST).write_text("[]", encoding="utf-8")
    with pytest.raises(InvalidFileError, match="object"):
        verify_bundle(tmp_path)
    (tmp_path / MANIFEST).write_text("[" * 100_000 + "]" * 100_000, encoding="utf-8")
    with pytest.raises(InvalidFileError, match="recursion"):
        verify_bundle(tmp_path)
    for text in ("{}", '{"implementation": []}'):
        (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
        assert list(broken(tmp_path)) == ["the manifest follows its schema"]


def instance_part(name: str) -> dict[str, Any]:
    """Return a part of the instance tier as the statement has it."""
    allotment = split_budget(INSTANCE)[name]
    price = {
        "clusters": {"rho_units": str(allotment.grant.rho_units)},
        "labels": {"response_epsilon": repr(allotment.grant.response_epsilon)},
    }[name]
    kind = {"clusters": "gaussian_answer", "labels": "modulo_labels"}[name]
    tag = {"clusters": "centroids", "labels": "labels"}[name]
    drawn = {"tag": tag, "mechanism": kind, "proof": PROOFS[kind], **price}
    return {
        "name": name,
        "epsilon": repr(allotment.guarantee.epsilon),
        "delta": repr(allotment.guarantee.delta),
        "grant": price,
        "runs": [{"group": None, "mechanisms": [drawn]}],
    }


@pytest.mark.parametrize("name", ["clusters", "labels"])
def test_the_instance_tier_charges_its_whole_guarantee(name: str) -> None:
    """The noise is private there: a smaller charge, or another draw, would be seen nowhere else."""
    choice = Choice(request=INSTANCE, grid=TimeGrid())

    def problems(record: dict[str, Any]) -> str:
        product = product_named(name, Tier.INSTANCE)
        return "; ".join(verify_content._record_problems(product, record, choice))

    honest = instance_part(name)
    assert not problems(honest)
    (drawn,) = honest["runs"][0]["mechanisms"]
    (field,) = honest["grant"]
    free = [{"group": None, "mechanisms": [{**drawn, field: "0"}]}]
    response = {"mechanism": "channel_response", "proof": PROOFS["channel_response"]}
    other = [{"group": None, "mechanisms": [{**drawn, **response}]}]
    for lie, words in (
        ({"runs": free, "grant": {field: "0"}}, "another cost"),
        ({"runs": free}, "another cost"),
        ({"epsilon": "0.1"}, "another epsilon"),
        ({"delta": "0.5"}, "another epsilon or delta"),
        ({"runs": other}, "which it does not use"),
        ({"runs": honest["runs"] * 2}, "only disjoint groups"),
        ({"runs": [{"group": None, "mechanisms": [drawn, drawn]}]}, "does not make"),
        ({"channel": [["1"], ["2"]]}, "not one of no labels"),
    ):
        assert words in problems({**honest, **lie})


@pytest.mark.usefixtures("no_budget", "no_content")
def test_an_unrounded_estimate_of_customers_is_refused(copy: Path, rewrite: Rewrite) -> None:
    """An exact number tells whether one customer is there; whatever else fits, it is found."""
    manifest = read_manifest(copy)
    public = manifest["request"]
    for customers, accepted in ((2000, True), (300, False), (2001, False)):
        public["customers"] = customers
        manifest["request_sha256"] = request_sha256(manifest)
        rewrite(copy, manifest)
        assert verify_bundle(copy).accepted == accepted
    words = "customers is 2001, not rounded to 1, 2 or 5 times a power of ten"
    assert broken(copy)["the manifest is consistent"] == words


@pytest.mark.usefixtures("no_budget", "no_content")
def test_an_unrounded_estimate_of_the_size_is_refused(copy: Path, rewrite: Rewrite) -> None:
    """An exact median differs with and without one customer, as the number of customers does."""
    manifest = read_manifest(copy)
    for typical_kw, accepted in (("0.63", True), ("0.5417", False), ("0.6", False)):
        manifest["request"]["typical_kw"] = typical_kw
        manifest["request_sha256"] = request_sha256(manifest)
        rewrite(copy, manifest)
        assert verify_bundle(copy).accepted == accepted
    words = broken(copy)["the manifest is consistent"]
    assert words.startswith("typical_kw is 0.6, not rounded to 1, 1.25, 1.6")


@pytest.mark.usefixtures("no_budget", "no_content")
def test_a_missing_signature_is_not_checked(copy: Path, whole: Path) -> None:
    """Neither passed nor failed, unless a key was given: then it fails, and is a check."""
    signed = verify_bundle(copy)
    manifest = read_manifest(copy)
    del manifest["signature"]
    (copy / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    unsigned = verify_bundle(copy)
    names = [one.check for one in signed.findings]
    assert [one.check for one in unsigned.findings] == [
        name for name in names if name != "the signature"
    ]
    assert unsigned.accepted
    (no_sum,) = signed.not_run
    assert no_sum.check == "total with other releases"
    assert "not stated" in no_sum.reason
    same, not_run = unsigned.not_run
    assert same == no_sum
    assert not_run.check == "the signature"
    assert "signed bundle" in not_run.remedy
    assert unsigned.to_json()["not_run"] == [vars(no_sum), vars(not_run)]
    key = read_public_key(whole.with_name("utility.key.pub"))
    demanded = verify_bundle(copy, trusted=key)
    assert (demanded.accepted, demanded.not_run) == (False, (no_sum,))
    assert [one.check for one in demanded.findings if not one.holds] == ["the signature"]


def test_fields_of_another_version_are_told_from_false_values(copy: Path) -> None:
    """Unknown and missing fields come from another version; a wrong value does not."""
    manifest = read_manifest(copy)
    for name in ("an_earlier_field", "title"):
        changed = {key: one for key, one in manifest.items() if key != name}
        if name not in manifest:
            changed[name] = 1
        (copy / MANIFEST).write_text(json.dumps(changed), encoding="utf-8")
        verdict = verify_bundle(copy)
        assert not verdict.accepted
        assert "another version of the format" in verdict.not_proved[0]
        assert [one.check for one in verdict.not_run] == ["all other checks"]
    (copy / MANIFEST).write_text(json.dumps(manifest | {"title": 7}), encoding="utf-8")
    verdict = verify_bundle(copy)
    assert not verdict.accepted
    assert "another version" not in verdict.not_proved[0]


@pytest.mark.usefixtures("no_budget", "no_content")
def test_of_an_inconsistent_manifest_tables_are_not_compared(copy: Path, rewrite: Rewrite) -> None:
    """And that is stated, with what a reader can do."""
    manifest = read_manifest(copy)
    manifest["guarantee_text"] = "No text of the software."
    rewrite(copy, manifest)
    verdict = verify_bundle(copy)
    assert not verdict.accepted
    not_run, _ = verdict.not_run  # the other is the total with other releases
    assert "report" in not_run.check
    assert "publisher" in not_run.remedy


@pytest.mark.usefixtures("no_budget", "no_content")
def test_a_request_in_another_form_is_refused(copy: Path, rewrite: Rewrite) -> None:
    """A number that reads the same but is written in another way is none of the software's."""
    manifest = read_manifest(copy)
    manifest["request"]["typical_kw"] += "0"
    manifest["request_sha256"] = request_sha256(manifest)
    rewrite(copy, manifest)
    assert "the request is not written in canonical form" in broken(copy).values()

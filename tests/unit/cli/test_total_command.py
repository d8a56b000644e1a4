"""The command `total`: releases with labels and series add up, the instance tier does not."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.sample_bundles import make_bundle, only
from tests.series_bundles import some_series
from wattveil.bundle.bundle_files import MANIFEST
from wattveil.bundle.total_loss import read_cost, total_loss
from wattveil.bundle.verify.verify_budget import composed_epsilon
from wattveil.calibration import gaussian_epsilon
from wattveil.cli import app
from wattveil.errors import InvalidParameterError
from wattveil.privacy.accounting import RHO_UNITS
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.products.request import ReleaseRequest
from wattveil.web.formatting import format_factor, format_upper_bound

WIDE = CliRunner(env={"COLUMNS": "250"})


def run(*words: str | Path) -> tuple[int, str]:
    """Run the command."""
    result = WIDE.invoke(app, ["total", *map(str, words)])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a series of epsilon 4, of which one period is released."""
    return some_series(tmp_path_factory.mktemp("total"), 0).folder


@pytest.fixture(scope="module")
def plain_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of epsilon 1 without labels."""
    out = tmp_path_factory.mktemp("total") / "plain"
    request = ReleaseRequest(epsilon=1.0, weights=only("load"), customers=300)
    make_bundle(out, request)
    return out


def test_labels_and_series_add_up(whole: Path, plain_release: Path, series: Path) -> None:
    """The total is that of an accountant that shares no code, and more than without labels."""
    code, output = run(plain_release, whole, series, "--json")
    assert code == 0, output
    found = json.loads(output)
    assert [one["kind"] for one in found["counted"]] == ["release", "release", "series"]
    assert [one["label_epsilon"] for one in found["counted"]] == [0.0, 2.0, 0.0]
    assert not found["not_counted"]
    parts = [read_cost(one) for one in (plain_release, whole, series)]
    s = [math.sqrt(2.0 * one.cost.rho_units / RHO_UNITS) for one in parts]
    other = composed_epsilon(gaussian_s=s, pure_epsilons=[2.0], delta=1e-6)
    assert found["epsilon"] == pytest.approx(other, rel=2e-3)
    assert found["epsilon"] >= total_loss(parts).guarantee.epsilon  # rounded up
    assert found["complete"]
    alone = gaussian_epsilon(s=math.hypot(*s), delta=1e-6)
    assert alone + 1.0 < found["epsilon"] <= alone + 2.0 + 1e-4
    assert float(found["factor"].replace(",", "")) >= math.exp(found["epsilon"])
    code, output = run(plain_release, whole, series)
    assert code == 0, output
    assert f"Total of 3 releases: epsilon {found['epsilon']} at" in output
    for one in found["counted"]:
        assert f"  {one['release_id']}  " in output
        row = next(line for line in output.splitlines() if one["release_id"][:8] in line)
        assert one["published_at"][:10] in row
    assert found["factor"] == format_factor(found["epsilon"])  # one rule of rounding
    assert f"factor of at most {found['factor']}, plus at most 1e-06" in output
    epsilon = total_loss(parts).guarantee.epsilon
    replaced = found["replace_one"]
    assert replaced["epsilon"] == 2.0 * epsilon
    assert replaced["delta"] == pytest.approx((1.0 + math.exp(epsilon)) * 1e-6)
    assert f"the bound is epsilon {format_upper_bound(replaced['epsilon'], 4)} at" in output


def test_one_release_has_its_own_epsilon(whole: Path, series: Path) -> None:
    """The total of one is never below, and hardly above, what it states; the folder may differ."""
    for folder, stated in ((whole, 4.0), (series, 4.0), (series / "periods", 4.0)):
        found = total_loss([read_cost(folder)]).guarantee
        assert found.epsilon == pytest.approx(stated, rel=1e-4)
        assert found.epsilon <= stated
    smaller = total_loss([read_cost(whole)], delta=1e-8).guarantee
    assert smaller.epsilon > 4.0
    assert smaller.delta == 1e-8


def test_the_instance_tier_is_named_and_not_counted(
    tmp_path: Path, plain_release: Path, series: Path
) -> None:
    """It changes no number of the total and has none in its row; alone, there is no total."""
    instance = tmp_path / "instance"
    make_bundle(
        instance,
        ReleaseRequest(tier=Tier.INSTANCE, epsilon=8.0, delta=1e-4, n_clusters=2, clip_kw=5.0),
    )
    before, after = (
        json.loads(run(*folders, "--json")[1])
        for folders in ((plain_release, series), (plain_release, instance, series))
    )
    assert before["epsilon"] == after["epsilon"]
    assert before["delta"] == after["delta"]
    assert [one["folder"] for one in after["not_counted"]] == [str(instance)]
    assert (before["complete"], after["complete"]) == (True, False)
    code, output = run(plain_release, instance)
    assert code == 1
    assert output.startswith(f"Warning: No total exists for all named releases: {instance} is not")
    assert "Total of 1 of 2 releases: epsilon" in output
    assert "any result of the counted releases" in output
    assert "any published result" not in output
    assert after["warnings"][0].startswith("No total exists")
    assert not before["warnings"]
    (row,) = (line for line in output.splitlines() if str(instance) in line and "0.0001" in line)
    assert row.count("not counted") == 2  # epsilon and labels
    code, output = run(instance)
    assert code == 2
    assert "No global-tier release was named: no total can be computed" in output


def change(bundle: Path, edit: Callable[[dict[str, Any]], None]) -> str:
    """Change a manifest, and return what the command says of its bundle, which it refuses."""
    manifest = json.loads((bundle / MANIFEST).read_text())
    edit(manifest)
    (bundle / MANIFEST).write_text(json.dumps(manifest))
    code, output = run(bundle)
    assert code == 1, output
    assert str(bundle / MANIFEST) in output
    return output


def divide(record: Any) -> None:  # noqa: ANN401 - JSON
    """Divide every amount of rho in a manifest by 100."""
    if isinstance(record, dict):
        if "rho_units" in record:
            record["rho_units"] = str(int(record["rho_units"]) // 100)
        record = list(record.values())
    if isinstance(record, list):
        for one in record:
            divide(one)


def to_instance(manifest: dict[str, Any]) -> None:
    """State another tier, which would not be counted."""
    manifest["guarantee"]["tier"] = "instance"


def no_epsilon(manifest: dict[str, Any]) -> None:
    """State what is no number."""
    manifest["products"][0]["runs"][0]["mechanisms"][0]["gaussian"]["noise_scale_steps"] = "0.0"


@pytest.mark.parametrize(
    ("edit", "check"),
    [
        (divide, "the charge for each draw matches its noise"),
        (to_instance, "the manifest is consistent"),
        (no_epsilon, "the manifest can be read"),
    ],
)
def test_a_manifest_that_contradicts_itself_has_no_total(
    copy: Path, edit: Callable[[dict[str, Any]], None], check: str
) -> None:
    """The manifest and the failed check of `verify` are named."""
    assert f'the check "{check}" failed' in change(copy, edit)


def test_a_series_that_contradicts_itself_has_no_total(series: Path, tmp_path: Path) -> None:
    """The manifest of each period is checked."""
    folder = shutil.copytree(series, tmp_path / "series")
    (path,) = (folder / "periods").glob(f"*/{MANIFEST}")
    manifest = json.loads(path.read_text())
    divide(manifest)
    path.write_text(json.dumps(manifest))
    code, output = run(folder)
    assert code == 1
    assert str(path) in output
    assert 'charges" failed' in output


def test_weak_totals_are_warned_of(tmp_path: Path) -> None:
    """As for a release: epsilon above 10, delta at or above 1/customers; and real ids, by name."""
    strong = tmp_path / "strong"
    make_bundle(strong, ReleaseRequest(epsilon=1.0, weights=only("load"), customers=200))
    one = read_cost(strong)
    found = total_loss([one])
    assert not found.warnings
    s = math.sqrt(2.0 * one.cost.rho_units / RHO_UNITS)
    many = next(n for n in range(1, 1000) if gaussian_epsilon(s=s * n**0.5, delta=1e-6) > 10.0)
    for number, is_weak in ((many - 1, False), (many, True)):
        copies = [replace(one, release_id=str(place)) for place in range(number)]
        texts = total_loss(copies).warnings
        assert [text.startswith("Total: epsilon = ") for text in texts] == [True] * is_weak
    for delta, is_weak in ((0.0049, False), (0.005, True)):
        texts = total_loss([one], delta=delta).warnings
        assert [text.startswith("Total: delta = ") for text in texts] == [True] * is_weak
    other = replace(one, release_id="other", guarantee=replace(one.guarantee, delta=1e-7))
    (text,) = total_loss([one, other]).warnings
    assert "(1e-07, 1e-06)" in text
    assert "--delta" in text
    assert not total_loss([one, other], delta=1e-6).warnings
    (text,) = total_loss([replace(one, has_real_ids=True)]).warnings
    assert str(strong) in text
    output = run(strong, "--delta", "0.005")[1]
    assert "Warning: Total: delta" in output
    assert json.loads(run(strong, "--delta", "0.005", "--json")[1])["warnings"]


def test_refusals(whole: Path, copy: Path, plain_release: Path, series: Path) -> None:
    """No total of what cannot be added: twice the same, other units, one period, false claims."""
    code, output = run(whole, whole)
    assert (code, "each named once" in output) == (2, True)
    code, output = run(whole, copy)
    assert code == 2
    assert str(whole) in output
    assert str(copy) in output
    code, output = run(next((series / "periods").iterdir()))
    assert (code, "give its folder" in output) == (1, True)
    assert run(whole, "--delta", "0")[0] == 2
    assert run(whole, "--delta", "2")[0] == 2
    one, other = read_cost(whole), read_cost(plain_release)
    changes: list[dict[str, Any]] = [
        {"unit": Unit.CUSTOMER_DAY},
        {"neighbours": Neighbours.REPLACE_ONE},
    ]
    for field in changes:
        changed = replace(other, guarantee=replace(other.guarantee, **field))
        with pytest.raises(InvalidParameterError, match=f"same {next(iter(field))}"):
            total_loss([one, changed])
    output = change(copy, lambda manifest: manifest["guarantee"].update(epsilon="3.0"))
    assert "the stated epsilon 3.0 is smaller than" in output

"""The command `total`: releases with labels and series add up, the instance tier does not."""

import json
import math
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
from wattveil.privacy.guarantee import Neighbours, Unit
from wattveil.products.request import ReleaseRequest

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
    alone = gaussian_epsilon(s=math.hypot(*s), delta=1e-6)
    assert alone + 1.0 < found["epsilon"] <= alone + 2.0 + 1e-4
    assert float(found["factor"].replace(",", "")) >= math.exp(found["epsilon"])
    code, output = run(plain_release, whole, series)
    assert code == 0, output
    assert "Total of 3 releases: epsilon" in output
    assert f"factor of at most {found['factor']}, plus at most 1e-06" in output


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
    copy: Path, plain_release: Path, series: Path
) -> None:
    """It changes no number of the total; alone, it has none."""
    manifest = json.loads((copy / MANIFEST).read_text())
    manifest["guarantee"]["tier"] = "instance"
    (copy / MANIFEST).write_text(json.dumps(manifest))
    before, after = (
        json.loads(run(*folders, "--json")[1])
        for folders in ((plain_release, series), (plain_release, copy, series))
    )
    assert before["epsilon"] == after["epsilon"]
    assert [one["folder"] for one in after["not_counted"]] == [str(copy)]
    assert "Not counted:" in run(plain_release, copy)[1]
    code, output = run(copy)
    assert code == 2
    assert "of the global tier" in output


def test_refusals(whole: Path, copy: Path, plain_release: Path, series: Path) -> None:
    """No total of what cannot be added: twice the same, other units, one period, false claims."""
    code, output = run(whole, whole)
    assert (code, "each named once" in output) == (2, True)
    code, output = run(next((series / "periods").iterdir()))
    assert (code, "give its folder" in output) == (1, True)
    assert run(whole, "--delta", "0")[0] == 2
    assert run(whole, "--delta", "2")[0] == 2
    one, other = read_cost(whole), read_cost(plain_release)
    changes: list[dict[str, Any]] = [
        {"unit": Unit.CUSTOMER_DAY},
        {"neighbours": Neighbours.REPLACE_ONE},
    ]
    for change in changes:
        changed = replace(other, guarantee=replace(other.guarantee, **change))
        with pytest.raises(InvalidParameterError, match=f"same {next(iter(change))}"):
            total_loss([one, changed])
    manifest = json.loads((copy / MANIFEST).read_text())
    manifest["guarantee"]["epsilon"] = "3.0"
    (copy / MANIFEST).write_text(json.dumps(manifest))
    code, output = run(copy)
    assert (code, "kept by the grants" in output) == (1, True)

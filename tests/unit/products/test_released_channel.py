"""What a released channel says of labels: posterior, segments they distinguish, warnings."""

import json
from pathlib import Path

import numpy as np
import pytest

import wattveil
from tests.sample_bundles import EVERYTHING, make_bundle, only
from wattveil.bundle.bundle_files import MANIFEST
from wattveil.bundle.label_texts import label_warnings
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.errors import InvalidParameterError
from wattveil.products.released_channel import (
    DISTINGUISHED,
    NAMED,
    WRONG,
    achieved_counts,
    label_channel,
)

SIZES = np.array([60.0, 30.0, 10.0])


def rows(*table: list[float]) -> np.ndarray:
    """Return the table of a channel; a customer without readings has the first row."""
    return np.array([*table, table[0]])


@pytest.mark.parametrize(
    ("table", "named", "distinguished"),
    [
        (rows([0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]), (1,), (0,)),
        (rows([0.6, 0.4, 0.0], [0.4, 0.6, 0.0], [0.4, 0.6, 0.0]), (0, 1), (0,)),
        (rows([0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.1, 0.9, 0.0]), (0, 1), (0, 1)),
        (rows([0.9, 0.1, 0.005], [0.1, 0.9, 0.005], [0.05, 0.95, 0.005]), (0, 1), (0, 1)),
        (rows([0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]), (0, 1, 2), (0, 1, 2)),
    ],
)
def test_labels_distinguish_segments_that_they_make_the_most_probable(
    table: np.ndarray, named: tuple[int, ...], distinguished: tuple[int, ...]
) -> None:
    """Two labels that both leave segment 0 the most probable one distinguish none."""
    found = label_channel(table, SIZES)
    assert (found.named, found.distinguished) == (named, distinguished)


def test_the_posterior_is_that_of_bayes() -> None:
    """By hand; a label that is never drawn has none."""
    found = label_channel(rows([0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]), SIZES)
    assert found.posterior[:, 0].tolist() == [1.0, 0.0, 0.0]
    assert found.posterior[:, 1].tolist() == pytest.approx([24 / 64, 30 / 64, 10 / 64])
    assert np.isnan(found.posterior[:, 2]).all()
    assert found.label_error == pytest.approx(0.6 * 0.4 + 0.1)
    frame = found.to_pandas("posterior")["probability"].unstack()
    assert frame.loc[1, 1] == pytest.approx(30 / 64)
    wrong = {one.quantity: (one.count, one.of) for one in achieved_counts(found, 2000)}
    assert wrong == {DISTINGUISHED: (2, 3), NAMED: (2, 3), WRONG: (680, 2000)}


def test_sizes_without_a_positive_one_are_taken_as_equal() -> None:
    """Noise may leave none."""
    found = label_channel(rows([0.9, 0.1], [0.2, 0.8]), np.array([0.0, -3.0]))
    assert found.prior.tolist() == [0.5, 0.5]


@pytest.fixture(scope="module")
def constant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle whose labels carry no information: a tiny label epsilon."""
    folder = tmp_path_factory.mktemp("labels") / "constant"
    request = EVERYTHING.replace(weights=only("clusters"), label_epsilon=0.001)
    make_bundle(folder, request)
    return folder


def test_labels_without_information_are_warned_of(constant: Path) -> None:
    """In manifest, card and report, from released values; `verify` counts again."""
    manifest = json.loads((constant / MANIFEST).read_text())
    (record,) = (one for one in manifest["products"] if one["name"] == "labels")
    counts = {one["quantity"]: one["count"] for one in record["achieved"]}
    assert counts[DISTINGUISHED] == 1
    (warning,) = label_warnings(manifest)
    assert "information" in warning
    for page in ("CARD.md", "report.html"):
        assert warning in (constant / page).read_text()
    assert verify_bundle(constant).accepted
    record["achieved"][0]["count"] = 3
    (constant / MANIFEST).write_text(json.dumps(manifest))
    failed = [one.check for one in verify_bundle(constant).findings if not one.holds]
    assert "quality achieved by product labels" in failed


def test_a_label_that_is_never_published_is_named(constant: Path) -> None:
    """Whole parts of a channel without the label 2."""
    manifest = json.loads((constant / MANIFEST).read_text())
    (record,) = (one for one in manifest["products"] if one["name"] == "labels")
    record["achieved"] = []
    record["channel"] = [["8", "2", "0"], ["1", "9", "0"], ["1", "9", "0"], ["5", "5", "0"]]
    (warning,) = label_warnings(manifest)
    assert "segment 2 " in warning
    record["channel"] = [["8", "1", "1"], ["1", "8", "1"], ["1", "1", "8"], ["4", "3", "3"]]
    assert label_warnings(manifest) == ()


def test_a_bundle_returns_its_channel(whole: Path, tmp_path: Path) -> None:
    """That of the manifest; the report shows it, and a release without labels refuses."""
    bundle = wattveil.read_bundle(whole)
    (record,) = (one for one in bundle.manifest["products"] if one["name"] == "labels")
    parts = np.array([[int(part) for part in row] for row in record["channel"]], dtype=float)
    found = bundle.label_channel()
    table = found.to_pandas()["probability"].unstack().to_numpy()
    assert table == pytest.approx((parts / parts.sum(axis=1, keepdims=True))[:-1])
    assert found.to_pandas("posterior").groupby("label")["probability"].sum().max() <= 1.0 + 1e-9
    assert "no readings" in (whole / "report.html").read_text()
    make_bundle(tmp_path / "load", EVERYTHING.replace(weights=only("load"), label_epsilon=None))
    with pytest.raises(InvalidParameterError, match="no randomised labels"):
        wattveil.read_bundle(tmp_path / "load").label_channel()

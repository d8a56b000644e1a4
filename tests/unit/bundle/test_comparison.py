"""Comparison of two released curves: difference and ratio, with intervals."""

import math
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

import wattveil
from tests.sample_bundles import EVERYTHING, LEVELS, make_bundle, only
from wattveil.bundle.comparison import Comparison
from wattveil.errors import InvalidParameterError
from wattveil.products.request import About
from wattveil.web.curves import Curve


def curve(load: list[float], std: list[float] | None, name: str = "x") -> Curve:
    """Return a curve with these loads and errors."""
    hours = [f"{hour:02}:00" for hour in range(len(load))]
    return Curve(name, 0, hours, np.array(load), None if std is None else np.array(std))


def test_difference_and_ratio_by_hand() -> None:
    """The difference by the sum of squares; the ends of Fieller's interval solve its equation."""
    found = Comparison(
        first=curve([3.0, 1.0], [0.3, 0.1]), second=curve([2.0, 0.3], [0.4, 0.1])
    ).to_arrow()
    first, second = found.to_pylist()
    assert first["difference_kw"] == 1.0
    assert first["difference_high_kw"] == pytest.approx(1.0 + 1.96 * 0.5)
    assert first["difference_low_kw"] == pytest.approx(1.0 - 1.96 * 0.5)
    assert first["difference_std_kw"] == pytest.approx(0.5)
    assert first["simultaneous_high_kw"] == pytest.approx(1.0 + 2.2414 * 0.5, rel=1e-4)  # of two
    assert first["ratio"] == 1.5
    for end in (first["ratio_low"], first["ratio_high"]):
        distance = abs(3.0 - end * 2.0) / math.hypot(0.3, end * 0.4)
        assert distance == pytest.approx(1.96)
    assert first["ratio_low"] < 1.5 < first["ratio_high"]
    assert math.isnan(second["ratio"])  # the denominator is 3 standard errors
    assert math.isnan(second["ratio_low"])


def test_the_mean_has_the_largest_error_that_correlation_permits() -> None:
    """Slots share errors: the mean of the errors, not their root mean square over sqrt(n)."""
    pair = Comparison(first=curve([3.0, 1.0], [0.3, 0.1]), second=curve([1.0, 1.0], [0.0, 0.0]))
    (mean,) = pair.to_arrow("mean").to_pylist()
    assert mean["difference_kw"] == 1.0
    assert mean["difference_high_kw"] == pytest.approx(1.0 + 1.96 * 0.2)
    assert "ratio 2 (" in repr(pair)
    shown = pair._repr_html_()  # a notebook begins with the result, and fits on a page
    assert "Difference of the means 1 kW" in shown
    assert "simultaneous_low_kw" not in shown
    assert "4 more columns. " in shown
    noisy = Comparison(first=pair.first, second=curve([1.0, 1.0], [0.5, 0.5]))
    assert "no ratio" in repr(noisy)


def test_intervals_of_independent_noise_cover_95_percent() -> None:
    """Both of them; and intervals of half the errors, a planted fault, do not."""
    rng = np.random.default_rng(5)
    true_a, true_b, s_a, s_b = 1.0, 0.6, 0.1, 0.1
    a, b = (rng.normal(true, std, 20_000) for true, std in ((true_a, s_a), (true_b, s_b)))

    def covered(scale: float) -> tuple[float, float]:
        first = curve(a.tolist(), [scale * s_a] * a.size)
        second = curve(b.tolist(), [scale * s_b] * b.size)
        found = Comparison(first=first, second=second).to_pandas()
        apart = found["difference_low_kw"].le(0.4) & found["difference_high_kw"].ge(0.4)
        stated = found.dropna()
        ratio = true_a / true_b
        inside = stated["ratio_low"].le(ratio) & stated["ratio_high"].ge(ratio)
        return float(apart.mean()), float(inside.mean())

    assert all(0.93 < share < 0.97 for share in covered(1.0))
    assert all(share < 0.8 for share in covered(0.5))


def test_a_bundle_compares_clusters_and_groups(whole: Path) -> None:
    """By the numbers of its tables; others are refused with a list of what there is."""
    bundle = wattveil.read_bundle(whole)
    centroids = bundle.to_pandas("centroids").loc["all"]["load_kw"]
    found = bundle.compare(0, 1).to_pandas()
    differences = centroids.loc[0] - centroids.loc[1]
    assert found["difference_kw"].tolist() == pytest.approx(differences.tolist())
    shapes = bundle.to_pandas("load_shapes")
    one, other = list(dict.fromkeys(shapes.index.get_level_values("group")))[:2]
    found = bundle.compare(one, other).to_pandas()
    assert found["a_kw"].tolist() == shapes.loc[one]["load_kw"].tolist()
    assert found["b_kw"].tolist() == shapes.loc[other]["load_kw"].tolist()
    with pytest.raises(InvalidParameterError, match=r"a must be a segment .* one of: 0, 1"):
        bundle.compare(99, 0)
    with pytest.raises(InvalidParameterError, match="a and b must differ"):
        bundle.compare(0, 0)
    with pytest.raises(InvalidParameterError, match=rf"b must be a group .*'{one}'"):
        bundle.compare(one, "nowhere")
    with pytest.raises(InvalidParameterError, match="of the same kind as a"):
        bundle.compare(one, 0)


def test_a_plot_has_both_curves_or_their_difference(whole: Path) -> None:
    """With bands; in two colours also if both curves have the same number."""
    bundle = wattveil.read_bundle(whole)
    pair = bundle.compare(*LEVELS)
    lines = [trace for trace in pair.plot().data if trace.name]
    assert [trace.name for trace in lines] == [*LEVELS]
    assert len({trace.line.color for trace in lines}) == 2
    figure = pair.plot("difference")
    (line,) = (trace for trace in figure.data if trace.mode == "lines" and trace.fill is None)
    slots = pair.to_pandas()
    assert line.y.tolist() == slots["difference_kw"].tolist()
    assert (line.y + line.customdata).tolist() == pytest.approx(slots["difference_high_kw"])
    assert figure.layout.yaxis.title.text == "kW per customer"
    assert figure.layout.yaxis.zeroline
    assert figure.layout.title.text.startswith(f"Difference: {LEVELS[0]} − {LEVELS[1]}<br>")
    assert "<svg" in pair._repr_html_()
    with pytest.raises(InvalidParameterError, match="curves, difference"):
        pair.plot("ratio")  # type: ignore[arg-type]


def test_groups_of_two_releases_are_compared(whole: Path, tmp_path: Path) -> None:
    """The noise of each is its own; the names tell which is which."""
    first = wattveil.read_bundle(whole)
    request = EVERYTHING.replace(weights=only("load"), label_epsilon=None)
    make_bundle(tmp_path / "next", request.replace(about=About(title="Next year")))
    second = wattveil.read_bundle(tmp_path / "next")
    found = first.compare(LEVELS[0], LEVELS[0], other=second)
    loads = [one.to_pandas("load_shapes").loc[LEVELS[0]]["load_kw"] for one in (first, second)]
    assert found.to_pandas()["difference_kw"].tolist() == pytest.approx(loads[0] - loads[1])
    assert found.second.name == f"{LEVELS[0]} (Next year)"
    with pytest.raises(InvalidParameterError, match="each release finds segments of its own"):
        first.compare(0, 0, other=second)
    with pytest.raises(InvalidParameterError, match=r"b must be a group .* in this release"):
        first.compare(LEVELS[0], "nowhere", other=second)
    with pytest.raises(InvalidParameterError, match="a and b must differ"):
        first.compare(LEVELS[0], LEVELS[0], other=wattveil.read_bundle(whole))
    vars(second)["manifest"] = {**second.manifest, "title": first.manifest["title"]}
    named = first.compare(LEVELS[0], LEVELS[1], other=second)
    assert first.manifest["release_id"][:8] in named.first.name
    shorter = second.to_arrow("load_shapes")
    shorter = shorter.filter(pc.less(shorter["slot"], 12))
    vars(second)["_read"] = lambda _: shorter
    with pytest.raises(InvalidParameterError, match="same slots"):
        first.compare(LEVELS[0], LEVELS[0], other=second)


def test_curves_without_errors_are_refused() -> None:
    """Those of the instance tier."""
    pair = Comparison(first=curve([1.0], None), second=curve([1.0], [0.1]))
    with pytest.raises(InvalidParameterError, match="instance tier"):
        pair.to_arrow()


def test_simultaneous_intervals_cover_all_slots_together() -> None:
    """In at least 95 % of all days, here with independent errors; pointwise intervals do not."""
    rng = np.random.default_rng(8)
    missed, pointwise = 0, 0
    for _ in range(400):
        noisy = curve(rng.normal(1.0, 0.1, 24).tolist(), [0.1] * 24)
        found = Comparison(first=noisy, second=curve([0.4] * 24, [0.0] * 24)).to_pandas()
        missed += not (
            found["simultaneous_low_kw"].le(0.6) & found["simultaneous_high_kw"].ge(0.6)
        ).all()
        pointwise += not (
            found["difference_low_kw"].le(0.6) & found["difference_high_kw"].ge(0.6)
        ).all()
    assert missed < 40  # 20 expected
    assert pointwise > 200  # 283 expected


def test_all_groups_of_two_releases_are_compared(whole: Path, tmp_path: Path) -> None:
    """By their mean load; within one release, a group is part of all of them: refused."""
    first = wattveil.read_bundle(whole)
    request = EVERYTHING.replace(weights=only("load"), label_epsilon=None)
    make_bundle(tmp_path / "next", request.replace(about=About(title="Next year")))
    second = wattveil.read_bundle(tmp_path / "next")
    found = first.compare("all", "all", other=second)
    means = [one.mean_load() for one in (first, second)]
    slots = found.to_pandas()
    assert slots["difference_kw"].tolist() == pytest.approx(means[0].load_kw - means[1].load_kw)
    std = np.hypot(means[0].std_kw, means[1].std_kw)
    assert slots["difference_std_kw"].tolist() == pytest.approx(std)
    assert "all groups (Next year)" in repr(found)
    with pytest.raises(InvalidParameterError, match="a must be a group"):
        first.compare("all", LEVELS[0])

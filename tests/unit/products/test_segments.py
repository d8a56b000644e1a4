"""Segments of released tables: order, flags, words, and what the manifest counts."""

import re

import numpy as np
import pyarrow as pa
import pytest

from tests.sample_bundles import only
from wattveil.arrays import Floats
from wattveil.bundle.release_tables import ReleaseTables
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.numerics.segment_support import segment_support
from wattveil.privacy.guarantee import Tier
from wattveil.products.clusters import Clusters
from wattveil.products.instance_tier import InstanceClusters
from wattveil.products.product import Choice
from wattveil.products.request import ReleaseRequest
from wattveil.products.segment_figures import (
    component_words,
    flags_of,
    principal_scores,
    segment_figures,
    segment_headline,
)
from wattveil.products.segments import achieved_support, segments
from wattveil.products.tables import Table
from wattveil.profiles import TimeGrid
from wattveil.profiles.time_grid import Split
from wattveil.release.kmeans import PrivateKMeans
from wattveil.simulate import simulate_load_kw
from wattveil.web.curves import Curve
from wattveil.web.pages import _ENVIRONMENT

HOURS = [f"{hour:02}:00" for hour in range(24)]


def request_for(n_clusters: int, *, by_group: bool = False) -> ReleaseRequest:
    """Return a request of clusters alone."""
    return ReleaseRequest(
        epsilon=1.0,
        delta=1e-6,
        n_clusters=n_clusters,
        clip_kw=5.0,
        weights=only("clusters"),
        by="class" if by_group else None,
        levels=("home", "shop") if by_group else (),
        clusters_by_group=by_group,
    )


def tables_of(
    load: Floats, std: Floats, counts: Floats, errors: Floats, *, groups: int = 1
) -> tuple[Table, Table]:
    """Return tables of a release with these numbers."""
    request = request_for(len(load) // groups, by_group=groups > 1)
    centroids, sizes = Clusters().layouts(Choice(request=request, grid=TimeGrid()))
    return centroids.filled(load.ravel(), std.ravel()), sizes.filled(counts, errors)


@pytest.fixture
def three() -> tuple[Table, Table]:
    """Three clusters: a small distinguishable one, a large one, and one that is noise."""
    level = np.array([1.0, 0.3, 0.31])
    load = level[:, None] * np.ones(24)
    load[0, 18] = 2.0
    std = np.array([0.02, 0.01, 0.5])[:, None] * np.ones(24)
    return tables_of(load, std, np.array([120.0, 700.0, 30.0]), np.array([20.0, 20.0, 25.0]))


def test_the_largest_comes_first_with_its_flags(three: tuple[Table, Table]) -> None:
    """By released count; the noise is neither distinguishable nor of a size above its error."""
    found = segments(*three)
    assert [one.curve.number for one in found] == [1, 0, 2]
    assert [one.distinguishable for one in found] == [True, True, False]
    assert [one.sized for one in found] == [True, True, False]
    assert [one.is_supported for one in found] == [True, True, False]
    words = [[flag.text for flag in flags_of(one)] for one in found]
    assert words[0] == ["curve distinguishable", "size > 2 SE"]
    assert words[2] == ["curve not distinguishable", "size ≤ 2 SE"]


def test_figures_show_the_flags_on_one_scale(three: tuple[Table, Table]) -> None:
    """Pale below two standard errors; the band of noise does not set the scale."""
    figures = list(segment_figures(*three))
    curves = figures[:3]
    assert [one.is_faded for one in curves] == [False, False, True]
    assert [len(one.flags) for one in curves] == [2, 2, 2]
    (limits,) = {one.figure.layout.yaxis.range for one in curves}
    assert limits[0] == 0.0
    assert 2.0 < limits[1] < 2.2
    assert all(one.alt for one in figures)
    assert "highest 2 kW at 18:00" in curves[1].alt


def test_an_unsupported_curve_sets_no_scale_and_is_closed() -> None:
    """A curve of noise far below 0 changes nothing for the others; alone, it is shown."""
    load = np.array([0.4, 0.9, -3.0])[:, None] * np.ones(24)
    std = np.array([0.01, 0.01, 4.0])[:, None] * np.ones(24)
    counts, errors = np.array([300.0, 200.0, 16.0]), np.array([10.0, 10.0, 27.0])
    curves = list(segment_figures(*tables_of(load, std, counts, errors)))[:3]
    alone = list(segment_figures(*tables_of(load[:2], std[:2], counts[:2], errors[:2])))[:2]
    assert [one.is_supported for one in curves] == [True, True, False]
    assert {one.figure.layout.yaxis.range for one in curves + alone} == {
        alone[0].figure.layout.yaxis.range
    }
    macros = vars(_ENVIRONMENT.get_template("macros.html").module)
    shown, closed = str(macros["drawn_charts"](curves)).split('<details class="unsupported">')
    assert shown.count("<figure") == 2
    assert closed.partition("</details>")[0].count("<figure") == 1
    noise = list(segment_figures(*tables_of(load[2:], std[2:], counts[2:], errors[2:])))
    assert noise[0].is_supported
    assert noise[0].figure.layout.yaxis.range[0] < -3.0


def test_achieved_counts_equal_flags(three: tuple[Table, Table]) -> None:
    """Counted again from the numbers, without the list of segments."""
    centroids, sizes = three
    flags = segment_support(
        centroids.column("load_kw").reshape(3, 24),
        centroids.column("std_kw").reshape(3, 24),
        sizes.column("customers"),
        sizes.column("customers_std"),
    )
    supported, distinguishable, sized = achieved_support(centroids, sizes)
    assert (supported.count, supported.of) == (int((flags.curve & flags.size).sum()), 3)
    assert (distinguishable.count, distinguishable.of) == (int(flags.curve.sum()), 3)
    assert (sized.count, sized.of) == (int(flags.size.sum()), 3)
    assert {one.group for one in (distinguishable, sized)} == {*ALL_CUSTOMERS}


def test_groups_are_compared_within_themselves() -> None:
    """The same curve in two groups is distinguishable in each."""
    load = np.repeat([[1.0], [3.0], [1.0], [1.0]], 24, axis=1)
    std, counts = np.full((4, 24), 0.01), np.array([10.0, 90.0, 80.0, 20.0])
    tables = tables_of(load, std, counts, np.ones(4), groups=2)
    found = achieved_support(*tables)
    pairs = [(one.group, one.count) for one in found if one.quantity.startswith("disting")]
    assert pairs == [("home", 2), ("shop", 0)]  # of two equal curves none
    names = [one.curve.name for one in segments(*tables)]
    assert names == ["1 (home)", "0 (home)", "0 (shop)", "1 (shop)"]
    sentence = segment_headline(*tables).sentence
    assert "2 of the 4 customer segments of 2 groups are supported" in sentence
    assert "in 1 of the groups no two" in sentence


@pytest.mark.parametrize(
    ("means", "counts", "start"),
    [
        (
            [1.0, 1.0, 1.0],
            [90.0, 80.0, 70.0],
            "No two of the 3 customer segments can be distinguished",
        ),
        ([1.0, 1.04, 0.96], [90.0, 80.0, 70.0], "Only some of the 3 customer segments can be"),
        ([1.0, 2.0, 3.0], [90.0, 80.0, 70.0], "All 3 customer segments are supported:"),
        ([1.0, 2.0, 3.0], [90.0, 80.0, 15.0], "2 of the 3 customer segments are supported:"),
        ([1.0, 2.0, 3.0], [90.0, 15.0, 15.0], "1 of the 3 customer segments is supported;"),
        ([1.0, 2.0, 3.0], [15.0, 15.0, 15.0], "None of the 3 customer segments is supported;"),
    ],
)
def test_the_summary_counts_supported_segments(
    means: list[float], counts: list[float], start: str
) -> None:
    """One curve is distinguishable by definition: of equal curves, none is told from another.

    Standard errors are 0.02 kW in each slot, the first a little less, so that two curves differ
    if their distance in each slot exceeds 2 sqrt(2) 0.02 = 0.057 kW.
    """
    load = np.repeat(np.array(means)[:, None], 24, axis=1)
    std = np.repeat([[0.0199], [0.02], [0.02]], 24, axis=1)
    found = segment_headline(*tables_of(load, std, np.array(counts), np.full(3, 10.0)))
    assert found.sentence.startswith(start)


def test_without_standard_errors_nothing_is_claimed() -> None:
    """The instance tier publishes none: no flags, nothing achieved."""
    request = ReleaseRequest(epsilon=1.0, delta=1e-6, n_clusters=2, clip_kw=5.0, tier=Tier.INSTANCE)
    choice = Choice(request=request, grid=TimeGrid())
    (layout,) = InstanceClusters().layouts(choice)
    centroids = layout.filled(np.repeat([1.0, 2.0], 24))
    found = segments(centroids, None)
    assert {one.distinguishable for one in found} == {one.sized for one in found} == {None}
    assert all(one.is_supported and not flags_of(one) for one in found)
    sentence = segment_headline(centroids, None).sentence
    assert sentence == "The customers are shown as 2 segments."
    assert segment_headline(None, None).sentence == ""


def test_the_tables_give_the_number_that_the_estimator_counts() -> None:
    """In coordinates of the basis and in slots, variance and distance are the same."""
    rows = np.array(simulate_load_kw(customers=400))
    fit = PrivateKMeans(epsilon=8.0, delta=1e-6, n_clusters=4, clip_kw=None).fit(rows)
    counted = segment_support(
        fit.cluster_centers_,
        fit.cluster_centers_std_,
        fit.cluster_sizes_,
        fit.cluster_sizes_std_,
    )
    assert counted.curve.sum() == fit.n_distinguishable_
    assert np.array_equal(counted.supported, fit.supported_)
    order = [(not one, -size) for one, size in zip(fit.supported_, fit.cluster_sizes_, strict=True)]
    assert order == sorted(order)


def test_a_report_of_many_segments_stays_small() -> None:
    """A hundred clusters on the finest seasonal grid: the largest 24 are drawn, in 0.7 MB."""
    grid = TimeGrid(minutes=5, split=Split.SEASON_WEEKDAY_WEEKEND)
    draw = np.random.default_rng(0)
    request = request_for(100)
    centroids, sizes = Clusters().layouts(Choice(request=request, grid=grid))
    counts = np.arange(100.0)
    load = draw.normal(size=100 * grid.columns)
    tables = {
        "centroids": centroids.filled(load, np.full(load.size, 0.1)),
        "cluster_sizes": sizes.filled(counts, np.ones(100)),
    }
    figures = [*Clusters().figures(tables, Choice(request=request, grid=grid))]
    curves = [one for one in figures if one.title.startswith("Segment ")]
    assert len(curves) == 24
    assert curves[0].title.startswith("Segment 99 ")
    assert "24 largest of 100 are drawn" in curves[0].caption
    macros = vars(_ENVIRONMENT.get_template("macros.html").module)
    assert len(str(macros["drawn_charts"](figures)).encode()) <= 700_000


def test_one_segment_is_named_as_such() -> None:
    """There is nothing to differ from."""
    load = np.ones((1, 24))
    tables = tables_of(load, 0.1 * load, np.array([50.0]), np.array([5.0]))
    sentence = segment_headline(*tables).sentence
    assert sentence == "The customers are shown as one segment of about 50 ± 10 customers."
    assert not any(one.title == "Map of the segments" for one in segment_figures(*tables))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ([1.0] * 24, "more load all day"),
        ([-1.0] * 24, "less load all day"),
        ([0.0] * 17 + [1.0] * 7, "more load in the evening"),
        ([-1.0] * 6 + [0.0] * 11 + [1.0] * 7, "more load in the evening, less at night"),
        ([-1.0] * 6 + [0.1] * 18, "less load at night"),
        ([0.0] * 6 + [1.0] * 11 + [0.0] * 7, "more load in the morning and in the afternoon"),
    ],
)
def test_a_component_is_named_by_the_time_of_day(shape: list[float], words: str) -> None:
    """Parts of the day with at least half of the largest loading."""
    curve = Curve("0", 0, HOURS, np.array(shape), None, "all")
    assert component_words(np.array(shape), curve) == words
    several = curve._replace(along=[f"winter weekday {time}" for time in HOURS])
    assert component_words(np.array(shape), several) == words


def test_scores_are_those_of_the_covariance() -> None:
    """Eigenvectors of the covariance matrix, by another routine, up to the sign."""
    loads = np.random.default_rng(0).normal(size=(5, 24))
    scores, axes, shares = principal_scores(loads)
    values, vectors = np.linalg.eigh(np.cov(loads.T))
    for number in (0, 1):
        vector = vectors[:, -1 - number]
        vector *= np.sign(vector[np.abs(vector).argmax()])
        assert axes[number] == pytest.approx(vector)
        assert scores[:, number] == pytest.approx((loads - loads.mean(axis=0)) @ vector)
        assert shares[number] == pytest.approx(values[-1 - number] / values.sum())


def test_the_axes_of_the_map_say_what_a_score_means(three: tuple[Table, Table]) -> None:
    """The first cluster has more load at all hours, and stands to the right."""
    (shown,) = (one for one in segment_figures(*three) if one.title == "Map of the segments")
    title = shown.figure.layout.xaxis.title.text
    assert title == "→ PC 1: more load all day"  # two components explain any three curves
    places = dict(zip(shown.figure.data[0].text, shown.figure.data[0].x, strict=True))
    assert places["0"] == max(places.values())


def test_the_map_of_many_states_what_its_axes_explain() -> None:
    """Of four curves, two components explain a part."""
    load = np.random.default_rng(0).normal(size=(4, 24))
    tables = tables_of(load, np.full((4, 24), 0.1), np.full(4, 50.0), np.full(4, 5.0))
    (shown,) = (one for one in segment_figures(*tables) if one.title == "Map of the segments")
    title = shown.figure.layout.xaxis.title.text
    assert re.match(r"→ PC 1 \(\d+ % of the variance\): ", title)


def test_the_chart_of_a_release_fades_what_noise_may_explain(three: tuple[Table, Table]) -> None:
    """The plot and the notebook output keep the flag of the report."""

    class Tables(ReleaseTables):
        manifest = {  # noqa: RUF012 - replaces a property
            "guarantee_text": "",
            "request": {},
            "products": [{"tables": [{"name": one.name} for one in three]}],
        }

        def _read(self, name: str) -> pa.Table:
            return {one.name: one.data for one in three}[name]

    shown = Tables()
    lines = [trace for trace in shown.plot().data if trace.fill is None]
    names = {trace.name: trace.opacity for trace in lines}
    assert names["segment 1"] is None
    faded = names["segment 2 (30 ± 49, not supported)"]
    assert faded < 1.0
    page = shown._repr_html_()
    assert "segment 2 (30 ± 49, not supported)" in page
    assert f'opacity="{faded}"' in page

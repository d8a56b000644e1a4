"""Bundles with an aggregation rule in Python: every public method, with groups suppressed."""

import pytest

import wattveil
from tests.sample_bundles import LEVELS, only, some_profiles
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.release_tables import Bundle
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.products.request import ALL_CUSTOMERS_SELECTED, About, ReleaseRequest
from wattveil.profiles import TimeGrid

REQUEST = ReleaseRequest(
    epsilon=8.0,
    weights=only("load"),
    by="class",
    levels=LEVELS,
    customers=300,
    about=About(selection=ALL_CUSTOMERS_SELECTED),
)
CASES = {
    # 2,000 customers are more than there are; there is no farm, so that it is joined.
    "none": (REQUEST.replace(rule="2000/15"), ()),
    "one": (REQUEST.replace(levels=("home", "farm"), rule="15/50"), ("all groups together",)),
    "all": (REQUEST.replace(rule="15/50"), LEVELS),
}
COVERED = {
    "compare",
    "label_channel",
    "manifest",
    "mean_load",
    "model",
    "plot",
    "population_intervals",
    "folder",
    "tables",
    "to_arrow",
    "to_pandas",
    "verify",
    "year_model",
}


@pytest.fixture(scope="module", params=CASES)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Bundle, tuple[str, ...]]:
    """A bundle, and the names of its published cells."""
    wanted, shown = CASES[request.param]
    out = tmp_path_factory.mktemp("ruled") / "bundle"
    release_bundle(some_profiles(), plan_release(wanted, TimeGrid()), out)
    return wattveil.read_bundle(out), shown


def test_every_public_name_is_called_here() -> None:
    """A new method needs a case in this module."""
    named = {name for name in dir(Bundle) if not name.startswith("_")}
    assert named | {"folder"} == COVERED


def test_curves_of_published_cells_are_drawn(case: tuple[Bundle, tuple[str, ...]]) -> None:
    """By both tables of curves and in a notebook; without any, the text says why."""
    bundle, shown = case
    rule = bundle.manifest["request"]["rule"]
    reason = f"No group meets the rule {rule}: nothing to plot."
    html = bundle._repr_html_()
    assert ("<svg" in html) == bool(shown)
    assert (reason in html) == (not shown)
    for table in (None, "load_shapes", "load_duration"):
        if shown:
            drawn = {one.name for one in bundle.plot(table).data if one.name}
            assert drawn == {*shown}
        else:
            with pytest.raises(InvalidParameterError) as caught:
                bundle.plot(table)
            assert str(caught.value) == reason


def test_suppressed_groups_are_not_compared(case: tuple[Bundle, tuple[str, ...]]) -> None:
    """The text names the rule and the status; published groups have a difference."""
    bundle, shown = case
    if shown == LEVELS:
        assert "difference of the means" in repr(bundle.compare(*LEVELS))
        assert bundle.compare(*LEVELS)._repr_html_()
        with pytest.raises(InvalidParameterError, match="divided into finer cells"):
            bundle.compare("home", "all groups together")
        return
    rule = bundle.manifest["request"]["rule"]
    status = "part of a coarser cell" if shown else "too few customers, or too few to be sure"
    with pytest.raises(InvalidParameterError) as caught:
        bundle.compare("home", bundle.manifest["request"]["levels"][1])
    assert str(caught.value) == f"group 'home' is suppressed by the rule {rule} (status: {status})"
    with pytest.raises(InvalidParameterError, match="no segments; compare groups by name"):
        bundle.compare(0, 1)


def test_population_intervals(case: tuple[Bundle, tuple[str, ...]]) -> None:
    """Of published cells; without any, the text says so."""
    bundle, shown = case
    if not shown:
        with pytest.raises(InvalidParameterError, match="No group meets the rule 2000/15"):
            bundle.population_intervals()
        return
    found = bundle.population_intervals()
    assert tuple(dict.fromkeys(found["group"].to_pylist())) == shown
    assert found["low_kw"].null_count == found["high_kw"].null_count == 0


def test_label_channel(case: tuple[Bundle, tuple[str, ...]]) -> None:
    """A release without labels has none, and says so."""
    with pytest.raises(InvalidParameterError, match="labels"):
        case[0].label_channel()


def test_mean_load(case: tuple[Bundle, tuple[str, ...]]) -> None:
    """Of published cells, which it names; without any, the text says so."""
    bundle, shown = case
    if not shown:
        with pytest.raises(InvalidParameterError, match="No group meets the rule 2000/15"):
            bundle.mean_load()
        return
    found = bundle.mean_load()
    assert found.groups == shown
    groups = bundle.to_pandas("groups").loc[list(shown)]
    assert found.customers == pytest.approx(groups["customers"].sum())
    assert found.to_pandas().notna().all(axis=None)


def test_all_other_methods(case: tuple[Bundle, tuple[str, ...]]) -> None:
    """Tables, texts and verification; a model that was not released is an error that says so."""
    bundle, _ = case
    assert bundle.tables == ("load_shapes", "groups", "load_duration")
    for name in bundle.tables:
        assert bundle.to_arrow(name).num_rows == len(bundle.to_pandas(name))
    assert "load_shapes" in repr(bundle)
    assert bundle.verify().accepted
    for name in ("model", "year_model"):
        with pytest.raises((InvalidFileError, InvalidParameterError)):
            getattr(bundle, name)

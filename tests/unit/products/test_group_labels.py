"""Groups in charts and texts: a value that is no word is shown with its attribute."""

from dataclasses import replace
from pathlib import Path

import pytest

import wattveil
from tests.sample_bundles import only, some_profiles, without_plan_simulation
from wattveil.bundle.plan import plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.release_tables import Bundle
from wattveil.products.group_labels import group_labels
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import TimeGrid


@pytest.mark.parametrize(
    ("by", "levels", "rule", "labels"),
    [
        ("has_ev", ["True", "False"], "none", ["has_ev: yes", "has_ev: no"]),
        ("has_ev", ["true", "unknown"], "none", ["has_ev: yes", "has_ev: unknown"]),
        ("solar", ["Y", "N"], "none", ["solar: Y", "solar: N"]),
        ("zip", ["8001", "8002"], "none", ["zip: 8001", "zip: 8002"]),
        ("area", ["north", "zone 2"], "none", ["north", "zone 2"]),
        ("class", ["home", "shop"], "15/15", ["home", "shop", "all groups together"]),
        ("flag", ["True", "False"], "15/15", ["flag: yes", "flag: no", "all groups together"]),
        (
            "zip",
            ["1", "2", "3", "4"],
            "15/15",
            [
                *(f"zip: {n}" for n in (1, 2, 3, 4)),
                "zip: 1 + 2",
                "zip: 3 + 4",
                "all groups together",
            ],
        ),
        (None, [], "15/15", []),
    ],
)
def test_labels(by: str | None, levels: list[str], rule: str, labels: list[str]) -> None:
    """Words alone; other values, and all values beside them, with the attribute."""
    assert list(group_labels(by, levels, rule).values()) == labels


@pytest.fixture(scope="module")
def by_flag(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A release by an attribute of which the values are True and False."""
    profiles = some_profiles()
    flags = tuple(str(row % 3 == 0) for row in range(len(profiles.customer_ids)))
    request = ReleaseRequest(
        epsilon=6.0,
        clip_kw=5.0,
        n_clusters=2,
        by="has_ev",
        levels=("True", "False"),
        clusters_by_group=True,
        weights=only("load", "clusters"),
        customers=300,
    )
    out = tmp_path_factory.mktemp("flag") / "bundle"
    with without_plan_simulation():
        plan = plan_release(request, TimeGrid())
    release_bundle(replace(profiles, attributes={"has_ev": flags}), plan, out)
    return wattveil.read_bundle(out)


def test_charts_name_the_attribute_and_tables_have_the_value(by_flag: Bundle) -> None:
    """Legends and comparisons for people; keys of tables and arguments as in the data."""
    legend = {one.name for one in by_flag.plot("load_shapes").data if one.name}
    assert legend == {"has_ev: yes", "has_ev: no"}
    segments = {one.name.partition(" (")[2][:10] for one in by_flag.plot().data if one.name}
    assert segments <= {"has_ev: ye", "has_ev: no"}
    assert "Comparison(has_ev: yes, has_ev: no:" in repr(by_flag.compare("True", "False"))
    groups = by_flag.to_arrow("load_shapes")["group"].unique().to_pylist()
    assert groups == ["True", "False"]


def test_the_report_names_the_attribute(by_flag: Bundle) -> None:
    """In figures, texts and tables; `verify` renders the same page."""
    page = (Path(by_flag.folder) / "report.html").read_text()
    assert "has_ev: yes" in page
    assert "True" not in page
    assert by_flag.verify().accepted

"""Load by group under an aggregation rule: tables, report, verification, refusals."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sample_bundles import broken, only, some_profiles
from wattveil.bundle import bundle_files
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.plan import plan_release, requested_products, stated_request
from wattveil.bundle.produce import check_list, release_bundle
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.errors import InvalidParameterError
from wattveil.products.load import Load
from wattveil.products.product import Choice
from wattveil.products.request import About, ReleaseRequest
from wattveil.products.ruled_load import rule_warnings
from wattveil.profiles import Profiles, TimeGrid
from wattveil.server.dataset_choices import DatasetBody, offered_products

CLASSES = ("home", "shop", "farm", "mill")
REQUEST = ReleaseRequest(
    epsilon=4.0,
    weights=only("load"),
    by="class",
    levels=CLASSES,
    customers=300,
    rule="15/15",
)


def profiles(small: int) -> Profiles:
    """Return 300 customers: ``small`` farms, 3 mills, the rest homes and shops."""
    found = some_profiles()
    names = ["farm"] * small + ["mill"] * 3
    names += [CLASSES[number % 2] for number in range(len(found) - len(names))]
    return Profiles(
        customer_ids=found.customer_ids,
        load_kw=found.load_kw,
        grid=found.grid,
        timezone=found.timezone,
        attributes={"class": tuple(names)},
    )


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle in which farms and mills are too few, also together."""
    out = tmp_path_factory.mktemp("ruled") / "bundle"
    release_bundle(profiles(small=2), plan_release(REQUEST, TimeGrid()), out)
    return out


def groups_of(bundle: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of the table of groups by name."""
    return {row["group"]: row for row in read_table(bundle, "groups").to_pylist()}


def test_small_groups_are_published_together(ruled: Path) -> None:
    """Four groups, too few in two: all stand together, and no number of a part is there."""
    groups = groups_of(ruled)
    together = groups["all groups together"]
    assert together["status"] == "published"
    assert together["customers"] == pytest.approx(300, abs=60)
    assert together["max_share"] <= 0.15
    for name in (*CLASSES, "home + shop", "farm + mill"):
        assert groups[name]["status"] == "part of a coarser cell"
        assert groups[name]["customers"] is groups[name]["count"] is None
    shapes = read_table(ruled, "load_shapes").to_pylist()
    assert {row["group"] for row in shapes if row["load_kw"] is not None} == {"all groups together"}


def test_the_joined_mean_is_that_of_all_customers(ruled: Path) -> None:
    """Against the exact mean of the customers, within its errors."""
    shapes = read_table(ruled, "load_shapes").to_pylist()
    rows = [row for row in shapes if row["group"] == "all groups together"]
    mean = np.array([row["load_kw"] for row in rows])
    error = np.array([row["std_kw"] for row in rows])
    true = profiles(small=2).load_kw.mean(axis=0)
    assert np.abs(mean - true).mean() < 4.0 * error.mean()


def test_large_groups_are_published_apart(tmp_path: Path) -> None:
    """Every group has enough customers: no coarser cell."""
    request = REQUEST.replace(levels=CLASSES[:2], rule="15/40")
    out = tmp_path / "bundle"
    release_bundle(profiles(small=0), plan_release(request, TimeGrid()), out)
    groups = groups_of(out)
    assert [groups[name]["status"] for name in CLASSES[:2]] == ["published"] * 2
    assert groups["all groups together"]["status"] == "divided into finer cells"
    assert verify_bundle(out).accepted


def test_nothing_that_meets_the_rule(tmp_path: Path) -> None:
    """A rule that no cell meets: a bundle without numbers, which says so."""
    out = tmp_path / "bundle"
    request = REQUEST.replace(rule="5000/1")
    manifest = release_bundle(profiles(small=2), plan_release(request, TimeGrid()), out)
    assert verify_bundle(out).accepted
    assert "none meets the rule 5000/1" in (out / "report.html").read_text()
    assert manifest["request"]["rule"] == "5000/1"


def test_report_and_card_state_both_protections(ruled: Path) -> None:
    """Differential privacy and the rule; and the verification holds."""
    assert verify_bundle(ruled).accepted
    page = (ruled / "report.html").read_text()
    assert "Both protections hold" in page
    assert "per customer in the published groups (by class: all groups together) is" in page
    assert "aggregation rule 15/15" in (ruled / "CARD.md").read_text()


def test_no_budget_is_spent_on_the_rule(ruled: Path) -> None:
    """The same draws at the same cost as without it."""
    plain = plan_release(REQUEST.replace(rule="none"), TimeGrid())
    assert plan_release(REQUEST, TimeGrid()).allotments == plain.allotments
    drawn = read_manifest(ruled)["products"][0]["runs"][0]["mechanisms"]
    choice = Choice(request=plain.request, grid=TimeGrid())
    assert [one["tag"] for one in drawn] == [*Load().draws((), choice)]


def spoil(bundle: Path, name: str, change: Any) -> None:  # noqa: ANN401 - a function of rows
    """Change a table in both formats."""
    rows = read_table(bundle, name).to_pylist()
    change(rows)
    schema = pq.read_schema(bundle / f"tables/{name}.parquet")
    data = pa.Table.from_pylist(rows, schema=schema)
    (bundle / f"tables/{name}.parquet").write_bytes(bundle_files._parquet(data))
    (bundle / f"tables/{name}.csv").write_bytes(bundle_files._csv(data))


CHECK = "every published cell meets the aggregation rule"


@pytest.mark.parametrize(
    ("table", "field", "value", "says"),
    [
        ("groups", "count", 14.0, "too few"),
        ("groups", "clip_kw", 40.0, "one customer may have"),
        ("groups", "count_std", 0.01, "count_std is not that of the noise"),
        ("groups", "max_share", 0.001, "max_share"),
        ("load_shapes", "load_kw", 0.4, "is not empty in load_shapes"),
        ("load_duration", "std_kw", 0.4, "is not empty in load_duration"),
        ("groups hidden", "clip_kw", 0.5, "is not empty in groups"),
    ],
)
def test_false_cells_are_found(
    ruled: Path, tmp_path: Path, *, table: str, field: str, value: float, says: str
) -> None:
    """A count below the limit, a large share, less noise, a number in a hidden cell."""
    bundle = shutil.copytree(ruled, tmp_path / "bundle")
    place = -1 if table == "groups" else 0

    def change(rows: list[dict[str, Any]]) -> None:
        rows[place][field] = value

    spoil(bundle, table.partition(" ")[0], change)
    assert says in broken(bundle)[CHECK]


def test_a_group_in_two_cells_is_found(ruled: Path, tmp_path: Path) -> None:
    """A part beside the whole: their difference would be the hidden rest."""
    bundle = shutil.copytree(ruled, tmp_path / "bundle")

    def change(rows: list[dict[str, Any]]) -> None:
        rows[0] = {**rows[-1], "group": rows[0]["group"]}

    spoil(bundle, "groups", change)
    assert "a group is published twice" in broken(bundle)[CHECK]


def test_the_rule_is_for_load_alone() -> None:
    """Other products have cells that are no groups; the instance tier has none at all."""
    with pytest.raises(InvalidParameterError, match="rule must be omitted unless load is the only"):
        requested_products(ReleaseRequest(epsilon=1.0, rule="15/15"))
    with pytest.raises(InvalidParameterError, match="rule must be none in the instance tier"):
        ReleaseRequest.parse({"epsilon": 1.0, "tier": "instance", "rule": "15/15"})
    with pytest.raises(InvalidParameterError, match=r"rule must be none, or N/X"):
        ReleaseRequest.parse({"epsilon": 1.0, "rule": "fifteen"})


def test_another_list_of_groups_under_a_rule_is_warned_of() -> None:
    """Beside an earlier release under a rule; from public choices alone."""
    same = stated_request(REQUEST)
    assert rule_warnings(REQUEST, [same, {}]) == ()
    assert rule_warnings(REQUEST, [stated_request(REQUEST.replace(rule="none"))]) == ()
    assert rule_warnings(REQUEST.replace(rule="none"), [{**same, "levels": ["home"]}]) == ()
    for other in ({"levels": [*CLASSES[::-1]]}, {"levels": ["home"]}, {"by": "zip"}):
        (warning,) = rule_warnings(REQUEST, [same, {**same, **other}])
        assert "another list of groups" in warning


def test_names_that_spreadsheets_compute_are_refused() -> None:
    """Groups are cells of CSV tables; a negative number is no formula."""
    for name in ("=1+1", "@SUM(A1)", "+cmd", "-cmd|x", " =1", "-"):
        with pytest.raises(InvalidParameterError, match="spreadsheets"):
            REQUEST.replace(levels=(*CLASSES, name))
    accepted = ("-1", "+2.5", "a=b", "1-2")
    assert REQUEST.replace(levels=accepted).levels == accepted


def test_ids_that_spreadsheets_compute_are_refused() -> None:
    """Where they are published; pseudonyms replace them otherwise."""
    request = ReleaseRequest(epsilon=1.0, label_epsilon=0.5)
    check_list(request, ["a", "=b"])
    with pytest.raises(InvalidParameterError, match="spreadsheets"):
        check_list(request.replace(real_ids=True), ["a", "=b"])


@pytest.mark.parametrize("licence", ["CC-BY-4.0", "GPL-2.0+", "https://town.example/terms"])
def test_licences_are_identifiers_or_addresses(licence: str) -> None:
    """Anything else is refused, with an example."""
    assert About(licence=licence).licence == licence
    for wrong in (f"{licence} or so", "ftp://x", "=1+1", "-"):
        with pytest.raises(InvalidParameterError, match=r"CC-BY-4\.0"):
            About(licence=wrong)


def test_a_data_set_with_a_rule_offers_what_applies_it() -> None:
    """By default; without a rule everything that needs no list of customers."""
    body = {"name": "homes", "file": "f", "clip_kw": 10.0, "rule": "15/15"}
    assert DatasetBody(**body).products == ("load",)
    assert offered_products("15/15", has_customer_list=True) == ("load",)
    assert "labels" in offered_products("none", has_customer_list=True)
    assert "labels" not in offered_products("none", has_customer_list=False)
    assert "clusters" in DatasetBody(**{**body, "rule": "none"}).products

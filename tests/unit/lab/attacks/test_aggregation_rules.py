"""The N/X rule on cells worked out by hand, and the attack that undoes it."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from wattveil.arrays import Floats
from wattveil.cli import app
from wattveil.errors import InvalidParameterError
from wattveil.lab.attacks.aggregation_rules import NO_CELL, Rule, apply_rule, cell_names
from wattveil.lab.attacks.differencing import largest_exposed, recover, recovered, report_rule
from wattveil.profiles import Profiles


@pytest.mark.parametrize("text", ["15/15", "100/15", "6/40", "4/50", "3/12.5"])
def test_rules_are_read(text: str) -> None:
    """N and X as written, and written as read."""
    rule = Rule.parse(text)
    assert (str(rule.min_customers), f"{rule.max_share_percent:g}") == tuple(text.split("/"))
    assert str(rule) == text


@pytest.mark.parametrize("text", ["15", "15/", "a/15", "1/15", "15/0", "15/101", "15/-3", "15/15 "])
def test_other_texts_are_refused(text: str) -> None:
    """What is no rule is named."""
    with pytest.raises(InvalidParameterError, match="rule"):
        Rule.parse(text)


def test_cells_by_hand() -> None:
    """Too few, one too large, and one that passes; export is no consumption."""
    load_kw = np.array([[1.0], [1.0], [1.0], [1.0], [2.0], [7.0], [1.0], [5.0], [-9.0]])
    names = ["few", "few", "large", "large", "large", "large", "good", None, "few"]
    found = apply_rule(load_kw, names, Rule.parse("3/50"))
    cells = {cell.name: cell for cell in found.cells}
    assert list(cells) == ["few", "good", "large"]
    assert cells["good"].reason == "fewer than 3 customers"
    assert cells["large"].reason == "one customer above 50 %"
    assert cells["large"].largest_share == pytest.approx(7.0 / 11.0)
    assert cells["few"].published
    assert cells["few"].largest_share == 0.5  # of 1 + 1 + 0: at the limit, not above
    assert found.cell_of[7] == NO_CELL
    assert found.rates == pytest.approx(
        {
            "cells suppressed": 2.0 / 3.0,
            "customers suppressed": 5.0 / 8.0,
            "consumption suppressed": 12.0 / 14.0,
            "customers recovered": 0.0,
        }
    )


@settings(deadline=None, max_examples=60)
@given(
    consumption=st.lists(st.integers(0, 6), min_size=2, max_size=9),
    min_customers=st.integers(2, 5),
    percent=st.sampled_from([15.0, 25.0, 40.0, 50.0, 100.0]),
)
def test_exposed_by_trying(consumption: list[int], min_customers: int, percent: float) -> None:
    """A customer is exposed exactly if its cell passes, and passes again without it."""
    rule = Rule(min_customers=min_customers, max_share_percent=percent)
    load_kw = np.array(consumption, dtype=float)[:, None]
    found = apply_rule(load_kw, ["one"] * len(load_kw), rule)
    for row in range(len(load_kw)):
        rest = np.delete(load_kw, row, axis=0)
        without = apply_rule(rest, ["one"] * len(rest), rule)
        assert found.exposed[row] == (found.cells[0].published and without.cells[0].published)


@pytest.mark.parametrize("customers", [16, 100, 5000])
def test_recovered_whatever_the_number(customers: int) -> None:
    """The customer comes out to rounding among 16 as among 5,000."""
    load_kw = np.random.default_rng(customers).gamma(2.0, 0.5, (customers, 24))
    found = recovered(load_kw.mean(axis=0), customers, load_kw[1:].mean(axis=0))
    assert found == pytest.approx(load_kw[0], abs=1e-9)


def test_attack_beside_protected_means(homes_kw: Floats) -> None:
    """From exact means the load comes out; from two means under a budget it does not."""
    members = np.arange(0, 800, 2)
    attack = recover(homes_kw, members, 10, epsilon=1.0, delta=1e-6)
    assert attack.customers == 400
    assert np.array_equal(attack.true_kw, homes_kw[10])
    assert attack.error < 1e-9
    assert attack.protected_error > 0.3


def test_report(homes_kw: Floats, named_profiles: Callable[..., Profiles]) -> None:
    """Cells, attack and the answer under one budget stand side by side."""
    streets = tuple(f"street {min(row // 200, 3)}" if row < 790 else "alley" for row in range(800))
    profiles = named_profiles(homes_kw, {"street": streets})
    report = report_rule(profiles, rule="15/15", by=["street"], epsilon=4.0, delta=1e-6)
    assert report.cells.cells[0].name == "alley"
    assert [cell.published for cell in report.cells.cells] == [False, True, True, True, True]
    assert report.recovery is not None
    assert report.recovery.error < 1e-9
    target = largest_exposed(homes_kw, report.cells)
    assert target is not None
    assert np.array_equal(report.recovery.true_kw, homes_kw[target])
    assert report.exact_kw[1] == pytest.approx(homes_kw[:200].mean(axis=0))
    apart = report.released.mean_kw[1] - report.exact_kw[1]
    expected = np.sqrt(np.mean(apart**2) / np.mean(report.exact_kw[1] ** 2))
    assert report.errors[1] == pytest.approx(expected)
    assert report.median_errors["published"] < 0.3
    assert report.released.guarantee.epsilon == 4.0
    assert f"one of {report.recovery.customers} customers is recovered" in report.summary[0]
    assert "cost epsilon 4, delta 1e-06" in report.summary[1]


def test_no_customer_to_recover(homes_kw: Floats, named_profiles: Callable[..., Profiles]) -> None:
    """The report states that no customer is recovered if no cell stays published without one."""
    profiles = named_profiles(homes_kw[:30], {"street": ("a",) * 15 + ("b",) * 15})
    report = report_rule(profiles, rule="15/99", by=["street"], epsilon=1.0, delta=1e-6)
    assert report.recovery is None
    assert "no customer is recovered" in report.summary[0]
    assert report.to_json()["attack"] is None
    assert report.cells.rates["customers recovered"] == 0.0
    assert report.cells.rates["cells suppressed"] == 0.0


def test_cells_of_several_attributes(named_profiles: Callable[..., Profiles]) -> None:
    """Values are joined; a customer without one of them is in no cell."""
    attributes = {"zip": ("1", "1", None), "class": ("home", "shop", "home")}
    profiles = named_profiles(np.ones((3, 24)), attributes)
    assert cell_names(profiles, ["zip", "class"]) == ["1 / home", "1 / shop", None]
    with pytest.raises(InvalidParameterError, match="each one of: class, zip"):
        cell_names(profiles, ["street"])
    with pytest.raises(InvalidParameterError, match="some customer has"):
        apply_rule(np.ones((2, 1)), [None, None], Rule.parse("2/50"))


@pytest.fixture
def file(tmp_path: Path, homes_kw: Floats, named_profiles: Callable[..., Profiles]) -> str:
    """Return the path of profiles in three streets, one of them short."""
    streets = tuple("<b>old</b>" if row < 100 else "new" for row in range(190)) + ("lane",) * 10
    path = str(tmp_path / "profiles.parquet")
    named_profiles(homes_kw[:200], {"street": streets}).write_parquet(path)
    return path


def test_table_and_page(file: str, tmp_path: Path) -> None:
    """The command prints one table and writes one self-contained page."""
    page = tmp_path / "rules.html"
    arguments = ["rules", file, "--by", "street", "--report", str(page)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "150"})
    assert result.exit_code == 0, result.output
    for words in (
        "Rule 15/15 on 3 cells. Private",
        "fewer than 15 customers",
        "cells suppressed",
        "From two published means",
        "The DP means of all cells cost epsilon 1, delta 1e-06",
    ):
        assert words in result.output
    written = page.read_text()
    for words in ("INTERNAL: exact figures", "Cells under the rule", "Error of the DP mean"):
        assert words in written
    assert "<b>old</b>" not in written
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=\"(?!data:)", written)


def test_json(file: str) -> None:
    """`--json` prints cells, rates, attack and guarantee."""
    result = CliRunner().invoke(app, ["rules", file, "--by", "street", "--rule", "6/40", "--json"])
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["rule"] == "6/40"
    assert [cell["published"] for cell in said["cells"]] == [True, True, True]
    assert said["rates"]["customers recovered"] == 1.0
    assert said["attack"]["error"] < 1e-9
    assert said["dp_answer"]["epsilon"] == 1.0
    assert "differentially private" in said["dp_answer"]["sentence"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--by", "zip"],
            "--by must be attributes of the profiles, each one of: street; got zip",
        ),
        (["--by", "street", "--rule", "15"], "--rule must be N/X, such as 15/15; got 15"),
        (["--by", "street", "--epsilon", "0"], "epsilon must be at least 1e-12"),
        (["--by", "street", "--report", "no/folder/x.html"], "--report must be a file in a folder"),
    ],
)
def test_bad_options_are_explained(file: str, arguments: list[str], words: str) -> None:
    """A bad option exits with status 2 and names field, rule and value."""
    result = CliRunner().invoke(app, ["rules", file, *arguments], terminal_width=200)
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())


def attacked(file: str, *options: str, code: int = 0) -> str:
    """Run the attack and return what it printed."""
    result = CliRunner().invoke(app, ["attack", "fifteen-fifteen", file, *options])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def test_demonstration(file: str, tmp_path: Path) -> None:
    """The attack prints what it recovered, among few and among many, and draws it."""
    page = tmp_path / "attack.html"
    said = attacked(file, "--customer", "C7", "--report", str(page))
    for words in ("Customer C7", "customers in the mean", "100", "200", "recovered", "▁"):
        assert words in said
    assert "One of 200 customers" in page.read_text()
    found = json.loads(attacked(file, "--by", "street", "--json"))
    assert found["private"] is True
    assert found["attacks"][-1]["customers"] in (90, 100)
    assert found["recovered_kw"] == pytest.approx(found["true_kw"], abs=1e-9)


def test_groups_that_the_rule_suppresses_are_not_attacked(
    tmp_path: Path, named_profiles: Callable[..., Profiles]
) -> None:
    """10 kW among 19 homes of 1 kW are above 15 %, among 99 they are not."""
    load_kw = np.ones((120, 24))
    load_kw[7] = 10.0
    path = tmp_path / "profiles.parquet"
    named_profiles(load_kw, {}).write_parquet(path)
    found = json.loads(attacked(str(path), "--json"))
    assert found["customer"] == "C7"
    assert [attack["customers"] for attack in found["attacks"]] == [100, 120]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--customer nobody", "--customer must be one of the profiles"),
        ("--customer C195 --by street", "published with and without that customer"),
        ("--rule 500/15", "no such cell"),
    ],
)
def test_no_customer_to_demonstrate_on(file: str, options: str, words: str) -> None:
    """Who cannot be recovered is refused with the reason."""
    assert words in attacked(file, *options.split(), code=2)

"""Internal pages in a real browser: nothing sticks out, tables fit a desktop and a phone."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from wattveil.grid import compare_on_feeder, write_grid_page
from wattveil.lab.attacks.attack_page import write_copy_page, write_solar_page
from wattveil.lab.attacks.solar_attack import solar_attack
from wattveil.lab.attacks.synthetic_attacks import CopyAttack
from wattveil.lab.audit.audit_page import write_audit_page
from wattveil.lab.audit.epsilon_bounds import PairedAudit
from wattveil.lab.audit.release_audit import AuditRow
from wattveil.lab.baselines.baseline_comparison import ComparisonSetting, compare_mechanisms
from wattveil.lab.baselines.baseline_summary import summarise
from wattveil.lab.baselines.baselines_page import write_comparison_page
from wattveil.lab.evaluation.customer_samples import of_profiles
from wattveil.lab.evaluation.evaluate_page import write_evaluation_page
from wattveil.lab.evaluation.fidelity_comparison import evaluate_load
from wattveil.lab.evaluation.load_summary import load_summary
from wattveil.numerics.measures.verdicts import Interval
from wattveil.privacy.guarantee import global_guarantee
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import simulate_load_kw

HOMES = np.array(simulate_load_kw(customers=90))


def profiles(load_kw: np.ndarray) -> Profiles:
    """Return profiles of these homes."""
    names = tuple(f"home {number}" for number in range(len(load_kw)))
    return Profiles(customer_ids=names, load_kw=load_kw, grid=TimeGrid(), timezone="Europe/London")


def evaluate(path: Path) -> None:
    """Compare homes with others."""
    both = of_profiles(profiles(HOMES[:45]), profiles(1.5 * HOMES[45:]))
    found = evaluate_load(both.real_kw, both.synthetic_kw, both.layout, n_clusters=2)
    summary = load_summary(both.real_kw, both.synthetic_kw, both.layout, margin=0.05)
    write_evaluation_page(found, path, summary=summary, margin=0.05)


def grid(path: Path) -> None:
    """Place them on a feeder."""
    real, made = profiles(HOMES[:45]), profiles(HOMES[45:])
    found = compare_on_feeder(real, made, feeder="ieee123", houses=60, redraws=20, n_clusters=2)
    write_grid_page(found, path)


def compare(path: Path) -> None:
    """Compare two mechanisms, six runs each."""
    setting = ComparisonSetting(
        mechanisms=("global", "mean"), epsilons=(1.0,), delta=1e-6, n_clusters=2, repeats=6, seed=0
    )
    found = compare_mechanisms(HOMES, setting, path=path.with_suffix(".jsonl"), jobs=1)
    write_comparison_page(found, summarise(found), path)


def audit(path: Path) -> None:
    """Show three audits."""
    claim = global_guarantee(epsilon=1.0, delta=1e-6)
    rows = [
        AuditRow(
            release=f"a product with a long name, {number}",
            method="paired",
            found=PairedAudit(
                claim=claim, likely=0.5, unlikely=0.3, hits=9, misses=5, trials=20, max_epsilon=most
            ),
        )
        for number, most in enumerate((0.5, 2.0, 3.0))
    ]
    write_audit_page(rows, path, confidence=0.95)


def solar(path: Path) -> None:
    """Attack a home with panels."""
    load_kw = HOMES.copy()
    load_kw[3, 10:15] = -2.0
    rows = profiles(load_kw)
    found = solar_attack(rows, customer=None, epsilon=1.0, delta=1e-6, releases=8)
    write_solar_page(found, rows.grid, path)


def copies(path: Path) -> None:
    """Show three releases under attack."""
    found = CopyAttack(
        copied=0.1,
        maxima=0.2,
        closest_is_member=0.5,
        membership_auc=0.5,
        tpr_at_1_percent=0.01,
        tpr_at_01_percent=0.001,
        outliers_found=0.0,
        intervals={"membership_auc": Interval(0.4, 0.6)},
    )
    names = ("names removed", "readings shuffled in each slot", "global tier, ε = 1")
    write_copy_page(dict.fromkeys(names, found), path)


PAGES = (evaluate, grid, compare, audit, solar, copies)


@pytest.mark.parametrize("write", PAGES)
def test_pages_and_their_tables_fit(
    browser: Browser, write: Callable[[Path], None], tmp_path: Path
) -> None:
    """At 1280 and 390 px: no scrolling to the side, neither of the page nor within a table."""
    file = tmp_path / "page.html"
    write(file)
    heard: list[str] = []
    for width in (1280, 390):
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector(".main-svg", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        beyond = page.evaluate(
            "[...document.querySelectorAll('.scroll')].map(o => o.scrollWidth - o.clientWidth)"
        )
        assert max(beyond, default=0) <= 0
        page.close()
    assert heard == []


def test_the_solar_page_shows_what_is_released_first(browser: Browser, tmp_path: Path) -> None:
    """Headlines are those of released averages, with intervals; exact ones are a comparison."""
    file = tmp_path / "page.html"
    solar(file)
    page = browser.new_page()
    page.goto(file.as_uri())
    facts = page.locator(".facts div").all_inner_texts()
    assert all(fact.startswith(("released:", "typical load")) for fact in facts)
    assert sum("interval" in fact or "(" in fact for fact in facts) == 3
    headings = page.locator("h2").all_inner_texts()
    assert headings == [
        "Released averages: the attack recovers only noise",
        "For comparison: unprotected averages",
    ]
    page.close()

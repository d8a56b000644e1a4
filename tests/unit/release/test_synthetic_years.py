"""`YearSynthesizer`: what years keep of customers, and what a customer can change."""

import datetime as dt
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from tests.release_transcripts import record, replay, squared_signal
from wattveil import YearSynthesizer
from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.privacy import accounting
from wattveil.privacy.guarantee import Budget
from wattveil.profiles import Split

SLOTS, DAYS = 4, 84
NEW_YEAR = dt.date(2013, 1, 1)


def synthesizer(**parameters: object) -> YearSynthesizer:
    """Return an estimator for the rows of `hours_kw`."""
    chosen: dict[str, Any] = {
        "first_day": NEW_YEAR,
        "n_clusters": 2,
        "slots_per_day": SLOTS,
        "split": Split.WEEKDAY_WEEKEND,
    }
    chosen.update(parameters)
    return YearSynthesizer(**chosen)


@pytest.fixture(scope="module")
def hours_kw() -> Floats:
    """600 customers of lasting size and shape, whose days vary and are alike in turn."""
    generator = np.random.default_rng(1)
    n = 600
    shape = np.exp(generator.normal([-0.3, 0.0, -0.1, 0.5], 0.25, (n, 1, SLOTS)))
    size = 0.4 * np.exp(0.6 * generator.normal(size=(n, 1, 1)))
    slow = generator.normal(size=(n, DAYS, 1))
    for day in range(1, DAYS):
        slow[:, day] = 0.85 * slow[:, day - 1] + np.sqrt(1 - 0.85**2) * slow[:, day]
    noise = 0.25 * slow + 0.4 * generator.normal(size=(n, DAYS, SLOTS))
    return (size * shape * np.exp(noise - 0.1)).reshape(n, -1)


@pytest.fixture(scope="module")
def fitted(hours_kw: Floats) -> YearSynthesizer:
    """Return a fit with next to no noise."""
    return synthesizer(epsilon=1e4).fit(hours_kw)


def autocorrelation(rows: Floats, lag: int) -> float:
    """Return the mean over customers of the correlation of slots so far apart."""
    return float(np.mean([np.corrcoef(row[:-lag], row[lag:])[0, 1] for row in rows]))


def test_annual_spread_and_autocorrelation_survive(
    hours_kw: Floats, fitted: YearSynthesizer
) -> None:
    """Also beside days that come from other customers, where both collapse: the test can fail."""
    sample = fitted.sample(2000, random_state=0)[0]
    spread = hours_kw.mean(axis=1).std()
    assert sample.mean() == pytest.approx(hours_kw.mean(), rel=0.05)
    assert sample.mean(axis=1).std() == pytest.approx(spread, rel=0.15)
    real = {lag: autocorrelation(hours_kw, lag) for lag in (SLOTS, 7 * SLOTS)}
    for lag, value in real.items():
        assert autocorrelation(sample, lag) == pytest.approx(value, abs=0.06)
    generator = np.random.default_rng(0)
    days = sample.reshape(2000, DAYS, SLOTS)
    mixed = np.stack([days[generator.permutation(2000), day] for day in range(DAYS)], axis=1)
    mixed = mixed.reshape(sample.shape)
    assert mixed.mean(axis=1).std() < 0.3 * spread
    assert autocorrelation(mixed, SLOTS) < real[SLOTS] - 0.1


def test_spends_are_the_grant_to_the_last_unit(fitted: YearSynthesizer) -> None:
    """What the days cost is on the list, and the list adds up."""
    tags = [spend.tag for spend in fitted.spends_]
    last = ["sizes of customers", "days", "levels of days"]
    last += ["spreads of shapes", "spreads of levels", "base loads", "peaks"]
    assert tags[-7:] == last
    budget = Budget(fitted.guarantee())
    assert sum(spend.rho_units for spend in fitted.spends_) == budget.rho_units
    share = sum(spend.rho_units for spend in fitted.spends_[-7:]) / budget.rho_units
    assert share == pytest.approx(0.3, abs=1e-9)


@pytest.mark.parametrize("value", [1e300, -1e9, 0.0, np.nan, 7.0])
def test_no_customer_moves_a_transcript_by_more_than_the_grant(
    hours_kw: Floats, value: float
) -> None:
    """Whatever a customer's year is, leaving changes the exact answers by at most mu."""
    rows = hours_kw[:60].copy()
    rows[0] *= np.random.default_rng(0).choice([0.0, 1.0, value], rows.shape[1])
    estimator = synthesizer(epsilon=1.0)
    with_all = record(lambda: clone(estimator).fit(rows))
    without = replay(lambda: clone(estimator).fit(rows[1:]), with_all)
    grant = 2.0 * Budget(estimator.guarantee()).rho_units / accounting.RHO_UNITS
    assert squared_signal(with_all, without) <= grant * (1.0 + 1e-9)


def test_others_add_the_same_to_the_last_bit(hours_kw: Floats) -> None:
    """A customer who leaves, or has gaps only, changes nothing that others add."""
    rows = hours_kw[:300].copy()
    rows[7] = np.nan
    estimator = synthesizer(epsilon=1.0)
    with_gaps = record(lambda: clone(estimator).fit(rows))
    without = replay(lambda: clone(estimator).fit(np.delete(rows, 7, axis=0)), with_gaps)
    assert squared_signal(with_gaps, without) == 0.0


@pytest.mark.parametrize("rows", [np.zeros((0, DAYS * SLOTS)), np.full((3, DAYS * SLOTS), np.nan)])
def test_no_data_gets_a_valid_answer(rows: Floats) -> None:
    """No customers, or none with data, gives a model that can be sampled."""
    sample = synthesizer(epsilon=0.1).fit(rows).sample(10, random_state=0)[0]
    assert np.isfinite(sample).all()


def test_levels_that_last_give_a_valid_answer() -> None:
    """Customers who are away every other week: nearly all of the level lasts to the next day."""
    generator = np.random.default_rng(1)
    weeks = (np.arange(DAYS) + generator.integers(0, 14, (100, 1))) // 7
    here = np.where(weeks % 2, 1.0, 0.2)[:, :, None]
    size = 0.4 * np.exp(0.6 * generator.normal(size=(100, 1, 1)))
    noise = np.exp(0.1 * generator.normal(size=(100, DAYS, SLOTS)))
    rows = (size * here * noise * [0.7, 1.0, 0.9, 1.6]).reshape(100, -1)
    fitted = synthesizer(epsilon=1e4).fit(rows)
    assert fitted.year_model_.days.slow[0] > 0.98
    sample = fitted.sample(10, random_state=0)[0]
    assert np.isfinite(sample).all()


def test_labels_are_of_typical_days(hours_kw: Floats, fitted: YearSynthesizer) -> None:
    """`predict` takes the rows that `fit` took; gaps all year are no cluster."""
    rows = hours_kw[:5].copy()
    rows[0] = np.nan
    labels = fitted.predict(rows)
    assert labels[0] == -1
    assert set(labels[1:].tolist()) <= {0, 1}


def test_released_labels_are_of_typical_days(hours_kw: Floats, fitted: YearSynthesizer) -> None:
    """At a large epsilon the released label of a customer is that of `predict`."""
    rows = hours_kw[:40]
    names = [f"{number:02}" for number in range(len(rows))]
    released = fitted.release_labels(rows, epsilon=40.0, customer_ids=names, real_ids=True)
    assert list(released.ids) == names
    assert released.labels.tolist() == fitted.predict(rows).tolist()


def test_bad_parameters_are_named(hours_kw: Floats) -> None:
    """The calendar is public, and so are the errors about it."""
    for field, value in (("first_day", "2013"), ("split", Split.SEASON), ("slots_per_day", 5)):
        with pytest.raises(InvalidParameterError):
            synthesizer(**{field: value}).fit(hours_kw[:3])

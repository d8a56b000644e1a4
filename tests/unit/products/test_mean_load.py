"""The mean load of all customers: numbers, and no hour in words that noise may have chosen."""

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.products.curve_figures import clipping_text
from wattveil.products.load import Load
from wattveil.products.mean_load import extreme_hours, mean_of_groups
from wattveil.products.product import Choice
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import Table
from wattveil.profiles import TimeGrid
from wattveil.release.group_load import load_shapes

HOURS = [f"{hour:02}:00" for hour in range(24)]
REQUEST = ReleaseRequest(epsilon=1.0, delta=1e-6, clip_kw=10.0)


def curve(**levels: float) -> Floats:
    """Return a mean day of 0.5 kW, with other loads at some hours, such as ``h18``."""
    load = np.full(24, 0.5)
    for hour, level in levels.items():
        load[int(hour[1:])] = level
    return load


def tables_of(
    load: Floats, std: float, *, share: float = 0.1, share_std: float = 0.1, bias_kw: float = 5.9
) -> dict[str, Table]:
    """Return the tables of a release of this mean day."""
    shapes, groups, duration = Load().layouts(Choice(request=REQUEST, grid=TimeGrid()))
    errors = np.full(24, std)
    return {
        "load_shapes": shapes.filled(load, errors),
        "groups": groups.filled(
            *(np.array([x]) for x in (500.0, 12.0, 2.2, share, share_std, bias_kw))
        ),
        "load_duration": duration.filled(-np.sort(-load) * 500.0, errors * 500.0),
    }


def test_no_hour_is_named_that_noise_may_have_chosen() -> None:
    """The difference of highest and lowest is at most two errors of a difference: sqrt(2) each."""
    load = curve(h18=0.6, h4=0.4)  # apart by 0.2
    assert extreme_hours(load, np.full(24, 0.071), HOURS).startswith("No hour is distinguishable")
    assert "at 18:00 and" not in extreme_hours(load, np.full(24, 0.069), HOURS)


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ({"h18": 0.9, "h4": 0.1}, "peak of 0.90 ± 0.06 kW at 18:00 and its minimum of 0.10 ± 0.06"),
        (
            {"h18": 0.9, "h19": 0.88, "h4": 0.1},
            "kW at 18:00 (the true peak may lie anywhere",
        ),
        ({"h18": 0.9, "h19": 0.88, "h4": 0.1}, "anywhere from 18:00 to 20:00) and its minimum of"),
        ({"h23": 0.9, "h0": 0.88, "h4": 0.1}, "anywhere from 23:00 to 01:00)"),
        (
            {"h8": 0.88, "h18": 0.9, "h4": 0.1},
            "anywhere from 08:00 to 09:00 or from 18:00 to",
        ),
        ({"h2": 0.9, "h8": 0.9, "h18": 0.9}, "true peak may lie at an hour that noise does not"),
        ({"h18": 0.53, "h4": 0.1}, "(the hour of the true peak is not known)"),
    ],
)
def test_hours_within_two_errors_of_the_highest_are_named(
    levels: dict[str, float], text: str
) -> None:
    """Each with its start, the last one with its end; across midnight too; too many, none."""
    assert text in extreme_hours(curve(**levels), np.full(24, 0.03), HOURS)


def test_a_flat_load_has_no_peak() -> None:
    """Releases of customers whose load is constant hardly ever name an hour."""
    rng = np.random.default_rng(3)
    flat = np.repeat(np.exp(rng.normal(-0.7, 0.6, (300, 1))), 24, axis=1)
    named = 0
    for _ in range(20):
        found = load_shapes(flat, epsilon=1.0, delta=1e-6)
        text = extreme_hours(found.mean_kw[0], found.std_kw[0], HOURS)
        named += not text.startswith("No hour")
    assert named <= 5  # 4 of 360 in a longer run: above 5 of 20 in less than one run of 10^7


def test_the_mean_has_an_interval_and_a_bound_on_clipping() -> None:
    """In the sentence and in the fact: the error of a mean is at most the mean of the errors."""
    found = Load().headline(
        tables_of(curve(h18=0.9, h4=0.1), 0.05), Choice(request=REQUEST, grid=TimeGrid())
    )
    assert "is 0.50 ± 0.10 kW (12.0 ± 2.4 kWh per day)." in found.sentence
    assert "above 2.2 kW" in found.sentence
    assert "raise the true mean by up to 5.9 kW" in found.sentence
    none = Load().headline(
        tables_of(curve(), 0.05, bias_kw=0.0), Choice(request=REQUEST, grid=TimeGrid())
    )
    assert "The interval covers what very large customers could add" in none.sentence
    value, name = found.facts[0]
    assert value == "0.50 ± 0.10 kW"
    assert "could add up to 5.9 kW" in name
    assert none.facts[0][1] == "mean load per customer"


def test_only_a_bound_above_zero_is_stated() -> None:
    """Where nothing can be hidden by the noise, the text does not warn of it."""
    some = clipping_text(tables_of(curve(), 0.1)["groups"])
    none = clipping_text(tables_of(curve(), 0.1, bias_kw=0.0)["groups"])
    assert "two effects of clipping" in some
    assert "worst-case bound" in some
    assert "one effect of clipping" in none
    assert "worst-case bound" not in none


def test_a_share_that_noise_hides_is_not_known() -> None:
    """A share is between 0 and 1: with an error above 0.5 it says nothing."""
    known = clipping_text(tables_of(curve(), 0.1)["groups"])
    assert "above the clipping level: 10 % ± 20 %." in known
    noisy = tables_of(curve(), 0.1, share=0.85, share_std=2.45)["groups"]
    assert "not known" in clipping_text(noisy)


def test_duration_curves_of_an_average_day_say_so() -> None:
    """Not to be mistaken for the curve of a year."""
    day = Choice(request=REQUEST, grid=TimeGrid())
    titles = [one.title for one in Load().figures(tables_of(curve(), 0.1), day)]
    assert titles == ["Mean load per customer", "Load duration of the average day"]


def test_errors_of_groups_are_added_as_if_they_were_correlated() -> None:
    """By hand: 3/4 of 0.1 and 1/4 of 0.3, and what the noise of the sizes adds."""
    means, stds = np.array([[1.0, 2.0], [3.0, 2.0]]), np.array([[0.1, 0.1], [0.3, 0.3]])
    customers, errors = np.array([300.0, 100.0]), np.array([40.0, 20.0])
    mean, std = mean_of_groups(means, stds, customers, errors)
    assert mean.tolist() == [1.5, 2.0]
    of_sizes = (0.1 * 0.5) ** 2 + (0.05 * 1.5) ** 2
    assert std.tolist() == pytest.approx([np.sqrt(0.15**2 + of_sizes), 0.15])
    shared = np.random.default_rng(1).normal(size=100_000)  # one error of both groups
    assert (0.75 * 0.1 * shared + 0.25 * 0.3 * shared).std() == pytest.approx(std[1], rel=0.02)


def test_groups_without_a_positive_number_have_equal_weights() -> None:
    """Noise may leave none; negative numbers count as 0."""
    means, stds = np.array([[1.0], [3.0]]), np.array([[0.1], [0.1]])
    mean, std = mean_of_groups(means, stds, np.array([-1.0, -2.0]), np.ones(2))
    assert mean[0] == 2.0
    assert np.isfinite(std[0])
    assert mean_of_groups(means, stds, np.array([9.0, -2.0]), np.ones(2))[0][0] == 1.0

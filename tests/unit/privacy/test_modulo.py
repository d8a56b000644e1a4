"""The paper's label noise: reference numbers, enumeration, log space, and its own refusals."""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from wattveil.calibration import modulo_delta_probabilistic
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy import noise
from wattveil.privacy.guarantee import Budget, Tier
from wattveil.privacy.mechanisms import modulo
from wattveil.privacy.mechanisms.modulo import (
    modulo_delta,
    modulo_flip,
    modulo_labels,
)
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import Secret

Ample = Callable[..., Budget]
ROWS = json.loads((Path(__file__).parent / "reference.json").read_text())["labels"]


@pytest.mark.parametrize("row", ROWS, ids=[str(i) for i in range(len(ROWS))])
def test_reference_numbers(row: dict[str, float]) -> None:
    """All numbers computed before the code was written agree to 1e-9, and are not undercut."""
    k, changed = int(row["K"]), int(row["sensitivity"])
    setting = {"flip": row["rho"], "epsilon": float(row["epsilon"])}
    exact = modulo_delta(n_labels=k, changed=changed, **setting)
    probabilistic = modulo_delta_probabilistic(n_labels=k, changed=changed, **setting)
    assert exact == pytest.approx(row["delta_dp"], rel=1e-9, abs=1e-300)
    assert probabilistic == pytest.approx(row["delta_pdp"], rel=1e-9, abs=1e-300)
    assert exact >= row["delta_dp"] * (1.0 - 1e-12)
    assert probabilistic >= row["delta_pdp"] * (1.0 - 1e-12)


def test_reference_is_complete() -> None:
    """The file has the 192 settings it is meant to have, K = 2 among them."""
    assert len(ROWS) == 192
    assert {row["K"] for row in ROWS} >= {2}


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("flip", [0.1, 0.3, 0.5])
@pytest.mark.parametrize(("n_labels", "changed"), [(2, 1), (2, 5), (3, 1), (3, 4), (6, 3)])
def test_by_enumeration_of_every_outcome(
    n_labels: int, changed: int, flip: float, epsilon: float
) -> None:
    """List all released label vectors under both neighbours: delta is sum (p - e^epsilon q)_+.

    `changed` labels differ between the neighbours; the exact distribution needs no multinomial.
    """
    stay, move = 1.0 - flip, flip / (n_labels - 1)
    exact = probabilistic = 0.0
    for outcome in itertools.product(range(n_labels), repeat=changed):
        p = math.prod(stay if label == 0 else move for label in outcome)
        q = math.prod(stay if label == 1 else move for label in outcome)
        exact += max(p - math.exp(epsilon) * q, 0.0)
        probabilistic += p if math.log(p / q) >= epsilon * (1.0 - 1e-12) else 0.0
    setting = {"n_labels": n_labels, "changed": changed}
    assert modulo_delta(**setting, flip=flip, epsilon=epsilon) == pytest.approx(
        exact, rel=1e-9, abs=1e-15
    )
    assert modulo_delta_probabilistic(**setting, flip=flip, epsilon=epsilon) == pytest.approx(
        probabilistic, rel=1e-9, abs=1e-15
    )


@pytest.mark.parametrize("n_labels", [2, 6])
@pytest.mark.parametrize(("flip", "epsilon"), [(0.49, 1.0), (0.45, 30.0), (0.3, 1500.0)])
def test_two_thousand_labels_by_the_paper_s_double_sum(
    n_labels: int, flip: float, epsilon: float
) -> None:
    """The multinomial sum in log space, two million terms, at Delta_l = 2,000."""
    n = 2000
    m0, mc = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij", sparse=True)
    rest = n - m0 - mc
    inside = rest >= 0 if n_labels > 2 else rest == 0
    rest = np.where(inside, rest, 0)
    log_p = special.gammaln(n + 1) - special.gammaln(m0 + 1) - special.gammaln(mc + 1)
    log_p = log_p - special.gammaln(rest + 1) + m0 * math.log(1.0 - flip)
    log_p = log_p + mc * math.log(flip / (n_labels - 1))
    if n_labels > 2:
        log_p = log_p + rest * math.log(flip * (n_labels - 2) / (n_labels - 1))
    loss = (m0 - mc) * math.log((1.0 - flip) * (n_labels - 1) / flip)
    chance = np.exp(np.where(inside, log_p, -np.inf))
    probabilistic = float(chance[loss >= epsilon].sum())
    exact = float((chance * -np.expm1(np.minimum(epsilon - loss, 0.0))).sum())
    shape = {"n_labels": n_labels, "changed": n}
    found = modulo_delta(**shape, flip=flip, epsilon=epsilon)
    assert found == pytest.approx(exact, rel=1e-9, abs=0.0)
    found = modulo_delta_probabilistic(**shape, flip=flip, epsilon=epsilon)
    assert found == pytest.approx(probabilistic, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("epsilon", [100.0, 400.0, 700.0])
def test_a_hundred_thousand_labels_of_two_kinds(epsilon: float) -> None:
    """K = 2 at the largest Delta_l: M0 is binomial, and scipy knows its tail."""
    n, flip = 100_000, 0.499
    a = math.log((1.0 - flip) / flip)
    needed = math.ceil((epsilon / a + n) / 2.0)  # (2 M0 - n) a >= epsilon
    expected = float(stats.binom.sf(needed - 1, n, 1.0 - flip))
    found = modulo_delta_probabilistic(n_labels=2, changed=n, flip=flip, epsilon=epsilon)
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-300)


def test_a_hundred_thousand_labels_of_six_kinds() -> None:
    """K = 6 at the largest Delta_l: the distribution of M0 - Mc by a Fourier transform."""
    n, flip, epsilon, size = 100_000, 0.832, 1.0, 2**18
    stay, move = 1.0 - flip, flip / 5.0
    turn = np.exp(2j * np.pi * np.arange(size) / size)
    chances = np.fft.fft((stay * turn + move / turn + 4.0 * move) ** n).real / size
    difference = np.arange(size)
    difference = np.where(difference < size // 2, difference, difference - size)
    loss = difference * math.log(stay / move)
    expected = float((chances * -np.expm1(np.minimum(epsilon - loss, 0.0))).sum())
    assert 0.01 < expected < 0.99
    found = modulo_delta(n_labels=6, changed=n, flip=flip, epsilon=epsilon)
    assert found == pytest.approx(expected, rel=1e-8)


def test_one_changed_label_has_a_closed_form() -> None:
    """Delta_l = 1: the loss is a with chance 1 - rho, so delta = (1 - rho)(1 - e^(epsilon - a))."""
    flip, epsilon = 0.2, 1.0
    a = math.log(0.8 * 2.0 / 0.2)
    exact = modulo_delta(n_labels=3, changed=1, flip=flip, epsilon=epsilon)
    assert exact == pytest.approx(0.8 * -math.expm1(epsilon - a), rel=1e-9)
    assert modulo_delta(n_labels=3, changed=1, flip=flip, epsilon=a * 1.001) == 0.0
    found = modulo_delta_probabilistic(n_labels=3, changed=1, flip=flip, epsilon=epsilon)
    assert found == pytest.approx(0.8, rel=1e-9)


@pytest.mark.parametrize("n_labels", [2, 5])
@pytest.mark.parametrize("changed", [1, 7, 300])
def test_delta_falls_with_flip_and_epsilon(n_labels: int, changed: int) -> None:
    """More noise or more epsilon, less delta; a uniform label gives nothing away."""
    uniform = (n_labels - 1) / n_labels
    flips = np.linspace(0.05, 0.999, 12) * uniform
    by_flip = [
        modulo_delta(n_labels=n_labels, changed=changed, flip=float(f), epsilon=0.7) for f in flips
    ]
    assert all(b <= a * (1.0 + 1e-9) for a, b in itertools.pairwise(by_flip))
    by_epsilon = [
        modulo_delta(n_labels=n_labels, changed=changed, flip=0.5 * uniform, epsilon=float(e))
        for e in np.linspace(0.0, 20.0, 15)
    ]
    assert all(b <= a for a, b in itertools.pairwise(by_epsilon))
    assert modulo_delta(n_labels=n_labels, changed=changed, flip=uniform, epsilon=0.0) < 1e-12


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize(("n_labels", "changed"), [(2, 1), (2, 40), (6, 3), (6, 2000)])
def test_flip_is_the_inverse_of_delta(
    n_labels: int, changed: int, epsilon: float, delta: float
) -> None:
    """The flip found keeps delta; a flip 1e-8 smaller does not."""
    shape = {"n_labels": n_labels, "changed": changed}
    flip = modulo_flip(**shape, epsilon=epsilon, delta=delta)
    assert 0.0 < flip <= (n_labels - 1) / n_labels
    assert modulo_delta(**shape, flip=flip, epsilon=epsilon) <= delta
    less = modulo_delta(**shape, flip=flip * (1.0 - 1e-8), epsilon=epsilon)
    assert less > delta * (1.0 - 1e-9)


def test_flip_at_twenty_thousand_labels() -> None:
    """A large Delta_l has a flip, and it keeps delta."""
    flip = modulo_flip(n_labels=2, changed=20_000, epsilon=60.0, delta=1e-3)
    found = modulo_delta(n_labels=2, changed=20_000, flip=flip, epsilon=60.0)
    assert 0.48 < flip < 0.5
    assert found == pytest.approx(1e-3, rel=1e-6)
    assert found <= 1e-3


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("changed", [1, 5, 100_000])
@pytest.mark.parametrize("n_labels", [2, 6])
def test_without_delta_the_flip_has_a_closed_form(
    n_labels: int, changed: int, epsilon: float
) -> None:
    """At delta = 0 rho = (K-1)/(e^(epsilon/Delta_l) + K - 1), not below, and delta is 0 there."""
    flip = modulo_flip(n_labels=n_labels, changed=changed, epsilon=epsilon, delta=0.0)
    closed = (n_labels - 1) / (math.exp(epsilon / changed) + n_labels - 1)
    assert flip == pytest.approx(closed, rel=1e-9, abs=0.0)
    assert closed * (1.0 + 1e-11) <= flip or flip == (n_labels - 1) / n_labels
    if changed <= 5:
        assert modulo_delta(n_labels=n_labels, changed=changed, flip=flip, epsilon=epsilon) == 0.0


def test_noise_never_vanishes() -> None:
    """However large epsilon is, some label can move: e^-800 is no float, and yet not 0."""
    assert modulo_flip(n_labels=3, changed=1, epsilon=800.0, delta=0.0) == 5e-324
    small = modulo_flip(n_labels=3, changed=1, epsilon=60.0, delta=0.0)
    assert small == pytest.approx(2.0 * math.exp(-60.0), rel=1e-9, abs=0.0)
    assert modulo_flip(n_labels=3, changed=1, epsilon=800.0, delta=0.5) > 0.0


@pytest.mark.parametrize("n_labels", [2, 3, 5, 6, 50, 199])
def test_delta_is_rounded_up_next_to_uniform(n_labels: int) -> None:
    """Where 1 - rho and rho/(K-1) nearly cancel: at or above the exact difference of the two."""
    flip = (n_labels - 1) / n_labels
    for _ in range(6):
        flip = math.nextafter(flip, 0.0)
        exact = (1 - Fraction(flip)) - Fraction(flip) / (n_labels - 1)
        found = modulo_delta(n_labels=n_labels, changed=1, flip=flip, epsilon=0.0)
        assert Fraction(found) >= exact
        assert found == pytest.approx(float(exact), rel=1e-9, abs=0.0)


def test_delta_is_a_probability() -> None:
    """Two thousand labels that nearly never move give everything away: 1, and not above it."""
    shape = {"n_labels": 2, "changed": 2000}
    assert modulo_delta(**shape, flip=0.01, epsilon=1.0) == 1.0
    assert modulo_delta_probabilistic(**shape, flip=0.01, epsilon=1.0) == 1.0


def test_never_more_than_uniform() -> None:
    """However little is allowed, the label drawn is at most uniform."""
    assert 0.75 - 1e-15 < modulo_flip(n_labels=4, changed=1000, epsilon=1e-12, delta=1e-300) <= 0.75
    assert modulo_flip(n_labels=4, changed=1000, epsilon=1e-12, delta=0.0) == 0.75


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("n_labels", 1),
        ("n_labels", 2.0),
        ("changed", 0),
        ("changed", -1),
        ("changed", 100_001),
        ("changed", True),
        ("epsilon", -1.0),
        ("epsilon", math.nan),
        ("epsilon", "1"),
    ],
)
def test_bad_arguments_are_named(field: str, bad: object) -> None:
    """K below 2, too many labels, a wrong epsilon: refused; no changed label needs no noise."""
    shape: dict[str, object] = {"n_labels": 3, "changed": 2, "epsilon": 1.0, field: bad}
    if (field, bad) == ("changed", 0):
        assert modulo_flip(n_labels=3, changed=0, epsilon=1.0, delta=0.1) == 0.0
    else:
        with pytest.raises(InvalidParameterError, match=f"{field} must be") as caught:
            modulo_flip(**shape, delta=0.1)  # type: ignore[arg-type]  # wrong on purpose
        assert caught.value.value is bad
    for function in (modulo_delta, modulo_delta_probabilistic):
        with pytest.raises(InvalidParameterError, match=f"{field} must be"):
            function(**shape, flip=0.1)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("bad", [0.0, -0.1, 0.7, math.nan, 1.0])
def test_bad_flip_is_named(bad: float) -> None:
    """A flip is above 0 and at most (K - 1) / K."""
    for function in (modulo_delta, modulo_delta_probabilistic):
        with pytest.raises(InvalidParameterError, match="flip must be above 0 and at most") as e:
            function(n_labels=3, changed=1, flip=bad, epsilon=1.0)
        assert e.value.value is bad


@pytest.mark.parametrize("bad", [-0.1, 1.0, math.nan, "0", None])
def test_bad_delta_is_named(bad: object) -> None:
    """A delta is at least 0 and below 1."""
    with pytest.raises(InvalidParameterError, match="delta must be at least 0 and below 1"):
        modulo_flip(n_labels=3, changed=1, epsilon=1.0, delta=bad)  # type: ignore[arg-type]


# --- the mechanism --------------------------------------------------------------------------------


def release(budget: Budget, **changes: object) -> np.typing.NDArray[np.int64]:
    """Release six labels of which 1 and 4 are unstable, or what `changes` say."""
    arguments: dict[str, object] = {
        "labels": Secret(np.array([0, 1, 2, 0, 1, 2])),
        "unstable": Secret(np.array([1, 4])),
        "changed": 2,
        "n_labels": 3,
        "epsilon": 1.0,
        "delta": 1e-3,
        **changes,
    }
    return modulo_labels(budget=budget, tag="t", **arguments).value  # type: ignore[arg-type]


def test_only_unstable_labels_move(
    ample: Ample, scripted: Callable[[list[int]], NoiseSource]
) -> None:
    """With every draw true the unstable labels move and the others leave as they are."""
    words = [0] * 6 + [0, 1, 0, 0, 0, 0]  # six true draws, then offsets 1 + word mod 2
    with noise.simulate(scripted(words)):
        moved = release(ample(tier=Tier.INSTANCE))
    assert moved.tolist() == [0, (1 + 2) % 3, 2, 0, (1 + 1) % 3, 2]
    assert not moved.flags.writeable


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_flip_probability_is_rounded_up(
    ample: Ample, scripted: Callable[[list[int]], NoiseSource], delta: float
) -> None:
    """The last word below flip 2^62, rounded up, moves the label; the next one does not."""
    flip = modulo_flip(n_labels=3, changed=2, epsilon=1.0, delta=delta)
    exact = Fraction(math.ceil(Fraction(flip) * 2**62), 2**62)
    assert exact >= Fraction(flip)
    for word, moves in ((exact.numerator - 1, True), (exact.numerator, False)):
        with noise.simulate(scripted([word] * 6 + [0] * 6)):
            moved = release(ample(tier=Tier.INSTANCE), delta=delta)
        assert (moved[1] != 1) == moves


@pytest.mark.parametrize("n_labels", [2, 3, 6])
def test_a_label_that_must_be_uniform_is_exactly_uniform(
    ample: Ample, monkeypatch: pytest.MonkeyPatch, n_labels: int
) -> None:
    """At the end of the range the probability is the fraction (K - 1) / K, not a float near it."""
    flips: list[Fraction] = []

    def record(
        values: np.typing.NDArray[np.int64], *, n_labels: int, flip: Fraction
    ) -> np.typing.NDArray[np.int64]:
        assert 0 < flip < n_labels
        flips.append(flip)
        return values

    monkeypatch.setattr(modulo, "_move_labels", record)
    labels = Secret(np.array([0, 1, 0, 0, 1, 1]))
    changes = {"labels": labels, "changed": 1000, "epsilon": 1e-12, "delta": 0.0}
    release(ample(tier=Tier.INSTANCE), n_labels=n_labels, **changes)
    assert flips == [Fraction(n_labels - 1, n_labels)]


@pytest.mark.parametrize(
    ("field", "bad", "rule"),
    [
        ("labels", [0, 1, 2, 0, 1, 3], "'labels between 0 and 2, or -1'"),
        ("labels", [0.5], "'labels is a vector of whole numbers'"),
        ("unstable", [6], "'unstable between 0 and 5, or -1'"),
        ("unstable", [0.5], "'unstable is a vector of whole numbers'"),
    ],
)
def test_broken_labels_and_positions_are_named(
    ample: Ample, field: str, bad: list[float], rule: str
) -> None:
    """The error says which of the two lists is broken, and how."""
    with pytest.raises(InvalidDataError, match=rule):
        release(ample(tier=Tier.INSTANCE), **{field: Secret(np.array(bad))})


@pytest.mark.parametrize("n_labels", [2, 3, 4])
def test_offsets_reach_every_other_label_and_no_more(
    scripted: Callable[[list[int]], NoiseSource], n_labels: int
) -> None:
    """Words 0 .. 11 choose offsets 1 .. K - 1 in turn: never 0 or K, which would move nothing."""
    labels = np.zeros(12, dtype=np.int64)
    with noise.simulate(scripted([0] * 12 + list(range(12)))):
        moved = modulo._move_labels(labels, n_labels=n_labels, flip=Fraction(1))
    assert moved.tolist() == [1 + word % (n_labels - 1) for word in range(12)]


def test_one_customer_has_one_position(ample: Ample) -> None:
    """Position 1 in a list of one label is refused like any other beyond the end."""
    with pytest.raises(InvalidDataError, match="unstable between 0 and 0, or -1"):
        release(
            ample(tier=Tier.INSTANCE), labels=Secret(np.array([0])), unstable=Secret(np.array([1]))
        )


def test_nothing_changed_nothing_moves(ample: Ample) -> None:
    """Delta_l = 0 and no unstable label: the labels leave as they are, and it is on the record."""
    budget = ample(tier=Tier.INSTANCE)
    none = Secret(np.zeros(0, dtype=np.int64))
    assert release(budget, changed=0, unstable=none).tolist() == [0, 1, 2, 0, 1, 2]
    assert budget.spends[0].response_epsilon == 1.0


def test_unstable_labels_need_a_change(ample: Ample) -> None:
    """Unstable labels with Delta_l = 0 contradict each other."""
    with pytest.raises(InvalidDataError, match="no unstable one when changed is 0") as caught:
        release(ample(tier=Tier.INSTANCE), changed=0)
    assert caught.value.row_ids == (1, 4)
    with pytest.raises(InvalidDataError, match="no unstable one when changed is 0") as caught:
        release(ample(tier=Tier.INSTANCE), changed=0, unstable=Secret(np.array([0])))
    assert caught.value.row_ids == (0,)


def test_global_tier_is_refused(ample: Ample) -> None:
    """Not differential privacy, so not under such a guarantee; nothing is charged."""
    budget = ample(tier=Tier.GLOBAL)
    rule = "tier must be instance for modulo-K labels"
    with pytest.raises(InvalidParameterError, match=rule) as caught:
        release(budget)
    assert caught.value.value == "global"
    assert budget.spends == ()


def test_every_label_must_be_known(ample: Ample) -> None:
    """The instance tier has no customers without data, and -1 is no position of a customer."""
    with pytest.raises(InvalidDataError, match="a label for all") as caught:
        release(ample(tier=Tier.INSTANCE), labels=Secret(np.array([0, -1, 1, 0, 1, 1])))
    assert caught.value.row_ids == (1,)
    with pytest.raises(InvalidDataError, match="a label for all"):
        release(ample(tier=Tier.INSTANCE), unstable=Secret(np.array([-1])))


def test_an_empty_list_has_no_labels(ample: Ample) -> None:
    """An empty list gives an empty list."""
    none = Secret(np.zeros(0, dtype=np.int64))
    assert release(ample(tier=Tier.INSTANCE), labels=none, unstable=none).size == 0


@pytest.mark.parametrize("bad", [-1, 1.5, True, "2"])
def test_bad_number_of_changes_is_refused(ample: Ample, bad: object) -> None:
    """Delta_l is a whole number; nothing is charged otherwise."""
    budget = ample(tier=Tier.INSTANCE)
    with pytest.raises(InvalidParameterError, match="changed must be a whole number"):
        release(budget, changed=bad)
    assert budget.spends == ()

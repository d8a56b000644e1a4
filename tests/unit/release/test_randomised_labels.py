"""Released labels: ids, channels, counts with error bars, totals; and what is refused."""

import math
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from wattveil import release_labels
from wattveil.arrays import Floats
from wattveil.bundle.verify.verify_budget import composed_epsilon
from wattveil.errors import InvalidDataError, InvalidParameterError, SimulatedNoiseError
from wattveil.numerics import label_channel
from wattveil.privacy import noise
from wattveil.privacy.accounting import RHO_UNITS
from wattveil.privacy.guarantee import Budget, Guarantee, Neighbours, Tier, Unit, global_guarantee
from wattveil.privacy.mechanisms import response
from wattveil.privacy.mechanisms.response import PARTS, Channel, response_channel
from wattveil.privacy.noise import NoiseSource
from wattveil.privacy.private_data import BoundRowFunction, Rows
from wattveil.release import randomised_labels as module
from wattveil.release.randomised_labels import ReleasedLabels, composed_guarantee

CENTROIDS = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])


def customers(*sizes: int) -> Floats:
    """Return so many customers at each centroid, one after the other."""
    return np.repeat(CENTROIDS[: len(sizes)], sizes, axis=0) + 0.25


def release(load_kw: Floats | None = None, **changes: object) -> ReleasedLabels:
    """Release 100 customers, or what `changes` say."""
    rows = customers(50, 30, 20) if load_kw is None else load_kw
    arguments: dict[str, object] = {
        "centroids": CENTROIDS,
        "sizes": [50.0, 30.0, 20.0],
        "epsilon": 2.0,
        "customer_ids": [f"meter {i:03}" for i in range(len(rows))],
        **changes,
    }
    return release_labels(rows, **arguments)  # type: ignore[arg-type]  # wrong ones on purpose


# --- ids ------------------------------------------------------------------------------------------


def test_pseudonyms_are_local_to_the_release() -> None:
    """The same customers twice: no pseudonym comes back, and none shows the id."""
    first, second = release(), release()
    assert not set(first.ids) & set(second.ids)
    assert len(set(first.ids)) == 100
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in first.ids)


def test_rows_come_in_the_order_of_the_published_ids() -> None:
    """Sorted by pseudonym, so the order of the internal list is not revealed."""
    released = release()
    assert list(released.ids) == sorted(released.ids)


def test_real_ids_go_with_their_labels() -> None:
    """Ids can be released unchanged; each label is that of its customer, in any order."""
    rows, names = customers(50, 30, 20), [f"{i:03}" for i in range(100)]
    shuffled = np.random.default_rng(0).permutation(100)
    released = release(
        rows[shuffled],
        customer_ids=[names[i] for i in shuffled],
        real_ids=True,
        epsilon=40.0,
    )
    assert list(released.ids) == names
    assert released.labels.tolist() == [0] * 50 + [1] * 30 + [2] * 20


def test_pseudonyms_go_with_their_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """HMAC-SHA256 of the id under the release's key, cut to 128 bits, beside the right label."""
    from hmac import new  # noqa: PLC0415 - the other way to compute it

    monkeypatch.setattr(response, "fresh_key", lambda: b"key")
    released = release(epsilon=40.0)
    expected = {
        new(b"key", f"meter {i:03}".encode(), "sha256").hexdigest()[:32]: 0 + (i >= 50) + (i >= 80)
        for i in range(100)
    }
    assert dict(zip(released.ids, released.labels.tolist(), strict=True)) == expected


def test_labels_are_written_as_they_are(tmp_path: Path) -> None:
    """One row per customer, sorted by pseudonym."""
    released = release()
    released.write_parquet(tmp_path / "labels.parquet")
    written = pq.read_table(tmp_path / "labels.parquet").to_pydict()
    assert written == {"customer": list(released.ids), "label": released.labels.tolist()}


def test_any_text_is_an_id() -> None:
    """Numbers become text; lone surrogates do not stop a release."""
    assert len(release(customers(1, 1, 1), customer_ids=[7, "\ud800", None]).ids) == 3


@pytest.mark.parametrize("ids", [["a", "b"], ["a", "b", "a"], ["a", "b", "c", "d"], [1, "1", 2]])
def test_ids_must_fit(ids: list[object]) -> None:
    """One a row, no two the same, compared as text; the error does not quote them."""
    with pytest.raises(InvalidParameterError, match="customer_ids must be one ") as caught:
        release(customers(1, 1, 1), customer_ids=ids)
    assert caught.value.value in {"another number of them", "repeated"}


# --- the guarantee --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("design", ["cheapest", "response"])
def test_guarantee_and_spends(design: str, epsilon: float) -> None:
    """Pure epsilon, global, zero-out; the charge is the channel's cost, within the guarantee."""
    released = release(epsilon=epsilon, design=design)
    assert released.guarantee == Guarantee(
        epsilon=epsilon,
        delta=0.0,
        tier=Tier.GLOBAL,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit.CUSTOMER,
    )
    (spend,) = released.spends
    assert (spend.tag, spend.mechanism) == ("labels", "channel_response")
    assert spend.response_epsilon == released.channel.epsilon(Neighbours.ZERO_OUT) <= epsilon
    assert (spend.rho_units, spend.response_delta, spend.eta) == (0, 0.0, 0.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_replace_one_equivalent(epsilon: float) -> None:
    """Twice epsilon at most, the channel's own if that is less."""
    for design in ("cheapest", "response"):
        released = release(epsilon=epsilon, design=design)
        other = released.replace_one
        assert other.neighbours is Neighbours.REPLACE_ONE
        assert other.delta == 0.0
        own = released.channel.epsilon(Neighbours.REPLACE_ONE)
        assert other.epsilon == min(own, 2.0 * epsilon)
        assert released.spends[0].response_epsilon <= other.epsilon


def test_simulated_noise_is_not_released(silent: NoiseSource) -> None:
    """Labels drawn from a test source do not leave."""
    with noise.simulate(silent), pytest.raises(SimulatedNoiseError):
        release()


def test_a_channel_that_lies_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the solver brings, only what is private in exact arithmetic is chosen."""
    honest = response_channel(n_labels=3, epsilon=2.0, neighbours=Neighbours.ZERO_OUT)
    nearly = np.full((4, 3), 1e-9)
    np.fill_diagonal(nearly, 1.0)
    nearly[-1] = 1.0 / 3.0
    monkeypatch.setattr(label_channel, "candidate_channels", lambda *_, **__: [nearly])
    assert release().channel.parts.tolist() == honest.parts.tolist()


def test_response_wins_when_it_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that is private and worse is not chosen."""
    useless = np.full((4, 3), 1.0 / 3.0)
    monkeypatch.setattr(label_channel, "candidate_channels", lambda *_, **__: [useless])
    assert release().channel.parts[0, 0] > 0.7 * PARTS


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 2.0, 4.0, 10.0, 25.0])
def test_never_worse_than_response(epsilon: float) -> None:
    """At every epsilon the chosen channel costs no more than randomised response."""
    weights = np.array([0.5, 0.3, 0.2])
    cost = label_channel.squared_distances(CENTROIDS)
    for design in ("cheapest", "response"):
        channel = module.label_design(CENTROIDS, weights, epsilon=epsilon, design=design)
        other = response_channel(n_labels=3, epsilon=epsilon, neighbours=Neighbours.ZERO_OUT)
        mine, theirs = (
            label_channel.label_cost(found.parts, cost, weights) for found in (channel, other)
        )
        assert mine <= theirs
        assert (design == "response") <= (channel.parts.tolist() == other.parts.tolist())


# --- who has which label --------------------------------------------------------------------------


def test_one_cluster() -> None:
    """All have label 0, which tells nothing and costs nothing."""
    for design in ("cheapest", "response"):
        released = release(
            customers(4), centroids=CENTROIDS[:1], sizes=[4.0], epsilon=1.0, design=design
        )
        assert released.labels.tolist() == [0, 0, 0, 0]
        assert released.spends[0].response_epsilon == 0.0
        assert released.sizes.tolist() == [4.0]
        assert released.sizes_std.tolist() == [0.0]
        assert released.shares.tolist() == [1.0]


def test_no_customers_and_no_customers_with_data() -> None:
    """No customers, one, or none with data: a valid answer of the same shape and price."""
    for rows in (np.zeros((0, 2)), customers(1), np.full((3, 2), math.nan)):
        released = release(rows)
        assert len(released.ids) == len(released.labels) == len(rows)
        assert released.sizes.shape == released.shares.shape == (3,)
        assert released.shares.sum() == pytest.approx(1.0)
        assert len(released.spends) == 1


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cached_constants")
@pytest.mark.parametrize(("design", "epsilon"), [("response", 1.0), ("cheapest", 3.0)])
def test_sizes_are_unbiased_and_their_bars_right(design: str, epsilon: float) -> None:
    """Over 200 releases the squared distance in stated errors is that of normal numbers."""
    true, runs = np.array([500, 300, 200]), 200
    rows = customers(*true)
    found = [release(rows, epsilon=epsilon, design=design) for _ in range(runs)]
    z = np.array([(one.sizes - true) / one.sizes_std for one in found])
    low, high = (float(stats.chi2.ppf(p, runs)) for p in (1e-6 / 6, 1.0 - 1e-6 / 6))
    assert (np.square(z).sum(axis=0) > 0.97 * low).all()
    assert (np.square(z).sum(axis=0) < 1.03 * high).all()
    assert np.abs(z.mean(axis=0)).max() < stats.norm.isf(1e-6) / math.sqrt(runs)
    for one in found[:5]:
        assert one.sizes.sum() == pytest.approx(1000.0)
        assert one.shares_std == pytest.approx(one.sizes_std / 1000.0)
        assert one.shares.min() >= 0.0
        assert one.shares.sum() == pytest.approx(1.0)


@pytest.mark.usefixtures("cached_constants")
def test_customers_without_data_are_counted_as_stated() -> None:
    """`absent_as` says where 2,000 customers without data turn up among the sizes."""
    rows = np.vstack([customers(500, 300, 200), np.full((2_000, 2), math.nan)])
    found = [release(rows, epsilon=1.5, design="response") for _ in range(60)]
    expected = np.array([500, 300, 200]) + 2_000 * found[0].absent_as
    mean = np.mean([one.sizes for one in found], axis=0)
    error = 1.2 * np.mean([one.sizes_std for one in found], axis=0) / math.sqrt(60)
    assert np.abs((mean - expected) / error).max() < stats.norm.isf(1e-6)
    assert found[0].absent_as.sum() == pytest.approx(1.0)
    assert found[0].absent_as == pytest.approx([1.0 / 3.0] * 3)


def test_what_the_channel_does_not_tell_has_no_bar() -> None:
    """At small epsilon rare labels are not drawn: their error is infinite, the prior stands in."""
    released = release(customers(950, 30, 20), sizes=[950.0, 30.0, 20.0], epsilon=0.1)
    assert np.isinf(released.sizes_std).any()
    assert np.isfinite(released.sizes).all()
    assert np.isfinite(release(epsilon=0.1, design="response").sizes_std).all()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("epsilon", {"epsilon": 0.0}),
        ("epsilon", {"epsilon": math.nan}),
        ("epsilon", {"epsilon": "1"}),
        ("design", {"design": "worst"}),
        ("sizes", {"sizes": [1.0, 2.0]}),
        ("sizes", {"sizes": [1.0, 2.0, math.nan]}),
        ("centroids", {"centroids": [[math.nan, 0.0]], "sizes": [1.0]}),
        ("centroids", {"centroids": [1.0, 2.0], "sizes": [1.0, 2.0]}),
        ("load_kw", {"centroids": [[1.0], [2.0], [3.0]]}),
        ("load_kw", {"centroids": [[1.0, 2.0, 3.0]] * 3}),
    ],
)
def test_bad_arguments_are_named(
    field: str, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field and rule, before anything is charged."""

    def never(*_: object, **__: object) -> None:
        pytest.fail("the data were touched")

    monkeypatch.setattr(response, "respond", never)
    with pytest.raises(InvalidParameterError, match=f"{field} must be"):
        release(None, **changes)


@pytest.mark.parametrize("shape", [(2,), (3, 0), (2, 3, 4), ()])
def test_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    """One row per customer."""
    with pytest.raises(InvalidParameterError, match="load_kw must be a matrix with one row"):
        release_labels(
            np.zeros(shape), centroids=CENTROIDS, sizes=[1, 1, 1], epsilon=1.0, customer_ids=[]
        )


def test_text_is_refused_without_quoting_it() -> None:
    """A private cell that is not a number does not appear in the error."""
    with pytest.raises(InvalidDataError, match="load_kw is an array of real numbers") as error:
        release(np.array([["meter 4711", "1"]]))
    assert "4711" not in str(error.value)


def test_the_charge_comes_before_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is exactly epsilon, all of it for the response, and the mechanism gets rows."""
    seen: list[tuple[object, ...]] = []

    def record(
        rows: object,
        ids: object,
        label_of: object,
        *,
        channel: Channel,
        budget: Budget,
        tag: str,
        real_ids: bool,
    ) -> None:
        private = isinstance(rows, Rows) and isinstance(ids, Rows)
        kinds = private, isinstance(label_of, BoundRowFunction)
        within = channel.epsilon(Neighbours.ZERO_OUT) <= 2.0
        seen.append((kinds, within, budget.grant, budget.spends, tag, real_ids))
        raise InterruptedError

    monkeypatch.setattr(response, "respond", record)
    with pytest.raises(InterruptedError):
        release()
    expected = Budget(global_guarantee(epsilon=2.0, delta=0.0), response_epsilon=2.0).grant
    assert seen == [((True, True), True, expected, (), "labels", False)]


def test_no_row_is_read_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A charge that is refused leaves the rows unread: no label is computed."""

    def refused(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(Budget, "charge", refused)
    monkeypatch.setattr(BoundRowFunction, "__call__", lambda *_: pytest.fail("a row was read"))
    with pytest.raises(InterruptedError):
        release()


# --- centroids and labels together ----------------------------------------------------------------


def budgets(centroids: float, labels: float) -> tuple[Budget, Budget]:
    """Return a Gaussian budget at delta 1e-6 and a pure one."""
    gaussian = Budget(global_guarantee(epsilon=centroids, delta=1e-6))
    return gaussian, Budget(global_guarantee(epsilon=labels, delta=0.0), response_epsilon=labels)


@pytest.mark.parametrize(
    ("centroids", "labels", "k_ary"),
    [(1.0, 1.0, 1.944), (1.0, 3.0, 3.988), (3.0, 3.0, 5.969)],
)
def test_total_of_centroids_and_labels(centroids: float, labels: float, k_ary: float) -> None:
    """At most 2.1 % above what K-ary response alone would give, below the plain sum.

    A channel chosen by released centroids may be any, so the total is that of the worst.
    """
    parts = budgets(centroids, labels)
    total = composed_guarantee(*parts, delta=1e-6)
    assert k_ary < total.epsilon < k_ary * 1.021
    assert total.epsilon < centroids + labels
    assert (total.delta, total.tier, total.neighbours) == (1e-6, Tier.GLOBAL, Neighbours.ZERO_OUT)
    assert composed_guarantee(*parts[::-1], delta=1e-6) == total
    s = math.sqrt(2.0 * parts[0].rho_units / RHO_UNITS)
    numeric = composed_epsilon(gaussian_s=[s], pure_epsilons=[labels], delta=1e-6)
    assert total.epsilon == pytest.approx(numeric, rel=2e-3)


def test_total_of_one_is_that_one() -> None:
    """Alone, each part keeps its guarantee, to the last digit for labels."""
    gaussian, pure = budgets(1.0, 2.0)
    assert composed_guarantee(pure, delta=0.0) == pure.guarantee
    assert composed_guarantee(gaussian, delta=1e-6).epsilon == pytest.approx(1.0, rel=1e-12)
    twice = composed_guarantee(pure, pure, delta=0.0)
    assert twice.epsilon == 4.0


def test_totals_of_different_kinds_do_not_mix() -> None:
    """Another relation or tier is refused, and so is a delta at which nothing is guaranteed."""
    gaussian, pure = budgets(1.0, 2.0)
    other = Budget(
        Guarantee(
            epsilon=1.0,
            delta=0.0,
            tier=Tier.GLOBAL,
            neighbours=Neighbours.REPLACE_ONE,
            unit=Unit.CUSTOMER,
        ),
        response_epsilon=1.0,
    )
    with pytest.raises(InvalidParameterError, match="neighbours must be the same"):
        composed_guarantee(gaussian, other, delta=1e-6)
    with pytest.raises(InvalidParameterError, match="epsilon must be"):
        composed_guarantee(gaussian, pure, delta=0.0)


def test_total_counts_every_grant() -> None:
    """rho, both parts of the response and eta of all budgets, and no eta where nothing is drawn."""
    guarantee = global_guarantee(epsilon=3.0, delta=1e-3)
    mixed = Budget(guarantee, response_epsilon=0.5, response_delta=1e-4)
    total = composed_guarantee(mixed, mixed, delta=2e-3)
    assert 3.0 < total.epsilon < 6.0
    once = composed_guarantee(mixed, delta=1e-3)
    assert once.epsilon == pytest.approx(3.0, rel=1e-9)
    assert composed_guarantee(mixed, delta=1.0001e-4).epsilon > 3.5  # response_delta is in it

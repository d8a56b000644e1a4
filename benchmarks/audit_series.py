"""Black-box audit of a whole chain: what an observer of all periods can show about one customer.

Run: ``python benchmarks/audit_series.py [--runs N] [--periods T] [--epsilon E] [--delta D]``. A
series of load by group, numbers of customers and segments is released N times with a hostile
customer (very large, alternating in sign, changing its group) and N times without. The observer has
the sums of load, the numbers of customers, the first estimate and lengths, and of followed segments
the sizes and the sums of steps; it does not use the clusters that were found and the counts of
steps. Half of the releases teach it what to look for, the other half decide
(`wattveil.lab.audit.epsilon_bounds`). One line per period: the cost accrued so far, and the lower
bounds on epsilon and delta from all periods up to it, at a confidence of 99 %. A bound above the
claim would refute it; an audit cannot prove it. Its power is highest at a weak claim.
"""

import argparse
import warnings

import numpy as np

from wattveil.arrays import Floats
from wattveil.lab.audit.epsilon_bounds import paired_bound
from wattveil.lab.audit.memory_state import MemoryState
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import global_guarantee
from wattveil.release.load_series import ReleasedSeries, SeriesDesign, release_load_period
from wattveil.simulate import simulate_load_kw

HOMES = np.array(simulate_load_kw(customers=30, seed=9))
FAR_KW = 1e6
LEVEL = 0.01


def main() -> None:
    """Release with and without the customer, and print the bounds."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--periods", type=int, default=4)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=0.2)
    options = parser.parse_args()
    design = SeriesDesign(
        horizon=options.periods,
        periods_per_year=1,
        guarantee=global_guarantee(epsilon=options.epsilon, delta=options.delta),
        levels={"class": ("a", "b")},
        n_segments=2,
        customers=10**6,  # refining steps in every period
    )
    sides = [
        [chain(design, is_there=is_there) for _ in range(options.runs)]
        for is_there in (True, False)
    ]
    for period in range(options.periods):
        first, second = (
            np.array([np.concatenate(run[: period + 1]) for run in side]) for side in sides
        )
        found = paired_bound(first, second, claim=design.guarantee, level=LEVEL)
        accrued = Composition(rho_units=design.accrued_units(period, (0,)))
        print(  # noqa: T201 - output of the benchmark
            f"period {period + 1}: accrued epsilon {accrued.epsilon(options.delta):.3f}; shown:"
            f" epsilon {found.epsilon:.3f} of {options.epsilon}, delta {found.delta:.3f} of"
            f" {options.delta} ({found.evidence})",
            flush=True,
        )


def chain(design: SeriesDesign, *, is_there: bool) -> list[Floats]:
    """Return what each period releases: sums, numbers of customers, segments."""
    past = ReleasedSeries(design=design)
    state = MemoryState(names_key=bytes(32))
    for period in range(design.horizon):
        load = HOMES * (1.0 + 0.1 * period)
        groups = ["ab"[row % 2] for row in range(len(load))]
        if is_there:
            load = np.vstack([load, np.full((1, 24), FAR_KW * (-1.0) ** period)])
            groups = [*groups, "ab"[period % 2]]
        past = release_load_period(
            load,
            groups={"class": groups},
            customer_ids=[f"customer {row}" for row in range(len(load))],
            past=past,
            period=period,
            state=state,
        )
    return [observed(past, period) for period in range(design.horizon)]


def observed(released: ReleasedSeries, period: int) -> Floats:
    """Return what the observer uses of the released numbers of a period: see above."""
    own = released.periods[period]
    parts = [own.sums.ravel(), *own.members.values()]
    if period == 0:
        first = released.begun()
        parts += [first.estimate.mean.ravel(), first.estimate.customers, first.lengths]
    if own.segments is not None and own.segments.sizes is not None:
        parts.append(own.segments.sizes.sizes)
        parts += [one.sums.ravel() for one in own.segments.steps]
    return np.concatenate(parts)


if __name__ == "__main__":
    main()

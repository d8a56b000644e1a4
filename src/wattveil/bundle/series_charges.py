"""Verify that the charges of a chain are those of its design, period by period.

The cost of sums of a series follows from their noise and the allowances, whatever is stated as
their charge; that of any other draw from its own noise. So each kind of draw is compared with its
own part of the budget, and none may be there that the design does not have.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from wattveil.arrays import Floats
from wattveil.privacy.guarantee import Budget, Spend
from wattveil.privacy.mechanisms.contributions import STEP
from wattveil.privacy.mechanisms.period_sums import MECHANISM
from wattveil.products.findings import same_numbers
from wattveil.release.load_series import LENGTHS, LOAD, LoadPeriod, ReleasedSeries
from wattveil.release.segment_series import SegmentPeriod, found_in, numbered, period_units

_FIRST = re.compile("number of customers|sizes|customers by group|sums of load")
"""Draws of the first estimate."""
_STEP = r"step \d+: (offsets|counts)"
_FOUND = re.compile(
    rf"number of customers|merge selection|(population mean|coarse|refining) {_STEP}"
)
"""Draws of a period that finds clusters."""


def charge_problems(released: ReleasedSeries) -> Iterator[str]:
    """Yield which charges, numbers or grids are not those of the design."""
    design = released.design
    spent: Counter[str] = Counter()
    scales: dict[str, float] = {}
    for place, one in enumerate(released.periods):
        where = f"period {one.period + 1}"
        for spend in one.spends:
            if spend.mechanism != MECHANISM:
                continue
            spent[spend.tag] += spend.rho_units
            if spent[spend.tag] != design.query(spend.tag, one.period, released=()).accrued_units():
                yield f"{where}: {spend.tag} is charged another amount than has accrued"
            if spend.drawn["scale"] != scales.setdefault(spend.tag, spend.drawn["scale"]):
                yield f"{where}: {spend.tag} has other noise than before"
        yield from (f"{where}: {problem}" for problem in _other_problems(released, place))
        yield from (f"{where}: {problem}" for problem in _number_problems(released, place))
    eta = sum(Fraction(spend.eta) for spend in released.spends)
    if eta > Fraction(Budget(design.guarantee).grant.eta):
        yield "more eta than the guarantee has"


def _other_problems(released: ReleasedSeries, place: int) -> Iterator[str]:
    """Yield which other draws of a period are not those of first estimate and segments.

    Draws before the sums are those of the first estimate, draws after them those of segments.
    """
    design, one = released.design, released.periods[place]
    sums = [at for at, spend in enumerate(one.spends) if spend.mechanism == MECHANISM]
    if sums != [*range(sums[0], sums[0] + len(sums))]:
        yield "other draws between the sums"
    before, after = one.spends[: sums[0]], one.spends[sums[-1] + 1 :]
    if place == 0:
        *first, lengths = before
        yield from _part_problems("first estimate", first, _FIRST, design.rho_units["first"])
        of_lengths = re.compile(LENGTHS)
        yield from _part_problems(LENGTHS, [lengths], of_lengths, design.rho_units["lengths"])
    elif before:
        yield "draws of a first estimate"
    if design.segments is None or one.segments is None:
        yield from (f"{spend.tag}: not of this series" for spend in after)
        return
    past = released.segments[:place]
    begun, tags = found_in(past), re.compile(rf"{_prefix(one)}, ({_STEP}|sizes)")
    if one.segments.first is not None:
        begun, tags = (*begun, one.period), _FOUND
        due = numbered(design.segments, past, one.segments).first
        if due is None or not same_numbers(one.segments.first.centres, due.centres):
            yield "segments: not numbered by those before"
    elif design.segments.is_due(one.period, begun):
        yield "segments: followed, but the plan finds them"
    units = period_units(design.segments, past, one.period, begun)
    yield from _part_problems("segments", after, tags, units)


def _part_problems(
    name: str, spends: Sequence[Spend], tags: re.Pattern[str], units: int
) -> Iterator[str]:
    yield from (f"{one.tag}: not of this series" for one in spends if not tags.fullmatch(one.tag))
    if len({one.tag for one in spends}) < len(spends):
        yield f"{name}: two draws of one name"
    if sum(one.rho_units for one in spends) != units:
        yield f"{name}: charged another amount than the design has"


def _number_problems(released: ReleasedSeries, place: int) -> Iterator[str]:
    """Yield the draws whose published numbers are not as many as stated, or not on the grid."""
    one = released.periods[place]
    published = {LOAD: one.sums, **one.members}
    if place == 0:
        published[LENGTHS] = released.begun().lengths
    if one.segments is not None:
        published |= _segment_numbers(one, one.segments)
    stated = {spend.tag: int(spend.drawn["numbers"]) for spend in one.spends}
    for tag, numbers in published.items():
        if stated.get(tag) != numbers.size:
            yield f"{tag}: other numbers than are published"
        # STEP is a power of two: the quotient is exact
        if not np.array_equal(numbers / STEP, np.rint(numbers / STEP)):
            yield f"{tag}: numbers that are not on the grid"


def _segment_numbers(one: LoadPeriod, segments: SegmentPeriod) -> dict[str, Floats]:
    """Return the published numbers of each draw of a period that follows clusters."""
    found: dict[str, Floats] = {}
    for number, step in enumerate(segments.steps, start=1):
        found[f"{_prefix(one)}, step {number}: offsets"] = step.sums
        found[f"{_prefix(one)}, step {number}: counts"] = step.counts
    if segments.sizes is not None:
        found[f"{_prefix(one)}, sizes"] = segments.sizes.sizes
    return found


def _prefix(one: LoadPeriod) -> str:
    return f"segments, period {one.period + 1}"

"""From files to arrays that can be compared: profiles with profiles, readings with readings."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattveil.errors import InvalidParameterError
from wattveil.evaluation.sample import Floats, Layout
from wattveil.ingest import read_readings
from wattveil.profiles import Hours, Profiles, Split, covered_days, hours_from_readings

_MOST_MISSING = 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class Populations:
    """Real and synthetic customers on the same columns.

    Attributes
    ----------
    real_kw, synthetic_kw : (customers, slots of all days)
        Finite.
    left_out : (int, int)
        Customers of each that were left out for gaps.
    """

    real_kw: Floats
    synthetic_kw: Floats
    layout: Layout
    left_out: tuple[int, int] = (0, 0)


def read_populations(real: Path, synthetic: Path, *, timezone: str | None) -> Populations:
    """Read two files of profiles, or two of readings, over the days that both cover."""
    kinds = [Profiles.are_in(path) for path in (real, synthetic)]
    if all(kinds):
        if timezone is not None:
            raise InvalidParameterError("timezone", "left out for profiles", timezone)
        return of_profiles(Profiles.read_parquet(real), Profiles.read_parquet(synthetic))
    if any(kinds):
        rule = "profiles if the real customers are, else readings"
        raise InvalidParameterError("synthetic", rule, "profiles" if kinds[1] else "other data")
    zone = timezone or "UTC"
    both = [read_readings(str(path), timezone=zone) for path in (real, synthetic)]
    spans = [covered_days(readings, zone) for readings in both]
    first, end = max(span[0] for span in spans), min(span[1] for span in spans)
    if end <= first:
        found = [f"{one} to {other}" for one, other in spans]
        raise InvalidParameterError("synthetic", "of days that the real ones have", found)
    hours = [
        hours_from_readings(each, first_day=first, n_days=(end - first).days, timezone=zone)
        for each in both
    ]
    return of_hours(*hours)


def of_profiles(real: Profiles, synthetic: Profiles) -> Populations:
    """Return the columns of two sets of profiles; the closing midnight is the first slot again."""
    if real.grid != synthetic.grid:
        raise InvalidParameterError("synthetic", f"on the grid {real.grid}", synthetic.grid)
    if real.timezone != synthetic.timezone:
        raise InvalidParameterError("synthetic", f"in {real.timezone}", synthetic.timezone)
    grid = real.grid
    layout = Layout(
        slots_per_day=grid.slots, days=grid.cells // grid.slots, week=grid.split is Split.WEEK
    )
    return Populations(
        real_kw=real.load_kw[:, : grid.cells],
        synthetic_kw=synthetic.load_kw[:, : grid.cells],
        layout=layout,
    )


def of_hours(real: Hours, synthetic: Hours) -> Populations:
    """Return two sets of consecutive days; customers with many gaps are left out."""
    days = [each.load_kw.shape[1] // each.slots_per_day for each in (real, synthetic)]
    when = [(each.first_day, each.slots_per_day) for each in (real, synthetic)]
    if when[0] != when[1] or days[0] != days[1]:
        raise InvalidParameterError("synthetic", f"of {days[0]} days, {when[0]}", when[1])
    loads = [_filled(each.load_kw, each.slots_per_day) for each in (real, synthetic)]
    return Populations(
        real_kw=loads[0],
        synthetic_kw=loads[1],
        layout=Layout(
            slots_per_day=real.slots_per_day,
            days=days[0],
            series=True,
            first_weekday=real.first_day.weekday(),
        ),
        left_out=(len(real.load_kw) - len(loads[0]), len(synthetic.load_kw) - len(loads[1])),
    )


def _filled(load_kw: Floats, slots_per_day: int) -> Floats:
    """Return the customers with few gaps, each gap filled from a week or a day away.

    Clocks skip a slot every spring, and hardly a meter has a whole year.
    """
    few = np.isnan(load_kw).mean(axis=1) <= _MOST_MISSING
    filled = load_kw[few]
    for days in (-7, 7, -1, 1):
        row, slot = np.nonzero(np.isnan(filled))
        source = slot + days * slots_per_day
        inside = (source >= 0) & (source < filled.shape[1])
        filled[row[inside], slot[inside]] = filled[row[inside], source[inside]]
    whole: Floats = filled[np.isfinite(filled).all(axis=1)]
    return whole

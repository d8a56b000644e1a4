"""Years of synthetic customers: typical days, and days around them, under one budget.

A customer's hours become its typical days (season, weekday and weekend), of which `LoadSynthesizer`
releases a model. Four more queries follow, of all customers together: how large they are; what the
days of a customer are like beside its typical ones, as averages over its own days; and how much
they vary in shape and in level.
"""

import datetime as dt
from collections.abc import Sequence
from functools import partial
from typing import Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from wattveil.clustering.geometry import Floats
from wattveil.engines.inputs import Load, as_rows
from wattveil.pipeline_check import warn_of_fitted_steps
from wattveil.privacy.budget import Budget
from wattveil.privacy.private_rows import IntArray, Rows
from wattveil.privacy.private_table import PrivateTable
from wattveil.profiles.grid import Split
from wattveil.release.queries import YearQueries
from wattveil.release.rows.day_features import typical_days
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.synthesis import days, tuning
from wattveil.synthesis.calendar import YearCalendar, fitting_calendar
from wattveil.synthesis.size_map import year_size_edges
from wattveil.synthesis.years import make_year_model


class YearSynthesizer(LoadSynthesizer):
    """A model of the load of customers over years, released under global differential privacy.

    Parameters
    ----------
    first_day : date
        The local day of the first slots.
    n_clusters, epsilon, delta, plausible_kw
        As in `LoadSynthesizer`; the budget is for everything together.
    slots_per_day : int
        Slots of a day, at most 96.
    split : Split
        The parts of the year that have a typical day of their own; each must occur in the data.

    Attributes
    ----------
    year_model_ : YearModel
        Released: what `sample` draws from.

    Notes
    -----
    `fit` takes one row a customer: the load in kW of all slots of consecutive local days, as
    `hours_from_readings` gives it. A day with a slot of NaN or infinity counts as missing; a
    customer without any day of some part of the year contributes nothing, by rule. Learned
    attributes of `LoadSynthesizer` are those of the typical days.

    **Formal guarantee.** (epsilon, delta)-DP for zero-out of one customer with all its days, for
    any data: what `LoadSynthesizer` queries of the typical days, three histograms and one sum,
    under one budget. A customer is in one cell of each histogram and adds one vector of length at
    most 1 to the sum, whatever the number of its days. Proof: docs/proofs/adaptive-transcript.md.
    """

    def __init__(
        self,
        *,
        first_day: dt.date,
        n_clusters: int = 6,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        plausible_kw: tuple[float, float] = (0.04, 40.0),
        slots_per_day: int = 24,
        split: Split = Split.SEASON_WEEKDAY_WEEKEND,
    ) -> None:
        super().__init__(n_clusters=n_clusters, epsilon=epsilon, delta=delta)
        self.plausible_kw = plausible_kw
        self.slots_per_day: int = slots_per_day
        self.first_day = first_day
        self.split = split

    def fit(self, X: Load, y: object = None) -> Self:  # noqa: N803, ARG002 - scikit-learn's
        """Release the model of customers from the load of all their days.

        Parameters
        ----------
        X : (P, days times slots)
            Load in kW, one row a customer; P may be 0. `Rows` are left where their engine has them.
        y : None
            Ignored.
        """
        warn_of_fitted_steps()
        budget = Budget(self.guarantee())
        hours = as_rows(X, partial(super()._plain_rows, reset=True))
        calendar = self._calendar(hours.width)
        queries = YearQueries(PrivateTable(hours, budget), calendar)
        self._release(queries.typical_days(), budget, share=tuning.TYPICAL_SHARE)
        self._find_days(queries, calendar, budget)
        self.guarantee_, self.spends_ = budget.guarantee, budget.spends
        self.public_choices_ = self.get_params()
        return self

    def sample(
        self, n_customers: int, *, seed: int, by: Sequence[float] | None = None
    ) -> tuple[Floats, IntArray]:
        """Draw customers with the calendar of the data: free. See `YearModel.sample`."""
        check_is_fitted(self)
        return self.year_model_.sample(n_customers, seed=seed, by=by)

    def _plain_rows(self, X: ArrayLike, *, reset: bool = False) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return the exact typical days of customers, private to the caller."""
        hours = super()._plain_rows(X, reset=reset)
        calendar = self._calendar(hours.shape[1])
        return typical_days(hours, parts=calendar.parts, n_parts=calendar.n_parts)[0]

    def _private_rows(self, X: Load, *, reset: bool) -> Rows[Floats]:  # noqa: N803 - scikit-learn's name
        """Return the typical days of customers: what clusters and labels are of."""
        hours = as_rows(X, partial(super()._plain_rows, reset=reset))
        calendar = self._calendar(hours.width)
        return hours.map(typical_days.bind(parts=calendar.parts, n_parts=calendar.n_parts))

    def _calendar(self, columns: int) -> YearCalendar:
        """Return the public calendar of rows of this length."""
        return fitting_calendar(
            columns, first_day=self.first_day, n_slots=self.slots_per_day, split=self.split
        )

    def _find_days(self, queries: YearQueries, calendar: YearCalendar, budget: Budget) -> None:
        """Query sizes, days and spreads with the remaining budget."""
        size_units, spread_units = map(budget.share, (tuning.SIZE_SHARE, tuning.SPREAD_SHARE))
        edges = year_size_edges(self.plausible_kw)
        sizes = queries.sizes(edges, rho_units=size_units)
        units = budget.remaining_rho_units - 2 * spread_units
        (sums, std), shapes, levels = queries.days(
            days.spread_edges(), rho_units=units, spread_units=spread_units
        )
        self.year_model_ = make_year_model(
            self.model_,
            calendar,
            sizes=(*sizes, edges),
            moments=(sums[0], std),
            spreads=(shapes, levels),
        )

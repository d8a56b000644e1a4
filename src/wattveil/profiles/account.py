"""The rules that profiles are made by, and the account of what became of readings and customers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wattveil import checks
from wattveil.errors import InvalidParameterError
from wattveil.ingest.options import known_zone
from wattveil.ingest.report import IngestReport
from wattveil.profiles.grid import Grid


@dataclass(frozen=True, kw_only=True)
class ProfileRules:
    """What `profiles_from_readings` is told; its docstring says what each one does."""

    grid: Grid
    timezone: str
    least_days: int
    longest_gap_hours: float | None

    def __post_init__(self) -> None:
        """Check what does not depend on the readings."""
        known_zone("timezone", self.timezone)
        checks.integer("least_days", self.least_days, least=1)
        if self.longest_gap_hours is not None:
            checks.positive("longest_gap_hours", self.longest_gap_hours)

    def check_lengths(self, lengths: Sequence[int]) -> None:
        """Refuse a grid that no reading can fill; otherwise each is judged by its own length."""
        check_lengths("grid.minutes", self.grid.minutes, lengths)

    def to_json(self, report: IngestReport) -> dict[str, object]:
        """Return these rules and those of reading: a release states them."""
        return {
            "readings": report.options,
            "guesses": list(report.guesses),
            "grid": self.grid.to_json(),
            "timezone": self.timezone,
            "least_days": self.least_days,
            "longest_gap_hours": self.longest_gap_hours,
        }


def check_lengths(name: str, slot_minutes: int, lengths: Sequence[int]) -> None:
    """Refuse slots of which no length that occurs is a part."""
    if all(slot_minutes % length for length in lengths):
        rule = f"a multiple of the readings' {min(lengths)} minutes"
        raise InvalidParameterError(name, rule, slot_minutes)


@dataclass(frozen=True, kw_only=True)
class ProfileAccount:
    """How many readings and customers there are and were left out: exact, in house only.

    The accounts of customers that are read apart add up to that of all.
    """

    readings: IngestReport
    straddling: int  # readings that lie in two cells of the grid
    unfit: int  # readings whose length does not divide a cell
    profiles: int
    customers_dropped: Mapping[str, int]
    without_attributes: int = 0

    @property
    def customers_in(self) -> int:
        """How many customers the source names."""
        return self.profiles + sum(self.customers_dropped.values())

    def plus(self, other: "ProfileAccount") -> "ProfileAccount":
        """Return the account of both."""
        dropped = Counter(self.customers_dropped) + Counter(other.customers_dropped)
        return replace(
            self,
            readings=self.readings.plus(other.readings),
            straddling=self.straddling + other.straddling,
            unfit=self.unfit + other.unfit,
            profiles=self.profiles + other.profiles,
            customers_dropped=dict(dropped),
            without_attributes=self.without_attributes + other.without_attributes,
        )

    def to_json(self) -> dict[str, object]:
        """Return the account as a file of profiles keeps it."""
        return {
            "readings": self.readings.to_json(),
            "readings_in_two_cells": self.straddling,
            "readings_of_unfit_length": self.unfit,
            "customers_dropped": dict(self.customers_dropped),
            "customers_without_attributes": self.without_attributes,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any], profiles: int) -> "ProfileAccount":
        """Read an account from its JSON values, which do not say how many profiles there are."""
        return cls(
            readings=IngestReport.from_json(record["readings"]),
            straddling=record["readings_in_two_cells"],
            unfit=record["readings_of_unfit_length"],
            profiles=profiles,
            customers_dropped=record["customers_dropped"],
            without_attributes=record["customers_without_attributes"],
        )


@dataclass(frozen=True, kw_only=True)
class WrittenProfiles:
    """Profiles in a file or a folder, and how they came about: in house only."""

    path: str
    rules: ProfileRules
    account: ProfileAccount
    median_kw: float | None  # of the customers' mean loads; None without profiles
    largest_kw: float | None

    def to_json(self) -> dict[str, object]:
        """Return all that can be said without a customer, as JSON values."""
        return {
            "private": True,
            "out": self.path,
            "customers": self.account.customers_in,
            "profiles": self.account.profiles,
            "columns": self.rules.grid.columns,
            "timezone": self.rules.timezone,
            "rules": self.rules.to_json(self.account.readings),
            "account": self.account.to_json(),
        }

"""Account of how profiles came about: exact counts of readings and customers. Internal."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wattveil.errors import NoUsableReadingError
from wattveil.profiles.profiles import ProfileRules
from wattveil.readings.options import Implausible
from wattveil.readings.plausibility import MAX_MEDIAN_KW, implausible_median
from wattveil.readings.row_checks import ReadingReport
from wattveil.web.formatting import format_count

NO_USABLE_READING = "no usable reading"


@dataclass(frozen=True, kw_only=True)
class ProfileAccount:
    """Exact counts of readings and customers, used and dropped: internal only.

    The accounts of customers that are read separately add up to that of all.
    """

    readings: ReadingReport
    straddling: int  # readings that lie in two cells of the grid
    unfit: int  # readings whose length does not divide a cell
    profiles: int
    customers_dropped: Mapping[str, int]
    without_attributes: int = 0

    @property
    def customers_in(self) -> int:
        """Number of customers in the source."""
        return self.profiles + sum(self.customers_dropped.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the readings, those not used, and customers lost by unreadable stamps."""
        found = [*self.readings.warnings]
        lost = self.customers_dropped.get(NO_USABLE_READING, 0)
        if lost and self.readings.loses_stamps:
            usable = NO_USABLE_READING.removeprefix("no ")
            found.append(f"{format_count(lost, 'customer')} without any {usable}")
        if self.straddling:
            spans = "spans" if self.straddling == 1 else "span"
            found.append(
                f"not used: {format_count(self.straddling, 'reading')} that {spans} two slots"
            )
        if self.unfit:
            number = format_count(self.unfit, "reading")
            found.append(f"not used: {number} of a length that divides no slot")
        return tuple(found)

    def check_median(self, median_kw: float | None) -> None:
        """Reject an implausible median load of all profiles: a sample of rows may not show it."""
        accepted = self.readings.options.get("implausible") == Implausible.ACCEPT
        if median_kw is not None and abs(median_kw) > MAX_MEDIAN_KW and not accepted:
            files = self.readings.files
            path = files[0] if len(files) == 1 else f"{len(files)} files"
            raise implausible_median(path, median_kw)

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
        """Return the account as JSON values, as a file of profiles stores it."""
        return {
            "readings": self.readings.to_json(),
            "readings_in_two_cells": self.straddling,
            "readings_of_unfit_length": self.unfit,
            "customers_dropped": dict(self.customers_dropped),
            "customers_without_attributes": self.without_attributes,
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any], profiles: int) -> "ProfileAccount":
        """Return the account of JSON values, which lack the number of profiles."""
        return cls(
            readings=ReadingReport.from_json(record["readings"]),
            straddling=record["readings_in_two_cells"],
            unfit=record["readings_of_unfit_length"],
            profiles=profiles,
            customers_dropped=record["customers_dropped"],
            without_attributes=record["customers_without_attributes"],
        )


def left_out(dropped: Mapping[str, int]) -> str:
    """Return that no customer is left, and why: counts by reason."""
    counts = (f"{customers:,} had {reason}" for reason, customers in dropped.items())
    return f"no customer is left: {', '.join(counts) or 'the source names none'}"


def no_customer_left(account: ProfileAccount, path: object) -> NoUsableReadingError:
    """Return the error about readings of which no profile can be made."""
    told = (path, "all customers", "a customer with enough readings", None)
    return NoUsableReadingError(*told, problem=f": {left_out(account.customers_dropped)}")


@dataclass(frozen=True, kw_only=True)
class WrittenProfiles:
    """Profiles in a file or a folder, with their account: internal only."""

    path: str
    rules: ProfileRules
    account: ProfileAccount
    median_kw: float | None  # of the customers' mean loads; None without profiles
    largest_kw: float | None
    warnings: tuple[str, ...]
    """For the data holder: they may name customers."""
    replaced: bool = False
    """Whether there was a file of this name."""
    attribute_values: Mapping[str, tuple[Mapping[str, int], int]] = field(default_factory=dict)
    """Of each attribute: customers by value, and the number of values not listed."""

    def to_json(self) -> dict[str, object]:
        """Return everything except rows of customers, as JSON values."""
        return {
            "private": True,
            "out": self.path,
            "customers": self.account.customers_in,
            "profiles": self.account.profiles,
            "columns": self.rules.grid.columns,
            "timezone": self.rules.zone,
            "rules": self.rules.to_json(self.account.readings),
            "account": self.account.to_json(),
            "attribute_values": {
                name: {"customers": dict(counts), "values_not_listed": more}
                for name, (counts, more) in self.attribute_values.items()
            },
            "warnings": list(self.warnings),
            "replaced": self.replaced,
        }

"""The account of `wattveil profiles` on the screen: tables and warnings. Exact: internal."""

from typing import TYPE_CHECKING

from rich.table import Table

from wattveil.profiles.build import EXTREME
from wattveil.profiles.profile_account import WrittenProfiles
from wattveil.profiles.profiles import ProfileRules
from wattveil.profiles.quality import WITHOUT_ATTRIBUTES
from wattveil.readings import ReadOptions
from wattveil.readings.options import UTC_PROFILES, Implausible
from wattveil.terminal import Console, plain
from wattveil.web.formatting import format_count, format_number

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark.spark_profiles import SparkBuild
    from wattveil.profiles.build import ProfileBuild

_SHOWN_IDS = 5
_MIN_MEDIAN_KW = 0.01  # a smaller median load is more likely another unit
_MAX_MEDIAN_KW = 5.0  # a home uses 0.2 to 3 kW on average; power that is read as energy, 4 times so


def assumed_zone(rules: ProfileRules, options: ReadOptions) -> tuple[str, ...]:
    """Return a warning if nobody stated the time zone of the profiles."""
    if not rules.assumes_utc(options):
        return ()
    return (f"No --timezone {UTC_PROFILES}, such as --timezone Europe/Berlin",)


def extreme(made: "ProfileBuild | SparkBuild") -> tuple[str, ...]:
    """Return a warning of customers whose unit may be another one, with names where known."""
    if not made.n_extreme:
        return ()
    found = f"{format_count(made.n_extreme, 'customer')} with over {EXTREME} times the median load"
    if names := made.extreme_ids:
        found += ": " + ", ".join(names[:_SHOWN_IDS]) + (", …" if len(names) > _SHOWN_IDS else "")
    return (f"{found}; check their unit, such as Wh among kWh",)


def small_load(median_kw: float | None) -> tuple[str, ...]:
    """Return a warning if the median load is that of a unit that is wrong a thousandfold."""
    if median_kw is None or abs(median_kw) >= _MIN_MEDIAN_KW:
        return ()
    found = f"the median load is {format_number(median_kw)} kW, below {_MIN_MEDIAN_KW:g} kW"
    return (f"{found}: the unit may be wrong; state it, such as --unit kWh",)


def large_load(made: "ProfileBuild | SparkBuild") -> tuple[str, ...]:
    """Return a warning if the median load is above that of homes, unless the caller accepts it."""
    accepted = made.account.readings.options.get("implausible") == Implausible.ACCEPT
    median_kw = made.median_kw
    if accepted or median_kw is None or abs(median_kw) <= _MAX_MEDIAN_KW:
        return ()
    found = f"the median load is {format_number(median_kw)} kW, above {_MAX_MEDIAN_KW:g} kW"
    remedy = "check --unit, or state --implausible accept if the customers are not homes"
    return (f"{found}: more than homes use; {remedy}",)


def show(console: Console, made: WrittenProfiles, *, listed: bool) -> None:
    """Print the account of readings and customers, and warnings."""
    account, grid = made.account, made.rules.grid
    console.print(account.readings.table())
    for note, count in account.readings.remarks.items():
        console.print(f"In the source: {plain(note)} ({count:,})", highlight=False)
    table = Table("", "customers", title="Customers", title_justify="left")
    table.columns[1].justify = "right"
    table.add_row("found in the source", f"{account.customers_in:,}")
    for reason, customers in account.customers_dropped.items():
        table.add_row(f"dropped: {reason}", f"{customers:,}")
    table.add_row("profiles", f"{account.profiles:,}")
    if account.without_attributes:
        table.add_row(WITHOUT_ATTRIBUTES, f"{account.without_attributes:,}")
    console.print(table)
    _show_attributes(console, made)
    if account.customers_dropped and not listed:
        console.print("Add --problems-to FILE to list the dropped customers and rows.")
    warn(made.warnings)
    if made.median_kw is None or made.largest_kw is None:
        return
    console.print(  # shows Wh that were taken for kWh
        f"The median customer's mean load is {format_number(made.median_kw)} kW, the largest"
        f" {format_number(made.largest_kw)} kW."
    )
    console.print(
        f"{format_count(account.profiles, 'profile')} of {format_count(grid.columns, 'column')}"
        f" ({made.rules.zone}) in {plain(made.path)}{' (replaced)' if made.replaced else ''}."
        " [red]Private:[/] exact values without protection; do not publish."
    )


def _show_attributes(console: Console, made: WrittenProfiles) -> None:
    """Print the values of attributes with their counts, to check the spelling of groups."""
    if not made.attribute_values:
        return
    table = Table("attribute", "value", "profiles", title="Attributes", title_justify="left")
    table.columns[2].justify = "right"
    for name, (counts, more) in made.attribute_values.items():
        for value, customers in counts.items():
            table.add_row(plain(name), plain(value), f"{customers:,}")
        if more:
            table.add_row(plain(name), f"(values not listed: {more:,})", "")
    console.print(table)
    console.print(
        "Use exactly these spellings in --levels. That list is published: take the groups"
        " from public knowledge, not from these exact counts, which are private."
    )


def warn(found: tuple[str, ...]) -> None:
    """Print what may be wrong for most users, on stderr."""
    console = Console(stderr=True)
    for warning in found:
        console.print(f"[bold red]Warning:[/] {plain(warning)}", highlight=False)

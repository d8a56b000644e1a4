"""The account of `wattveil profiles` on the screen: tables, hints and warnings. Exact: internal."""

from rich.console import Console
from rich.table import Table

from wattveil.profiles.build import EXTREME, ProfileBuild
from wattveil.profiles.profile_account import WrittenProfiles
from wattveil.profiles.profiles import ProfileRules
from wattveil.profiles.quality import WITHOUT_ATTRIBUTES
from wattveil.readings import ReadOptions
from wattveil.readings.options import UTC_PROFILES
from wattveil.readings.row_checks import Drop
from wattveil.terminal import plain
from wattveil.web.formatting import format_count, format_number

_SHOWN_IDS = 5
_MIN_MEDIAN_KW = 0.01  # a smaller median load is more likely another unit


def assumed_zone(rules: ProfileRules, options: ReadOptions) -> tuple[str, ...]:
    """Return a warning if nobody stated the time zone of the profiles."""
    if not rules.assumes_utc(options):
        return ()
    return (f"No --timezone {UTC_PROFILES}, such as --timezone Europe/Berlin",)


def extreme(build: ProfileBuild) -> tuple[str, ...]:
    """Return a warning that names customers whose unit may be another one."""
    if not (names := build.extreme_ids):
        return ()
    shown = ", ".join(names[:_SHOWN_IDS]) + (", …" if len(names) > _SHOWN_IDS else "")
    number = format_count(len(names), "customer")
    found = f"{number} with over {EXTREME} times the median load: {shown}"
    return (f"{found}; check their unit, such as Wh among kWh",)


def small_load(median_kw: float | None) -> tuple[str, ...]:
    """Return a warning if the median load is that of a unit that is wrong a thousandfold."""
    if median_kw is None or abs(median_kw) >= _MIN_MEDIAN_KW:
        return ()
    found = f"the median load is {format_number(median_kw)} kW, below {_MIN_MEDIAN_KW:g} kW"
    return (f"{found}: the unit may be wrong; state it, such as --unit kWh",)


def show(console: Console, made: WrittenProfiles, *, listed: bool) -> None:
    """Print the account of readings and customers, hints and warnings."""
    account, grid = made.account, made.rules.grid
    console.print(account.readings.table())
    table = Table("", "customers", title="Customers", title_justify="left")
    table.columns[1].justify = "right"
    table.add_row("named in the source", f"{account.customers_in:,}")
    for reason, customers in account.customers_dropped.items():
        table.add_row(f"dropped: {reason}", f"{customers:,}")
    table.add_row("profiles", f"{account.profiles:,}")
    if account.without_attributes:
        table.add_row(WITHOUT_ATTRIBUTES, f"{account.without_attributes:,}")
    console.print(table)
    if account.customers_dropped and not listed:
        console.print("Add --problems-to FILE to list the dropped customers and rows.")
    if skipped := account.readings.dropped.get(Drop.SPRING_GAP.text):
        number, are = format_count(skipped, "reading"), "is" if skipped == 1 else "are"
        console.print(
            f"{number} {are} in an hour that does not exist in"
            f" {account.readings.options.get('timezone')}. If the stamps are in UTC or another"
            " zone, add --stamps-in UTC."
        )
    if account.readings.dropped.get(Drop.CONFLICT.text):
        console.print(
            "Conflicting duplicates are two values for one interval. If all are in an hour in which"
            " clocks change, check --timezone. For all others, --conflicts sets the rule."
        )
    if account.straddling:
        number = format_count(account.straddling, "reading")
        does = "spans two slots and was" if account.straddling == 1 else "span two slots and were"
        console.print(f"[yellow]{number}[/] {does} not used.")
    if account.unfit:
        number = format_count(account.unfit, "reading")
        console.print(f"[yellow]Not used:[/] {number} of a length that divides no slot.")
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


def warn(found: tuple[str, ...]) -> None:
    """Print what may be wrong for most users, on stderr."""
    console = Console(stderr=True)
    for warning in found:
        console.print(f"[bold red]Warning:[/] {plain(warning)}", highlight=False)

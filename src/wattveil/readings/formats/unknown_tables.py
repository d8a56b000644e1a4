"""Tables of unknown formats that are staged as known ones are: one home, or columns named by times.

Their columns are found by name, as in `table_columns`. A table without a column of customers is one
home, named by the caller or by its file: two files never become one home. Which columns hold its
energy must be clear from their names; otherwise the caller names it.
"""

from collections.abc import Iterable

from wattveil.readings.formats.column_names import unit_in_name
from wattveil.readings.formats.known_formats import (
    Header,
    KnownFormat,
    Recognised,
    day_slots,
    stamp_columns,
)
from wattveil.readings.formats.table_columns import ColumnSearch
from wattveil.readings.options import FileLayout, MeasuredIn, ReadOptions

_EXPORT = {
    *("export", "exported", "returned", "return", "injection", "injected", "injectie", "feed"),
    *("teruglevering", "teruggeleverd", "einspeisung", "immissione", "vertida", "received"),
    *("surplus", "excedente", "feedin"),
}
_POWER = {MeasuredIn.W, MeasuredIn.KW}
_INSIDE = {
    *("solar", "pv", "production", "produced", "generation", "generated", "battery", "appliance"),
    *("gas", "water", "m3", "therms", "temperature", "temp", "humidity", "voltage", "current"),
    *("cost", "price", "rate", "status", "quality", "flag", "frequency", "weather"),
}


def recognise_table(header: Header, options: ReadOptions, path: object) -> Recognised | None:
    """Return the columns of a table that has to be staged, or None."""
    search = ColumnSearch(list(header.names), options, path)
    if options.layout in {None, FileLayout.WIDE} and day_slots(header.names, options.stamp):
        return _one_row_per_day(header, search)
    if options.layout not in {None, FileLayout.LONG} or search.customer() is not None:
        return None
    return _one_home(header, search, options)


def _one_row_per_day(header: Header, search: ColumnSearch) -> Recognised:
    roles = {"date": search.date(), "customer": search.customer(), **search.describing()}
    known = KnownFormat(
        name="table with one column per interval of the day",
        columns={"date": "date"},
        layout="day",
        unknown=True,
    )
    return _recognised(known, header, roles)


def _one_home(header: Header, search: ColumnSearch, options: ReadOptions) -> Recognised | None:
    stamp = search.stamp()
    if not stamp or stamp_columns(header.names):
        return None
    found = _energies(search, options, {*stamp.values()})
    if not found["delivered"] and not found["net"]:
        return None
    if found["net"]:
        found["delivered"], found["received"] = (), ()
    described = {*stamp.values(), *search.describing().values()}
    if options.customer is None and any(
        not (name in described or search.tells(name) or search.is_value(name))
        for name in header.names
    ):
        return None  # a column without a meaning may name customers
    if any(len(names) > 1 for names in found.values()):
        several = [name for names in found.values() for name in names]
        raise search.refuse(
            f"one column of values, or columns={{'value': …}}; several could be it: {several[:6]}"
        )
    end = options.stamp or search.stamp_end(stamp)
    known = KnownFormat(
        name="table of one home",
        columns={"stamp": "stamp"},
        cumulative=options.cumulative,
        stamp="instant" if options.cumulative else end.value,
        unit=(options.unit.value if options.unit else "kWh"),
        unknown=True,
    )
    values = {role: names[0] for role, names in found.items() if names}
    return _recognised(known, header, {**stamp, **values, **search.describing()})


def _energies(
    search: ColumnSearch, options: ReadOptions, taken: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the columns that hold energy of the home, by direction."""
    if given := options.columns.get("value"):
        return {"delivered": (given,), "received": (), "net": ()}
    found: dict[str, tuple[str, ...]] = {"delivered": (), "received": (), "net": ()}
    described = {*search.describing().values(), *taken}
    for name in search.likely_values():
        words = set(search.plain[name].split("_"))
        if name in described or words & _INSIDE:
            continue
        role = "received" if words & _EXPORT else "net" if "net" in words else "delivered"
        found[role] += (name,)
    power = [n for n in found["delivered"] if unit_in_name(search.plain[n]) in _POWER]
    if 0 < len(power) < len(found["delivered"]):  # energy is exact, power beside it is not needed
        found["delivered"] = tuple(n for n in found["delivered"] if n not in power)
    return found


def _recognised(known: KnownFormat, header: Header, roles: dict[str, str | None]) -> Recognised:
    found = {role: (name,) for role, name in roles.items() if name is not None}
    return Recognised(format=known, header=header, roles=found)

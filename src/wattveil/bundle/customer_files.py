"""Files of synthetic customers: profiles, CSV and Green Button, and the list of all formats.

Synthetic customers are drawn from a released model: post-processing, at no privacy cost. The
formats of planning tools are in `planner_files`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from wattveil import checks
from wattveil.bundle import planner_files
from wattveil.bundle.bundle_files import read_manifest, read_table
from wattveil.bundle.drawn_customers import FIRST_DAY, Batch, Batches, Drawn, read_buses, remove
from wattveil.bundle.group_level import DrawnMean, group_level
from wattveil.bundle.group_years import year_mix
from wattveil.errors import InvalidParameterError, one_of
from wattveil.numerics.synthesis.population_model import BATCH, SyntheticModel, n_batches
from wattveil.numerics.synthesis.temperature_levels import TemperatureResponse
from wattveil.products.synthesis import MODEL, read_model
from wattveil.products.years import YEAR_MODEL, read_year_model
from wattveil.profiles import Profiles, TimeGrid
from wattveil.profiles.profiles import read_record

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark.spark_engine import SparkEngine

METADATA = "wattveil.synthetic"
"""Name of the origin of synthetic years in the metadata of a Parquet file."""
_MAX_CUSTOMERS = 10**9
_MAX_DAYS = 10 * 366
_FIRST_SECOND = int(FIRST_DAY.timestamp())
_ESPI, _ATOM = "http://naesb.org/espi", "http://www.w3.org/2005/Atom"


class YearSample(NamedTuple):
    """The days of a sample of years, and their weather; None takes those of the data."""

    first_day: date | None = None
    n_days: int | None = None
    temperatures_c: Mapping[date, float] | None = None
    """Public daily mean temperatures, of the days of the data and of the sample."""
    temperature_file: str | None = None
    """Name of the file of temperatures, which the origin of the customers states."""

    def response(self, bundle: Path) -> TemperatureResponse | None:
        """Return the response of load to temperature by which the years are drawn."""
        if self.temperatures_c is None:
            return None
        return read_year_model(bundle).temperature_response(self.temperatures_c)

    def drawn(
        self, bundle: Path, customers: int, seed: int, group: str | None, loads: Mapping[str, Any]
    ) -> Drawn:
        """Return customers that are drawn from the model of years of a bundle."""
        model, (grid, timezone) = read_year_model(bundle), _clock(bundle)
        by, level = None, None
        if group is not None:
            by = year_mix(bundle, group_mix(bundle, group), model)
            level = group_level(bundle, group, by, model)
        drawn = None if level is None else DrawnMean(level=level, comparable=self == YearSample())
        first = model.calendar.first_day if self.first_day is None else self.first_day
        n_days = model.calendar.n_days if self.n_days is None else self.n_days
        checks.integer("days", n_days, minimum=1, maximum=_MAX_DAYS)
        origin = {
            **loads["origin"],
            "years": True,
            "first_day": first.isoformat(),
            "days": n_days,
            "timezone": timezone,
        }
        if self.temperatures_c is not None:
            response = model.temperature_response(self.temperatures_c)
            origin["temperature_file"] = self.temperature_file
            origin["temperature_response"] = response.statement

        def batches() -> Batches:
            place = 0
            for own_kw, clusters in model.batches(
                customers,
                random_state=seed,
                by=by,
                first_day=first,
                n_days=n_days,
                temperatures_c=self.temperatures_c,
            ):
                names = [f"S{number:09}" for number in range(place, place + len(own_kw))]
                load_kw = own_kw if drawn is None else drawn.add(own_kw, first)
                yield names, clusters, load_kw
                place += len(names)

        return Drawn(
            batches=batches(),
            customers=customers,
            grid=grid,
            timezone=timezone,
            days=(first, n_days),
            group_mean=drawn,
            **{**loads, "origin": origin},
        )


def write_customers(
    bundle: Path,
    out: str | Path,
    *,
    customers: int,
    seed: int,
    kind: str | None = None,
    buses: Path | None = None,
    power_factor: float | None = None,
    engine: "SparkEngine | None" = None,
    years: YearSample | None = None,
    group: str | None = None,
    force: bool = False,
) -> DrawnMean | None:
    """Write synthetic customers to a file or folder, which appears when it is complete.

    Return the mean load of years of a group, whose own mean load was released; else None.

    Parameters
    ----------
    bundle
        Folder of a release with a synthetic model.
    out
        New file, or new folder for a format of several files.
    customers, seed
        Number of customers, and the seed of their selection; unrelated to the privacy noise.
    kind
        Name of a format in `FORMATS`; by the ending of ``out`` if omitted.
    buses
        CSV file of buses, which makes loads of the customers (formats of planning tools).
    power_factor
        Of all customers, lagging (formats of planning tools); the model has active power only.
        `planner_files.POWER_FACTOR` if omitted.
    engine
        Spark: executors write a folder of Parquet files.
    years
        Draw years from the model of years, on these days and with this weather; None draws
        profiles.
    group
        Draw customers with the released cluster shares of this group; None is all customers.
    force
        Overwrite an existing file.
    """
    path = Path(out)
    chosen = _chosen_format(out, kind, spark=engine is not None)
    if engine is None:
        checks.local_path("out", path)
        if path.exists() and (not force or path.is_dir()):
            rule = "a new folder" if path.is_dir() else "a new file unless --force is given"
            raise InvalidParameterError("out", rule, str(out))
    if not chosen.has_loads:
        _refuse_loads(buses=buses, power_factor=power_factor)
    checks.integer("customers", customers, minimum=1, maximum=_MAX_CUSTOMERS)
    checks.integer("seed", seed, minimum=0)
    factor = planner_files.POWER_FACTOR if power_factor is None else power_factor
    if not 0.0 < checks.finite("power_factor", factor) <= 1.0:
        raise InvalidParameterError("power_factor", "above 0 and at most 1", factor)
    at_buses = None if buses is None else read_buses(buses)
    origin = _origin(bundle, customers=customers, seed=seed, group=group)
    origin |= {"power_factor": factor} if chosen.has_loads else {}
    loads: dict[str, Any] = {"power_factor": factor, "buses": at_buses, "origin": origin}
    if years is not None:
        if engine is not None:
            raise InvalidParameterError("years", "omitted with --engine spark", "given")
        sample = years.drawn(bundle, customers, seed, group, loads)
        _write(path, chosen, sample)
        return sample.group_mean
    model, (grid, timezone) = _model_of_days(bundle), _clock(bundle)
    by = None if group is None else group_mix(bundle, group)

    def batch(number: int) -> Batch:
        load_kw, clusters = model.batch(number, customers, random_state=seed, by=by)
        first = number * BATCH
        return [f"S{place:09}" for place in range(first, first + len(load_kw))], clusters, load_kw

    if engine is not None:
        engine.write_profiles(
            lambda number: _profiles(batch(number), grid, timezone, origin),
            n_batches(customers),
            out,
            force=force,
        )
        return None
    batches = map(batch, range(n_batches(customers)))
    drawn = Drawn(batches=batches, customers=customers, grid=grid, timezone=timezone, **loads)
    _write(path, chosen, drawn)
    return None


def _refuse_loads(**options: object) -> None:
    """Refuse options of loads for a format that has none."""
    for name, value in options.items():
        if value is not None:
            kinds = [kind for kind, one in FORMATS.items() if one.has_loads]
            rule = f"omitted, unless --format is {one_of(kinds)}"
            raise InvalidParameterError(name, rule, str(value))


def _model_of_days(bundle: Path) -> SyntheticModel:
    """Return the model of average days of a bundle; refuse a bundle with a model of years only."""
    if not (bundle / MODEL).exists() and (bundle / YEAR_MODEL).exists():
        text = "This bundle has synthetic years but no model of average days. Add --years"
        raise InvalidParameterError("years", "", value=False, text=text)
    return read_model(bundle)


def check_order(real: Path, synthetic: Path, *, field: str) -> None:
    """Refuse synthetic customers in the place of real ones: the files are probably swapped.

    Parameters
    ----------
    real, synthetic
        Files as given. A file that states no origin, such as CSV, is accepted in both places.
    field
        Name of the first in the message.
    """
    first, second = (synthetic_origin(path) for path in (real, synthetic))
    if first is None:
        return
    found = f"synthetic customers of the release {first}"
    other = "no synthetic ones" if second is None else f"those of the release {second}"
    rule = f"real customers, and the second file, {synthetic}, synthetic ones (it has {other})"
    raise InvalidParameterError(field, rule, f"{real}, {found}")


def synthetic_origin(path: Path) -> str | None:
    """Return the release from which the customers of a file were drawn; None if it states none."""
    return _stated(path, "release_id")


def synthetic_timezone(path: Path) -> str | None:
    """Return the time zone of the days of synthetic years; None if the file states none."""
    return _stated(path, "timezone")


def _stated(path: Path, name: str) -> str | None:
    """Return a field of the origin that a file states."""
    try:
        if Profiles.are_in(path):
            origin = json.loads(read_record(path) or "{}").get("rules", {}).get("synthetic", {})
        else:
            metadata = pq.read_schema(path).metadata or {}
            origin = json.loads(metadata.get(METADATA.encode(), b"{}"))
        found = origin.get(name)
    except (OSError, ValueError, AttributeError, pa.ArrowException):  # the reader will refuse it
        return None
    return None if found is None else str(found)


def group_mix(bundle: Path, group: str) -> list[float]:
    """Return the released share of each cluster in a group, for ``by`` of a sample.

    Parameters
    ----------
    bundle
        Folder of a release with the product shares.
    group
        Value of the attribute by which the customers were grouped.
    """
    if read_manifest(bundle)["request"]["by"] is None:
        raise InvalidParameterError(
            "group", "omitted: this bundle has no groups; release with --by", group
        )
    shares = read_table(bundle, "cluster_shares").to_pydict()
    rows = [row for row, name in enumerate(shares["group"]) if name == group]
    if not rows:
        raise InvalidParameterError("group", one_of(dict.fromkeys(shares["group"])), group)
    rows.sort(key=lambda row: shares["cluster"][row])
    return [shares["share"][row] for row in rows]


def _origin(bundle: Path, *, customers: int, seed: int, group: str | None) -> dict[str, object]:
    """Return the public facts that a file states about its release and its sample."""
    manifest = read_manifest(bundle)
    return {
        "release_id": manifest["release_id"],
        "guarantee": manifest["guarantee"],
        "customers": customers,
        "group": group,
        "seed": seed,
        "years": False,
        "wattveil": version("wattveil"),
    }


def _clock(bundle: Path) -> tuple[TimeGrid, str]:
    """Return the grid and the time zone of the profiles of a release."""
    public = read_manifest(bundle)["profiles"]
    return TimeGrid.from_json(public["grid"]), public["timezone"]


def _write(path: Path, chosen: "CustomerFormat", drawn: Drawn) -> None:
    """Write a file or folder, which appears when it is complete."""
    part = path.with_name(path.name + ".part")
    try:
        chosen.write(part, drawn)
        part.replace(path)
    finally:
        remove(part)


class CustomerFormat(NamedTuple):
    """A format of synthetic customers."""

    write: Callable[[Path, Drawn], None]
    ending: str
    """Of the file; empty for a folder."""
    has_loads: bool = False
    """Whether customers become loads at buses."""


def _chosen_format(out: str | Path, name: str | None, *, spark: bool) -> CustomerFormat:
    """Return the format of a name, or of the ending of a path."""
    ending = Path(out).suffix
    if spark and (ending != ".parquet" or name not in (None, "parquet")):
        rule = "a folder whose name ends in .parquet with --engine spark"
        raise InvalidParameterError("out", rule, str(out))
    if name is None:
        endings = {one.ending: one for one in FORMATS.values() if one.ending}
        if ending not in endings:
            rule = f"a file whose name ends in {' or '.join(endings)}, or given with --format"
            raise InvalidParameterError("out", rule, str(out))
        return endings[ending]
    if name not in FORMATS:
        raise InvalidParameterError("kind", one_of(FORMATS), name)
    chosen = FORMATS[name]
    if ending != chosen.ending:
        rule = f"a file whose name ends in {chosen.ending}" if chosen.ending else "a folder"
        raise InvalidParameterError("out", f"{rule} for the format {name}", str(out))
    return chosen


def _profiles(
    batch: Batch, grid: TimeGrid, timezone: str, origin: Mapping[str, object]
) -> Profiles:
    """Return a batch as `Profiles`, so that it is accepted wherever profiles are."""
    ids, clusters, load_kw = batch
    return Profiles(
        customer_ids=tuple(ids),
        load_kw=load_kw,
        grid=grid.without_days,
        timezone=timezone,
        attributes={"cluster": tuple(map(str, clusters.tolist()))},
        rules={"synthetic": dict(origin)},
    )


def write_parquet(path: Path, drawn: Drawn) -> None:
    """Write profiles, or readings of years."""
    if drawn.days is None:
        tables = (
            _profiles(one, drawn.grid, drawn.timezone, drawn.origin).to_arrow("profiles")
            for one in drawn.batches
        )
    else:
        tables = (_readings(one, drawn) for one in drawn.batches)
    _write_tables(tables, lambda schema: pq.ParquetWriter(path, schema, compression="zstd"))


def _write_tables(tables: Iterator[pa.Table], opened: Callable[[pa.Schema], Any]) -> None:
    """Write tables of one schema to one file."""
    first = next(tables)
    with opened(first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _readings(batch: Batch, drawn: Drawn) -> pa.Table:
    """Return years as readings: one row per slot, in order of customers."""
    ids, clusters, own_kw = batch
    instants, columns = drawn.instants
    times = np.array([time.replace(tzinfo=None) for time in instants], "datetime64[us]")
    load_kw = own_kw[:, columns]
    hours = drawn.grid.minutes / 60.0
    length = load_kw.shape[1]
    return pa.table(
        {
            "customer_id": pa.array(np.repeat(np.array(ids, dtype=object), length), pa.string()),
            "cluster": pa.array(np.repeat(clusters, length).astype(str), pa.string()),
            "start_utc": pa.array(np.tile(times, len(ids)), pa.timestamp("us", tz="UTC")),
            "minutes": pa.array(np.full(load_kw.size, drawn.grid.minutes, dtype=np.int16)),
            "kwh": pa.array(load_kw.ravel() * hours),
        },
        metadata={METADATA: drawn.origin_text},
    )


def _write_csv(path: Path, drawn: Drawn) -> None:
    """Write one row per customer and one column per slot; of years, readings."""
    if drawn.days is not None:
        tables = (_readings(one, drawn) for one in drawn.batches)
        _write_tables(tables, lambda schema: pc.CSVWriter(path, schema))
        return
    loads = [(label, pa.float64()) for label in drawn.grid.labels]
    schema = pa.schema([("customer_id", pa.string()), ("cluster", pa.int64()), *loads])
    with pc.CSVWriter(path, schema) as writer:
        for ids, clusters, load_kw in drawn.batches:
            arrays = [pa.array(ids), pa.array(clusters), *(pa.array(slot) for slot in load_kw.T)]
            writer.write_table(pa.table(arrays, schema=schema))


def _write_green_button(path: Path, drawn: Drawn) -> None:
    """Write a Green Button feed: net energy in whole Wh, one usage point per customer."""
    seconds, hours = 60 * drawn.grid.minutes, drawn.grid.minutes / 60.0
    if drawn.days is None:
        columns = list(range(drawn.cells))
        starts = [_FIRST_SECOND + place * seconds for place in columns]
    else:
        instants, columns = drawn.instants
        starts = [int(instant.timestamp()) for instant in instants]
    with path.open("w", encoding="utf-8") as file:
        file.write(f'<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="{_ATOM}">\n')
        file.write(f"<title>{escape(drawn.comment)}</title>\n")
        # uom 72: Wh; flowDirection 4: net, delivered less received.
        codes = f"<flowDirection>4</flowDirection><intervalLength>{seconds}</intervalLength>"
        codes += "<powerOfTenMultiplier>0</powerOfTenMultiplier><uom>72</uom>"
        file.write(
            _entry("ReadingType/1", "", f'<ReadingType xmlns="{_ESPI}">{codes}</ReadingType>')
        )
        for name, row in drawn.rows():
            wh = [round(1000.0 * hours * kw) for kw in row[columns]]
            file.write(_customer(name, wh, seconds, starts))
        file.write("</feed>\n")


def _customer(name: str, watt_hours: list[int], seconds: int, starts: list[int]) -> str:
    """Return a customer's entries: usage point, meter reading, one block of intervals."""
    point = f"UsagePoint/{name}"
    reading = f"{point}/MeterReading/1"
    intervals = "".join(
        f"<IntervalReading><timePeriod><duration>{seconds}</duration>"
        f"<start>{start}</start></timePeriod>"
        f"<value>{value}</value></IntervalReading>"
        for start, value in zip(starts, watt_hours, strict=True)
    )
    span = starts[-1] + seconds - starts[0]
    whole = f"<duration>{span}</duration><start>{starts[0]}</start>"
    whole = f"<interval>{whole}</interval>"
    service = "<ServiceCategory><kind>0</kind></ServiceCategory>"
    return (
        _entry(
            point,
            f'<link rel="related" href="{point}/MeterReading"/>',
            f'<UsagePoint xmlns="{_ESPI}">{service}</UsagePoint>',
        )
        + _entry(
            reading,
            f'<link rel="up" href="{point}/MeterReading"/>'
            f'<link rel="related" href="{reading}/IntervalBlock"/>'
            '<link rel="related" href="ReadingType/1"/>',
            f'<MeterReading xmlns="{_ESPI}"/>',
        )
        + _entry(
            f"{reading}/IntervalBlock/1",
            f'<link rel="up" href="{reading}/IntervalBlock"/>',
            f'<IntervalBlock xmlns="{_ESPI}">{whole}{intervals}</IntervalBlock>',
        )
    )


def _entry(link: str, links: str, content: str) -> str:
    own = f'<link rel="self" href="{link}"/>'
    return f"<entry>{own}{links}<content>{content}</content></entry>\n"


FORMATS = {
    "parquet": CustomerFormat(write_parquet, ".parquet"),
    "csv": CustomerFormat(_write_csv, ".csv"),
    "green-button": CustomerFormat(_write_green_button, ".xml"),
    "opendss": CustomerFormat(planner_files.write_opendss, ".dss", has_loads=True),
    "pandapower": CustomerFormat(planner_files.write_pandapower, "", has_loads=True),
    "simbench": CustomerFormat(planner_files.write_simbench, "", has_loads=True),
    "gridlabd": CustomerFormat(planner_files.write_gridlabd, "", has_loads=True),
    "series": CustomerFormat(planner_files.write_series, "", has_loads=True),
}
"""Formats of `wattveil synthesize`, by name."""

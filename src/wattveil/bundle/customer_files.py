"""Files of synthetic customers: profiles, CSV and Green Button, and the list of all formats.

Synthetic customers are drawn from a released model: post-processing, at no privacy cost. The
formats of planning tools are in `planner_files`.
"""

import json
from collections.abc import Callable, Iterator, Mapping
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
from wattveil.bundle.bundle_files import read_manifest
from wattveil.bundle.drawn_customers import (
    FIRST_DAY,
    Batch,
    Batches,
    Drawn,
    DrawnLoad,
    read_buses,
    remove,
)
from wattveil.bundle.group_level import DrawnMean, group_level
from wattveil.bundle.group_years import group_mix
from wattveil.bundle.released_groups import group_warnings
from wattveil.bundle.year_samples import YearSample, clock
from wattveil.errors import InvalidParameterError, one_of
from wattveil.numerics.synthesis.population_model import BATCH, SyntheticModel, n_batches
from wattveil.products.synthesis import MODEL, read_model
from wattveil.products.years import YEAR_MODEL
from wattveil.profiles import Profiles, TimeGrid
from wattveil.profiles.profiles import read_record

if TYPE_CHECKING:  # pyspark is an extra
    from wattveil.engines.spark.spark_engine import SparkEngine

METADATA = "wattveil.synthetic"
"""Name of the origin of synthetic years in the metadata of a Parquet file."""
_MAX_CUSTOMERS = 10**9
_FIRST_SECOND = int(FIRST_DAY.timestamp())
_ESPI, _ATOM = "http://naesb.org/espi", "http://www.w3.org/2005/Atom"


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
    load: DrawnLoad | None = None,
) -> DrawnMean | None:
    """Write synthetic customers to a file or folder, which appears when it is complete.

    Return the mean load of customers of a group, whose own mean load was released; else None. With
    Spark it is that of the first batch.

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
        CSV file of buses, which makes loads of the customers (formats of planning tools). Their
        segments are drawn by chance; without buses, numbers of customers follow the mix exactly.
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
    load
        Sums the load of the customers, but with Spark.
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
        _write(path, chosen, sample if load is None else load.counted(sample))
        return sample.group_mean
    drawn, batch = _days_drawn(bundle, customers, seed, group, loads)
    if engine is None:
        _write(path, chosen, drawn if load is None else load.counted(drawn))
        return drawn.group_mean
    public = (drawn.grid, drawn.timezone, drawn.origin)
    engine.write_profiles(
        lambda number: _profiles(batch(number), *public), n_batches(customers), out, force=force
    )
    if drawn.group_mean is not None:
        drawn.group_mean.add(batch(0)[2], None)
    return drawn.group_mean


def _days_drawn(
    bundle: Path, customers: int, seed: int, group: str | None, loads: Mapping[str, Any]
) -> tuple[Drawn, Callable[[int], Batch]]:
    """Return customers that are drawn from the model of average days, and one batch by number."""
    model, (grid, timezone) = _model_of_days(bundle), clock(bundle)
    by, level, origin = None, None, dict(loads["origin"])
    if group is not None:
        by = group_mix(bundle, group)
        level = group_level(bundle, group, by, model)
        origin |= group_warnings(bundle, group, level)
    mean = None if level is None else DrawnMean(level=level, comparable=True)

    def batch(number: int) -> Batch:
        load_kw, clusters = model.batch(
            number, customers, random_state=seed, by=by, random_mix=loads["buses"] is not None
        )
        load_kw = load_kw if level is None else level.apply(load_kw, None)
        first = number * BATCH
        return [f"S{place:09}" for place in range(first, first + len(load_kw))], clusters, load_kw

    def batches() -> Batches:
        for number in range(n_batches(customers)):
            found = batch(number)
            if mean is not None:
                mean.add(found[2], None)
            yield found

    drawn = Drawn(
        batches=batches(),
        customers=customers,
        grid=grid,
        timezone=timezone,
        group_mean=mean,
        **{**loads, "origin": origin},
    )
    return drawn, batch


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


def check_average_days(path: Path, *, field: str) -> None:
    """Refuse synthetic years where average days are compared.

    Parameters
    ----------
    path
        File as given. One that states no origin is left to its reader.
    field
        Its name in the message.
    """
    if not Profiles.are_in(path) and synthetic_origin(path) is not None:
        rule = (
            "customers with average days: years are not supported on a feeder. Compare them with"
            " the raw readings by `wattveil evaluate READINGS YEARS`, or draw average days"
            " (`wattveil synthesize` without --years)"
        )
        raise InvalidParameterError(field, rule, f"{path}, which has synthetic years")


def synthetic_origin(path: Path) -> str | None:
    """Return the release from which the customers of a file were drawn; None if it states none."""
    return _stated(path, "release_id")


def synthetic_timezone(path: Path) -> str | None:
    """Return the time zone of the days of synthetic years; None if the file states none."""
    return _stated(path, "timezone")


def group_mismatch(real: Path, synthetic: Path) -> str:
    """Return a warning if synthetic customers are those of one group and the real ones may not be.

    Parameters
    ----------
    real, synthetic
        Files as given. Real profiles are of the group if all have one attribute with its name.
    """
    group = _stated(synthetic, "group")
    if group is None:
        return ""
    known = Profiles.read_parquet(real).attributes.values() if Profiles.are_in(real) else ()
    if any(set(column) == {group} for column in known):
        return ""
    return (
        f"the synthetic customers are those of the group {group}, and nothing shows that the real"
        " ones are: differences between the group and all customers count as errors. Compare with"
        " real customers of the group."
    )


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

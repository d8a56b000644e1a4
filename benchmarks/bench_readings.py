"""Readings to profiles against plain DuckDB and pandas: ratios of one run, each in its own process.

    python benchmarks/bench_readings.py --folder bench

All compute the average day of each customer. DuckDB does only that, by the hour of UTC
(plain: without options; typed: with the columns of a CSV file declared) or by the hour of the zone
(zoned: the same result as Wattveil). Wattveil also checks every row, looks for duplicates, takes
the hour of a zone with its changes of clocks, and measures coverage. pandas does these too, for a
tenth of the readings, scaled up. Processes alternate, and the best of the repeats counts. Limits
are relative to the faster of plain and typed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb

_ZONE = "America/Chicago"
_COLUMNS = "{'customer_id': 'VARCHAR', 'start_utc': 'TIMESTAMP', 'kwh': 'DOUBLE'}"
_HOURS = 8760
_PANDAS_SHARE = 10
_LIMITS = {"parquet": 1.5, "csv": 1.3}
_MIN_GAIN_ON_PANDAS = 3.0
_MAX_MEMORY_MB = 1000


def make_files(folder: Path, readings: int) -> None:
    """Make a year of hourly readings of as many customers as it takes, by customer and time."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name, rows in (("whole", readings), ("slice", readings // _PANDAS_SHARE)):
        if (folder / f"{name}.csv").exists():
            continue
        connection.execute(f"""
            COPY (
                SELECT 'C' || lpad((i // {_HOURS})::VARCHAR, 8, '0') AS customer_id,
                       TIMESTAMPTZ '2023-01-01 00:00:00+00' + to_hours(i % {_HOURS}) AS start_utc,
                       round(0.2 + abs(sin(i * 0.7)) + hash(i) % 1000 / 1000, 3) AS kwh
                FROM range({rows}) AS t(i)
            ) TO '{folder}/{name}.parquet' (FORMAT parquet)
        """)
        connection.execute(f"""
            COPY (
                SELECT customer_id, strftime(start_utc, '%Y-%m-%d %H:%M:%S') AS start_utc, kwh
                FROM '{folder}/{name}.parquet'
            ) TO '{folder}/{name}.csv'
        """)


def plain_duckdb(path: str) -> int:
    """Run the plain query."""
    connection = duckdb.connect()
    query = f"SELECT customer_id, hour(start_utc) AS h, avg(kwh) FROM '{path}' GROUP BY ALL"
    return connection.sql(query).to_arrow_table().num_rows


def typed_duckdb(path: str) -> int:
    """Run the same query with declared columns, without type detection."""
    connection = duckdb.connect()
    source = f"read_csv('{path}', header = true, columns = {_COLUMNS})"
    if path.endswith(".parquet"):
        source = f"'{path}'"
    query = f"SELECT customer_id, hour(start_utc) AS h, avg(kwh) FROM {source} GROUP BY ALL"
    return connection.sql(query).to_arrow_table().num_rows


def zoned_duckdb(path: str) -> int:
    """Run the same query by the hour of the zone, with DuckDB's own time zones."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    hour = f"hour(timezone('{_ZONE}', start_utc::TIMESTAMPTZ))"
    query = f"SELECT customer_id, {hour} AS h, avg(kwh) FROM '{path}' GROUP BY ALL"
    return connection.sql(query).to_arrow_table().num_rows


def wattveil(path: str) -> int:
    """Build profiles as `wattveil profiles` does."""
    from wattveil.profiles import profiles_from_readings  # noqa: PLC0415
    from wattveil.readings import read_readings  # noqa: PLC0415 -- imports are not timed with peers

    return profiles_from_readings(read_readings(path), timezone=_ZONE).load_kw.size


def with_pandas(path: str) -> int:
    """Do the work of Wattveil with pandas: check rows, find duplicates, average, count days."""
    import numpy as np  # noqa: PLC0415 -- beside its peer
    import pandas as pd  # noqa: PLC0415 -- a peer, not a dependency

    frame = pd.read_parquet(path) if path.endswith(".parquet") else pd.read_csv(path)
    stamps = pd.to_datetime(frame["start_utc"], utc=True, errors="coerce")
    kwh = pd.to_numeric(frame["kwh"], errors="coerce")
    frame = frame.assign(start_utc=stamps, kwh=kwh)
    frame = frame[np.isfinite(kwh) & stamps.notna() & (frame["customer_id"] != "")]
    frame = frame[~frame.duplicated(["customer_id", "start_utc"])]
    local = frame["start_utc"].dt.tz_convert(_ZONE)
    frame = frame.assign(hour=local.dt.hour, day=local.dt.normalize())
    days = frame.groupby("customer_id")["day"].nunique()
    averages = frame.groupby(["customer_id", "hour"])["kwh"].mean()
    return len(averages) + len(days)


_PEERS = {
    "plain": plain_duckdb,
    "typed": typed_duckdb,
    "zoned": zoned_duckdb,
    "wattveil": wattveil,
    "pandas": with_pandas,
}


def measure(peer: str, path: Path) -> dict[str, float]:
    """Run a peer in a process of its own."""
    command = [sys.executable, __file__, "--child", peer, "--path", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 -- itself
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def child(peer: str, path: str) -> None:
    """Time a peer and print the figures; its imports come first."""
    import pyarrow.dataset  # noqa: F401, PLC0415 -- DuckDB imports it with the first table

    if peer == "wattveil":
        import wattveil.profiles  # noqa: F401, PLC0415 -- not timed
    if peer == "pandas":
        import pandas  # noqa: F401, ICN001, PLC0415 -- not timed
    wall, cpu = time.perf_counter(), time.process_time()
    rows = _PEERS[peer](path)
    figures = {
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": _peak_mb(),
        "rows": rows,
    }
    sys.stdout.write(json.dumps(figures) + "\n")


def _peak_mb() -> float:
    """Return the peak memory of this process; getrusage would count its parent's too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) / 1024


def best(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the minimum time and the peak memory over some runs."""
    return {
        "wall_s": min(run["wall_s"] for run in runs),
        "cpu_s": min(run["cpu_s"] for run in runs),
        "peak_mb": max(run["peak_mb"] for run in runs),
    }


def compare(folder: Path, kind: str, repeats: int, peers: list[str]) -> bool:
    """Print the table of one kind of file; return whether the limits hold."""
    runs: dict[str, list[dict[str, float]]] = {peer: [] for peer in peers}
    for _ in range(repeats):
        for peer in peers:
            name = "slice" if peer == "pandas" else "whole"
            runs[peer].append(measure(peer, folder / f"{name}.{kind}"))
    figures = {peer: best(found) for peer, found in runs.items()}
    if "pandas" in figures:
        figures["pandas"]["wall_s"] *= _PANDAS_SHARE
        figures["pandas"]["cpu_s"] *= _PANDAS_SHARE
    ours = figures["wattveil"]
    sys.stdout.write(f"\n{kind}: wall s, cpu s, peak MB, wattveil / peer by wall and by cpu\n")
    for peer, found in figures.items():
        sys.stdout.write(
            f"  {peer:9} {found['wall_s']:8.2f} {found['cpu_s']:8.2f} {found['peak_mb']:7.0f}"
            f" {ours['wall_s'] / found['wall_s']:7.2f} {ours['cpu_s'] / found['cpu_s']:7.2f}\n"
        )
    peer = min(figures[name]["wall_s"] for name in ("plain", "typed") if name in figures)
    holds = ours["wall_s"] <= _LIMITS[kind] * peer
    holds &= ours["peak_mb"] < _MAX_MEMORY_MB
    if "pandas" in figures:
        holds &= ours["wall_s"] * _MIN_GAIN_ON_PANDAS <= figures["pandas"]["wall_s"]
    return holds


def main() -> int:
    """Make the files, run all peers, and fail if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readings", type=int, default=100_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("bench"))
    parser.add_argument("--peers", default="plain,typed,zoned,wattveil,pandas")
    parser.add_argument("--child", choices=list(_PEERS))
    parser.add_argument("--path")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.path)
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    make_files(options.folder, options.readings)
    sys.stdout.write(f"{options.readings:,} readings, {os.cpu_count()} processors\n")
    peers = options.peers.split(",")
    results = [compare(options.folder, kind, options.repeats, peers) for kind in _LIMITS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

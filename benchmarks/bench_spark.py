"""Spark against one machine: cost per round and per reading, and speed-up by a second worker.

    PYTHONPATH=. python benchmarks/bench_spark.py --customers 1000 --days 365

Everything runs on this machine, on a cluster of a master and one or two workers of one core each
(`tests.spark_cluster`). Clocks are of little use on a machine that does other work, so processor
time is counted as well: of the driver, of the master and of all that the workers started. Profiles
of both must be identical to the bit. A quarter of the customers goes first, to warm up, and
does not count. The last lines scale the cost of a reading up.

Options: --customers and --days, of hourly readings (1000 and 365). --job is for the script itself,
which starts its drivers with it. `bench_spark_big.py` goes to 100 million customer-days.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

from tests.spark_cluster import Cluster, spark_cluster
from wattveil.engines.local import LocalRows
from wattveil.privacy.mechanisms.contributions import BlockSums, Query
from wattveil.privacy.private_data import Rows
from wattveil.profiles import Profiles, TimeGrid
from wattveil.profiles.profiles import ProfileRules
from wattveil.release.rows.load_features import nearest_offsets

_ROUNDS, _SLOTS, _WARM_UP = 10, 24, 3
_RULES = ProfileRules(grid=TimeGrid(), timezone="America/Chicago", min_days=14, max_gap_hours=None)
_CUSTOMER_DAYS = 100_000_000
_METERS, _QUARTERS_A_YEAR = 10_000_000, 4 * 8760
_CORES = 320
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure, in processes of their own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--customers", type=int, default=1000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--job", nargs=3, metavar=("MASTER", "SOURCE", "OUT"), default=None)
    arguments = parser.parse_args()
    if arguments.job is not None:
        _job(*arguments.job)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = _make_readings(folder / "all", arguments.customers, arguments.days)
        _make_readings(folder / "quarter", arguments.customers // 4, arguments.days)
        readings = 24 * arguments.customers * arguments.days
        here = _here(source)
        _print("one machine", here, readings)
        for workers in (1, 2):
            with spark_cluster(workers) as cluster:
                there = _there(cluster, source, folder / f"out-{workers}")
            _print(f"{workers} worker(s)", there, readings)
            made = Profiles.read_parquet(folder / f"out-{workers}-all")
            assert made.load_kw.tobytes() == here["profiles"].load_kw.tobytes()
        _print_scaled(there["cpu"] / readings)


def _make_readings(source: Path, customers: int, days: int) -> Path:
    """Write hourly readings, one file per month, each sorted by time and customer."""
    source.mkdir()
    for first in range(0, days, 30):
        last = min(first + 30, days)
        duckdb.sql(f"""
            COPY (
                SELECT 'C' || lpad(c::VARCHAR, 8, '0') AS customer_id,
                       make_timestamptz(1672531200000000 + h * 3600000000) AS start_utc,
                       round(0.2 + abs(sin(h * 0.7)) + hash(c, h) % 1000 / 1000, 3) AS kwh
                FROM range({24 * first}, {24 * last}) AS hours(h), range({customers}) AS homes(c)
                ORDER BY h, c
            ) TO '{source}/{first:04}.parquet' (FORMAT parquet)
        """)
    return source


def _here(source: Path) -> dict:
    """Make profiles in this process, in one thread."""
    from wattveil.profiles.build import build_profiles  # noqa: PLC0415
    from wattveil.readings import read_readings  # noqa: PLC0415 - timed apart from Spark's job

    readings = read_readings(source, minutes=60, timezone=_RULES.zone)
    readings.connection.execute("SET threads = 1")
    began, cpu = time.perf_counter(), time.process_time()
    profiles = build_profiles(readings, _RULES).profiles
    clock, cpu = time.perf_counter() - began, time.process_time() - cpu
    rounds = _rounds(LocalRows(_customers()))
    return {"clock": clock, "cpu": cpu, "profiles": profiles, "round": rounds}


def _there(cluster: Cluster, source: Path, out: Path) -> dict:
    """Make profiles on the cluster, with a driver of its own."""
    command = [sys.executable, __file__, "--job", cluster.master, str(source), str(out)]
    conf = "--conf spark.ui.enabled=false --conf spark.driver.host=127.0.0.1"
    conf += " --conf spark.executor.memory=768m --conf spark.sql.shuffle.partitions=8"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": f"{conf} pyspark-shell"}
    ran = subprocess.run(  # noqa: S603 - ourselves
        command, env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr[-3000:])
    return json.loads(ran.stdout.splitlines()[-1])


def _job(master: str, source: str, out: str) -> None:
    """Run the driver."""
    from wattveil.engines.spark.spark_engine import SparkEngine  # noqa: PLC0415
    from wattveil.engines.spark.spark_rows import SparkRows  # noqa: PLC0415
    from wattveil.engines.spark.spark_session import spark_session  # noqa: PLC0415
    from wattveil.readings.options import ReadOptions  # noqa: PLC0415

    session = spark_session(master)
    session.sparkContext.setLogLevel("ERROR")
    rows = session.createDataFrame(
        [(row,) for row in _customers().tolist()], "load_kw array<double>"
    ).persist()
    rounds = _rounds(SparkRows(rows, np.zeros((0, _SLOTS))))
    rows.unpersist()
    options = ReadOptions(minutes=60, timezone=_RULES.zone)
    top = int(os.environ["WATTVEIL_BENCH_PID"])
    found = {"round": rounds}
    for name in ("quarter", "all"):
        began, cpu = time.perf_counter(), cpu_of(top)
        path = Path(source).with_name(name)
        readings = SparkEngine(session).read_readings(path, options, memory_mb=600)
        readings.profiles(_RULES).write_parquet(f"{out}-{name}")
        found |= {"clock": time.perf_counter() - began, "cpu": cpu_of(top) - cpu}
    sys.stdout.write(json.dumps(found) + "\n")
    session.stop()


def _customers() -> np.ndarray:
    return np.random.default_rng(1).lognormal(size=(2000, _SLOTS))


def _rounds(rows: Rows[np.ndarray]) -> float:
    """Return the median wall time of a clustering step of one cell: 24 sums and a count."""
    queries = [
        Query(tag="offsets", rho_units=1, n_cells=1, n_features=_SLOTS),
        Query(tag="counts", rho_units=1, n_cells=1),
    ]
    work = nearest_offsets.bind(
        centres=np.zeros((1, _SLOTS)), radii=np.ones(1), colour=np.ones(_SLOTS), shells=np.zeros(0)
    )
    clocks = []
    for _ in range(_WARM_UP + _ROUNDS):
        began = time.perf_counter()
        rows.add_up(BlockSums(queries, work))
        clocks.append(time.perf_counter() - began)
    return statistics.median(clocks[_WARM_UP:])


def cpu_of(top: int) -> float:
    """Return the processor time of a process and all below it, ended ones that were waited for too.

    Of the cluster they are all below this process; a worker's executors are below the worker.
    """
    children: dict[int, list[int]] = {}
    times: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue  # gone meanwhile
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            times[int(entry.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [top]
    while waiting:
        process = waiting.pop()
        total += times.get(process, 0)
        waiting += children.get(process, [])
    return total / _TICKS


def _print(place: str, found: dict, readings: int) -> None:
    sys.stdout.write(
        f"{place:12} | {readings:,} readings: {found['clock']:.1f} s by the clock,"
        f" {found['cpu']:.1f} s of processor, {1e6 * found['cpu'] / readings:.2f} us a reading"
        f" | a round {1e3 * found['round']:.1f} ms\n"
    )
    sys.stdout.flush()


def _print_scaled(cpu_a_reading: float) -> None:
    for what, readings in (
        (f"{_CUSTOMER_DAYS:,} customer-days of hours", 24 * _CUSTOMER_DAYS),
        (f"{_METERS:,} meters, a year of quarters", _METERS * _QUARTERS_A_YEAR),
    ):
        hours = cpu_a_reading * readings / 3600
        sys.stdout.write(
            f"scaled up: {what}: {readings:,} readings, {hours:,.0f} core hours,"
            f" {hours / _CORES:,.1f} hours on {_CORES} cores\n"
        )


if __name__ == "__main__":
    os.environ.setdefault("WATTVEIL_BENCH_PID", str(os.getpid()))
    main()

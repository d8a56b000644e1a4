"""Many customer-days through `wattveil profiles --engine spark`: cost, memory and correctness.

    PYTHONPATH=. python benchmarks/bench_spark_big.py --customer-days 100000000 --folder big

Hourly readings are made with DuckDB, in files of a month of some thousand customers each, so that
every customer is in many files. Faults are planted: values that are missing, equal duplicates,
conflicting duplicates. The command then runs on this machine. Printed: rows per second, CPU time,
the largest memory of each kind of process, bytes that Spark shuffled. Checked: the number of
customers and of readings, the account of what was dropped and merged against what was planted, and
the profiles of some customers, to the bit, against those that one machine makes of their rows.

Options: --customer-days, how many; --days, per customer (365); --folder, for the readings, which
are left there: files that it has already are not made again, so a run that was stopped goes on;
--master (local[2]); --partitions, of the shuffle (200). About 2 bytes of disk a reading are needed
for the readings, and as much again for what is shuffled.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq

from benchmarks.bench_spark import cpu_of
from wattveil.profiles import profiles_from_readings
from wattveil.readings import read_readings
from wattveil.readings.row_checks import Drop, Merge

_CUSTOMERS_A_FILE, _DAYS_A_FILE = 20_000, 30
_NO_VALUE, _EQUAL, _CONFLICT = 97, 101, 103
"""One customer in this many has a fault: in hours 5, 30 and 40 of the first two days."""
_ZONE = "America/Chicago"
_SAMPLE = 300


def main() -> None:
    """Make readings, run the command, print and check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--customer-days", type=int, required=True)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--partitions", type=int, default=200)
    given = parser.parse_args()
    customers = given.customer_days // given.days
    given.folder.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    files = _make_readings(given.folder, customers, given.days)
    size = sum(path.stat().st_size for path in files)
    _say(f"{len(files)} files, {size / 1e9:.2f} GB, {time.perf_counter() - began:.0f} s to make")
    with tempfile.TemporaryDirectory(dir=given.folder) as work:
        ran = _run(files, Path(work), given.master, given.partitions)
        made = json.loads(ran["said"])
        readings = made["account"]["readings"]["rows_in"]
        _say(
            f"{customers:,} customers x {given.days} days, {readings:,} readings:"
            f" {ran['clock']:.0f} s by the clock, {readings / ran['clock']:,.0f} a second,"
            f" {ran['cpu']:.0f} s of processor, {1e6 * ran['cpu'] / readings:.3f} us a reading"
        )
        for kind, memory in ran["memory"].items():
            _say(f"  peak memory, {kind}: {memory / 1e6:,.0f} MB")
        _say(f"  shuffled: {_shuffled(Path(work)) / 1e9:.2f} GB")
        _check(made, customers, given.days)
        _check_sample(Path(work), files, customers)
    _say("all as planted; the sample is the same to the bit as on one machine")


def _make_readings(folder: Path, customers: int, days: int) -> list[Path]:
    """Write the files that are not there yet; one that is there is complete."""
    files = []
    for first in range(0, customers, _CUSTOMERS_A_FILE):
        last = min(first + _CUSTOMERS_A_FILE, customers)
        for day in range(0, days, _DAYS_A_FILE):
            end = min(day + _DAYS_A_FILE, days)
            files.append(folder / f"{customers}-{days}-day-{day:04}-from-{first:08}.parquet")
            if not files[-1].exists():
                part = files[-1].with_suffix(".part")
                duckdb.sql(f"""
                    COPY ({_rows(f"range({first}, {last})", 24 * day, 24 * end)})
                    TO '{part}' (FORMAT parquet, COMPRESSION zstd)
                """)
                part.rename(files[-1])
    return sorted(files)


def _rows(homes: str, first: int, last: int) -> str:
    """Write the SELECT of readings of homes between hours, by customer and time, with faults."""
    plain = f"""
        SELECT c, h, hash(c, h) % 50 / 50 + (c % 10) / 4 AS kwh
        FROM {homes} AS homes(c), range({first}, {last}) AS hours(h)
    """
    return f"""
        SELECT 'C' || lpad(c::VARCHAR, 8, '0') AS customer_id,
               make_timestamptz(1672531200000000 + h * 3600000000) AS start_utc,
               CASE WHEN c % {_NO_VALUE} = 0 AND h = 5 THEN NULL ELSE kwh END AS kwh
        FROM (
            FROM ({plain})
            UNION ALL (FROM ({plain}) WHERE c % {_EQUAL} = 0 AND h = 30)
            UNION ALL (SELECT c, h, kwh + 1 FROM ({plain}) WHERE c % {_CONFLICT} = 0 AND h = 40)
        )
    """


def _run(files: list[Path], work: Path, master: str, partitions: int) -> dict:
    """Run the command and monitor its processes."""
    command = [sys.executable, "-m", "wattveil", "profiles", *map(str, files), "--minutes", "60"]
    command += ["--timezone", _ZONE, "--engine", "spark", "--master", master, "--json"]
    (work / "log").mkdir()
    conf = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": partitions,
        "spark.local.dir": work,
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (work / "log").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    words = " ".join(f"--conf {name}={value}" for name, value in conf.items())
    began = time.perf_counter()
    with (work / "said").open("w") as said, (work / "errors").open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [*command, "--out", str(work / "out")],
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{words} pyspark-shell"},
            stdout=said,
            stderr=errors,
        )
        found: dict = {"cpu": 0.0, "memory": {}}
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(process.pid, done, found))
        watcher.start()
        process.wait()
        done.set()
        watcher.join()
    if process.returncode:
        raise RuntimeError((work / "errors").read_text()[-3000:])
    return {**found, "clock": time.perf_counter() - began, "said": (work / "said").read_text()}


def _watch(top: int, done: threading.Event, found: dict) -> None:
    """Record CPU time and peak memory by kind of process, twice per second."""
    while not done.wait(0.5):
        found["cpu"] = max(found["cpu"], cpu_of(top))
        memory = {"driver in Python": 0, "Java": 0, "workers in Python": 0}
        for process, name in _below(top):
            kind = "Java" if name == "java" else "workers in Python"
            kind = "driver in Python" if process == top else kind
            try:
                pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
            except OSError:
                continue  # gone meanwhile
            memory[kind] += pages * os.sysconf("SC_PAGE_SIZE")
        for kind, size in memory.items():
            found["memory"][kind] = max(found["memory"].get(kind, 0), size)


def _below(top: int) -> list[tuple[int, str]]:
    """Return a process and all below it, with their names."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(") ")
            except OSError:
                continue  # gone meanwhile
            parents[int(entry.name)] = int(rest.split()[1]), name
    found = [top]
    for process in found:
        found += [child for child, (parent, _) in parents.items() if parent == process]
    return [(process, parents.get(process, (0, ""))[1]) for process in found]


def _shuffled(work: Path) -> int:
    """Add up the shuffle bytes that tasks report as written."""
    [log] = (work / "log").iterdir()
    total = 0
    with log.open() as lines:
        for line in lines:
            if '"SparkListenerTaskEnd"' in line:
                metrics = json.loads(line).get("Task Metrics") or {}
                total += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
    return total


def _check(made: dict, customers: int, days: int) -> None:
    """Compare the account with what was planted."""
    missing, equal, conflicting = (
        -(-customers // every) for every in (_NO_VALUE, _EQUAL, _CONFLICT)
    )
    account = made["account"]["readings"]
    plain = 24 * days * customers
    assert made["profiles"] == made["customers"] == customers
    assert account["rows_in"] == plain + equal + conflicting
    assert account["dropped"] == {Drop.NO_VALUE.text: missing, Drop.CONFLICT.text: 2 * conflicting}
    assert account["merged"] == {str(Merge.EQUAL): equal}
    assert account["rows_out"] == plain - missing - conflicting


def _check_sample(work: Path, files: list[Path], customers: int) -> None:
    """Compare the profiles of some customers with those that one machine makes of their rows."""
    first = (customers // 2) // _CUSTOMERS_A_FILE * _CUSTOMERS_A_FILE
    last = min(first + _SAMPLE, customers)
    names = [f"C{number:08}" for number in range(first, last)]
    theirs = [str(path) for path in files if path.stem.endswith(f"{first:08}")]
    duckdb.sql(f"""
        COPY (FROM read_parquet({theirs}) WHERE customer_id BETWEEN '{names[0]}' AND '{names[-1]}')
        TO '{work}/sample.parquet' (FORMAT parquet)
    """)
    here = profiles_from_readings(
        read_readings(work / "sample.parquet", minutes=60, timezone=_ZONE)
    )
    there = pq.read_table(work / "out", filters=[("customer_id", "in", names)])
    assert there["customer_id"].to_pylist() == list(here.customer_ids) == names
    loads = there["load_kw"].combine_chunks().flatten().to_numpy()
    assert loads.astype(np.float64).tobytes() == here.load_kw.tobytes()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

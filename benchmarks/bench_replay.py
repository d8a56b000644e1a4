"""Replay audit of all release functions, in memory and on Spark: the worst ratio of each.

Each release is run on 0, 1, 40 and 3,000 customers, and run again with each of ten hostile
customers added, with rows without data, and with a customer removed; the second run is handed the
noisy integers of the first. A ratio is the squared change of a query's exact integers over its
squared sensitivity: it must not exceed 1. Ratios are exact; only the run time varies. On Spark,
K-means takes few steps, since each is a job.

``PYTHONPATH=. python benchmarks/bench_replay.py``: minutes in memory, an hour or more on Spark.
``--short`` takes 40 customers and two hostile rows, ``--hostile`` so many rows, ``--engine`` one
engine, and ``--release`` one release.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.property.test_replay_properties import CASES, HOSTILE, Engine, audit, in_memory, on_spark
from tests.repeated_runs import remember_constants
from tests.sample_bundles import walk_few_steps
from wattveil.engines.spark.spark_session import spark_session
from wattveil.errors import MissingJavaError

CUSTOMERS = (0, 1, 40, 3_000)
_SPARK_OPTIONS = (
    "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' --conf spark.ui.enabled=false"
    " --conf spark.ui.showConsoleProgress=false --conf spark.sql.shuffle.partitions=4"
    " --conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN"
    " --conf spark.sql.adaptive.enabled=false pyspark-shell"
)
"""Options for many small jobs: a short start-up time matters more than optimised code."""


def main() -> None:
    """Audit everything and print one line per release function and engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--engine", choices=("numpy", "spark"))
    parser.add_argument("--release", choices=tuple(CASES), dest="name")
    parser.add_argument("--hostile", type=int, default=HOSTILE)
    chosen = parser.parse_args()
    customers, hostile = ((40,), 2) if chosen.short else (CUSTOMERS, chosen.hostile)
    say(f"{hostile} hostile customers, one at a time, beside {', '.join(map(str, customers))}\n")
    say("| release | engine | replays | queries | worst ratio | faults | seconds |")
    say("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    found = []
    names = tuple(CASES) if chosen.name is None else (chosen.name,)
    with pytest.MonkeyPatch.context() as patch:
        remember_constants(patch)
        if chosen.engine != "spark":
            found += [is_held(name, in_memory, customers, hostile) for name in names]
        if chosen.engine != "numpy":
            walk_few_steps(patch)
            patch.setitem(os.environ, "PYSPARK_SUBMIT_ARGS", _SPARK_OPTIONS)
            with spark() as engine:
                found += [is_held(name, engine, customers, hostile) for name in names]
    sys.exit(not all(found))


@contextmanager
def spark() -> Iterator[Engine]:
    """Start Spark with one executor in this machine; without Java, stop with the reason."""
    try:
        session = spark_session("local[1]")
    except MissingJavaError as error:
        sys.exit(str(error))
    session.sparkContext.setLogLevel("ERROR")
    yield partial(on_spark, session)
    session.stop()


def is_held(name: str, engine: Engine, customers: tuple[int, ...], hostile: int) -> bool:
    """Audit one release function at all numbers of customers; print a row of the table."""
    began = time.perf_counter()
    audits = [audit(CASES[name], customers=n, engine=engine, hostile=hostile) for n in customers]
    seconds = time.perf_counter() - began
    worst = max(one.worst_ratio for one in audits)
    row = [
        name,
        "numpy" if engine is in_memory else "Spark",
        sum(one.replays for one in audits),
        sum(one.replays * sum(len(part.queries) for part in one.parts) for one in audits),
        "1" if worst == 1 else f"{float(worst):.9f}",
        sum(len(one.faults) for one in audits),
        f"{seconds:.0f}",
    ]
    say(f"| {' | '.join(map(str, row))} |")
    for one in audits:
        for fault in one.faults[:3]:
            say(f"fault: {fault}")
    return all(one.holds for one in audits)


def say(line: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

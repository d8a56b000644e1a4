"""Releases on a cluster whose machines are lost and slow; run by test_spark_cluster in a process.

Spark has one session a process, and other tests have theirs. Prints what it found as JSON.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tests.release_transcripts import record, replay
from wattveil import PrivateKMeans
from wattveil.arrays import Floats
from wattveil.engines.spark.spark_rows import SparkRows
from wattveil.engines.spark.spark_session import spark_session
from wattveil.privacy.mechanisms.contributions import BlockSums, Query
from wattveil.release.rows.load_features import nearest_offsets

CUSTOMERS, FEW, SLOTS = 3000, 5, 24
_FOR_EVER = 90.0


def main(master: str, folder: Path) -> None:
    """Release here and there, and compare."""
    session = spark_session(master)
    session.sparkContext.setLogLevel("ERROR")
    load_kw = np.random.default_rng(5).lognormal(-1.0, 0.8, size=(CUSTOMERS, SLOTS))
    frame = _uneven(session, load_kw)
    found = {
        "speculation": _speculate(frame, load_kw, folder),
        "loss": _lose(frame, load_kw, folder),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    session.stop()


def _uneven(session: SparkSession, load_kw: Floats) -> DataFrame:
    """Return customers in partitions with nearly all, a few and no customers."""
    parts = (load_kw[FEW:], load_kw[:FEW], load_kw[:0])

    def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for [place] in zip(*batch.to_pydict().values(), strict=True):
                rows = pa.array(parts[place].tolist(), pa.list_(pa.float64()))
                yield pa.RecordBatch.from_arrays([rows], ["load_kw"])

    places = session.range(0, len(parts), 1, numPartitions=len(parts))
    return places.mapInArrow(of_partition, "load_kw array<double>")


def _speculate(frame: DataFrame, load_kw: Floats, folder: Path) -> dict[str, object]:
    """Add up while one task hangs; Spark starts it a second time and takes that one's sum."""
    rows = SparkRows(_hangs_once(frame, folder / "slow"), np.zeros((0, SLOTS)))
    work = _offset_sums()
    total, expected = rows.add_up(work), work(load_kw)
    return {
        "equal": work.pack(total) == work.pack(expected),
        "attempts": _attempts(folder / "slow"),
    }


def _lose(frame: DataFrame, load_kw: Floats, folder: Path) -> dict[str, object]:
    """Release while the machine of a running task is lost."""
    here, there = (PrivateKMeans(n_clusters=3, epsilon=4.0) for _ in range(2))
    draws = record(lambda: here.fit(load_kw))
    rows = SparkRows(_hangs_once(frame, folder / "lost"), np.zeros((0, SLOTS)))
    killer = threading.Thread(target=_kill_the_running, args=(folder / "lost",))
    killer.start()
    again = replay(lambda: there.fit(rows), draws)
    killer.join()
    return {
        "queries": len(draws),
        "equal": [np.array_equal(a.exact, b.exact) for a, b in zip(draws, again, strict=True)],
        "charges": here.spends_ == there.spends_,
        "draws": len(again),
        "attempts": _attempts(folder / "lost"),
    }


def _hangs_once(frame: DataFrame, folder: Path) -> DataFrame:
    """Let the first attempt at the largest partition hang, and every attempt leave its mark."""
    folder.mkdir()

    def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        if task is not None and task.partitionId() == 0:
            first = not any(folder.iterdir())
            mark = folder / f"{time.time_ns()}"
            mark.with_suffix(".tmp").write_text(str(Path.cwd()))
            mark.with_suffix(".tmp").rename(mark)
            if first:
                time.sleep(_FOR_EVER)
        yield from batches

    return frame.mapInArrow(of_partition, frame.schema)


def _kill_the_running(folder: Path) -> None:
    """Kill the worker of the task that left the first mark; its executors go with it."""
    while not (marks := [mark for mark in folder.iterdir() if not mark.suffix]):
        time.sleep(0.05)
    running = Path(min(marks).read_text())
    groups = json.loads(os.environ["WATTVEIL_WORKERS"])
    [group] = [group for work, group in groups.items() if running.is_relative_to(work)]
    os.killpg(group, 9)


def _offset_sums() -> BlockSums:
    """Return a step of K-means: its row function is of the package, which executors have."""
    work = nearest_offsets.bind(
        centres=np.eye(2, SLOTS), radii=np.ones(2), colour=np.ones(SLOTS), shells=np.array([1.0])
    )
    queries = [
        Query(tag="offsets", rho_units=1, n_cells=2, n_features=SLOTS),
        Query(tag="counts", rho_units=1, n_cells=2 * 2),
    ]
    return BlockSums(queries, work)


def _attempts(folder: Path) -> int:
    return len([mark for mark in folder.iterdir() if not mark.suffix])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

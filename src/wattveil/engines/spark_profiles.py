"""`SparkProfiles`: profiles in a DataFrame."""

import json
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from wattveil.engines.folders import write_folder
from wattveil.engines.kept import KeptProfiles
from wattveil.engines.spark import SparkRows, forget
from wattveil.profiles import Grid
from wattveil.profiles.table import METADATA

ID, LOAD = "customer_id", "load_kw"


def record_of(frame: DataFrame) -> str | None:
    """Return what Spark keeps beside a column about profiles that it wrote; None of others."""
    said = frame.schema[LOAD].metadata if LOAD in frame.columns else {}
    found: str | None = said.get(METADATA)
    return found


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SparkProfiles(KeptProfiles):
    """Profiles in a DataFrame."""

    frame: DataFrame
    record: Mapping[str, Any]

    @classmethod
    def of(
        cls, frame: DataFrame, record: Mapping[str, Any], *, kept: DataFrame | None = None
    ) -> "SparkProfiles":
        """Return the profiles of a table, one row a customer, with what is said of them.

        ``kept`` is what executors keep for it, as long as anybody has a column of the table.
        """
        grid = Grid.from_json(record["grid"])
        texts = dict.fromkeys((ID, *record["attributes"]), np.zeros(0, dtype=np.object_))
        columns = SparkRows.columns_of(frame, {**texts, LOAD: np.zeros((0, grid.columns))})
        if kept is not None:
            table = columns[LOAD]._table  # noqa: SLF001 - kept as long as a column of it
            weakref.finalize(table, forget, kept).atexit = False
        return cls(
            frame=frame,
            record=record,
            customer_ids=columns[ID],
            load_kw=columns[LOAD],
            attributes={name: columns[name] for name in record["attributes"]},
            grid=grid,
            timezone=record["timezone"],
            rules=record["rules"],
        )

    def listed(self, customer_list: Sequence[str]) -> "SparkProfiles":
        """Return one profile for each customer on a public list: NaN for one without a profile."""
        names = pa.table({ID: pa.array(customer_list, pa.string())})
        everybody = self.frame.sparkSession.createDataFrame(names)
        nothing = sql.array_repeat(sql.lit(float("nan")), self.grid.columns)
        joined = everybody.join(self.frame, ID, "left")
        table = joined.withColumn(LOAD, sql.coalesce(LOAD, nothing))
        texts, load_kw = np.zeros(0, dtype=np.object_), np.zeros((0, self.grid.columns))
        columns = SparkRows.columns_of(table, {ID: texts, LOAD: load_kw})
        return replace(self, frame=table, customer_ids=columns[ID], load_kw=columns[LOAD])

    def write_parquet(self, path: str | Path) -> None:
        """Let executors write a new folder, in order of name, each file with the whole record."""
        said = {METADATA: json.dumps(self.record)}
        write_folder(self.frame.sort(ID).withMetadata(LOAD, said), path)

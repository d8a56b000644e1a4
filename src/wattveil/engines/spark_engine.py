"""`SparkEngine`: profiles in a lake, read and written by executors."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from wattveil.compiled import stay_in_one_thread
from wattveil.engines.kept import KeptProfiles
from wattveil.engines.spark import SparkRows
from wattveil.errors import InvalidDataError, InvalidFileError
from wattveil.profiles import Grid, Profiles
from wattveil.profiles.table import METADATA, read_record

_ID, _LOAD = "customer_id", "load_kw"


class SparkEngine:
    """Spark as the place where customers are.

    Parameters
    ----------
    session : SparkSession
        Yours, or that of `wattveil.engines.session.spark_session`. Executors need Wattveil too.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def read_profiles(self, path: str | Path) -> "SparkProfiles":
        """Read profiles that `wattveil profiles` wrote; no row comes to the driver.

        A customer with two profiles is refused, and a profile without a customer.
        """
        try:
            frame = self.session.read.parquet(str(path))
        except AnalysisException as error:
            raise InvalidFileError(
                path, "content", "a Parquet table", error.getCondition()
            ) from error
        said = frame.schema[_LOAD].metadata if _LOAD in frame.columns else {}
        # Spark gives back what it wrote; what `write_parquet` wrote the driver looks up.
        text = said.get(METADATA) or read_record(path)
        if text is None:
            expected = "a table made by `wattveil profiles`"
            raise InvalidFileError(path, "schema metadata", expected, "none")
        profiles = SparkProfiles.of(frame, json.loads(text))
        if profiles.customer_ids.has_repeats():
            raise InvalidDataError("one profile a customer", [])
        return profiles

    def write_profiles(
        self, block: Callable[[int], Profiles], n_blocks: int, path: str | Path
    ) -> None:
        """Let executors make profiles that are nobody's, block by block, and write them."""
        record = block(0).to_arrow().schema.metadata[METADATA.encode()].decode()
        names = json.loads(record)["attributes"]
        schema = ", ".join(f"`{name}` string" for name in (_ID, *names))

        def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            stay_in_one_thread()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    table = block(number).to_arrow()
                    load = table[_LOAD].cast(pa.list_(pa.float64()))
                    place = table.schema.get_field_index(_LOAD)
                    yield from table.set_column(place, _LOAD, load).to_batches()

        numbers = self.session.range(0, n_blocks, 1, n_blocks)
        made = numbers.mapInArrow(of_partition, f"{schema}, {_LOAD} array<double>")
        made.withMetadata(_LOAD, {METADATA: record}).write.parquet(str(path), mode="overwrite")


@dataclass(frozen=True, kw_only=True, eq=False)
class SparkProfiles(KeptProfiles):
    """Profiles in a DataFrame."""

    frame: DataFrame
    record: Mapping[str, Any]

    @classmethod
    def of(cls, frame: DataFrame, record: Mapping[str, Any]) -> "SparkProfiles":
        """Return the profiles of a table, one row a customer, with what is said of them."""
        grid = Grid.from_json(record["grid"])
        texts = dict.fromkeys((_ID, *record["attributes"]), np.zeros(0, dtype=np.object_))
        columns = SparkRows.columns_of(frame, {**texts, _LOAD: np.zeros((0, grid.columns))})
        return cls(
            frame=frame,
            record=record,
            customer_ids=columns[_ID],
            load_kw=columns[_LOAD],
            attributes={name: columns[name] for name in record["attributes"]},
            grid=grid,
            timezone=record["timezone"],
            rules=record["rules"],
        )

    def listed(self, customer_list: Sequence[str]) -> "SparkProfiles":
        """Return one profile for each customer on a public list: NaN for one without a profile."""
        names = pa.table({_ID: pa.array(customer_list, pa.string())})
        everybody = self.frame.sparkSession.createDataFrame(names)
        nothing = sql.array_repeat(sql.lit(float("nan")), self.grid.columns)
        joined = everybody.join(self.frame, _ID, "left")
        return self.of(joined.withColumn(_LOAD, sql.coalesce(_LOAD, nothing)), self.record)

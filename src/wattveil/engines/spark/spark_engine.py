"""`SparkEngine`: readings and profiles in a data lake, read and written by executors."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from wattveil.compiled import stay_in_one_thread
from wattveil.engines.spark.spark_profiles import ID, LOAD, SparkProfiles, SparkReadings, record_of
from wattveil.engines.spark.spark_session import (
    check_complete,
    check_new,
    is_free,
    read_folder,
    write_folder,
)
from wattveil.errors import InvalidDataError, InvalidFileError, InvalidParameterError
from wattveil.profiles import Profiles
from wattveil.profiles.profiles import METADATA, read_record
from wattveil.readings.options import ReadOptions


class SparkEngine:
    """Engine that stores and processes customers on Spark.

    Parameters
    ----------
    session : SparkSession
        Yours, or that of `engines.spark.spark_session`. Executors need Wattveil too.
    """

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    def read_readings(
        self,
        source: str | Path | DataFrame | Sequence[str | Path],
        options: ReadOptions,
        *,
        memory_mb: int,
    ) -> SparkReadings:
        """Name readings for executors to read: what `read_readings` does with this engine."""
        return SparkReadings(
            session=self.session, source=source, options=options, memory_mb=memory_mb
        )

    def check_new(self, path: str | Path) -> None:
        """Refuse a folder that is there already, wherever that is."""
        check_new(self.session, path)

    def read_profiles(self, path: str | Path) -> "SparkProfiles":
        """Read profiles that `wattveil profiles` wrote; no row comes to the driver.

        A customer with two profiles is refused, and a profile without a customer.
        """
        frame = read_folder(self.session, path)
        # Spark returns the metadata that it wrote; the driver reads that of `write_parquet`.
        if (text := record_of(frame)) is not None:
            check_complete(self.session, path)
        else:
            with suppress(OSError, pa.ArrowException):
                text = read_record(path)
        if text is None:
            expected = "a table made by `wattveil profiles`, on Spark or in a file of the driver"
            raise InvalidFileError(path, "schema metadata", expected, None)
        profiles = SparkProfiles.of(frame, json.loads(text))
        if profiles.customer_ids._has_repeats():  # noqa: SLF001 - for the data holder
            raise InvalidDataError("one profile per customer", [])
        return profiles

    def write_profiles(
        self, block: Callable[[int], Profiles], n_blocks: int, path: str | Path, *, force: bool
    ) -> None:
        """Let executors make synthetic profiles, block by block, and write them.

        With ``force`` they replace such profiles, or the remains of a failed job.
        """
        if force and not (is_free(self.session, path) or self._are_synthetic(path)):
            rule = "a new folder, or with --force one of synthetic customers"
            raise InvalidParameterError("out", rule, str(path))
        record = block(0).to_arrow("profiles").schema.metadata[METADATA.encode()].decode()
        names = json.loads(record)["attributes"]
        schema = ", ".join(f"`{name}` string" for name in (ID, *names))

        def of_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            stay_in_one_thread()
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    table = block(number).to_arrow("profiles")
                    load = table[LOAD].cast(pa.list_(pa.float64()))
                    place = table.schema.get_field_index(LOAD)
                    yield from table.set_column(place, LOAD, load).to_batches()

        numbers = self.session.range(0, n_blocks, 1, n_blocks)
        made = numbers.mapInArrow(of_partition, f"{schema}, {LOAD} array<double>")
        write_folder(made.withMetadata(LOAD, {METADATA: record}), path, force=force)

    def _are_synthetic(self, path: str | Path) -> bool:
        """Whether a folder has synthetic customers, and nothing that Spark cannot read."""
        try:
            text = record_of(read_folder(self.session, path))
        except InvalidFileError:
            return False
        return text is not None and "synthetic" in json.loads(text)["rules"]

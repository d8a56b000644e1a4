"""Parquet files that every executor sees, cut into pieces: executors read them without Spark.

Spark would hand every row from Java to Python, which costs some times what all the rest does.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wattveil.errors import InvalidFileError

PLACE = ("wattveil file", "wattveil row")
"""Columns of the order of appearance: number of the file, number of the row in it."""

_LEAST_BYTES, _MOST_BYTES = 4 << 20, 128 << 20  # of a task, as Spark has them
_ROWS_AT_ONCE, _VALUES_AT_ONCE = 1 << 17, 1 << 20  # a wide table has hundreds of values a row
_TEXTS = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class Piece:
    """One of ``parts`` equal shares of the row groups of a file."""

    file: int
    path: Path
    size: int  # of the file, in bytes
    part: int = 0
    parts: int = 1


def cut(files: Sequence[Piece], tasks: int) -> list[list[Piece]]:
    """Divide whole files among about so many tasks: large are cut, small ones put together."""
    sizes = [whole.size for whole in files]
    most = min(max(sum(sizes) // tasks, _LEAST_BYTES), _MOST_BYTES)
    divided: list[list[Piece]] = [[]]
    room = most
    for whole, size in zip(files, sizes, strict=True):
        parts = -(-size // most)
        for part in range(parts):
            if divided[-1] and room < size // parts:
                divided.append([])
                room = most
            divided[-1].append(replace(whole, part=part, parts=parts))
            room -= size // parts
    return divided


def read_pieces(
    divided: Sequence[Sequence[Piece]], schema: pa.Schema, text: str | None = None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that reads the pieces of tasks, which are given by number.

    The schema says which columns there shall be, those of `PLACE` too. Of the column ``text`` the
    dictionary of the file is kept: it is most of the work to make one. A file that is written anew
    in the meantime is refused: rows of some pieces would be of the old one, others of the new.
    """

    def rows_of(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for piece in divided[number]:
                    yield from _read(piece, schema, text)

    return rows_of


def schema_of(path: Path) -> pa.Schema:
    """Return the columns of a file, without what pandas and others say of them."""
    try:
        found = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidFileError(path, "content", "a readable Parquet file", str(error)) from error
    fields = [
        pa.field(one.name, one.type.value_type if pa.types.is_dictionary(one.type) else one.type)
        for one in found
    ]
    return pa.schema(fields)


def _read(piece: Piece, schema: pa.Schema, text: str | None) -> Iterator[pa.RecordBatch]:
    wanted = [name for name in schema.names if name not in PLACE]
    at_once = min(_ROWS_AT_ONCE, max(_VALUES_AT_ONCE // len(schema), 1))
    try:
        if (size := piece.path.stat().st_size) != piece.size:
            expected = f"{piece.size} bytes, as when the job began"
            raise InvalidFileError(piece.path, "size", expected, size)
        with pq.ParquetFile(piece.path, read_dictionary=[text] if text else None) as file:
            groups = file.metadata.num_row_groups
            first, last = (groups * edge // piece.parts for edge in (piece.part, piece.part + 1))
            row = sum(file.metadata.row_group(group).num_rows for group in range(first))
            for batch in file.iter_batches(at_once, range(first, last), wanted):
                yield _placed(batch, schema, text, (piece.file, row))
                row += batch.num_rows
    except (KeyError, OSError, pa.ArrowException) as error:
        expected = "a readable Parquet file with the columns of the first"
        raise InvalidFileError(piece.path, "content", expected, str(error)) from error


def _placed(
    batch: pa.RecordBatch, schema: pa.Schema, text: str | None, place: tuple[int, int]
) -> pa.RecordBatch:
    """Give a batch the columns of the schema."""
    file, row = place
    rows = batch.num_rows
    made = {
        PLACE[0]: lambda: pa.array([file]).take(pa.nulls(rows, pa.int64()).fill_null(0)),
        PLACE[1]: lambda: pa.array(range(row, row + rows), pa.int64()),
    }
    arrays = []
    for field in schema:
        array = made[field.name]() if field.name in made else batch.column(field.name)
        if field.name != text:
            array = array.cast(field.type)
        elif array.type != _TEXTS:  # another file has names of another type
            array = array.cast(pa.string()).dictionary_encode()
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema.names)

"""Meaning of the texts in the quality column of a long table.

A text of unknown meaning is rejected with all others of its kind, as in files of known formats.
Some codes mean one thing in one format and its opposite in another: V is validated or missing, and
true may be said of a measurement or of an estimate. They are known only where a format defines
them, or where the name of the column does (`estimated`).
"""

from collections.abc import Mapping

import duckdb

from wattveil.errors import InvalidFileError
from wattveil.readings.formats.known_formats import quality_of
from wattveil.readings.formats.table_columns import plain_name
from wattveil.readings.schema import QUALITIES
from wattveil.readings.sql_text import ident

MEANINGS = "valid, estimated, edited, raw or missing"
"""What a text may be said to mean, in messages."""
SHOWN_WORDS = 8
_MAX_WORDS = 1_000
_BY_FORMAT = {"v", "n", "true", "false", "yes", "no"}
_IF_ESTIMATED = {
    **dict.fromkeys(("true", "yes", "y", "1", "t"), "estimated"),
    **dict.fromkeys(("false", "no", "n", "0", "f"), "valid"),
}


def word_sql(column: str) -> str:
    """Write the text of a column as `quality_codes` has it."""
    return f"coalesce(lower(trim({ident(column)}::VARCHAR)), '')"


def quality_codes(
    connection: duckdb.DuckDBPyConnection,
    scan: str,
    column: str,
    words: Mapping[str, str],
    path: object,
) -> dict[str, int]:
    """Return the codes of all texts of a column; reject texts of unknown meaning.

    ``words`` has the caller's meanings.
    """
    found = connection.execute(
        f"SELECT DISTINCT {word_sql(column)} AS word FROM {scan} ORDER BY word LIMIT {_MAX_WORDS}"
    ).fetchall()
    stated = {plain_name(text): name for text, name in words.items() if name in QUALITIES}
    meanings = {str(word): _meaning(str(word), plain_name(column), stated) for (word,) in found}
    if unknown := [word for word, meaning in meanings.items() if meaning is None]:
        expected = f"words of a known meaning, or words={{{unknown[0]!r}: …}} ({MEANINGS})"
        raise InvalidFileError(path, f"column {ident(column)}", expected, unknown[:SHOWN_WORDS])
    return {word: QUALITIES.index(str(meaning)) for word, meaning in meanings.items()}


def _meaning(word: str, column: str, stated: Mapping[str, str]) -> str | None:
    plain = plain_name(word)
    if plain in stated:
        return stated[plain]
    if column == "estimated" and plain in _IF_ESTIMATED:
        return _IF_ESTIMATED[plain]
    if plain in QUALITIES:
        return plain
    return None if plain in _BY_FORMAT else quality_of(word)

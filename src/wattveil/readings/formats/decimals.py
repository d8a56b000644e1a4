"""Numbers that are written as texts, with a decimal point or a decimal comma.

They may have groups of thousands. 1,500 is one and a half or fifteen hundred, and the wrong one is
wrong a thousandfold. So a decimal mark is inferred from numbers that can be read in one way only,
and a group of thousands is accepted if the number has its decimal mark too (1.234,5), or if the
caller named the mark.
"""

import re
from dataclasses import dataclass

import duckdb

from wattveil.errors import InvalidFileError
from wattveil.readings.options import DecimalMark
from wattveil.readings.sources import Scan
from wattveil.readings.sql_text import ident

_SAMPLE_VALUES = 200_000
_SIGNS = {DecimalMark.POINT: ".", DecimalMark.COMMA: ","}
_GROUPS = r"[-+]?[1-9]\d{{0,2}}([{}]\d{{3}})+"  # 0,250 has none
_MARKED = r"[-+]?\d*[{}]\d+([eE][-+]?\d+)?"


@dataclass(frozen=True)
class Decimals:
    """Conversion of texts to numbers; ``groups``: 1,500 may be fifteen hundred."""

    mark: DecimalMark
    groups: bool

    def number(self, value: str) -> str:
        """Write the number of a column of texts, NULL if it is none."""
        sign = _SIGNS[self.mark]
        other = _other(sign)
        grouped = _GROUPS.format(other) + rf"([{sign}]\d+)" + ("?" if self.groups else "")
        return (
            f"CASE WHEN NOT contains({value}, '{other}')"
            f" THEN try_cast(replace({value}, '{sign}', '.') AS DOUBLE)"
            f" WHEN regexp_full_match(trim({value}), '{grouped}')"
            f" THEN replace(replace({value}, '{other}', ''), '{sign}', '.')::DOUBLE END"
        )


def find_mark(
    connection: duckdb.DuckDBPyConnection,
    scan: Scan,
    values: tuple[str, ...],
    sample_rows: int,
    path: object,
) -> DecimalMark:
    """Find the mark of a sample, by the values that have one; reject an ambiguous one."""
    drawn = connection.execute(f"""
        SELECT DISTINCT v FROM (
            SELECT trim(unnest([{", ".join(ident(name) for name in values)}])) AS v
            FROM (FROM {scan.sql} LIMIT {sample_rows}) LIMIT {_SAMPLE_VALUES}
        ) WHERE regexp_matches(v, '[.,]') ORDER BY v
    """).fetchall()
    texts = [str(row[0]) for row in drawn]
    marked = {
        mark: [text for text in texts if _is_marked(text, sign)] for mark, sign in _SIGNS.items()
    }
    commas, points = marked[DecimalMark.COMMA], marked[DecimalMark.POINT]
    mark = DecimalMark.COMMA if commas else DecimalMark.POINT
    ambiguous = [text for text in texts if _may_be_groups(text, _other(_SIGNS[mark]))]
    # The rows of one customer must not decide for another's, so no majority does.
    if points or all(_may_be_groups(text, ",") for text in commas):
        ambiguous += commas
    if ambiguous:
        expected = (
            "one decimal mark that is distinct from groups of thousands, or decimal='point' or"
            " decimal='comma'"
        )
        raise InvalidFileError(path, "values", expected, ambiguous[0])
    return mark


def _other(sign: str) -> str:
    return "," if sign == "." else "."


def _is_marked(text: str, sign: str) -> bool:
    """Return whether a text is a number with the sign before its fraction, grouped or not."""
    grouped = _GROUPS.format(_other(sign)) + rf"[{sign}]\d+"
    return any(re.fullmatch(form, text) for form in (_MARKED.format(sign), grouped))


def _may_be_groups(text: str, sign: str) -> bool:
    return re.fullmatch(_GROUPS.format(sign), text) is not None

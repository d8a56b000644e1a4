"""Common interface of all results: tables for Arrow and pandas, charts, notebook output.

A class declares its tables once (`Result._result_tables`) and, if it has curves or bars, its chart
(`ChartedResult._chart`). `to_arrow`, `to_pandas`, `plot` and notebook output follow from them.

Notebooks are shared, and their output is stored in them. A result that holds private values is a
`PrivateResult`: its HTML and text output show column names and public facts, but no values. Only
explicit calls, such as `to_pandas`, return the values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from wattveil.errors import InvalidParameterError, MissingExtraError, one_of

if TYPE_CHECKING:  # slow to load; only the methods that need them do
    import pandas as pd
    import pyarrow as pa
    from plotly.graph_objects import Figure

    from wattveil.arrays import Floats
    from wattveil.web.curves import Chart

_MAX_SHOWN_ROWS = 8


class ResultTable(NamedTuple):
    """Columns of a table, or an existing Arrow table."""

    columns: "Mapping[str, Any] | pa.Table"
    keys: tuple[str, ...] = ()
    """Columns that identify a row: the index in pandas."""


class Result(ABC):
    """Base class of results: one or more named tidy tables."""

    @abstractmethod
    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        """Return the function that builds each table, most important first."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables; the first is the default of `to_arrow` and `to_pandas`."""
        return tuple(self._result_tables())

    def to_arrow(self, table: str | None = None) -> "pa.Table":
        """Return a table of the result as an Arrow table.

        Parameters
        ----------
        table
            One of `tables`; None is the first.
        """
        return _arrow(self._found(table))

    def to_pandas(self, table: str | None = None) -> "pd.DataFrame":
        """Return a table of the result as a data frame, indexed by the columns that identify a row.

        Needs pandas, which the extra ``pandas`` installs.

        Parameters
        ----------
        table
            One of `tables`; None is the first.
        """
        try:
            import pandas  # noqa: F401, ICN001, PLC0415 - optional; Arrow converts
        except ImportError:
            raise MissingExtraError("to_pandas", "pandas") from None
        found = self._found(table)
        frame: pd.DataFrame = _arrow(found).to_pandas()
        return frame.set_index(list(found.keys)) if found.keys else frame

    def _found(self, table: str | None) -> ResultTable:
        made = self._result_tables()
        name = next(iter(made)) if table is None else table
        if name not in made:
            raise InvalidParameterError("table", one_of(made), table)
        return made[name]()

    def _statement(self) -> str:
        """Return what a reader must know first, in one line: the guarantee, if there is one."""
        sentence = getattr(getattr(self, "guarantee", None), "sentence", "")
        return one_line(sentence) if sentence else ""

    def _notes(self) -> Sequence[str]:
        """Return further sentences that a notebook shows, one paragraph each."""
        return ()

    def _shown(self) -> str:
        """Return the name of the table that a notebook shows."""
        return self.tables[0]

    def _shown_columns(self) -> Sequence[str] | None:
        """Return the columns that a notebook shows of a wide table; None shows all."""
        return None

    def __repr__(self) -> str:
        """Show the tables and the guarantee; their values are in the tables."""
        shown = [", ".join(self.tables), *filter(None, [self._statement()])]
        return f"{type(self).__name__}({'; '.join(shown)})"

    def _repr_html_(self) -> str:
        """Return the guarantee, a chart and the first rows of a table, for a notebook."""
        name, columns = self._shown(), self._shown_columns()
        whole = self.to_arrow(name)
        data = whole if columns is None else whole.select(columns)
        return _rendered(
            self,
            statement=self._statement(),
            table=name,
            head=data.column_names,
            rows=_rows(data.slice(0, _MAX_SHOWN_ROWS)),
            more=_left_out(
                row=max(data.num_rows - _MAX_SHOWN_ROWS, 0),
                column=whole.num_columns - data.num_columns,
            ),
        )

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the notebook output; overrides that of scikit-learn's estimators."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}


class ChartedResult(Result):
    """A result with a chart."""

    @abstractmethod
    def _chart(self) -> "Chart":
        """Return the curves or bars of the result."""

    def plot(self) -> "Figure":
        """Return a Plotly figure with 95 % bands or whiskers (± 1.96 standard errors).

        The title states which errors they cover.
        """
        from wattveil.web.curves import chart_figure  # noqa: PLC0415 - slow to load

        return chart_figure(self._chart())


class PrivateResult(Result):
    """A result with private values, which notebook output never shows."""

    def _statement(self) -> str:
        return "Private: values are not shown, because notebooks store their output."

    def _columns(self) -> Sequence[str]:
        """Return the names of the columns of the first table."""
        names: list[str] = self.to_arrow().column_names
        return names

    def _public_facts(self) -> Mapping[str, object]:
        """Return what may be shown: schema and options."""
        return {}

    def __repr__(self) -> str:
        """Show public facts; no value."""
        facts = [f"{name}={value!r}" for name, value in self._public_facts().items()]
        return f"{type(self).__name__}({', '.join([*facts, 'private values not shown'])})"

    def _repr_html_(self) -> str:
        """Return names of columns and public facts, for a notebook; no value."""
        rows = [(name, str(value)) for name, value in self._public_facts().items()]
        rows.append(("columns", ", ".join(self._columns())))
        return _rendered(self, statement=self._statement(), table="", head=(), rows=rows, more="")


def one_line(sentence: str) -> str:
    """Return the first part of the sentence of a guarantee: numbers, and for whom they hold.

    That of the instance tier is returned whole: its parts are true only together.
    """
    first, is_global, _ = sentence.partition(": for any data set")
    return f"{first}." if is_global else sentence


def curves_table(
    groups: Sequence[Hashable], along: str, load_kw: "Floats", std_kw: "Floats"
) -> ResultTable:
    """Return curves, one row per group of each array, as a tidy table by group and slot or rank."""
    n_groups, length = load_kw.shape
    columns = {
        "group": [group for group in groups for _ in range(length)],
        along: list(range(length)) * n_groups,
        "load_kw": load_kw.ravel(),
        "std_kw": std_kw.ravel(),
    }
    return ResultTable(columns, ("group", along))


def records_table(records: Sequence[Mapping[str, Any]], *keys: str) -> ResultTable:
    """Return a table of records with the same fields; without records, of the keys alone."""
    names = list(records[0]) if records else list(keys)
    return ResultTable({name: [one[name] for one in records] for name in names}, keys)


def _arrow(found: ResultTable) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - slow to load

    if isinstance(found.columns, pa.Table):
        return found.columns
    return pa.table({name: _column(values) for name, values in found.columns.items()})


def _column(values: Any) -> "pa.Array":  # noqa: ANN401 - an array, or a sequence of any objects
    """Return a column; values of several types, such as levels 1 and "other", become texts."""
    import pyarrow as pa  # noqa: PLC0415 - slow to load

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if hasattr(values, "ndim"):  # an array is of one type, and a matrix is no column
            raise
        return pa.array([str(value) for value in values])


def _left_out(**numbers: int) -> str:
    """Return what a notebook leaves out of a table, such as "16 more rows. "; empty if nothing."""
    from wattveil.web.formatting import format_count  # noqa: PLC0415 - with the template

    texts = [format_count(number, f"more {name}") for name, number in numbers.items() if number]
    return f"{' and '.join(texts)}. " if texts else ""


def _rows(data: "pa.Table") -> list[list[str]]:
    from wattveil.web.formatting import format_number  # noqa: PLC0415 - with the template

    def text(value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, datetime):  # times of a server, in UTC
            return f"{value:%Y-%m-%d %H:%M} UTC"
        return format_number(value) if isinstance(value, float) else str(value)

    return [[text(value) for value in record.values()] for record in data.to_pylist()]


_NOTEBOOK_PX = 240


def _rendered(result: Result, **values: object) -> str:
    from wattveil.web.curves import chart_figure  # noqa: PLC0415 - slow to load
    from wattveil.web.pages import render  # noqa: PLC0415 - slow to load

    chart = result._chart() if isinstance(result, ChartedResult) else None  # noqa: SLF001 - ours
    drawn = None if chart is None or not chart.curves else chart_figure(chart)
    return render(
        "result.html",
        name=type(result).__name__,
        others=() if isinstance(result, PrivateResult) else result.tables,
        figure=None if drawn is None else drawn.update_layout(height=_NOTEBOOK_PX),
        title="" if chart is None else chart.title,
        caption="" if chart is None else chart.caption,
        notes=result._notes(),  # noqa: SLF001 - ours
        **values,
    )

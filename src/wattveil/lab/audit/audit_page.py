"""Page of `wattveil audit`: empirical lower bounds beside the claims. Internal: exact figures."""

from collections.abc import Sequence
from pathlib import Path

from wattveil.lab.audit.release_audit import METHODS, AuditRow
from wattveil.numerics.measures.verdicts import Verdict
from wattveil.web.charts import BLUE, FAIL, PALE, ReportFigure, new_figure, panel
from wattveil.web.pages import PageTable, TableCell, write_internal_page

_ROW_PX, _FRAME_PX = 36, 100


def write_audit_page(rows: Sequence[AuditRow], path: Path, *, confidence: float) -> None:
    """Write the page as one file."""
    refuted = sum(row.found.refutes for row in rows)
    closest = max(rows, key=lambda row: row.found.epsilon / row.found.claim.epsilon)
    powerless = sum(row.verdict == Verdict.INCONCLUSIVE.value for row in rows)
    facts = [
        (f"{refuted} of {len(rows)}", "audits refute the claim"),
        (f"{powerless} of {len(rows)}", f"audits: {Verdict.INCONCLUSIVE.value}"),
        (f"{closest.found.epsilon:.3g} to ∞", _headline(closest, confidence)),
    ]
    title = "Audit of a release"
    write_internal_page(
        path,
        "audit",
        title=title,
        facts=facts,
        bounds=_bounds(rows),
        rows=_table(rows),
        methods=METHODS,
    )


def _headline(row: AuditRow, confidence: float) -> str:
    claim = f"claimed {row.found.claim.epsilon:.3g}"
    interval = f"{100.0 * confidence:g} % interval of epsilon"
    return f"{interval}, {row.name} ({claim}): closest to its claim"


def _bounds(rows: Sequence[AuditRow]) -> ReportFigure:
    """Draw the claim of each row as a pale bar, and the lower bound as a narrow one inside."""
    names = [row.name for row in rows]
    colours = [FAIL if row.found.refutes else BLUE for row in rows]
    figure = new_figure(height=_FRAME_PX + _ROW_PX * len(rows))
    for name, values, colour, width in (
        ("claimed", [row.found.claim.epsilon for row in rows], PALE, 0.7),
        ("empirical lower bound", [row.found.epsilon for row in rows], colours, 0.35),
    ):
        figure.add_bar(
            x=values, y=names, name=name, orientation="h", marker={"color": colour}, width=width
        )
    figure.update_layout(barmode="overlay")
    figure.update_yaxes(autorange="reversed")
    return panel("Epsilon: claim and empirical lower bound", figure, "epsilon")


def _table(rows: Sequence[AuditRow]) -> PageTable:
    head = (
        *("product", "claimed ε", "claimed δ", "interval of ε", "largest bound possible"),
        *("verdict", "evidence"),
    )
    cells: list[tuple[str | TableCell, ...]] = [
        (
            row.name,
            f"{row.found.claim.epsilon:.3g}",
            f"{row.found.claim.delta:.3g}",
            f"{row.found.epsilon:.3g} to ∞",
            f"{row.found.max_epsilon:.3g}",
            TableCell(
                f"{row.verdict} (weak)" if row.is_weak else row.verdict,
                False if row.found.refutes else None,
            ),
            row.found.evidence,
        )
        for row in rows
    ]
    return PageTable("", head, cells, text_columns=(0, 5, 6))

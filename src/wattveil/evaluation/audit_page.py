"""One page with every lower bound beside its claim. Private: it stays in house."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from plotly.graph_objects import Figure

from wattveil.evaluation.audit import AuditRow
from wattveil.profiles.page import Shown, figure_html, private_page

_CLAIM, _STANDS, _REFUTED = "#9aa5b1", "#2563a8", "#b3261e"


def write_audit_page(rows: Sequence[AuditRow], path: Path, *, confidence: float) -> None:
    """Write the page, with all it needs inside."""
    refuted = sum(row.found.refutes for row in rows)
    facts = [
        (str(len(rows)), "audits"),
        (str(refuted), "lower bounds above the claim"),
        (f"{confidence:g}", "confidence of all together"),
    ]
    drawn = figure_html(_bounds(rows), height=f"{6 + 2.2 * len(rows)}rem")
    body = f"<p>A bound below the claim is no proof of it.</p>{drawn}{_table(rows)}"
    path.write_text(private_page("Audit of a release", facts, body), encoding="utf-8")


def _bounds(rows: Sequence[AuditRow]) -> Shown:
    """Draw the claim of each row as a pale bar, and what was shown as a narrow one inside."""
    names = [row.name for row in rows]
    colours = [_REFUTED if row.found.refutes else _STANDS for row in rows]
    figure = Figure()
    for name, values, colour, width in (
        ("claimed", [row.found.claim.epsilon for row in rows], _CLAIM, 0.7),
        ("at least, as shown", [row.found.epsilon for row in rows], colours, 0.35),
    ):
        figure.add_bar(
            x=values, y=names, name=name, orientation="h", marker={"color": colour}, width=width
        )
    figure.update_layout(
        barmode="overlay", legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"}
    )
    figure.update_yaxes(autorange="reversed")
    return Shown("Epsilon: claimed, and shown at least", figure, "epsilon", "")


def _table(rows: Sequence[AuditRow]) -> str:
    titles = ("claimed ε", "claimed δ", "ε at least", "verdict", "seen")
    head = "<th>part</th>" + "".join(f'<th class="number">{title}</th>' for title in titles)
    lines = []
    for row in rows:
        claim = row.found.claim
        numbers = (f"{value:.3g}" for value in (claim.epsilon, claim.delta, row.found.epsilon))
        cells = "".join(
            f'<td class="number">{escape(text)}</td>'
            for text in (*numbers, row.verdict, row.found.evidence)
        )
        lines.append(f"<tr><td>{escape(row.name)}</td>{cells}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    return f"<div class='scroll'>{table}</div>"

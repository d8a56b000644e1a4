"""The dossier as a Word document, for offices that edit, comment and sign there."""

import io
from typing import TYPE_CHECKING

from wattveil.dossier.clauses import AnsweredClause, Block
from wattveil.dossier.dossier_document import (
    BLANK,
    SIGN_OFF,
    Dossier,
    cited,
    heading,
)
from wattveil.errors import MissingExtraError

if TYPE_CHECKING:
    from docx.document import Document

_NOT_VERIFIED = (
    "This document can be edited. If the dossier is signed, wattveil verify on its folder checks"
    " dossier.html and dossier.md, and not this document."
)
_RED, _AMBER = (0xB0, 0x00, 0x20), (0x8A, 0x5A, 0x00)


def dossier_docx(dossier: Dossier) -> bytes:
    """Return the dossier as DOCX: the same clauses, answers and blanks as the page."""
    try:
        import docx  # noqa: PLC0415 - extra `word`
        from docx.shared import RGBColor  # noqa: PLC0415 - extra `word`
    except ImportError as error:
        raise MissingExtraError("--docx", "word") from error
    document: Document = docx.Document()
    title, byline = heading(dossier)
    document.core_properties.title = title
    document.add_heading(title, 0)
    document.add_paragraph(byline)
    for line in dossier.banners:
        document.add_paragraph().add_run(line).font.color.rgb = RGBColor(*_RED)
    document.add_heading("Conflicts and warnings", 1)
    for one in dossier.conflicts:
        paragraph = document.add_paragraph(style="List Bullet")
        kind = paragraph.add_run(f"{one.kind.upper()}: ")
        kind.bold = True
        kind.font.color.rgb = RGBColor(*(_AMBER if one.is_warning else _RED))
        paragraph.add_run(f"{one.text} ({one.files})")
    if not dossier.conflicts:
        document.add_paragraph("None.")
    for clause in dossier.clauses:
        _add_clause(document, clause)
    document.add_heading("Sign-off", 1)
    table = document.add_table(rows=0, cols=2, style="Table Grid")
    for name in SIGN_OFF:
        table.add_row().cells[0].text = name
    document.add_paragraph(_NOT_VERIFIED)
    document.add_paragraph(f"{dossier.standard.wording} {dossier.standard.source}")
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def _add_clause(document: "Document", one: AnsweredClause) -> None:
    document.add_heading(one.clause.heading, 2)
    for answer in one.answers:
        for block in answer.blocks:
            _add_block(document, block)
        if answer.blocks:
            document.add_paragraph().add_run(f"Source: {cited(answer)}.").italic = True
        for gap in one.missing(answer):
            paragraph = document.add_paragraph(style="List Bullet")
            paragraph.add_run("Missing").bold = True
            paragraph.add_run(f" ({gap.remedy}): {gap.question} {BLANK}")
    for question, said in one.said.items():
        document.add_paragraph(f"{question} {said or BLANK}", style="List Bullet")


def _add_block(document: "Document", block: Block) -> None:
    """Add a paragraph, a list or a table."""
    if block.rows:
        table = document.add_table(rows=0, cols=len(block.head), style="Table Grid")
        for row in (block.head, *block.cells()):
            for cell, text in zip(table.add_row().cells, row, strict=True):
                cell.text = text
        for cell in table.rows[0].cells:
            cell.paragraphs[0].runs[0].bold = True
    for item in block.items:
        document.add_paragraph(item, style="List Bullet")
    if block.text:
        document.add_paragraph(block.text)

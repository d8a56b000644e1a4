"""HTML is written by templates alone, and what enters them is escaped."""

import ast
import re
from pathlib import Path

import pytest

import wattveil

SOURCE = Path(wattveil.__file__).parent
TEMPLATES = SOURCE / "web" / "templates"

TAG = re.compile(
    r"<!doctype|</?(?:a|b|blockquote|body|br|button|code|details|div|em|figcaption|figure|form|h[1-6]"
    r"|head|header|html|i|img|input|label|li|link|main|meta|nav|ol|option|p|pre|script|section|select"
    r"|small|span|strong|style|sub|summary|sup|svg|table|tbody|td|th|thead|title|tr|ul)(?:\s[^>]*)?/?>",
    re.IGNORECASE,
)
ALLOWED = {
    ("bundle/report.py", "</main>"),  # finds the end of a page's content, writes nothing
    ("bundle/verify/verify_content.py", '<div class="plot".*?</div>'),  # finds drawings
    ("web/pages.py", '<main id="content">'),  # finds its beginning
    ("bundle/customer_files.py", '<link rel="related" href="ReadingType/1"/>'),  # Green Button XML
    ("bundle/customer_files.py", "<title>"),  # the same
    ("bundle/customer_files.py", "</title>"),
    ("web/curves.py", "<br>"),  # Plotly's line break in a title, drawn as SVG
    ("readings/formats/xml_stream.py", "<!DOCTYPE"),  # refused in XML
    ("readings/sources.py", "<!doctype"),  # a page instead of readings is refused
}
SAFE = {
    "base.html": 3,  # stylesheet, Plotly and our script, inlined
    "server/release.html": 1,  # content of a report that this environment rendered
}


def tags_in(source: str) -> list[str]:
    """Return the HTML tags in strings and f-strings of Python code; docstrings do not count."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, documented)]
    texts = {
        id(line.value)
        for body in bodies
        for line in body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    }
    return [
        match.group()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts
        for match in TAG.finditer(node.value)
    ]


def test_no_python_code_writes_html() -> None:
    """No string of the source holds a tag, except where a page is taken apart."""
    found = {
        (path.relative_to(SOURCE).as_posix(), tag)
        for path in SOURCE.rglob("*.py")
        for tag in tags_in(path.read_text(encoding="utf-8"))
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    ("source", "tags"),
    [
        ('page = "<p>" + name + "</p>"', ["<p>", "</p>"]),
        ("page = f'<td class=\"x\">{value}</td>'", ['<td class="x">', "</td>"]),
        ('page = """<!DOCTYPE html>"""', ["<!DOCTYPE"]),
        ('def f():\n    """Return <p>."""\n    return "<br/>"', ["<br/>"]),
        ('cell = f"{low} < {high} > 3"', []),
        ('hover = "%{y}<extra></extra>"', []),  # the hover text of Plotly
        ('address = "<https://example.org>"', []),
    ],
)
def test_the_scan_finds_tags(source: str, tags: list[str]) -> None:
    """Tags in plain, formatted and long strings are found; docstrings and comparisons are none."""
    assert sorted(tags_in(source)) == sorted(tags)


def test_escaping_is_switched_off_for_files_of_ours_alone() -> None:
    """`|safe` stands where a file is inlined and where a rendered report is shown, nowhere else."""
    counts = {
        path.relative_to(TEMPLATES).as_posix(): len(
            re.findall(r"\|\s*safe\b|autoescape|Markup", path.read_text(encoding="utf-8"))
        )
        for path in TEMPLATES.rglob("*.html")
    }
    assert {name: count for name, count in counts.items() if count} == SAFE
    python = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")]
    assert not any("Markup(" in text or "markupsafe" in text for text in python)
    assert sum("jinja2 import" in text for text in python) == 1


def test_pages_with_exact_figures_have_the_banner_from_their_base() -> None:
    """Every internal page extends the base that carries the banner; none overrides the banner."""
    pages = {path.name: path.read_text("utf-8") for path in (TEMPLATES / "internal").glob("*.html")}
    base = pages.pop("internal.html")
    assert "INTERNAL: exact figures, not for publication" in base
    assert len(pages) >= 8
    for name, text in pages.items():
        assert text.startswith('{% extends "internal/internal.html" %}'), name
        assert "block top" not in text, name
        assert "block content" not in text, name

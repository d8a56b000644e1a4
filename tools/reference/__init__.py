"""Pages of the reference that the code writes: a Markdown extension for the site.

A page holds a line `<!-- generated: command-line -->`; the site replaces it by text generated
from the code, so that the page cannot become outdated.
"""

import re
from collections.abc import Callable

from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

from tools.reference.command_line import command_reference
from tools.reference.http import addresses
from tools.reference.manifest_fields import fields

GENERATED: dict[str, Callable[[], str]] = {
    "command-line": command_reference,
    "http": addresses,
    "manifest": fields,
}
_MARK = re.compile(r"<!-- generated: ([a-z-]+) -->")
_FIRST = 110
"""Before the fences of code are looked for, so that generated ones are found too."""


class _Fill(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        """Replace marks by generated text."""
        filled: list[str] = []
        for line in lines:
            found = _MARK.fullmatch(line.strip())
            filled += GENERATED[found[1]]().splitlines() if found else [line]
        return filled


class ReferenceExtension(Extension):
    """Fills the marks of a page."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown calls it so
        """Register with Markdown."""
        md.preprocessors.register(_Fill(md), "reference", _FIRST)


def makeExtension(**_: object) -> ReferenceExtension:  # noqa: N802 - Markdown looks for this name
    """Return the extension."""
    return ReferenceExtension()

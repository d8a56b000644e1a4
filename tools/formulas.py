"""Markdown extension for the site: superscripts and subscripts of formulas in prose.

Pages write `e^{-ε}` and `x_p`, which can be read as they stand; the site raises and lowers them.
Code is left alone, and so are words with underscores.
"""

import re
from xml.etree import ElementTree as ET

from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

_BRACED = r"\{((?:[^{}]|\{[^{}]*\})*)\}"
_RAISED = rf"(?<=[\w)\]])\^(?:{_BRACED}|([-−]?(?:\d+|[^\W\d_])))"
_LOWERED = (
    r"(?<![^\W\d])((?:arg)?max|min|mean|sup|[^\W\d_]['′]?)"  # a letter, or a word of mathematics
    rf"_(?:{_BRACED}|(\w{{1,2}}(?:,\w)?)(?!\w))"
)
_AFTER_CODE_AND_LINKS = 70
"""Code, links and HTML are out of the way by then; emphasis, which `_` may mean, comes later."""


class _Raised(InlineProcessor):
    def handleMatch(  # type: ignore[override]  # noqa: N802 - Markdown calls it so
        self, m: re.Match[str], data: str
    ) -> tuple[ET.Element, int, int]:
        """Return the raised sign."""
        del data
        raised = ET.Element("sup")
        raised.text = m[1] if m[1] is not None else m[2]
        return raised, m.start(0), m.end(0)


class _Lowered(InlineProcessor):
    def handleMatch(  # type: ignore[override]  # noqa: N802 - Markdown calls it so
        self, m: re.Match[str], data: str
    ) -> tuple[ET.Element, int, int]:
        """Return the letter with its index."""
        del data
        letter = ET.Element("span")
        letter.text = m[1]
        ET.SubElement(letter, "sub").text = m[2] if m[2] is not None else m[3]
        return letter, m.start(0), m.end(0)


class FormulaExtension(Extension):
    """Shows formulas as they are printed."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown calls it so
        """Register with Markdown."""
        first = _AFTER_CODE_AND_LINKS
        md.inlinePatterns.register(_Lowered(_LOWERED, md), "lowered", first + 1)
        md.inlinePatterns.register(_Raised(_RAISED, md), "raised", first)


def makeExtension(**_: object) -> FormulaExtension:  # noqa: N802 - Markdown looks for this name
    """Return the extension."""
    return FormulaExtension()

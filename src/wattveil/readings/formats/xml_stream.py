"""Streaming XML parser for untrusted files: events with line numbers, in constant memory.

Expat is driven directly rather than through ElementTree or lxml: it gives the line of each element,
builds no tree that would have to be cleared, and lets each attack on a reader be rejected.

================================  =================================================================
Attack                            Countermeasure
================================  =================================================================
Entities that grow (or point      a document type declaration is rejected, and without one there is
outside)                          no entity; no handler for external entities exists
Elements without end in depth     at most `MAX_DEPTH` levels
Text or tags without end          at most `MAX_TEXT` characters are kept of a text, and expat
                                  never holds back more than `MAX_TOKEN` bytes
Names without end in number       at most `MAX_NAMES`: expat remembers each
================================  =================================================================
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from wattveil.errors import InvalidFileError
from wattveil.readings.sources import chunks

MAX_DEPTH = 32
MAX_TEXT = 8192
MAX_TOKEN = 1 << 20
MAX_NAMES = 10_000

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


class XmlStream:
    """Base of a reader of one XML file.

    A subclass overrides `opened` and `closed`. In `opened` it may call `keep_text` to be given the
    text of that element in `closed` (an element whose text is kept has no elements inside), or
    `skip_inside` to skip what is in the element.

    Names are spelled ``namespace name`` with one space, or ``name`` without a namespace.

    Parameters
    ----------
    path
        The file; it may be compressed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.depth = 0
        self._text: str | None = None
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._listen()
        self._parser.StartDoctypeDeclHandler = self._refuse_doctype

    @property
    def line(self) -> int:
        """Line of the event that is being handled."""
        return self._parser.CurrentLineNumber

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        """Handle a start tag; `depth` is 1 for the root."""

    def closed(self, name: str, text: str | None) -> None:
        """Handle an end tag; ``text`` is set if it was to be kept."""

    def keep_text(self) -> None:
        """Keep the text of the element that was just opened."""
        self._text = ""
        self._parser.CharacterDataHandler = self._add_text

    def skip_inside(self) -> None:
        """Pass over what is in the element that was just opened; its end is handled again."""
        self._skipped = self.depth
        self._parser.StartElementHandler = self._skip_open
        self._parser.EndElementHandler = self._skip_close

    def refuse(self, expected: str, found: object, *, inside: str = "") -> NoReturn:
        """Raise an error with the line of the current event."""
        where = f"line {self.line}" + (f", {inside}" if inside else "")
        raise InvalidFileError(self.path, where, expected, found)

    def integer(self, name: str, text: str) -> int:
        """Read the text of an element as a whole number."""
        digits = text.strip()
        if _INTEGER.fullmatch(digits) is None:
            self.refuse("a whole number", text, inside=local_name(name))
        return int(digits)

    def run(self) -> Iterator[None]:
        """Parse the file and pause after each piece of it."""
        done = 0
        for chunk in chunks(self.path):
            self._parse(chunk, final=False)
            done += len(chunk)
            if done - max(self._parser.CurrentByteIndex, 0) > MAX_TOKEN:
                self.refuse(f"tags of at most {MAX_TOKEN} bytes", "a longer one")
            if len(self._parser.intern) > MAX_NAMES:
                self.refuse(f"at most {MAX_NAMES} different names", len(self._parser.intern))
            yield
        self._parse(b"", final=True)
        yield

    def _parse(self, chunk: bytes, *, final: bool) -> None:
        try:
            self._parser.Parse(chunk, final)
        except InvalidFileError:
            raise
        except expat.ExpatError as error:
            found = expat.ErrorString(error.code)
            self._not_well_formed(error.lineno, found, error)
        except (ValueError, LookupError) as error:  # an encoding that Python cannot map
            self._not_well_formed(self.line, str(error), error)

    def _not_well_formed(self, line: int, found: str, cause: Exception) -> NoReturn:
        raise InvalidFileError(self.path, f"line {line}", "well-formed XML", found) from cause

    def _listen(self) -> None:
        self._skipped = 0
        self._parser.StartElementHandler = self._open
        self._parser.EndElementHandler = self._close

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._skip_open(name, attributes)
        if self._text is not None:
            self.refuse("text without elements in it", local_name(name))
        self.opened(name, attributes)

    def _close(self, name: str) -> None:
        text = self._text
        if text is not None:
            self._text = None
            self._parser.CharacterDataHandler = None
        self.closed(name, text)
        self.depth -= 1

    def _skip_open(self, name: str, _attributes: dict[str, str]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.refuse(f"at most {MAX_DEPTH} levels of elements", local_name(name))

    def _skip_close(self, name: str) -> None:
        if self.depth == self._skipped:
            self._listen()
            self._close(name)
        else:
            self.depth -= 1

    def _add_text(self, text: str) -> None:
        self._text = (self._text or "") + text
        if len(self._text) > MAX_TEXT:
            self.refuse(f"at most {MAX_TEXT} characters of text", self._text[:40])

    def _refuse_doctype(self, name: str, *_rest: object) -> NoReturn:
        self.refuse("XML without a document type declaration", f"<!DOCTYPE {name}")


def local_name(name: str) -> str:
    """Give the name without its namespace."""
    return name.rpartition(" ")[2]

"""Seal proof pages: each names the source it proves, with a hash of that source.

A page of docs/proofs opens with a block of seals:

    ---
    proves:
      wattveil.privacy.noise.bernoulli: 0123456789abcdef
    ---

A name is that of a module, a class, a function, a method or a constant; `module.__top__` is all
that the module imports and runs outside definitions. Its hash is taken of the
syntax tree without docstrings: comments, layout and documentation may change, code may not.

`seal_proofs.py` lists the seals that no longer hold; `seal_proofs.py --write PAGE...` puts new
ones on the pages named. Writing a seal says: I have read this page against this code again.
"""

import argparse
import ast
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.source_code import parsed

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src"
PAGES = REPOSITORY / "docs" / "proofs"

TOP_LEVEL = "__top__"
"""Names what a module imports and runs at its top level: a definition could be replaced there."""

# Any digest matches, so that a new or broken line is a stale seal and not a missing one.
_SEAL = re.compile(r"^  (?P<name>wattveil[\w.]*): (?P<digest>\S*)$", re.MULTILINE)


class UnknownNameError(LookupError):
    """A page names source that is not there."""


class Stale(NamedTuple):
    """A seal that does not hold."""

    page: Path
    name: str
    problem: str


def seals_of(page: Path) -> dict[str, str]:
    """Return the seals of a page: dotted name to hash."""
    return {seal["name"]: seal["digest"] for seal in _SEAL.finditer(_head(page.read_text()))}


def seal(name: str, source: Path = SOURCE) -> str:
    """Return the hash of the code behind a dotted name."""
    return hashlib.sha256(_canonical(sealed_code(name, source)[1]).encode()).hexdigest()[:16]


def stale_seals(page: Path, source: Path = SOURCE) -> Iterator[Stale]:
    """Compare each seal of a page with the source."""
    for name, digest in seals_of(page).items():
        try:
            if seal(name, source) != digest:
                yield Stale(page, name, "changed since the page was sealed")
        except UnknownNameError:
            yield Stale(page, name, "is not in the source")


def write_seals(page: Path, source: Path = SOURCE) -> None:
    """Put the present hashes on a page."""
    text = page.read_text()
    head = _head(text)
    fresh = _SEAL.sub(lambda found: f"  {found['name']}: {seal(found['name'], source)}", head)
    page.write_text(fresh + text[len(head) :])


def _head(text: str) -> str:
    """Return the block between the first two lines of three dashes."""
    return text[: text.index("\n---\n", 3)] if text.startswith("---\n") else ""


def sealed_code(name: str, source: Path = SOURCE) -> tuple[Path, ast.AST]:
    """Return the file and the syntax tree of a module or of something defined in one."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        stem = source.joinpath(*parts[:split])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                node: ast.AST = parsed(path.read_text())
                if parts[split:] == [TOP_LEVEL]:
                    return path, _top_level(node)
                for part in parts[split:]:
                    node = _member(node, part)
                return path, node
    raise UnknownNameError(name)


def _top_level(module: ast.AST) -> ast.Module:
    """Return what runs when a module is imported, but for definitions: imports and statements."""
    definitions = ast.FunctionDef, ast.ClassDef
    body = [node for node in getattr(module, "body", []) if not isinstance(node, definitions)]
    return ast.Module(body=body, type_ignores=[])


def _member(parent: ast.AST, name: str) -> ast.AST:
    """Return the one definition of a name in a module or class."""
    for node in ast.iter_child_nodes(parent):
        match node:
            case ast.FunctionDef(name=found) | ast.ClassDef(name=found):
                names = [found]
            case ast.Assign(targets=targets):
                parts = [getattr(target, "elts", [target]) for target in targets]
                names = [ast.unparse(part) for target in parts for part in target]
            case ast.AnnAssign(target=target):
                names = [ast.unparse(target)]
            case _:
                names = []
        if name in names:
            return node
    raise UnknownNameError(name)


def _canonical(node: object) -> str:
    """Write a syntax tree down without bare strings, places and empty fields.

    Unlike `ast.unparse` and `ast.dump`, the same on every version of Python.
    """
    match node:
        case ast.AST():
            fields = ((field, _canonical(value)) for field, value in ast.iter_fields(node))
            inside = ",".join(f"{field}={text}" for field, text in fields if text)
            return f"{type(node).__name__}({inside})"
        case list():
            return ",".join(_canonical(item) for item in node if not _is_documentation(item))
        case None:
            return ""
        case _:
            return repr(node)


def _is_documentation(node: object) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case _:
            return False


def main(arguments: list[str] | None = None) -> int:
    """Report stale seals, or write new ones; return 1 if any seal does not hold."""
    parser = argparse.ArgumentParser(description="Check or renew the seals of proof pages.")
    parser.add_argument("pages", nargs="*", type=Path, help="default: all, for a check alone")
    parser.add_argument("--write", action="store_true", help="seal the named pages anew")
    options = parser.parse_args(arguments)
    if options.write and not options.pages:
        parser.error("--write needs the pages that you have read again")
    pages: list[Path] = options.pages or sorted(PAGES.glob("*.md"))
    if options.write:
        for page in pages:
            write_seals(page)
    stale = [found for page in pages for found in stale_seals(page)]
    sys.stdout.writelines(f"{found.page.name}: {found.name} {found.problem}\n" for found in stale)
    sys.stdout.write(f"{len(stale)} stale seals in {len(pages)} pages\n")
    return min(len(stale), 1)


if __name__ == "__main__":
    sys.exit(main())

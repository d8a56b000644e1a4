"""The pages of the documentation, read as the tests need them: blocks, headings, links."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tools.reference import GENERATED
from tools.reference.command_line import commands
from wattveil.cli import app

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
PAGES = sorted(
    [*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *REPOSITORY.glob("examples/**/*.md")]
)

_FENCE = re.compile(r"^( *)```([a-z]*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_COMMANDS = dict(commands(app))
_OURS = re.compile(r"^(?:\S*/)?wattveil$")


class Block(NamedTuple):
    """A block of code: what it is written in, and its text."""

    language: str
    text: str


def name_of(page: Path) -> str:
    """Return the name of a page for people."""
    return str(page.relative_to(REPOSITORY))


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    return [Block(language, body) for _, language, body in _FENCE.findall(text)]


def commands_in(text: str) -> Iterator[str]:
    """Yield every command of a block, as it is typed."""
    begun = ""
    for line in text.replace("\\\n", " ").splitlines():
        begun += line
        try:
            words = words_of(begun)
        except ValueError:  # a quoted text goes on in the next line
            begun += "\n"
            continue
        if words:
            yield begun
        begun = ""


def words_of(command: str) -> list[str]:
    """Return the words of a command, without its comment."""
    return shlex.split(command, comments=True)


def arguments_of_ours(words: list[str]) -> list[str] | None:
    """Return what follows `wattveil`, up to a pipe; None if it is another program."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]  # variables set for this command alone
    if not words or not _OURS.match(words[0]):
        return None
    ends = [place for place, word in enumerate(words) if word in {"|", "&&", ";", ">", "&"}]
    return words[1 : min(ends, default=len(words))]


def command_of(arguments: list[str]) -> tuple[Any, list[str]]:
    """Return the command that arguments begin with, as Typer knows it, and what follows it."""
    known = [name for name in _COMMANDS if name.split()[1:] == arguments[: len(name.split()) - 1]]
    assert known, f"no such command: wattveil {shlex.join(arguments)}"
    name = max(known, key=len)
    return _COMMANDS[name], arguments[len(name.split()) - 1 :]


def parse(arguments: list[str]) -> None:
    """Let the command read its arguments as the program would, and run nothing."""
    command, rest = command_of(arguments)
    command.make_context(command.name, rest)


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, those that the code writes among them."""
    for name, write in GENERATED.items():
        mark = f"<!-- generated: {name} -->"
        text = text.replace(mark, write()) if mark in text else text
    plain = _FENCE.sub("", text)
    return {_slug(title) for title in re.findall(r"^#+ (.*)$", plain, flags=re.MULTILINE)}


def broken_links(text: str, folder: Path) -> list[str]:
    """Return the links and pictures of a page that lead nowhere; addresses of others are left."""
    plain = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text))
    found = re.findall(r"\]\(([^)\s]+)\)|<img[^>]* src=\"([^\"]+)\"", plain)
    links = [first or second for first, second in found]
    return [link for link in links if not _leads_somewhere(link, text, folder)]


def _leads_somewhere(link: str, text: str, folder: Path) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    path, _, anchor = link.partition("#")
    target = folder / path
    if not target.exists():
        return False
    if not anchor:
        return True
    return anchor in anchors(target.read_text() if path else text)


def _slug(title: str) -> str:
    """Return the anchor of a heading: as the site makes it, and GitHub for plain titles."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words).strip().lower())

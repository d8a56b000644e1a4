"""Documentation is run: every block of every page, in the order of the page.

`python` and `console` are run; what one block makes, the next finds. `py` and `sh` are shown where
running would need a cluster, a server or an hour: their imports are done, and their commands read
by the program itself. Any other language is no code of ours.
"""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.pages import (
    PAGES,
    REPOSITORY,
    Block,
    arguments_of_ours,
    blocks,
    lines_of_shell,
    name_of,
    parse,
    wattveil_imports,
)
from wattveil.cli import app

LANGUAGES = {"python", "console", "py", "sh", "text", "json", "yaml", "sql", "csv", "bibtex", "ini"}
TARGETS = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), flags=re.MULTILINE))
_CODE_OF_OURS = re.compile(r"^(wattveil |import wattveil|from wattveil)", re.MULTILINE)
CODED = [page for page in PAGES if blocks(page.read_text())]


@pytest.mark.parametrize("page", CODED, ids=name_of)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who types a page gets what the page says; its claims are asserted in it."""
    monkeypatch.chdir(tmp_path)
    run_page(blocks(page.read_text()), str(page))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n",
        "```console\nwattveil verify nowhere\n```\n",
        "```console\nrm -rf nothing\n```\n",
        "```sh\nwattveil release profiles.parquet --epsilon 1 --no-such-option\n```\n",
        "```sh\nwattveil sell profiles.parquet\n```\n",
        "```sh\nmake money\n```\n",
        "```py\nfrom wattveil import sell\n```\n",
        "```text\nimport wattveil\n```\n",
        "```\nwattveil verify bundle\n```\n",
        "```perl\n1\n```\n",
    ],
)
def test_a_block_that_does_not_work_is_found(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault of each kind is caught."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - each kind fails in its own way
        run_page(blocks(text), "planted")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_exist(page: Path) -> None:
    """Every `make` target that a page names is in the Makefile."""
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text())) <= TARGETS


def run_page(code: list[Block], name: str) -> None:
    """Run or read every block; names of Python live as long as the page."""
    space: dict[str, object] = {"__name__": "__main__"}
    for language, text in code:
        match language:
            case "python":
                exec(compile(text, name, "exec"), space)  # noqa: S102 - our own documentation
            case "console":
                for words in lines_of_shell(text):
                    run(words)
            case "py":
                for line in wattveil_imports(text):
                    exec(line, {})  # noqa: S102 - our own documentation
            case "sh":
                for words in lines_of_shell(text):
                    read(words)
            case _:
                assert language in LANGUAGES | {""}, language
                assert not _CODE_OF_OURS.search(text)


def run(words: list[str]) -> None:
    """Run a command of a page; `make` is only looked up."""
    if words[0] == "make":
        read(words)
        return
    arguments = arguments_of_ours(words)
    assert arguments is not None, words
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def read(words: list[str]) -> None:
    """Read a command of a page as the program would; other programs are left to the reader."""
    if words[0] == "make":
        assert {word for word in words[1:] if "=" not in word} <= TARGETS
    elif (arguments := arguments_of_ours(words)) is not None:
        parse(arguments)

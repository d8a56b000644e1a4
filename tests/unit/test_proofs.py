"""Proof pages: every guarantee has one, and none outlives the code it proves."""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import seal_proofs

SOURCE = seal_proofs.SOURCE
KERNEL = SOURCE / "wattveil" / "privacy"
PAGES = sorted(path for path in seal_proofs.PAGES.glob("*.md") if path.name != "README.md")
SEALED = {page.name: set(seal_proofs.seals_of(page)) for page in PAGES}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the source in which a change can be planted."""
    ignore = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(SOURCE, tmp_path / "src", ignore=ignore)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_seal_is_current(page: Path) -> None:
    """No code has moved since its page was read against it."""
    assert seal_proofs.seals_of(page), f"{page.name} proves nothing"
    assert not list(seal_proofs.stale_seals(page))


def test_every_mechanism_and_every_region_is_proved() -> None:
    """Each public function of a mechanism and each class of `sensitivity` has a page."""
    due = {
        name
        for path in KERNEL.glob("mechanisms/*.py")
        for name, node in definitions(path)
        if isinstance(node, ast.FunctionDef) and is_public(name)
    }
    due |= {
        name
        for name, node in definitions(KERNEL / "sensitivity.py")
        if isinstance(node, ast.ClassDef)
    }
    assert len(due) > 15
    assert not due - set().union(*SEALED.values())


def test_every_docstring_names_a_page_that_seals_it() -> None:
    """A docstring that says "Proof: docs/proofs/x.md" points to a page that proves its object."""
    named = {
        name: pages
        for path in SOURCE.rglob("*.py")
        for name, node in definitions(path)
        if (pages := re.findall(r"Proof:\s+docs/proofs/([\w-]+\.md)", docstring(node)))
    }
    assert len(named) > 8
    for name, pages in named.items():
        for page in pages:
            assert name in SEALED[page]


def test_every_formal_guarantee_in_the_kernel_mechanisms_names_its_page() -> None:
    """A mechanism may not state a guarantee without saying where it is proved."""
    for path in KERNEL.glob("mechanisms/*.py"):
        for _, node in definitions(path):
            if "Formal guarantee" in docstring(node):
                assert "Proof:" in docstring(node)


def test_every_page_named_anywhere_exists() -> None:
    """Comments, docstrings, pages and the index name no page that is not there."""
    names = {page.name for page in PAGES} | {"README.md"}
    for path in [*SOURCE.rglob("*.py"), *seal_proofs.PAGES.parent.rglob("*.md")]:
        assert set(re.findall(r"docs/proofs/([\w-]+\.md)", path.read_text())) <= names
    for page in [*PAGES, seal_proofs.PAGES / "README.md"]:
        assert set(re.findall(r"\]\(([\w-]+\.md)", page.read_text())) <= names


def test_the_index_lists_every_page() -> None:
    """An auditor who reads the index in order misses no page."""
    index = (seal_proofs.PAGES / "README.md").read_text()
    assert not [page.name for page in PAGES if f"({page.name})" not in index]


@pytest.mark.parametrize(
    ("module", "name", "old", "new"),
    [
        ("noise", "bernoulli", "< probability.numerator", "<= probability.numerator"),
        ("sensitivity", "Ball", "self.radius_in_steps**2 *", "self.radius_in_steps *"),
        ("sensitivity", "GRID_BITS", "GRID_BITS = 26", "GRID_BITS = 25"),
        ("mechanisms.modulo", "modulo_delta", "epsilon - losses", "epsilon + losses"),
        ("guarantee", "", "epsilon <= other.epsilon", "epsilon < other.epsilon"),
    ],
)
def test_one_changed_token_breaks_the_seal(
    copy: Path, module: str, name: str, old: str, new: str
) -> None:
    """A function, a method inside a class, a constant, a module: each notices."""
    dotted = f"wattveil.privacy.{module}.{name}".rstrip(".")
    replace_once(copy / "wattveil" / "privacy" / f"{module.replace('.', '/')}.py", old, new)
    assert seal_proofs.seal(dotted, copy) != seal_proofs.seal(dotted)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("Ball", "Refuse a radius that is not a size.", "Check."),
        ("_clip_rows", "# no overflow at 1e300", "# another comment"),
        ("_clip_rows", "rows[i, j] / peak", "(rows[i, j]) / peak"),
        ("Region", "Size of a grid step in", "How large a grid step is in"),
        ("GRID_BITS", "A region reaches between", "Regions reach between"),
    ],
)
def test_words_and_layout_do_not_break_a_seal(copy: Path, name: str, old: str, new: str) -> None:
    """Docstrings of functions, classes and constants, comments and brackets are free."""
    replace_once(copy / "wattveil" / "privacy" / "sensitivity.py", old, new)
    dotted = f"wattveil.privacy.sensitivity.{name}"
    assert seal_proofs.seal(dotted, copy) == seal_proofs.seal(dotted)


def test_stale_seals_are_reported_and_renewed(copy: Path, tmp_path: Path) -> None:
    """The tool finds changed and vanished code; writing heals the one, never the other."""
    page = tmp_path / "page.md"
    kept, gone = "wattveil.privacy.noise.bernoulli", "wattveil.privacy.noise.vanished"
    page.write_text(f"---\nproves:\n  {kept}: {'0' * 16}\n---\n\n  {kept}: {'0' * 16}\n")
    assert [found.name for found in seal_proofs.stale_seals(page, copy)] == [kept]
    seal_proofs.write_seals(page, copy)
    assert not list(seal_proofs.stale_seals(page, copy))
    assert page.read_text().endswith(f"  {kept}: {'0' * 16}\n")  # the body is left alone

    page.write_text(f"---\nproves:\n  {gone}: {'0' * 16}\n---\n")
    assert [found.problem for found in seal_proofs.stale_seals(page)] == ["is not in the source"]
    with pytest.raises(seal_proofs.UnknownNameError):
        seal_proofs.write_seals(page)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--write` nothing is written; with it, pages must be named."""
    page = tmp_path / "page.md"
    stale = f"---\nproves:\n  wattveil.privacy.noise.bernoulli: {'0' * 16}\n---\n"
    page.write_text(stale)
    assert seal_proofs.main([str(page)]) == 1
    assert page.read_text() == stale
    assert "page.md: wattveil.privacy.noise.bernoulli changed" in capsys.readouterr().out
    assert seal_proofs.main(["--write", str(page)]) == 0
    with pytest.raises(SystemExit):
        seal_proofs.main(["--write"])


def definitions(path: Path) -> Iterator[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef]]:
    """Yield the module, its classes and functions and their methods, with dotted names."""
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")

    def walk(prefix: str, parent: ast.AST) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                yield f"{prefix}.{node.name}", node
                if isinstance(node, ast.ClassDef):
                    yield from walk(f"{prefix}.{node.name}", node)

    tree = ast.parse(path.read_text())
    yield module, tree
    yield from walk(module, tree)


def is_public(name: str) -> bool:
    """Whether a dotted name is that of a public function: no underscore, no method of a class."""
    *_, parent, last = name.split(".")
    return not last.startswith("_") and not parent[0].isupper()


def docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """Return the docstring, or nothing."""
    return ast.get_docstring(node) or ""


def replace_once(path: Path, old: str, new: str) -> None:
    """Plant one change."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))

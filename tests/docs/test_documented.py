"""Nothing public is without its words: commands, names, errors, problems, settings, fields."""

import inspect
import pkgutil
import re
from collections.abc import Iterable
from datetime import date
from importlib import import_module
from typing import Annotated, Any

import pytest
import typer

import wattveil
from tests.doc_pages import DOCS, REPOSITORY, arguments_of_ours, commands_in, parse, words_of
from tools.reference.command_line import command_reference, commands
from tools.reference.http import addresses, description
from tools.reference.manifest_fields import fields
from tools.reference.schema import fields_of
from wattveil import errors
from wattveil.bundle.manifest import manifest_schema
from wattveil.cli import app
from wattveil.cli.serve import VARIABLES
from wattveil.privacy.guarantee import Tier
from wattveil.products.product import Choice
from wattveil.products.registry import default_weights, product_named, products_of
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.server.http.problems import Code
from wattveil.server.ledger.admission import Refusal

REFERENCE = DOCS / "reference"
CODE = ("src", "tests", "benchmarks", "tools")


def missing(names: Iterable[str], text: str) -> list[str]:
    """Return the names that a text does not hold as words of their own."""
    return [name for name in names if not re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)]


def test_what_is_missing_is_found() -> None:
    """A name within another one does not count, nor one that is not there."""
    text = "| `budget_refused` | `WATTVEIL_DATA` |\n::: wattveil.products.clusters.KMeansPlan\n"
    assert (
        missing(["budget_refused", "WATTVEIL_DATA", "wattveil.products.clusters.KMeansPlan"], text)
        == []
    )
    names = ["refused", "WATTVEIL", "wattveil.products.clusters", "planted"]
    assert missing(names, text) == names


def undescribed(group: typer.Typer) -> list[str]:
    """Return commands without help or an example that can be typed, and options without help."""
    found = []
    for name, command in commands(group):
        found += [name] if not command.help or not _has_example(name, command.epilog) else []
        found += [f"{name} {one.name}" for one in command.params if not _is_described(one)]
    return found


def _has_example(name: str, epilog: str | None) -> bool:
    if not epilog or not epilog.startswith(f"Example: {name}"):
        return False
    for command in commands_in(epilog.removeprefix("Example: ")):
        parse(arguments_of_ours(words_of(command)) or [])
    return True


def _is_described(parameter: Any) -> bool:  # noqa: ANN401 - Typer's own
    return bool(parameter.help) or parameter.hidden


def test_every_command_and_option_is_described() -> None:
    """Each command states what it does, and shows an example that parses; options have help."""
    assert undescribed(app) == []
    page = command_reference()
    for name, command in commands(app):
        assert f"## {name}\n" in page
        options = [word for one in command.params for word in one.opts if word.startswith("--")]
        assert missing([word for word in options if word != "--help"], page.replace("`", " ")) == []


def test_a_verb_without_words_is_found() -> None:
    """A planted command without help, an option without words, and an example that is none."""
    planted = typer.Typer()

    @planted.command(epilog="Example: wattveil dumb")
    def dumb(*, loud: bool = False) -> None:
        pass

    @planted.command(epilog="Example: wattveil nothing")
    def mute(*, low: Annotated[bool, typer.Option(help="Quietly.")] = False) -> None:
        """Say nothing."""

    assert set(undescribed(planted)) >= {"wattveil dumb", "wattveil dumb loud", "wattveil mute"}


def public_names() -> list[str]:
    """Return every name that a module declares as its own face, once, where a user finds it."""
    modules = [
        "wattveil",
        *(one.name for one in pkgutil.walk_packages(wattveil.__path__, "wattveil.")),
    ]
    faces = {name: getattr(import_module(name), "__all__", ()) for name in modules}
    top = set(faces.pop("wattveil"))
    below = [
        f"{module}.{name}" for module, names in faces.items() for name in names if name not in top
    ]
    return sorted(f"wattveil.{name}" for name in top) + below


def test_every_public_name_is_in_the_reference() -> None:
    """The page of the Python API shows each name of each `__all__`; each that it shows exists."""
    page = (REFERENCE / "api.md").read_text()
    shown = re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE)
    assert missing(public_names(), page) == []
    assert len(shown) == len(set(shown))
    for name in shown:
        module, _, own = name.rpartition(".")
        assert hasattr(import_module(module), own), name


def test_every_error_documents_a_remedy() -> None:
    """Each class of `wattveil.errors` has a row with its words, and no other has one."""
    page = (REFERENCE / "errors.md").read_text()
    section = page.partition("## Exceptions")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|$", section, flags=re.MULTILINE)
    classes = [
        name
        for name, one in inspect.getmembers(errors, inspect.isclass)
        if issubclass(one, Exception)
    ]
    assert sorted(rows) == sorted(classes)


def test_every_problem_documents_a_remedy() -> None:
    """Each problem has a row with its status; each reason of the ledger has one, too."""
    page = (REFERENCE / "errors.md").read_text()
    rows = re.findall(r"^\| `([a-z_]+)` \| (\d+) \| [^|]+ \| [^|]+ \|$", page, flags=re.MULTILINE)
    assert sorted(rows) == sorted((code.name.lower(), str(code.status)) for code in Code)
    assert [reason for reason in Refusal if f"| {reason.value} | " not in page] == []


def test_every_product_is_in_the_table() -> None:
    """Each registered product has one row, with its default weight and each of its tables."""
    section = (DOCS / "release.md").read_text().partition("| product | weight |")[2]
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (.+) \| .+ \|$", section, flags=re.MULTILINE)
    assert [name for name, _, _ in rows] == [one.name for one in products_of(Tier.GLOBAL)]
    assert {one.name for one in products_of(Tier.INSTANCE)} <= {name for name, _, _ in rows}
    weights = {name: float(weight) for name, weight, _ in rows if weight != "none"}
    assert weights == default_weights()
    grid = TimeGrid(first_day=date(2025, 1, 1), n_days=365)
    choice = Choice(request=ReleaseRequest(epsilon=1.0), grid=grid)
    for name, _, tables in rows:
        layouts = product_named(name, Tier.GLOBAL).layouts(choice)
        assert missing([f"`{layout.name}`" for layout in layouts], tables) == []


def test_every_environment_variable_is_listed() -> None:
    """Whatever the repository reads from the environment stands in the page of settings."""
    files = [path for folder in CODE for path in (REPOSITORY / folder).rglob("*.py")]
    texts = [path.read_text() for path in [*files, REPOSITORY / "Makefile"]]
    ours = {name for text in texts for name in re.findall(r"\bWATTVEIL_[A-Z_]*[A-Z]\b", text)}
    read = {
        name
        for path in (REPOSITORY / "src").rglob("*.py")
        for name in re.findall(r"(?:environ(?:\.\w+\(|\[)|getenv\()\"(\w+)\"", path.read_text())
    }
    assert {"WATTVEIL_DATA", "WATTVEIL_DIFFPRIVLIB_PYTHON"} <= ours
    assert "JAVA_HOME" in read
    assert missing(sorted(ours | read), (REFERENCE / "settings.md").read_text()) == []


def test_every_setting_of_the_server_is_listed() -> None:
    """Each option of `wattveil serve`, by the name of its variable."""
    (command,) = (one for name, one in commands(app) if name == "wattveil serve")
    names = [f"{VARIABLES['serve']}_{one.name.upper()}" for one in command.params if one.name]
    assert "WATTVEIL_SERVE_COMPUTE_PROCESSES" in names
    assert missing(names, (REFERENCE / "settings.md").read_text()) == []


def test_every_address_and_field_of_the_api_is_described() -> None:
    """Each operation has its line, each field of each body and answer its meaning."""
    api = description()
    assert [
        f"{method} {path}"
        for path, methods in api["paths"].items()
        for method, said in methods.items()
        if not said.get("description")
    ] == []
    schemas = api["components"]["schemas"]
    assert len([name for name in schemas if name.endswith("Body")]) >= 7
    assert {"Dataset", "Quote", "Release", "BundleVerification", "ProblemBody"} <= {*schemas}
    assert [
        f"{name}.{one.path}"
        for name, body in schemas.items()
        for one in fields_of(body)
        if not one.text
    ] == []
    page = addresses()
    assert [path for path in api["paths"] if f" {path}\n" not in page] == []


def test_every_field_of_the_manifest_is_described() -> None:
    """Each field of the schema, and of what it refers to, has its meaning."""
    schema = manifest_schema()
    page, found = fields(), []
    for own in (schema, *schema["$defs"].values(), *schema["$defs"]["mechanism"]["oneOf"]):
        found += list(fields_of(own))
    assert len(found) > 100
    assert [one.path for one in found if not one.text or f"| `{one.path}` |" not in page] == []


@pytest.mark.parametrize("planted", [{"properties": {"secret": {"type": "string"}}}])
def test_a_field_without_meaning_is_found(planted: dict[str, Any]) -> None:
    """A field without a description has no text."""
    assert [one.path for one in fields_of(planted) if not one.text] == ["secret"]

"""The trusted base: the code that the differential-privacy guarantee rests on.

It is found by following the call graph from every public release function:

* an *entry* is a public function or method of `wattveil.release` that takes private data or states
  a guarantee, what writes a bundle (`release_products`, `release_bundle`, `PublicFacts.of`, and the
  methods `query` and `release` of each part), and every marked row function;
* a method of the base brings the methods of subclasses that override it;
* a definition reachable from an entry belongs to the base if it is in a *trusted* package
  (`privacy`, `engines`, `checks`, `compiled`, `release.rows`), or if it is in `release`,
  `products` or `bundle` and the annotation of a parameter permits private data;
* every definition that a function of `release.rows` reaches belongs to the base, in any package;
* post-processing does not belong to it: it receives released numbers, or a `PrivateTable` or a
  class that holds one, which release noisy numbers, charge for them, and return nothing else;
* the Spark engine is an entry of its own: releases reach it through the abstract class `Rows`.

A class counts with its header, its fields and its special methods, and with every method whose name
is used as an attribute anywhere in the base: an overestimate of what is called. Annotations are not
followed. `python -m tools.trusted_base` prints the base by file with its lines of code: no blank
lines, no comments, no docstrings.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"

TRUSTED = (
    "wattveil.privacy",
    "wattveil.engines",
    "wattveil.checks",
    "wattveil.compiled",
    "wattveil.release.rows",
)
JOINT = ("wattveil.release", "wattveil.products", "wattveil.bundle")
ROWS = "wattveil.release.rows"
PRIVATE_TYPES = {
    "ArrayLike",
    "DistributedProfiles",
    "Load",
    "Profiles",
    "Rows",
    "Secret",
    "Values",
    "Work",
}
EXTRA_ENTRIES = (
    "wattveil.bundle.produce.release_products",
    "wattveil.privacy.guarantee.global_guarantee",
    "wattveil.privacy.mechanisms.response.Channel",
    "wattveil.engines.spark.spark_rows.SparkRows",
)
NOT_RELEASED = {"predict", "fit_predict"}
"""Methods of scikit-learn that return exact values, private to the caller."""
INSTANCE_TIER = ("wattveil.products.instance_tier", "wattveil.release.instance")
INSTANCE_ENTRIES = (
    "wattveil.privacy.mechanisms.gaussian_answer.gaussian_answer",
    "wattveil.privacy.mechanisms.modulo.modulo_labels",
)
"""Mechanisms of the instance tier, which is not differential privacy: counted separately."""

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass
class Module:
    """The top-level names of a module: definitions and imports."""

    name: str
    path: Path
    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, source: Path) -> "Module":
        """Parse a file."""
        parts = path.relative_to(source).with_suffix("").parts
        module = cls(".".join(parts).removesuffix(".__init__"), path)
        for node in ast.walk(tree := ast.parse(path.read_text())):
            match node:
                case ast.ImportFrom(module=str(origin), names=imported):
                    for one in imported:
                        module.imports[one.asname or one.name] = f"{origin}.{one.name}"
                case ast.Import(names=imported):
                    for one in imported:
                        module.imports[one.asname or one.name] = one.name
                case _:
                    pass
        for node in tree.body:
            match node:
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    module.definitions[name] = node
                case ast.Assign(targets=targets):
                    names = [part for target in targets for part in _parts(target)]
                    module.definitions |= dict.fromkeys(names, node)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    module.definitions[name] = node
                case _:
                    pass
        return module


class Graph:
    """The call graph of a source tree."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = source
        self.modules = {
            module.name: module
            for path in sorted((source / "wattveil").rglob("*.py"))
            for module in [Module.read(path, source)]
        }

    def find(self, dotted: str) -> tuple[Module, ast.AST, str] | None:
        """Return module, syntax tree and name of a function, class, method or constant."""
        parts = dotted.split(".")
        for split in range(len(parts) - 1, 0, -1):
            module = self.modules.get(".".join(parts[:split]))
            if module is None:
                continue
            name, *rest = parts[split:]
            if name in module.imports and name not in module.definitions:  # re-exported
                return self.find(".".join([module.imports[name], *rest]))
            node: ast.AST | None = module.definitions.get(name)
            for inner in rest:
                node = _methods(node).get(inner)
            return None if node is None else (module, node, dotted)
        return None

    def entries(self) -> Iterator[str]:
        """Yield the entries, as defined in the docstring of the module."""
        yield from EXTRA_ENTRIES
        for module in self.modules.values():
            if not _within(module.name, JOINT) or module.name in INSTANCE_TIER:
                continue
            for name, node in module.definitions.items():
                functions = {name: node} if isinstance(node, ast.FunctionDef) else {}
                functions |= {f"{name}.{inner}": one for inner, one in _methods(node).items()}
                for inner, function in functions.items():
                    if _is_entry(module.name, inner, function):
                        yield f"{module.name}.{inner}"

    def base(self, extra: Sequence[str] = ()) -> dict[str, tuple[Module, ast.AST]]:
        """Return the trusted base: dotted names with module and syntax tree."""
        found: dict[str, tuple[Module, ast.AST]] = {}
        classes: dict[str, bool] = {}
        attributes: set[str] = set()
        entries = {*self.entries(), *extra}
        waiting = [(name, False) for name in entries]
        while waiting:
            dotted, from_rows = waiting.pop()
            place = self.find(dotted)
            if place is None:
                continue
            module, node, name = place
            belongs = name in entries or self._belongs(module, node, from_rows=from_rows)
            if name in found or not belongs:
                continue
            found[name] = module, node
            from_rows = from_rows or _within(module.name, (ROWS,))
            if isinstance(node, ast.ClassDef):
                classes[name] = from_rows
            waiting += [(other, from_rows) for other in self._overrides(name)]
            for inner in _used(node):
                if isinstance(inner, ast.Attribute) and not _names(inner.value, module):
                    attributes.add(inner.attr)
                waiting += [(other, from_rows) for other in self._references(module, name, inner)]
            for owner, rows in classes.items():
                methods = _methods(found[owner][1])
                waiting += [
                    (f"{owner}.{method}", rows)
                    for method in methods
                    if (method.startswith("__") or method in attributes)
                    and f"{owner}.{method}" not in found
                ]
        return found

    def _overrides(self, name: str) -> Iterator[str]:
        """Yield the methods of all subclasses, direct or not, that take the place of a method."""
        *_, owner, method = name.split(".")
        owners = [owner]
        for parent in owners:  # grows while it is read
            for module in self.modules.values():
                for child, node in module.definitions.items():
                    bases = getattr(node, "bases", [])
                    if parent in [ast.unparse(base).split("[")[0] for base in bases]:
                        owners.append(child)
                        if method in _methods(node):
                            yield f"{module.name}.{child}.{method}"

    def _belongs(self, module: Module, node: ast.AST, *, from_rows: bool) -> bool:
        """Whether a reachable definition is part of the trusted base."""
        if module.name in {"wattveil.errors", *INSTANCE_TIER}:
            return False
        if from_rows or _within(module.name, TRUSTED):
            return True
        if not _within(module.name, JOINT):
            return False
        match node:
            case ast.FunctionDef():
                return _takes_private(node) or node.name in _methods(self._work(module))
            case ast.ClassDef(name="Work"):
                return True
            case _:
                return False

    def _work(self, module: Module) -> ast.AST | None:
        """Return the class that passes rows to the parts of a bundle, if this module defines it."""
        return module.definitions.get("Work")

    def _references(self, module: Module, name: str, inner: ast.AST) -> Iterator[str]:
        """Yield the dotted names that a part of a definition refers to."""
        owner = name.removeprefix(f"{module.name}.").split(".")[0]
        match inner:
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attribute):
                yield from self._member(module, owner, attribute)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=attribute):
                for base in self._bases(module, owner):
                    yield f"{base}.{attribute}"
            case ast.Attribute(value=ast.Name(id=prefix), attr=attribute):
                if prefix in module.imports:
                    yield f"{module.imports[prefix]}.{attribute}"
            case ast.Name(id=used):
                if used in module.definitions:
                    yield f"{module.name}.{used}"
                elif used in module.imports:
                    yield module.imports[used]
            case _:
                pass

    def _member(self, module: Module, owner: str, attribute: str) -> Iterator[str]:
        """Yield a method of the class or of its bases."""
        if attribute in _methods(module.definitions.get(owner)):
            yield f"{module.name}.{owner}.{attribute}"
        for base in self._bases(module, owner):
            yield f"{base}.{attribute}"

    def _bases(self, module: Module, owner: str) -> Iterator[str]:
        """Yield the dotted names of the classes that a class inherits from."""
        node = module.definitions.get(owner)
        for base in getattr(node, "bases", []):
            if isinstance(base, ast.Name) and base.id in module.imports:
                place = self.find(module.imports[base.id])
                if place is not None:
                    yield place[2]
                    yield from self._bases(place[0], place[2].rsplit(".", 1)[1])

    def lines(self, base: dict[str, tuple[Module, ast.AST]]) -> dict[Path, int]:
        """Return the lines of code of a base by file."""
        spans: dict[Path, set[int]] = {}
        for module, node in base.values():
            span = spans.setdefault(module.path, set())
            span |= _span(node)
            for method in _methods(node).values():  # counted if they belong to the base
                span -= _span(method)
        for module, node in base.values():
            if isinstance(node, ast.FunctionDef):
                spans[module.path] |= _span(node)
        return {path: len(code_lines(path.read_text()) & span) for path, span in spans.items()}


def _parts(target: ast.expr) -> list[str]:
    """Return the names that an assignment binds."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _span(node: ast.AST) -> set[int]:
    """Return the numbers of the lines of a definition, decorators included."""
    first = min(one.lineno for one in [node, *getattr(node, "decorator_list", [])])
    return set(range(first, (getattr(node, "end_lineno", None) or first) + 1))


def _used(node: ast.AST) -> Iterator[ast.AST]:
    """Walk a definition, without the methods of a class and without annotations."""
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        yield inner
        for field_name, value in ast.iter_fields(inner):
            if field_name in {"annotation", "returns"}:
                continue
            children = value if isinstance(value, list) else [value]
            waiting += [
                child
                for child in children
                if isinstance(child, ast.AST)
                and not (isinstance(inner, ast.ClassDef) and isinstance(child, ast.FunctionDef))
            ]


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code: no blanks, comments or docstrings."""
    layout = {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in layout:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        # A string statement documents the module, class, function or constant above it.
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _methods(node: ast.AST | None) -> dict[str, ast.FunctionDef]:
    body = node.body if isinstance(node, ast.ClassDef) else []
    return {inner.name: inner for inner in body if isinstance(inner, ast.FunctionDef)}


def _takes_private(node: ast.FunctionDef) -> bool:
    """Whether a parameter may hold private data, by its annotation."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    named: set[str] = set()
    for one in every:
        annotation = one.annotation or ast.Constant(None)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):  # quoted
            annotation = ast.parse(annotation.value, mode="eval").body
        for inner in ast.walk(annotation):
            match inner:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    named.add(name)
                case _:
                    pass
    return bool(named & PRIVATE_TYPES)


def _is_entry(module: str, name: str, node: ast.FunctionDef) -> bool:
    """Whether a function receives private data from a caller, or states a guarantee."""
    if _within(module, (ROWS,)):
        return any(getattr(one, "id", "") == "row_function" for one in node.decorator_list)
    *_, last = name.split(".")
    if any(part.startswith("_") for part in name.split(".")) or last in NOT_RELEASED:
        return False
    if _within(module, ("wattveil.products", "wattveil.bundle")):
        return last in {"query", "release", "of", "release_bundle"} and _takes_private(node)
    states = "Formal guarantee" in (ast.get_docstring(node) or "")
    return states or _takes_private(node)


def _names(receiver: ast.expr, module: Module) -> bool:
    """Whether an attribute is of an imported module or class, so that it is found by name."""
    return isinstance(receiver, ast.Name) and receiver.id in module.imports


def _within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def main() -> int:
    """Print the trusted base by file."""
    graph = Graph()
    by_file = graph.lines(graph.base())
    for path, count in sorted(by_file.items()):
        sys.stdout.write(f"{count:5}  {path.relative_to(SOURCE)}\n")
    total, both = sum(by_file.values()), sum(graph.lines(graph.base(INSTANCE_ENTRIES)).values())
    sys.stdout.write(f"{total:5}  lines of code in the trusted base\n")
    sys.stdout.write(f"{both:5}  with the mechanisms of the instance tier\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

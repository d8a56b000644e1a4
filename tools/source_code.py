"""The source as syntax trees: modules, their definitions, and their lines of code."""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@cache
def parsed(source: str) -> ast.Module:
    """Parse a source. One tree serves all readers of the same text: none of them changes it."""
    return ast.parse(source)


@cache
def nodes_of(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return a syntax tree and all nodes under it."""
    return tuple(ast.walk(node))


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
        for node in nodes_of(tree := parsed(path.read_text())):
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


def _parts(target: ast.expr) -> list[str]:
    """Return the names that an assignment binds."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def span_of(node: ast.AST) -> set[int]:
    """Return the numbers of the lines of a definition, decorators included."""
    first = min(one.lineno for one in [node, *getattr(node, "decorator_list", [])])
    return set(range(first, (getattr(node, "end_lineno", None) or first) + 1))


@cache
def used_nodes(node: ast.AST) -> tuple[ast.AST, ...]:
    """Walk a definition, without the methods of a class and without annotations."""
    waiting, found = [node], []
    while waiting:
        inner = waiting.pop()
        found.append(inner)
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
    return tuple(found)


@cache
def code_lines(source: str) -> frozenset[int]:
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
    for node in nodes_of(parsed(source)):
        # A string statement documents the module, class, function or constant above it.
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


@cache
def methods_of(node: ast.AST | None) -> dict[str, ast.FunctionDef]:
    """Return the methods of a class; none of anything else."""
    body = node.body if isinstance(node, ast.ClassDef) else []
    return {inner.name: inner for inner in body if isinstance(inner, ast.FunctionDef)}


@cache
def fields_of(node: ast.AST | None) -> dict[str, ast.AST]:
    """Return the declared fields of a class."""
    body = node.body if isinstance(node, ast.ClassDef) else []
    return {
        inner.target.id: inner
        for inner in body
        if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name)
    }


def functions_of(module: Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions and methods of a module, with their names in it."""
    for name, node in module.definitions.items():
        if isinstance(node, ast.FunctionDef):
            yield name, node
        for method, function in methods_of(node).items():
            yield f"{name}.{method}", function


def is_within(name: str, packages: tuple[str, ...]) -> bool:
    """Whether a module is one of these packages or modules, or inside one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)

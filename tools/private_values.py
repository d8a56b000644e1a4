"""Which values of a function may be private, and to which other functions it passes them.

A syntactic rule, simple and on the safe side: a value is private if anything in the expression that
computes it is private. It stops being private where it is released (`released` of a caller), and
where it is one of the public attributes of private objects. Which branch is taken is not followed,
and neither are values that are read by name (`getattr`, `vars`).
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from tools.source_code import nodes_of

PUBLIC_ATTRIBUTES = {"choice", "grid", "kmeans", "period", "request", "timezone", "width"}
"""Public choices and released clusters of `Work`, public facts of profiles (`period` is what their
rules state), columns of `Rows`."""

STORES = {"add", "append", "extend", "insert", "setdefault", "update"}
"""Methods of containers that keep their argument."""

Verdict = Callable[[ast.Call], bool | None]
"""Whether the result of a call is private; None: if an argument or the object of the method is."""


def private_calls(
    function: ast.FunctionDef, parameters: Iterable[str], verdict: Verdict
) -> Iterator[ast.Call]:
    """Yield the calls in a function that pass a private value, or are methods of one."""
    private = _private_names(function, set(parameters), verdict)
    for node in nodes_of(function):
        if isinstance(node, ast.Call) and _any_private(_inputs(node), private, verdict):
            yield node


def called_functions(call: ast.Call) -> Iterator[ast.expr]:
    """Yield what a call names as a function: what it calls, and functions among its arguments."""
    yield call.func
    for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
        match value:
            case ast.Name() | ast.Attribute():
                yield value
            case ast.Call(func=ast.Name(id="partial"), args=arguments):
                yield from arguments
            case ast.Lambda(body=body):
                yield from (node for node in nodes_of(body) if isinstance(node, ast.expr))
            case _:
                pass


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """Return the parameters of a function, without the object of a method."""
    found = function.args
    every = [*found.posonlyargs, *found.args, *found.kwonlyargs]
    every += [one for one in (found.vararg, found.kwarg) if one is not None]
    return [one for one in every if one.arg not in {"self", "cls"}]


@cache
def type_names(annotation: ast.expr | None) -> frozenset[str]:
    """Return the names in an annotation, quoted or not; a missing one may be anything."""
    if annotation is None:
        return frozenset({"Any"})
    named: set[str] = set()
    waiting: list[ast.AST] = [annotation]
    while waiting:
        match inner := waiting.pop():
            case ast.Subscript(value=ast.Name(id="Literal")):
                named.add("str")
                continue
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[first, *_])):
                waiting.append(first)
                continue
            case ast.Name(id=name) | ast.Attribute(attr=name):
                named.add(name)
            case ast.Constant(value=str(text)):
                named.update(re.findall(r"\w+", text))
            case _:
                pass
        waiting += ast.iter_child_nodes(inner)
    return frozenset(named)


def _private_names(function: ast.FunctionDef, private: set[str], verdict: Verdict) -> set[str]:
    """Return the names that are bound to a private value anywhere in the function."""
    while True:
        found = {
            name
            for node in nodes_of(function)
            for target, value in _bindings(node)
            if _is_private(value, private, verdict)
            for name in _roots(target)
        }
        if found <= private:
            return private
        private |= found


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement or expression binds to which names."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _matched(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield target, value
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield target, value
        case ast.Call(func=ast.Attribute(value=receiver, attr=name), args=values) if name in STORES:
            for value in values:
                yield receiver, value
        case _:
            pass


def _matched(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the parts of `a, b = x, y` one by one."""
    match target, value:
        case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
            yield from zip(names, values, strict=True)
        case _:
            yield target, value


def _roots(target: ast.expr) -> Iterator[str]:
    """Yield the names that hold what is assigned: `self` for `self.rows = rows`."""
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            yield from _roots(inner)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _roots(part)
        case _:
            pass


def _is_private(node: ast.expr, private: set[str], verdict: Verdict) -> bool:
    match node:
        case ast.Name(id=name):
            return name in private
        case ast.Attribute(attr=name) if name in PUBLIC_ATTRIBUTES:
            return False
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=1)):
            return False  # the number of columns is public, that of rows is not
        case ast.Call() if (known := verdict(node)) is not None:
            return known
        case _:
            return _any_private(ast.iter_child_nodes(node), private, verdict)


def _any_private(nodes: Iterable[ast.AST], private: set[str], verdict: Verdict) -> bool:
    """Whether an expression is private; other nodes are looked into."""
    return any(
        _is_private(node, private, verdict)
        if isinstance(node, ast.expr)
        else _any_private(ast.iter_child_nodes(node), private, verdict)
        for node in nodes
    )


def _inputs(call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments of a call, and the object if it is a method."""
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)
    if isinstance(call.func, ast.Attribute):
        yield call.func.value

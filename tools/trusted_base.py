"""The trusted base: the code that the differential-privacy guarantee rests on.

It is found by following the call graph from its entries.

Entries:

* a public function or method of `wattveil.release` that states a guarantee, or has a parameter that
  is not of a public type (`SCALARS`, `PUBLIC_TYPES`); a class that wraps a `PrivateTable` can only
  release, so its methods are entries if they take rows;
* every marked row function;
* in `products`, `bundle`, `server` and `cli`: every function that holds profiles and is on a call
  path with an exit (`release_bundle`, `release_products`, `PublicFacts.of`): it calls one, directly
  or not, or is called by a function that does;
* every function that reads an attribute with an underscore of another object that may hold rows;
* the interface of products, and the Spark engine, which releases reach through abstract classes.

What follows from them:

* a definition that the base refers to belongs to it if it is in a trusted package (`TRUSTED`), or
  if it is in one of the packages above and a parameter may hold rows by its annotation;
* a function to which a function of the base passes a private value belongs to it, in any package
  (`tools.private_values` defines what is private), and so does all that a row function reaches;
* a method of the base brings the methods of all subclasses that override it.

Post-processing does not belong to it: it receives released numbers, or a `PrivateTable` or a class
that holds one, which release noisy numbers, charge for them, and return nothing else.

A class counts with its header, its fields and its special methods, and with every method whose name
is used as an attribute anywhere in the base: an overestimate of what is called. Annotations are not
followed. Lines of code are no blank lines, no comments and no docstrings. `python -m
tools.trusted_base` prints the base by file, and two sizes: the lines that the call graph reaches,
and the lines under any seal, which are more because some pages seal whole modules, imports and
statements of modules, and the mechanisms of the instance tier.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tools import seal_proofs
from tools.private_values import called_functions, parameters, private_calls, type_names
from tools.source_code import (
    Module,
    code_lines,
    fields_of,
    functions_of,
    is_within,
    methods_of,
    nodes_of,
    span_of,
    used_nodes,
)

SOURCE = Path(__file__).parents[1] / "src"

TRUSTED = (
    "wattveil.privacy",
    "wattveil.engines",
    "wattveil.checks",
    "wattveil.compiled",
    "wattveil.release.rows",
)
ROWS = "wattveil.release.rows"
RELEASE = "wattveil.release"
CALLERS = ("wattveil.products", "wattveil.bundle", "wattveil.server", "wattveil.cli")
"""What passes profiles of customers to a release."""
INTERNAL = ("wattveil.lab", "wattveil.grid", "wattveil.privacy.transcript", "wattveil.cli.demo")
"""Nothing of it is published: `transcript` serves the replay audit, by import contract; the
customers of the demo are simulated."""

PROFILES = {"DistributedProfiles", "Profiles", "Work"}
HOLDERS = {*PROFILES, "CustomerState", "Load", "PeriodRows", "Rows", "Secret", "Values"}
"""Types that hold private rows; aliases and subclasses are found."""
SCALARS = {"bool", "float", "int", "None", "str", "tuple"}
PUBLIC_TYPES = {
    "Allotment",
    "Budget",
    "Calendar",
    "Callable",
    "Choice",
    "Cumulative",
    "Ed25519PrivateKey",
    "FirstEstimate",
    "GroupLoadQueries",
    "KMeansQueries",
    "Path",
    "PrivateKMeans",
    "PrivatePeriod",
    "PrivateTable",
    "ReleasePlan",
    "ReleaseRequest",
    "ReleasedLabels",
    "ReleasedSeries",
    "SegmentDesign",
    "SegmentPeriod",
    "SeriesDesign",
    "SparkEngine",
    "Split",
    "TimeGrid",
    "YearCalendar",
    "date",
    "datetime",
    "dt",
}
"""Types of public choices, budgets and released values: a parameter of them holds no row."""
PUBLIC_PARAMETERS = {"centroids", "customer_list", "levels", "sizes", "totals", "y"}
"""Arguments that every release function documents as public or released before."""
PUBLIC_ARRAYS = {
    "wattveil.release.group_load.means_within",
    "wattveil.release.kmeans.PrivateKMeans.__init__",
    "wattveil.release.load_series.SeriesDesign.query",
    "wattveil.release.load_series.first_radii",
    "wattveil.release.randomised_labels.label_design",
    "wattveil.release.synthetic.LoadSynthesizer.__init__",
    "wattveil.release.synthetic.LoadSynthesizer.sample",
    "wattveil.release.synthetic.YearSynthesizer.sample",
}
"""Functions of `release` that take arrays, all of them public or released."""
NOT_RELEASED = {"predict", "fit_predict", "comparable"}
"""Methods that return exact values, private to the caller."""

EXITS = (
    "wattveil.bundle.published_series.LoadSeries.add",
    "wattveil.bundle.produce.release_bundle",
    "wattveil.bundle.produce.release_products",
    "wattveil.products.product.PublicFacts.of",
)
"""Where profiles become what may be published."""
RELEASING = (
    "wattveil.privacy.mechanisms.gaussian.PrivateTable",
    "wattveil.privacy.mechanisms.response.respond",
    "wattveil.privacy.mechanisms.period_sums.PrivatePeriod",
)
"""What the kernel makes of rows: tables that can only release, and released labels."""
EXTRA_ENTRIES = (
    *EXITS,
    "wattveil.products.product.Product.query",
    "wattveil.products.product.Product.release",
    "wattveil.privacy.guarantee.global_guarantee",
    "wattveil.privacy.mechanisms.response.Channel",
    "wattveil.engines.spark.spark_rows.SparkRows",
)
PUBLIC_NUMBERS = (
    "wattveil.bundle.manifest._stated_choices",
    "wattveil.bundle.manifest.READING_RULES",
    "wattveil.products.public_estimate",
    "wattveil.products.request.ReleaseRequest.customers",
    "wattveil.products.request.ReleaseRequest.typical_kw",
)
"""What decides which public numbers a manifest states, and how they are rounded. It receives no
rows, and so is no part of the base; a page seals it."""
INSTANCE_TIER = ("wattveil.products.instance_tier", "wattveil.release.instance")
INSTANCE_ENTRIES = (
    "wattveil.privacy.mechanisms.gaussian_answer.gaussian_answer",
    "wattveil.privacy.mechanisms.modulo.modulo_labels",
)
"""Mechanisms of the instance tier, which is not differential privacy: counted separately."""


class Graph:
    """The call graph of a source tree."""

    def __init__(self, source: Path = SOURCE) -> None:
        self.source = source
        self.modules = {
            module.name: module
            for path in sorted((source / "wattveil").rglob("*.py"))
            for module in [Module.read(path, source)]
        }
        self.functions = {
            f"{module.name}.{name}": (module, function)
            for module in self.modules.values()
            for name, function in functions_of(module)
        }
        self._children: dict[str, list[str]] = {}
        for module in self.modules.values():
            for name, node in module.definitions.items():
                for base in getattr(node, "bases", []):
                    parent = ast.unparse(base).split("[")[0].split(".")[-1]
                    self._children.setdefault(parent, []).append(f"{module.name}.{name}")
        self.holders = self._declared_as(HOLDERS)
        self.profiles = self._declared_as(PROFILES)
        self.hidden = self._hidden_attributes()
        self._released: frozenset[str] = frozenset()  # entries are found without it
        self._entries = frozenset(self._find_entries())
        self._released = self._what_releases()

    def find(self, dotted: str) -> tuple[Module, ast.AST, str] | None:
        """Return module, syntax tree and name of a function, class, method, field or constant."""
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
                node = methods_of(node).get(inner) or fields_of(node).get(inner)
            return None if node is None else (module, node, dotted)
        return None

    def entries(self) -> frozenset[str]:
        """Return the entries, as defined in the docstring of the module."""
        return self._entries

    def _find_entries(self) -> Iterator[str]:
        yield from EXTRA_ENTRIES
        on_path = self._on_a_path_to_a_release()
        for name, (module, function) in self.functions.items():
            if is_within(module.name, (*INSTANCE_TIER, *INTERNAL)):
                continue
            if is_within(module.name, (ROWS,)):
                if any(getattr(one, "id", "") == "row_function" for one in function.decorator_list):
                    yield name
            elif is_within(module.name, (RELEASE,)):
                if self._releases(module, name, function):
                    yield name
            elif name in on_path and self._holds_rows(module, name, function):
                yield name
            if not is_within(module.name, TRUSTED) and self._reads_hidden(module, function):
                yield name

    def _what_releases(self) -> frozenset[str]:
        """Return the functions whose results are released: entries that return no rows."""
        found = {*RELEASING}
        for name in self._entries:
            place = self.functions.get(name)
            if place is None or is_within(place[0].name, TRUSTED):
                continue
            if not type_names(place[1].returns) & self.holders:
                found |= {name, *self._overrides(name)}
        return frozenset(found)

    def base(self, extra: Sequence[str] = ()) -> dict[str, tuple[Module, ast.AST]]:
        """Return the trusted base: dotted names with module and syntax tree."""
        found: dict[str, tuple[Module, ast.AST]] = {}
        classes: dict[str, tuple[bool, bool]] = {}
        attributes: set[str] = set()
        waiting = [(name, True, False) for name in {*self.entries(), *extra}]
        while waiting:
            dotted, certain, from_rows = waiting.pop()
            place = self.find(dotted)
            if place is None:
                continue
            module, node, name = place
            if name in found or not (certain or self._belongs(module, node)):
                continue
            if is_within(module.name, ("wattveil.errors", *INSTANCE_TIER, *INTERNAL)):
                continue
            found[name] = module, node
            from_rows = from_rows or is_within(module.name, (ROWS,))
            if isinstance(node, ast.ClassDef):
                classes[name] = from_rows or node.name in self.holders, from_rows
            given = {*self._overrides(name), *self._private_flow(module, name, node)}
            waiting += [(other, True, from_rows) for other in given]
            for inner in used_nodes(node):
                if isinstance(inner, ast.Attribute) and not _names(inner.value, module):
                    attributes.add(inner.attr)
                references = self._references(module, name, inner)
                waiting += [(other, from_rows, from_rows) for other in references]
            for owner, reasons in classes.items():
                waiting += [
                    (f"{owner}.{method}", *reasons)
                    for method in methods_of(found[owner][1])
                    if (method.startswith("__") or method in attributes)
                    and f"{owner}.{method}" not in found
                ]
        return found

    def _declared_as(self, types: set[str]) -> set[str]:
        """Return types with their aliases and subclasses."""
        holders = set(types)
        while True:
            more = {
                name
                for module in self.modules.values()
                if not is_within(module.name, INTERNAL)
                for name, node in module.definitions.items()
                if _declared_types(node) & holders
            }
            if more <= holders:
                return holders
            holders |= more

    def _hidden_attributes(self) -> set[str]:
        """Return the attributes with an underscore of all classes that may hold private data.

        And that of functions which gives access to the rows they hold.
        """
        return {"__closure__"} | {
            inner.attr
            for module in self.modules.values()
            for name, node in module.definitions.items()
            if isinstance(node, ast.ClassDef)
            and name in {*self.holders, "BoundedTotals", "PrivateTable", "PrivateValue"}
            for inner in nodes_of(node)
            if isinstance(inner, ast.Attribute)
            and _is_own(inner.value)
            and inner.attr.startswith("_")
            and not inner.attr.startswith("__")
        }

    def _releases(self, module: Module, name: str, function: ast.FunctionDef) -> bool:
        """Whether a function of `release` takes private data, or states a guarantee."""
        own = name.removeprefix(f"{module.name}.").split(".")
        public = not any(part.startswith("_") and part != "__init__" for part in own)
        if not public or own[-1] in NOT_RELEASED or name in PUBLIC_ARRAYS:
            return False
        types = [type_names(one.annotation) for one in parameters(function)]
        if "Formal guarantee" in (ast.get_docstring(function) or ""):
            return True
        first = methods_of(module.definitions[own[0]]).get("__init__")
        queries = first is not None and any(
            "PrivateTable" in type_names(one.annotation) for one in parameters(first)
        )
        if queries:  # its arguments are public or were released; it can only release
            return any(named & self.holders for named in types)
        return any(not named <= SCALARS | PUBLIC_TYPES for named in types)

    def _holds_rows(self, module: Module, name: str, function: ast.FunctionDef) -> bool:
        """Whether rows are a parameter, or the result of a call that the function makes."""
        own = [one for one in parameters(function) if type_names(one.annotation) & self.holders]
        return bool(own) or any(
            self._verdict(module, name, node)
            for node in nodes_of(function)
            if isinstance(node, ast.Call)
        )

    def _on_a_path_to_a_release(self) -> set[str]:
        """Return what calls an exit, directly or not, and all that these functions call."""
        calls = {
            name: {
                place[2]
                for node in nodes_of(function)
                for other in self._references(module, name, node)
                if (place := self.find(other)) is not None
            }
            for name, (module, function) in self.functions.items()
            if is_within(module.name, CALLERS) and not is_within(module.name, INTERNAL)
        }
        callers = set(EXITS)
        while more := {name for name in calls if calls[name] & callers} - callers:
            callers |= more
        reached = set(callers)
        while more := {other for name in reached for other in calls.get(name, ())} - reached:
            reached |= more
        return reached & calls.keys()

    def _reads_hidden(self, module: Module, function: ast.FunctionDef) -> bool:
        """Whether a function reads a hidden attribute of another object that may hold rows."""
        return any(
            isinstance(node, ast.Attribute)
            and node.attr in self.hidden
            and not _is_own(node.value)
            and not _names(node.value, module)
            for node in nodes_of(function)
        )

    def _private_flow(self, module: Module, name: str, node: ast.AST) -> Iterator[str]:
        """Yield the functions and classes to which a function of the base passes private values."""
        if not isinstance(node, ast.FunctionDef):
            return
        private = {
            one.arg
            for one in parameters(node)
            if one.arg not in PUBLIC_PARAMETERS
            and not type_names(one.annotation)
            <= PUBLIC_TYPES | (SCALARS if name in self.entries() else set())
        }
        if name.rsplit(".", 2)[-2] in self.holders:
            private.add("self")
        verdict = partial(self._verdict, module, name)
        for call in private_calls(node, private, verdict):
            for called in called_functions(call):
                yield from self._references(module, name, called)
            if isinstance(call.func, ast.Attribute):
                yield from self._methods_named(call.func, module)

    def _methods_named(self, called: ast.Attribute, module: Module) -> Iterator[str]:
        """Yield the methods of this name that an object of unknown class may have.

        They are looked for in this module and in those that it imports from.
        """
        if _names(called.value, module) or _is_own(called.value):
            return
        for imported in (f"{module.name}.", *module.imports.values()):
            place = self.find(imported)
            near = imported.rstrip(".") if place is None else place[0].name
            for owner, node in getattr(self.modules.get(near), "definitions", {}).items():
                if called.attr in methods_of(node):
                    yield f"{near}.{owner}.{called.attr}"

    def _verdict(self, module: Module, name: str, call: ast.Call) -> bool | None:
        """Whether the result of a call is private: True for rows, False for what was released.

        None: unknown, so it is private if something in the call is.
        """
        places = [self.find(other) for other in self._references(module, name, call.func)]
        called = [place[2] for place in places if place is not None]
        if not called and isinstance(call.func, ast.Attribute):
            called = [*self._methods_named(call.func, module)]
        if any(self._returns_rows(other) for other in called):
            return True
        return False if any(other in self._released for other in called) else None

    def _returns_rows(self, called: str) -> bool:
        """Whether profiles are what a function returns, or the class that is called."""
        if called.rsplit(".", 1)[1] in self.profiles:
            return True
        function = self.functions.get(called)
        return function is not None and bool(type_names(function[1].returns) & self.profiles)

    def _overrides(self, name: str) -> Iterator[str]:
        """Yield the methods of all subclasses, direct or not, that take the place of a method."""
        *_, owner, method = name.split(".")
        owners = [owner]
        for parent in owners:  # grows while it is read
            for child in self._children.get(parent, ()):
                own = child.rsplit(".", 1)[1]
                owners += [own] if own not in owners else []  # classes of one name in two modules
                if f"{child}.{method}" in self.functions:
                    yield f"{child}.{method}"

    def _belongs(self, module: Module, node: ast.AST) -> bool:
        """Whether a definition that the base refers to is part of it, by its place and types."""
        if is_within(module.name, TRUSTED):
            return True
        if not is_within(module.name, (RELEASE, *CALLERS)):
            return False
        match node:
            case ast.FunctionDef():
                named = (type_names(one.annotation) for one in parameters(node))
                return any(types & self.holders for types in named)
            case ast.ClassDef(name=name):
                return name in self.holders
            case _:
                return False

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
                elif prefix in module.definitions:
                    yield f"{module.name}.{prefix}.{attribute}"
            case ast.Name(id=used):
                if used in module.definitions:
                    yield f"{module.name}.{used}"
                elif used in module.imports:
                    yield module.imports[used]
            case _:
                pass

    def _member(self, module: Module, owner: str, attribute: str) -> Iterator[str]:
        """Yield a method of the class or of its bases."""
        if attribute in methods_of(module.definitions.get(owner)):
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
            span |= span_of(node)
            for method in methods_of(node).values():  # counted if they belong to the base
                span -= span_of(method)
        for module, node in base.values():
            if isinstance(node, ast.FunctionDef):
                spans[module.path] |= span_of(node)
        return {path: len(code_lines(path.read_text()) & span) for path, span in spans.items()}


def _declared_types(node: ast.AST) -> frozenset[str]:
    """Return the types that an alias stands for, or that a class inherits from."""
    match node:
        case ast.ClassDef(bases=bases):
            return frozenset(name for base in bases for name in type_names(base))
        case ast.Assign(
            value=ast.Name() | ast.Attribute() | ast.Subscript() | ast.BinOp() as value
        ):
            return type_names(value)
        case _:
            return frozenset()


def _is_own(node: ast.AST) -> bool:
    """Whether an expression is the object or class of the method that uses it."""
    match node:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
        case _:
            return False


def _names(receiver: ast.expr, module: Module) -> bool:
    """Whether an attribute is of an imported module or class, so that it is found by name."""
    return isinstance(receiver, ast.Name) and receiver.id in module.imports


def sealed_lines(names: Iterable[str], source: Path = SOURCE) -> int:
    """Return the lines of code under any of these seals, each line counted once."""
    spans: dict[Path, set[int]] = {}
    for name in names:
        try:
            path, node = seal_proofs.sealed_code(name, source)
        except seal_proofs.UnknownNameError:
            continue  # `make seal` reports it
        for statement in node.body if isinstance(node, ast.Module) else [node]:
            spans.setdefault(path, set()).update(span_of(statement))
    return sum(len(code_lines(path.read_text()) & span) for path, span in spans.items())


def main() -> int:
    """Print the trusted base by file, and both measures of its size."""
    graph = Graph()
    by_file = graph.lines(graph.base())
    for path, count in sorted(by_file.items()):
        sys.stdout.write(f"{count:5}  {path.relative_to(SOURCE)}\n")
    total, both = sum(by_file.values()), sum(graph.lines(graph.base(INSTANCE_ENTRIES)).values())
    pages = sorted(seal_proofs.PAGES.glob("*.md"))
    sealed = sealed_lines({name for page in pages for name in seal_proofs.seals_of(page)})
    sys.stdout.write(f"{total:5}  lines of code in the trusted base, by the call graph\n")
    sys.stdout.write(f"{both:5}  with the mechanisms of the instance tier\n")
    sys.stdout.write(f"{sealed:5}  lines of code under any seal: whole modules and imports too\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

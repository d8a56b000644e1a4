"""Proof pages: every guarantee has one, and none outlives the code it proves."""

import ast
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

import wattveil
from tools import private_values, seal_proofs, trusted_base
from tools.source_code import Module

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


def test_the_trusted_base_is_sealed() -> None:
    """Whatever a public release function reaches that private data reach has a page."""
    base = base_with(trusted_base.INSTANCE_ENTRIES)
    assert len(base) > 200
    assert not unsealed({*base, *trusted_base.PUBLIC_NUMBERS})


def test_the_names_in_the_tool_exist() -> None:
    """A function that was renamed would leave the base without notice."""
    for name in (
        *trusted_base.EXTRA_ENTRIES,
        *trusted_base.INSTANCE_ENTRIES,
        *trusted_base.PUBLIC_ARRAYS,
        *trusted_base.PUBLIC_NUMBERS,
        *trusted_base.RELEASING,
    ):
        seal_proofs.sealed_code(name)  # or an error
    defined = {name for module in graph().modules.values() for name in module.definitions}
    assert defined >= trusted_base.HOLDERS


def test_the_base_starts_at_every_public_release_function() -> None:
    """Names that the package exports and that release something are entries of the call graph."""
    entries = set(graph().entries())
    exported = {
        f"wattveil.{module}.{name}"
        for name, module in wattveil._MODULES.items()
        if module.startswith("release.") and module != "release.instance"
    }
    functions = {name for name in exported if not name.rsplit(".", 1)[1][0].isupper()}
    assert len(functions) >= 5
    assert functions <= entries
    estimators = {name for name in exported if name.endswith(("KMeans", "Synthesizer"))}
    assert len(estimators) == 3
    for fit in ("kmeans.PrivateKMeans.fit", "synthetic.YearSynthesizer.fit"):
        assert f"wattveil.release.{fit}" in entries  # LoadSynthesizer inherits the first


def test_the_base_follows_overrides_of_subclasses_of_subclasses() -> None:
    """What a method of the base may be replaced by belongs to the base, too."""
    base = base_with()
    assert "wattveil.release.synthetic.YearSynthesizer._private_rows" in base
    assert "wattveil.engines.spark.spark_profiles.SparkProfiles.listed" in base


def test_the_index_states_the_size_of_the_base() -> None:
    """Both documented measures are the actual ones, and the call graph reaches below 2,600."""
    lines = sum(graph().lines(base_with()).values())
    both = sum(graph().lines(base_with(trusted_base.INSTANCE_ENTRIES)).values())
    sealed = trusted_base.sealed_lines(set().union(*SEALED.values()))
    assert lines < 2600
    assert lines < both < sealed
    index = (seal_proofs.PAGES / "README.md").read_text()
    assert f"**{lines:,} lines of code**" in index
    assert f"add {both - lines} lines" in " ".join(index.split())
    guide = seal_proofs.PAGES.parent / "understand" / "audit-guide.md"
    for page in (index, guide.read_text()):
        assert f"{sealed:,} lines of code are under a seal" in " ".join(page.split())


def test_lines_under_a_seal_are_counted_once(tmp_path: Path) -> None:
    """Statements of a module, whole modules and single functions may overlap."""
    module = tmp_path / "wattveil.py"
    module.write_text("import os\n\nX = 1\n\n\ndef f() -> int:\n    # why\n    return X\n")
    assert trusted_base.sealed_lines(["wattveil.f"], tmp_path) == 2
    assert trusted_base.sealed_lines(["wattveil.__top__", "wattveil.X"], tmp_path) == 2
    assert trusted_base.sealed_lines(["wattveil", "wattveil.f", "wattveil.X"], tmp_path) == 4


def test_post_processing_is_given_no_rows() -> None:
    """No module of the numeric packages uses private rows, a secret or a private table."""
    paths = [*(SOURCE / "wattveil" / "numerics").rglob("*.py")]
    assert paths
    for path in paths:
        nodes = ast.walk(ast.parse(path.read_text()))
        named = {node.id for node in nodes if isinstance(node, ast.Name)}
        assert not named & {"Rows", "Secret", "PrivateTable", "Profiles"}, path.name


FAULTS = {
    "exact group counts in load_shapes": (
        "release/group_load.py",
        "    queries = GroupLoadQueries(PrivateTable(table, budget))\n",
        "    queries = ExactCounts(groups, levels)\n",
    ),
    "division by the largest load of a block": (
        "release/rows/load_features.py",
        "    coordinates = calendar_coordinates(load_kw, curves)[0]\n",
        "    coordinates = calendar_coordinates(load_kw, curves)[0] / load_kw.max(initial=1.0)\n",
    ),
    "a projection divided by the number of rows": (
        "release/rows/load_features.py",
        "    return scale[:, None] * products(rows, basis), has_data\n",
        "    return scale[:, None] * products(rows, basis) / max(len(rows), 1), has_data\n",
    ),
    "profiles clipped by the largest of them": (
        "products/product.py",
        "        longest = clip_kw * math.sqrt(rows.width)\n",
        "        longest = float(np.max(self._profiles.load_kw))\n",
    ),
    "shares of the exact number of customers": (
        "release/cluster_shares.py",
        "    found = _described(counts.reshape(table.shape), std, table, given, budget)\n",
        "    found = _described(counts.reshape(table.shape), std, table, len(load_kw), budget)\n",
    ),
    "a duration curve of another budget": (
        "release/group_load.py",
        "    cost, limits = (epsilon, delta)",
        "    cost, limits = (2 * epsilon, delta)",
    ),
    "a part that spends more than its allotment": (
        "products/load.py",
        "ALL_CUSTOMERS,\n            epsilon=allotment.guarantee.epsilon,\n",
        "ALL_CUSTOMERS,\n            epsilon=9.0,\n",
    ),
    "labels drawn with other chances": (
        "privacy/mechanisms/response.py",
        "drawn += words >= ends[labels]",
        "drawn += words > ends[labels]",
    ),
    "rows added twice": (
        "engines/local.py",
        "        return exactly(work, BlockSums).total(self._over_blocks(work))\n",
        "        return exactly(work, BlockSums).total(2 * self._over_blocks(work))\n",
    ),
    "another function imported under the same name": (
        "release/group_load.py",
        "from wattveil.engines.local import Load, Values, load_rows\n",
        "from wattveil.numerics.groups.group_sizes import Load, Values, load_rows\n",
    ),
    "noise replaced by a statement of a module": (
        "release/group_load.py",
        "TOTAL_SHARE, SIZE_SHARE, COUNT_SHARE = 0.01, 0.15, 0.20\n",
        "TOTAL_SHARE, SIZE_SHARE, COUNT_SHARE = 0.01, 0.15, 0.20\naccounting.noise_scale = min\n",
    ),
    "a manifest of the exact number of customers": (
        "bundle/produce.py",
        "    facts = PublicFacts.of(profiles)\n",
        "    facts = PublicFacts.of(profiles, len(profiles.customer_ids))\n",
    ),
    "listed customers without a profile replaced by a mean": (
        "engines/spark/spark_profiles.py",
        'float("nan")',
        "0.5",
    ),
    "an override that divides by the largest load": (
        "release/synthetic.py",
        "        return hours.map(typical_days.bind(",
        "        return (hours / np.max(X)).map(typical_days.bind(",
    ),
    "a guarantee that states half": (
        "release/kmeans.py",
        "self.guarantee_, self.spends_ = budget.guarantee, budget.spends",
        "self.guarantee_, self.spends_ = half(budget.guarantee), budget.spends",
    ),
    "a public estimate that is not rounded": (
        "products/request.py",
        "        AfterValidator(rounded_customers),\n",
        "",
    ),
    "a manifest that states all rules of the profiles": (
        "bundle/manifest.py",
        '            "min_days": rules.get("min_days"),\n',
        '            "min_days": rules.get("min_days"),\n            **rules,\n',
    ),
    "a request completed from the rows, on the command line": (
        "cli/release.py",
        "    return PublicFacts.of(rows)",
        "    request.typical_kw = float(rows.load_kw.mean())\n    return PublicFacts.of(rows)",
    ),
    "a plan completed from the rows, on a server": (
        "bundle/registered_profiles.py",
        "    return lambda *public, **choices: release_bundle(profiles, *public, **choices)\n",
        "    return lambda *public: release_bundle(profiles, exact(profiles, *public))\n",
    ),
    "an engine that does not check what executors send": (
        "engines/spark/spark_rows.py",
        "        return work.total(work.unpack(",
        "        return work.total(work.unpack_unchecked(",
    ),
}


@pytest.mark.parametrize(("path", "old", "new"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_breaks_a_seal(copy: Path, path: str, old: str, new: str) -> None:
    """A change where private data go makes a seal stale, wherever it is made."""
    replace_once(copy / "wattveil" / path, old, new)
    module = "wattveil." + path.removesuffix(".py").replace("/", ".")
    assert changed(copy, module)


REACHED = {
    "a caller that reads rows and changes the plan": (
        "bundle/registered_profiles.py",
        "    write_bundle = _registered(path, fingerprint, fingerprint_key)\n",
        """    write_bundle = _registered(path, fingerprint, fingerprint_key)
    load_kw = Profiles.read_parquet(path).load_kw
    plan = with_typical_kw(plan, float(np.median(load_kw)))
""",
        "wattveil.bundle.registered_profiles.release_file",
    ),
    "a command that reads rows and changes the request": (
        "cli/release.py",
        "        spark = chosen_engine(engine, master)\n",
        """        load_kw = Profiles.read_parquet(profiles).load_kw
        request = request.replace(typical_kw=float(np.median(load_kw)))
        spark = chosen_engine(engine, master)
""",
        "wattveil.cli.release.release",
    ),
    "a function that a command calls for the median of the rows": (
        "cli/release.py",
        "def show_plan(console: Console, plan: ReleasePlan) -> None:\n",
        """def median_kw(path: str) -> float:
    return float(np.median(Profiles.read_parquet(path).load_kw))


def show_plan(console: Console, plan: ReleasePlan) -> None:
    median_kw("profiles.parquet")
""",
        "wattveil.cli.release.median_kw",
    ),
    "a new estimator that takes plain arrays": (
        "release/new_estimator.py",
        "",
        """from wattveil.arrays import Floats


class MaximumLoad:
    def fit(self, X: Floats) -> float:
        return float(X.max())
""",
        "wattveil.release.new_estimator.MaximumLoad.fit",
    ),
    "a new function that takes whatever is given": (
        "release/new_function.py",
        "",
        "def largest(rows) -> float:\n    return float(max(map(max, rows)))\n",
        "wattveil.release.new_function.largest",
    ),
    "a product whose annotation hides what it takes": (
        "products/hidden_product.py",
        "",
        """from typing import Any

from wattveil.products import product

Inputs = product.Work


class Peak(product.Product):
    def query(self, work: Any, allotment: product.Allotment) -> float:
        return peak(1.0)


def peak(work: Inputs) -> float:
    return work.load_kw.largest()
""",
        "wattveil.products.hidden_product.Peak.query",
    ),
    "a function that takes private data under an alias": (
        "",  # of the module above
        "",
        "",
        "wattveil.products.hidden_product.peak",
    ),
    "post-processing that reads the private attribute of an object": (
        "release/synthetic.py",
        "    counts, std = queries.exports(rho_units=count_units)\n",
        """    counts, std = queries.exports(rho_units=count_units)
    counts += len(queries.table._rows)
""",
        "wattveil.release.synthetic._find_model",
    ),
    "a command that takes the rows out of the function that releases them": (
        "cli/release.py",
        "    found = re.fullmatch(",
        "    release.write_bundle.__closure__[0]\n    found = re.fullmatch(",
        "wattveil.cli.release._target_kw",
    ),
    "groups of customers passed to numeric code": (
        "release/cluster_shares.py",
        "    centres = checked_points(",
        """    lengths = {name: len(set(values)) for name, values in groups.items()}
    GroupTable.of(lengths, n_clusters=1)
    centres = checked_points(""",
        "wattveil.numerics.groups.group_table.GroupTable.of",
    ),
    "an exact number passed to post-processing": (
        "release/group_load.py",
        "    queries = GroupLoadQueries(PrivateTable(table, budget))\n",
        """    queries = GroupLoadQueries(PrivateTable(table, budget))
    n_rows = len(load_kw)
    group_sizes.checked_levels(range(n_rows))
""",
        "wattveil.numerics.groups.group_sizes.checked_levels",
    ),
}
"""Changes that let private data reach code without a seal, and the code that they reach."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the trusted base of a copy with all these changes, which are in different places."""
    ignore = shutil.ignore_patterns("__pycache__")
    source = shutil.copytree(SOURCE, tmp_path_factory.mktemp("planted") / "src", ignore=ignore)
    for path, old, new, _ in REACHED.values():
        file = source / "wattveil" / path
        if old:
            replace_once(file, old, new)
        elif new:
            file.write_text(new)
    return set(trusted_base.Graph(source).base())


@pytest.mark.parametrize("reached", [one[-1] for one in REACHED.values()], ids=REACHED)
def test_code_that_private_data_reach_joins_the_base(planted: set[str], reached: str) -> None:
    """It has no seal, so that the tests fail until a page proves it."""
    assert reached not in base_with()
    assert reached in unsealed(planted)


@pytest.mark.parametrize(
    ("statement", "passed_on"),
    [
        ("f(rows)", True),
        ("a, b = rows, public; f(a)", True),
        ("a, b = rows, public; f(b)", False),
        ("kept = []; kept.append(len(rows)); f(kept)", True),
        ("self.kept = rows; f(self)", True),
        ("f(rows.shape[1])", False),
        ("f(rows.shape[0])", True),
        ("f(rows.width)", False),
        ("f(release(rows))", False),
        ("f([row.max() for row in rows])", True),
        ("any(f(one) for one in rows)", True),
        ("f(public) if (found := rows) else f(found)", True),
        ("f(public, key=rows)", True),
        ("f(f'{rows}')", True),
    ],
)
def test_what_is_computed_from_a_private_value_is_private(
    statement: str, *, passed_on: bool
) -> None:
    """Until it is released; public attributes of private objects are not private."""
    [function] = ast.parse(f"def g(self, rows, public): {statement}").body
    assert isinstance(function, ast.FunctionDef)
    calls = private_values.private_calls(
        function, ["rows"], lambda call: False if ast.unparse(call.func) == "release" else None
    )
    assert passed_on == any(ast.unparse(call.func) == "f" for call in calls)


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        ("Rows[Floats] | None", {"Rows", "Floats"}),
        ("'Profiles'", {"Profiles"}),
        ("Literal['Profiles']", {"str"}),
        ("Annotated[str, Option('Profiles')]", {"str"}),
        ("product.Work", {"product", "Work"}),
    ],
)
def test_types_in_an_annotation(annotation: str, names: set[str]) -> None:
    """Quoted or not; texts that are no types are none."""
    assert private_values.type_names(ast.parse(annotation, mode="eval").body) == names
    assert private_values.type_names(None) == {"Any"}


def test_imports_and_top_level_statements_of_the_base_are_sealed() -> None:
    """A function of the base could be replaced by an import, or by a statement of its module."""
    sealed = set().union(*SEALED.values())
    modules = {module.name for module, _ in base_with().values()}
    due = {f"{name}.{seal_proofs.TOP_LEVEL}" for name in modules if not is_sealed(name, sealed)}
    assert not due - sealed


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
            assert is_sealed(name, SEALED[page]) or any(
                other.startswith(f"{name}.") for other in SEALED[page]
            ), name


def test_every_formal_guarantee_in_the_kernel_names_its_page() -> None:
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
        ("mechanisms.contributions", "Query", "return UNIT**2", "return UNIT"),
        ("mechanisms.contributions", "UNIT", "UNIT: Final = 2**25", "UNIT: Final = 2**24"),
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
        ("Query", "Check the sizes.", "Check."),
        ("_add_clipped", "# no overflow at 1e300", "# another comment"),
        ("_add_clipped", "features[i, j] / peak", "(features[i, j]) / peak"),
        ("BlockSums", "Return the totals of a block of customers.", "Return totals."),
        ("UNIT", "Steps in a contribution of length 1", "How many steps have length 1"),
    ],
)
def test_words_and_layout_do_not_break_a_seal(copy: Path, name: str, old: str, new: str) -> None:
    """Docstrings of functions, classes and constants, comments and brackets are free."""
    replace_once(copy / "wattveil" / "privacy" / "mechanisms" / "contributions.py", old, new)
    dotted = f"wattveil.privacy.mechanisms.contributions.{name}"
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


@cache
def graph() -> trusted_base.Graph:
    """Return the call graph of the package, built once per process."""
    return trusted_base.Graph()


@cache
def base_with(extra: Sequence[str] = ()) -> dict[str, tuple[Module, ast.AST]]:
    """Return the trusted base with more entries, found once per process."""
    return graph().base(extra)


def changed(copy: Path, module: str) -> list[str]:
    """Return the sealed names of a module whose code differs in a copy: their seals are stale."""
    names = [name for name in set().union(*SEALED.values()) if name.startswith(module)]
    return [name for name in names if digest(name, SOURCE) != digest(name, copy)]


def digest(name: str, source: Path) -> str | None:
    """Return the digest of a sealed name; None if it is not in the source."""
    with suppress(seal_proofs.UnknownNameError):
        return seal_proofs.seal(name, source)
    return None


def unsealed(names: set[str]) -> set[str]:
    """Return the names that no page seals."""
    sealed = set().union(*SEALED.values())
    return {name for name in names if not is_sealed(name, sealed)}


def is_sealed(name: str, sealed: set[str]) -> bool:
    """Whether a page seals this name, or the class or module that it is in."""
    parts = name.split(".")
    return any(".".join(parts[:end]) in sealed for end in range(1, len(parts) + 1))


def docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> str:
    """Return the docstring, or nothing."""
    return ast.get_docstring(node) or ""


def replace_once(path: Path, old: str, new: str) -> None:
    """Plant one change."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))

"""Every row function of the package: an output depends on its own row alone, to the last bit.

The check runs a function on single rows first, then on blocks of any size, order and layout, also
beside rows of NaN, infinity, huge and subnormal numbers. Planted faults show that it can fail.
"""

import datetime as dt
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.arrays import Floats, Ints
from wattveil.engines.local import value_column
from wattveil.errors import InvalidParameterError
from wattveil.numerics.load_basis import Calendar, public_basis
from wattveil.numerics.synthesis.coordinates import Coordinates
from wattveil.numerics.synthesis.day_deviations import (
    YearCalendar,
    base_edges,
    day_gains,
    spread_edges,
)
from wattveil.numerics.synthesis.noisy_moments import margin_curves
from wattveil.privacy.private_data import BoundRowFunction, RowFunction, row_function
from wattveil.privacy.pseudonyms import customer_names
from wattveil.profiles import Split
from wattveil.release import rows as package
from wattveil.release.rows import (
    day_features,
    load_features,
    series_features,
    synthesis_features,
)

Columns = tuple[NDArray[Any], ...]
Example = tuple[Columns, dict[str, Any]]
"""Columns of a pool of customers, and public parameters."""

ORDINARY, SLOTS, DAYS = 60, 12, 14
_GENERATOR = np.random.default_rng(7)
_SUBNORMAL = 5e-324
_EDGES = np.geomspace(0.1, 100.0, 9)


def _load_kw(width: int) -> Floats:
    """Return ordinary rows, then hostile ones: whole rows, single values, and mixtures."""
    ordinary = _GENERATOR.lognormal(-1.0, 1.0, size=(ORDINARY, width))
    ordinary[::5] *= -1.0
    ordinary[1::5] *= 1e3
    values = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e9, _SUBNORMAL, -_SUBNORMAL, 0.0, -0.0]
    whole = np.repeat(np.array(values)[:, None], width, axis=1)
    single = _GENERATOR.lognormal(size=(len(values), width))
    single[:, width // 2] = values
    alternating = np.where(np.arange(width) % 2, 1e300, -1e300)
    mixed = _GENERATOR.choice(values, size=(6, width))
    return np.vstack([ordinary, whole, single, alternating, mixed])


LOAD = _load_kw(SLOTS)
HOURS = _load_kw(DAYS * SLOTS)
POOL = len(LOAD)
PLACES = _GENERATOR.integers(-1, 3, POOL)
LABELS = _GENERATOR.integers(0, 3, POOL)
AREAS = value_column((None, "north", "west", "south", "south")[i % 5] for i in range(POOL))
IDS = value_column(f" customer {i // 2}" for i in range(POOL))
CLASSES = value_column([("a", float("nan"), ("b", 1), 2**53)[i % 4] for i in range(POOL)])
CENTROIDS = np.vstack([np.zeros(SLOTS), _GENERATOR.lognormal(size=(2, SLOTS))])
CURVES = Calendar(n_days=3, n_slots=SLOTS // 3, n_coordinates=SLOTS).curves
TO = Coordinates(centroids=CENTROIDS, transform="asinh", alpha_kw=15.0, n_days=2)
LOGS = Coordinates(centroids=CENTROIDS, transform="log", alpha_kw=15.0, n_days=2)
WEEKS = YearCalendar(
    first_day=dt.date(2013, 1, 1), n_days=DAYS, n_slots=SLOTS, split=Split.WEEKDAY_WEEKEND
)
PARTS = {"parts": WEEKS.parts, "n_parts": WEEKS.n_parts}
MARGINS = {"means": TO.centres, "deviations": _GENERATOR.uniform(0.1, 2.0, (3, SLOTS))}
WAVES = margin_curves(SLOTS // 2, 2)
SERIES_LEVELS = [(0, "area", ["south", "north"]), (1, "class", ["a"])]
OFFSETS = {
    "centres": _GENERATOR.normal(size=(2, SLOTS)),
    "radii": np.array([0.3, 1.0]),
    "curves": CURVES,
}

EXAMPLES: dict[RowFunction[..., Any], list[Example]] = {
    load_features.project_rows: [
        ((LOAD,), {"basis": public_basis(SLOTS)[:5], "normalise": False, "longest": 3.0}),
        ((LOAD,), {"basis": public_basis(SLOTS), "normalise": True, "longest": np.inf}),
    ],
    load_features.comparable_rows: [
        ((LOAD,), {"normalise": False, "longest": 3.0}),
        ((LOAD,), {"normalise": True, "longest": 3.0}),
    ],
    load_features.first_columns: [((LOAD,), {"columns": 3})],
    load_features.first_coordinates: [((LOAD,), {"columns": 3})],
    load_features.one_cell: [((LOAD,), {})],
    load_features.size_cells: [
        ((LOAD,), {"edges": _EDGES, "coordinates": 7}),
        ((LOAD, LABELS), {"edges": _EDGES, "coordinates": SLOTS}),
    ],
    load_features.group_cells: [((LOAD, PLACES), {})],
    load_features.any_group_cell: [((LOAD, PLACES), {})],
    load_features.group_size_cells: [((LOAD, PLACES), {"edges": _EDGES, "curves": CURVES})],
    load_features.group_coordinates: [
        ((LOAD, PLACES), {"radii": np.array([0.3, 1.0, 5.0]), "curves": CURVES})
    ],
    load_features.nearest_centroid: [((LOAD,), {"centroids": CENTROIDS})],
    load_features.with_nearest: [((LOAD,), {"centroids": CENTROIDS})],
    load_features.nearest_cells: [((LOAD, PLACES), {"centroids": CENTROIDS})],
    load_features.nearest_offsets: [
        (
            (LOAD,),
            {
                "centres": CENTROIDS,
                "radii": np.array([0.5, 1.0, 2.0]),
                "colour": _GENERATOR.uniform(0.5, 2.0, SLOTS),
                "shells": np.array([0.5, 1.0, 2.0]),
            },
        )
    ],
    load_features.cost_features: [
        (
            (LOAD,),
            {
                "centroids": _GENERATOR.lognormal(size=(4, 3, SLOTS)),
                "features": _GENERATOR.normal(size=(4, 2)),
            },
        )
    ],
    load_features.with_places: [
        ((LOAD,), {"levels": ()}),
        (
            (LOAD, AREAS, CLASSES),
            {"levels": [("area", ["south", "north"]), ("class", [2**53, "a"])]},
        ),
    ],
    load_features.of_group: [((LOAD, PLACES), {"place": 1})],
    series_features.named_customers: [
        ((LOAD, AREAS, IDS), {"key": b"key", "erased": customer_names(IDS[3:5], key=b"key")}),
        ((LOAD, IDS), {"key": b"key", "erased": np.array([b"nobody"], dtype="S32")}),
    ],
    series_features.customers_within: [
        ((LOAD, AREAS, customer_names(IDS, key=b"key")), {"begin": b"20", "end": b"c"})
    ],
    series_features.offset_length_cells: [
        ((LOAD, AREAS), {"levels": SERIES_LEVELS[:1], **OFFSETS, "edges": _EDGES})
    ],
    series_features.group_offsets: [((LOAD, AREAS), {"levels": SERIES_LEVELS[:1], **OFFSETS})],
    series_features.group_members: [
        ((LOAD, AREAS, CLASSES), {"levels": SERIES_LEVELS}),
        ((LOAD, AREAS, CLASSES), {"levels": ()}),
    ],
    series_features.series_groups: [((LOAD, AREAS, CLASSES), {"levels": SERIES_LEVELS[:1]})],
    synthesis_features.export_cells: [((LOAD, LABELS), {})],
    synthesis_features.scores: [
        ((LOAD, LABELS), {"rule": to.rule, "centres": to.centres, "weights": to.weights})
        for to in (TO, LOGS)
    ],
    synthesis_features.moment_features: [((LOAD, LABELS), {"radius": 1.5})],
    synthesis_features.margin_features: [
        ((LOAD, LABELS), {"rule": to.rule, **MARGINS, "waves": WAVES}) for to in (TO, LOGS)
    ],
    day_features.typical_days: [((HOURS,), PARTS)],
    day_features.day_features: [
        (
            (HOURS,),
            {
                **PARTS,
                "bases": WEEKS.day_bases,
                "gains": day_gains(SLOTS, DAYS),
                "edges": (spread_edges(), spread_edges(), base_edges(), _EDGES),
            },
        )
    ],
}


def row_functions() -> dict[str, RowFunction[..., Any]]:
    """Return every row function that a module of the package defines, by its full name."""
    found = {}
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, RowFunction):
                found[f"{value.__module__}.{value.__qualname__}"] = value  # type: ignore[attr-defined]
    return found


def test_the_proof_page_lists_every_row_function() -> None:
    """The table "Function by function" names the marked functions and no other."""
    page = (Path(__file__).parents[4] / "docs" / "proofs" / "row-functions.md").read_text()
    table = page.split("## Function by function")[1].split("\n\n")[1]
    cells = [line.split(" | ")[1] for line in table.splitlines()[2:]]
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(listed) == sorted(name.rsplit(".", 1)[1] for name in row_functions())


def _bits(found: tuple[NDArray[Any], ...]) -> list[tuple[object, ...]]:
    """Return what was computed of each row: bytes, or the objects themselves."""
    columns = [
        column.tolist()
        if column.dtype == np.object_
        else [np.ascontiguousarray(entry).tobytes() for entry in column]
        for column in found
    ]
    return list(zip(*columns, strict=True))


def _arrangements() -> Iterator[Ints]:
    """Yield blocks of the pool: whole, reversed, shuffled, of any size, and beside hostile rows."""
    everyone = np.arange(POOL)
    generator = np.random.default_rng(1)
    yield everyone
    yield everyone[::-1]
    for _ in range(3):
        yield generator.permutation(POOL)
    for size in (2, 3, 31, 32, 33, 64, 65, 700):
        yield generator.choice(everyone, size)
    for hostile in range(ORDINARY, POOL):
        beside = np.full(20, hostile)
        beside[1::2] = np.arange(0, ORDINARY, 6)
        yield beside


def check_row_function(work: BoundRowFunction[Any], columns: Columns) -> None:
    """Assert that each output is a function of its own row, and that there is one per row."""
    before = [column.copy() for column in columns]
    assert [len(column) for column in work(*(column[:0] for column in columns))] == [0] * len(
        work(*columns)
    )
    alone = [_bits(work(*(column[i : i + 1] for column in columns)))[0] for i in range(POOL)]
    for block in _arrangements():
        taken = [column[block] for column in columns]
        for layout in (np.ascontiguousarray, np.asfortranarray):
            found = work(*map(layout, taken))
            assert all(len(column) == len(block) for column in found)
            for place, bits in zip(block, _bits(found), strict=True):
                assert bits == alone[place], f"row {place} differs in a block of {len(block)}"
    for column, kept in zip(columns, before, strict=True):
        assert column.tobytes() == kept.tobytes(), "the rows were changed"


def test_every_row_function_has_an_example() -> None:
    """Introspection of the package finds the functions of the table, no more and no fewer."""
    missing = {name for name, function in row_functions().items() if function not in EXAMPLES}
    assert not missing, f"without an example: {sorted(missing)}"
    assert set(row_functions().values()) == set(EXAMPLES)


@pytest.mark.untraced
@pytest.mark.parametrize("name", row_functions())
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # hostile rows on purpose
def test_an_output_depends_on_its_own_row_alone(name: str) -> None:
    """The same bits alone, in any block, order and layout; one entry per row, also for none."""
    for columns, public in EXAMPLES[row_functions()[name]]:
        check_row_function(row_functions()[name].bind(**public), columns)


def _reshaped(value: Any) -> Iterator[Any]:  # noqa: ANN401 - any parameter
    """Yield a parameter with one array of it longer or shorter by one along an axis."""
    if isinstance(value, np.ndarray):
        for axis in range(value.ndim):
            yield np.concatenate([value, np.take(value, [-1], axis=axis)], axis=axis)
            yield np.take(value, range(value.shape[axis] - 1), axis=axis)
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            for other in _reshaped(part):
                yield (*value[:place], other, *value[place + 1 :])


@pytest.mark.parametrize("name", row_functions())
def test_a_parameter_of_another_shape_never_reads_another_row(name: str) -> None:
    """It is refused, or what is computed of a row still has the bits of that row alone."""
    function = row_functions()[name]
    for columns, public in EXAMPLES[function]:
        for key, value in public.items():
            for other in _reshaped(value):
                work = function.bind(**{**public, key: other})
                try:
                    whole = _bits(work(*(column[:40] for column in columns)))
                    alone = [
                        _bits(work(*(column[i : i + 1] for column in columns))) for i in (0, 1)
                    ]
                except (InvalidParameterError, ValueError, IndexError):
                    continue
                assert whole[:2] == [bits for (bits,) in alone], key


@pytest.mark.parametrize("name", row_functions())
def test_a_row_function_is_found_by_its_name(name: str) -> None:
    """It is sent to executors as a name, and found there as the same object."""
    function = row_functions()[name]
    module, _, attribute = name.rpartition(".")
    assert function.__reduce__() == attribute
    assert getattr(importlib.import_module(module), attribute) is function


# --- planted faults -------------------------------------------------------------------------------


def _divided_by_the_largest(load_kw: Floats) -> tuple[Floats]:
    """Divide by the largest finite load of the block."""
    finite = load_kw[np.isfinite(load_kw)]
    return (load_kw / finite.max(initial=1.0),)


def _divided_by_the_number(load_kw: Floats) -> tuple[Floats]:
    """Divide by the number of rows of the block."""
    return (load_kw / max(len(load_kw), 1),)


def _running_total(load_kw: Floats) -> tuple[Floats]:
    """Add the rows before."""
    return (np.cumsum(np.nan_to_num(load_kw), axis=0),)


def _one_entry_too_many(load_kw: Floats) -> tuple[Floats]:
    """Return the first row twice."""
    return (np.vstack([load_kw[:1], load_kw]),)


def _an_entry_for_no_rows(load_kw: Floats) -> tuple[Ints]:
    """Return one entry for a block without rows."""
    return (np.zeros(max(len(load_kw), 1), dtype=np.int64),)


def _changed_in_place(load_kw: Floats) -> tuple[Floats]:
    """Overwrite missing values in the rows themselves."""
    load_kw[np.isnan(load_kw)] = 0.0
    return (np.zeros_like(load_kw),)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (_divided_by_the_largest, "differs in a block"),
        (_divided_by_the_number, "differs in a block"),
        (_running_total, "differs in a block"),
        (_one_entry_too_many, "plain arrays with one entry per customer"),
        (_an_entry_for_no_rows, "plain arrays with one entry per customer"),
        (_changed_in_place, "the rows were changed"),
    ],
)
def test_the_check_detects_a_planted_fault(
    fault: Callable[[Floats], tuple[NDArray[Any]]], message: str
) -> None:
    """A function of the whole block, of another length, or that changes its input is refused."""
    with pytest.raises((AssertionError, ValueError), match=message):
        check_row_function(row_function(fault).bind(), (LOAD.copy(),))

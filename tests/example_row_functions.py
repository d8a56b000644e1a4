"""Row functions of the tests of engines: in a module of their own, where executors find them."""

import numpy as np

from wattveil.arrays import Bools, Floats, Ints, Texts
from wattveil.errors import InvalidDataError
from wattveil.privacy.mechanisms.contributions import NO_DATA, BlockSums, Query
from wattveil.privacy.private_data import row_function


@row_function
def halved(load_kw: Floats) -> tuple[Floats]:
    """Return half of the load."""
    return (0.5 * load_kw,)


@row_function
def of_positive(load_kw: Floats, *, columns: int) -> tuple[Floats, Ints, Bools]:
    """Return the first columns, and how many are negative, where the first number is positive."""
    first = load_kw[:, :columns].copy()
    return first, (first < 0.0).sum(axis=1), np.asarray(load_kw[:, 0] > 0.0)


@row_function
def of_finite(load_kw: Floats) -> tuple[Floats, Ints, Bools]:
    """Return load and number of negative slots of the customers without a missing slot."""
    finite = np.asarray(np.isfinite(load_kw).all(axis=1))
    return load_kw, (load_kw < 0.0).sum(axis=1), finite


@row_function
def named_of_positive(load_kw: Floats, names: Texts) -> tuple[Texts, Ints, Bools]:
    """Return the name and the number of negative slots where the first number is positive."""
    return names, (load_kw < 0.0).sum(axis=1), load_kw[:, 0] > 0.0


@row_function
def of_even(load_kw: Floats, numbers: Ints) -> tuple[Floats, Ints, Bools]:
    """Return the customers of even number."""
    return load_kw, numbers, numbers % 2 == 0


@row_function
def everyone(load_kw: Floats, *others: Ints) -> tuple[Ints]:
    """Return cell 0 for every customer."""
    del others
    return (np.zeros(len(load_kw), dtype=np.int64),)


@row_function
def all_features(load_kw: Floats, *others: Ints) -> tuple[Ints, Floats]:
    """Return cell 0 and the load as features."""
    del others
    return np.zeros(len(load_kw), dtype=np.int64), load_kw


@row_function
def by_sign(load_kw: Floats, *others: Ints) -> tuple[Ints, Ints, Floats]:
    """Return cells by the sign of the first slot, twice, and the load as features."""
    del others
    cells = np.where(np.isnan(load_kw[:, 0]), NO_DATA, load_kw[:, 0] > 0.0)
    return cells, cells, load_kw


@row_function
def by_number(load_kw: Floats, numbers: Ints) -> tuple[Ints]:
    """Return the number of each customer as its cell."""
    del load_kw
    return (numbers,)


@row_function
def always_refused(load_kw: Floats) -> tuple[Ints]:
    """Refuse every block with customers, and name one of them."""
    if len(load_kw):
        raise InvalidDataError("a rule that 'all' break", ["meter 007"])
    return (np.zeros(0, dtype=np.int64),)


@row_function
def divided_by_zero(load_kw: Floats) -> tuple[Ints]:
    """Fail for every block with customers."""
    return (np.zeros(len(load_kw) // (len(load_kw) == 0), dtype=np.int64),)


@row_function
def sign_of_first(load_kw: Floats) -> tuple[Ints]:
    """Return label 1 where the first slot is positive."""
    return ((load_kw[:, 0] > 0.0).astype(np.int64),)


def counting(n_cells: int = 1) -> BlockSums:
    """Return a count for each cell of `everyone`, or of another number of cells."""
    return BlockSums([Query(tag="count", rho_units=1, n_cells=n_cells)], everyone.bind())


def adding(width: int) -> BlockSums:
    """Return the sum of all features."""
    query = Query(tag="sum", rho_units=1, n_cells=1, n_features=width)
    return BlockSums([query], all_features.bind())


def by_sign_sums(width: int) -> BlockSums:
    """Return counts and sums of features by the sign of the first slot."""
    queries = [
        Query(tag="counts", rho_units=1, n_cells=2),
        Query(tag="sums", rho_units=1, n_cells=2, n_features=width),
    ]
    return BlockSums(queries, by_sign.bind())

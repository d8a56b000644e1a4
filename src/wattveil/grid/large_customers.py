"""Very large customers, which are set aside before real and synthetic ones are compared. PRIVATE.

Drawn by chance or not, a single factory among homes would be most of the sampling variability of a
feeder, and hide any difference. In a study such customers are modelled one by one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wattveil.arrays import Floats
from wattveil.errors import InvalidParameterError
from wattveil.profiles.profiles import Profiles
from wattveil.web.formatting import format_share

_VERY_LARGE = 20.0
"""Of the median load: homes differ by less, a factory or a supermarket by more."""
_FEW = 0.05
"""If more of either file are that large, they are no exception, and nobody is set aside."""


class SetAside(NamedTuple):
    """Customers of which the mean load exceeds 20 times the median of the real customers.

    They are not placed on a feeder, nor compared.
    """

    real: int
    synthetic: int
    real_share: float
    """Of the energy of all real customers."""
    synthetic_share: float

    @property
    def sentence(self) -> str:
        """In words, for a reader of the comparison."""
        return (
            f"{self.real:,} real and {self.synthetic:,} synthetic customers above"
            f" {_VERY_LARGE:g} times the median load of the real ones, with"
            f" {format_share(self.real_share)} and {format_share(self.synthetic_share)} of the"
            " energy. Model such customers one by one."
        )


NOBODY = SetAside(0, 0, 0.0, 0.0)


def usual_customers(real: Profiles, synthetic: Profiles) -> tuple[Profiles, Profiles, SetAside]:
    """Return the customers without the very large ones, which are counted."""
    for name, profiles in (("real", real), ("synthetic", synthetic)):
        if not len(profiles):
            raise InvalidParameterError(name, "at least one customer", 0)
    usual, others, set_aside = usual_rows(real.load_kw, synthetic.load_kw)
    return _selected(real, usual), _selected(synthetic, others), set_aside


def usual_rows(
    real_kw: Floats, synthetic_kw: Floats
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], SetAside]:
    """Return which rows of either are not very large, and the account of those that are."""
    sizes = [np.abs(load_kw).mean(axis=1) for load_kw in (real_kw, synthetic_kw)]
    large = [size > _VERY_LARGE * float(np.median(sizes[0])) for size in sizes]
    if max(one.mean() for one in large) > _FEW:
        everybody = [np.ones(size.size, dtype=np.bool_) for size in sizes]
        return everybody[0], everybody[1], NOBODY
    counts = [int(one.sum()) for one in large]
    shares = [
        float(size[one].sum() / max(size.sum(), np.finfo(float).tiny))
        for size, one in zip(sizes, large, strict=True)
    ]
    return ~large[0], ~large[1], SetAside(counts[0], counts[1], shares[0], shares[1])


def _selected(profiles: Profiles, chosen: NDArray[np.bool_]) -> Profiles:
    """Return some of the customers."""
    if chosen.all():
        return profiles
    return profiles.selected(np.flatnonzero(chosen).tolist())

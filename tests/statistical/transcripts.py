"""The noisy totals of a release of load shapes, before any post-processing."""

from contextlib import suppress
from typing import Any

import pytest

from wattveil.arrays import Floats
from wattveil.privacy.mechanisms import gaussian
from wattveil.privacy.mechanisms.gaussian import NoisyTotals
from wattveil.release import group_load
from wattveil.release.group_load import load_shapes


class _AllReleased(Exception):  # noqa: N818 - no error
    """The last query is answered: what follows depends on released numbers only."""


def shape_transcript(load_kw: Floats, **arguments: Any) -> list[NoisyTotals]:  # noqa: ANN401
    """Release load shapes and return all noisy totals that the mechanism returned, in order."""
    released: list[NoisyTotals] = []
    make_totals = gaussian.NoisyTotals  # with a planted fault, if any

    def recorded(**fields: Any) -> NoisyTotals:  # noqa: ANN401 - passed on
        released.append(make_totals(**fields))
        return released[-1]

    def stop(*_: object, **__: object) -> None:
        raise _AllReleased

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian, "NoisyTotals", recorded)
        patch.setattr(group_load, "filter_means", stop)
        with suppress(_AllReleased):
            load_shapes(load_kw, **arguments)
    return released

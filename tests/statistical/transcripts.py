"""What a release of load shapes gives out before any post-processing."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from wattveil.privacy.mechanisms.gaussian import NoisyVector
from wattveil.privacy.secret import Released
from wattveil.privacy.sensitivity import FloatArray
from wattveil.release import asks, shapes
from wattveil.release.shapes import load_shapes


class _AllIsOut(Exception):  # noqa: N818 - no error
    """The last ask is answered: what follows sees released numbers only."""


def shape_transcript(load_kw: FloatArray, **arguments: Any) -> list[NoisyVector]:  # noqa: ANN401
    """Release load shapes and return every noisy vector that the mechanisms gave out, in order."""
    heard: list[NoisyVector] = []

    def listening(
        mechanism: Callable[..., Released[NoisyVector]],
    ) -> Callable[..., Released[NoisyVector]]:
        def listened(*values: object, **options: object) -> Released[NoisyVector]:
            released = mechanism(*values, **options)
            heard.append(released.value)
            return released

        return listened

    def stop(*_: object, **__: object) -> None:
        raise _AllIsOut

    with pytest.MonkeyPatch.context() as patch:
        drawn = asks.gaussian_cell_sums  # type: ignore[attr-defined]  # with a planted fault, if any
        patch.setattr(asks, "gaussian_cell_sums", listening(drawn))
        patch.setattr(shapes, "filter_means", stop)
        with suppress(_AllIsOut):
            load_shapes(load_kw, **arguments)
    return heard

"""Public changes of scale: forward, back, and what they refuse."""

import numpy as np
import pytest
from numpy.typing import NDArray

from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.numerics.kmeans.instance_query import Transform, TransformName, clip_rms

LOAD_KW = np.array([[0.0, 0.25, 3.0], [-0.4, 1e-9, 1200.0]])


@pytest.mark.parametrize("name", ["none", "asinh", "log"])
@pytest.mark.parametrize("scale_kw", [0.5, 7.0])
def test_backward_undoes_forward(name: TransformName, scale_kw: float) -> None:
    """Back and forth is the identity, both ways round."""
    transform = Transform(name=name, scale_kw=scale_kw)
    clustered = transform.forward(LOAD_KW)
    np.testing.assert_allclose(transform.backward(clustered), LOAD_KW, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(transform.forward(transform.backward(clustered)), clustered)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none", [3.0, -1.0]),
        ("asinh", [np.log(1.5 + np.sqrt(3.25)), -np.log(0.5 + np.sqrt(1.25))]),
        ("log", [np.log(5.0), 0.0]),
    ],
)
def test_forward_by_hand(name: TransformName, expected: list[float]) -> None:
    """x, asinh(x / 2) = log(x/2 + sqrt(x^2/4 + 1)) and log(x + 2)."""
    transform = Transform(name=name, scale_kw=2.0)
    load_kw = np.array([[3.0, -1.0]])
    assert transform.forward(load_kw)[0] == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(("row_ids", "named"), [(None, (1, 3)), (np.array([4, 5, 8, 9]), (5, 9))])
def test_the_logarithm_refuses_low_load(
    row_ids: NDArray[np.int64] | None, named: tuple[int, ...]
) -> None:
    """Rows at or below -scale_kw are named, by their own ids where there are any."""
    load_kw = np.array([[1.0, 0.0], [0.0, -2.0], [-1.99, 0.0], [-3.0, -3.0]])
    with pytest.raises(InvalidDataError, match="load above -transform_kw") as error:
        Transform(name="log", scale_kw=2.0).forward(load_kw, row_ids)
    assert error.value.row_ids == named


@pytest.mark.parametrize("name", ["asinh", "log"])
def test_far_noise_stays_finite(name: TransformName) -> None:
    """A centroid that noise carried to 1e9 comes back as a finite load."""
    far = np.array([[-1e9, 1e9]])
    assert np.isfinite(Transform(name=name, scale_kw=1.0).backward(far)).all()


@pytest.mark.parametrize(
    ("name", "scale_kw", "field"),
    [("sqrt", 1.0, "load_transform"), ("log", 0.0, "transform_kw"), ("log", "1", "transform_kw")],
)
def test_refusals(name: str, scale_kw: object, field: str) -> None:
    """An unknown name and a scale that is none are refused by name."""
    with pytest.raises(InvalidParameterError) as error:
        Transform(name=name, scale_kw=scale_kw)  # type: ignore[arg-type]  # wrong on purpose
    assert error.value.field == field


def test_clip_scales_large_customers_only() -> None:
    """(3, 4) has root-mean-square sqrt(12.5); at 1 kW it keeps its shape, and (0.6, 0.8) itself."""
    load_kw = np.array([[3.0, 4.0], [0.6, 0.8], [0.0, 0.0]])
    clipped = clip_rms(load_kw, 1.0)
    np.testing.assert_allclose(clipped[0], load_kw[0] / np.sqrt(12.5))
    np.testing.assert_array_equal(clipped[1:], load_kw[1:])


@pytest.mark.parametrize("clip_kw", [0.0, -1.0, np.nan, np.inf])
def test_clip_refuses_what_is_no_load(clip_kw: float) -> None:
    """A clip is a finite load above 0."""
    with pytest.raises(InvalidParameterError, match="clip_kw"):
        clip_rms(LOAD_KW, clip_kw)

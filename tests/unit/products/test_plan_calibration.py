"""Calibration of plans: factors by roughness, ranges, and the public choice that selects them."""

import math
from typing import Any

import pytest

from wattveil.errors import InvalidParameterError
from wattveil.products import clusters, plan_calibration
from wattveil.products.clusters import Clusters, KMeansPlan
from wattveil.products.plan_calibration import (
    Law,
    Roughness,
    calibrated,
    factor,
    steps,
    supported_range,
)
from wattveil.products.product import Allotment, Choice, Expectation, guarantee_of
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.server.dataset_choices import DatasetBody, PublicChoices
from wattveil.server.datasets import Dataset
from wattveil.server.http.requests import ReleaseBody


def test_factors_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Level times one power of the step per class of roughness; the range on both sides."""
    law = {"error": Law(level=0.5, longer=3.0, spread=4.0)}
    monkeypatch.setattr(plan_calibration, "_OF_SHAPES", law)
    found = [factor("error", is_shape=True, roughness=one) for one in Roughness]
    assert found == [4.5, 1.5, 0.5]
    value, within = calibrated(2.0, "error", is_shape=True, roughness=Roughness.SOME_WEEKS)
    assert (value, within) == (3.0, (0.75, 12.0))


def test_every_class_has_a_step() -> None:
    """A single month is the roughest."""
    assert [steps(one) for one in Roughness] == [2, 1, 0]


@pytest.mark.parametrize("is_shape", [False, True])
def test_longer_averages_have_smaller_errors_of_shapes_alone(*, is_shape: bool) -> None:
    """In kW the sizes of customers count more than the roughness of their curves."""
    month, year = (
        factor("error", is_shape=is_shape, roughness=one)
        for one in (Roughness.SINGLE_MONTH, Roughness.SMOOTH_YEAR)
    )
    assert (year < month) == is_shape


@pytest.mark.parametrize(
    ("expected", "found"), [(0, (0, 1)), (1, (0, 2)), (5, (4, 6)), (6, (5, 6))]
)
def test_supported_clusters_stay_within_the_clusters(expected: int, found: tuple[int, int]) -> None:
    """From 0 to K."""
    assert supported_range(expected, 6) == found


def test_an_expectation_states_its_range() -> None:
    """In the same digits; without one, the value alone; none for a value that is not finite."""
    assert str(Expectation("error", 0.1234, "kW", 0.0712, 0.2149)) == "0.12 kW (0.071 to 0.21)"
    assert str(Expectation("error", 0.1234, "kW")) == "0.12 kW"
    unknown = Expectation("loss", math.inf, "unknown", math.inf, math.inf)
    assert (unknown.value, unknown.low, unknown.high) == (None, None, None)


def test_the_request_chooses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of clusters receives the roughness of the request, and states three ranges."""
    asked: list[Any] = []
    losses = [0.1, math.inf]

    def simulated(*_: object, **options: object) -> KMeansPlan:
        asked.append(options["roughness"])
        loss = losses.pop(0)
        return KMeansPlan(
            queries={},
            signal=1.0,
            expected_loss=loss,
            loss_range=(0.5 * loss, 2.0 * loss),
            expected_error=0.03,
            error_range=(0.01, 0.3),
            supported_clusters=3,
            supported_range=(2, 4),
            distinguishable_clusters=3,
        )

    monkeypatch.setattr(clusters, "plan_kmeans", simulated)
    request = ReleaseRequest(epsilon=1.0, roughness=Roughness.SINGLE_MONTH)
    allotment = Allotment.of(guarantee_of(request, epsilon=1.0, delta=1e-6))
    choice = Choice(request=request, grid=TimeGrid())
    found = Clusters().expected(choice, allotment)
    assert asked == [Roughness.SINGLE_MONTH]
    assert [str(one) for one in found] == [
        "0.03 kW (0.01 to 0.3)",
        "10 % (5 to 20)",
        "3 of 6 (2 to 4)",
        "3 of 6",
    ]
    endless = Clusters().expected(choice, allotment)[1]
    assert str(endless) == "none if each customer is a segment"


def test_a_data_set_fixes_it() -> None:
    """Stored as text; data sets registered before there was one have the default."""
    body = DatasetBody(name="homes", file="homes.parquet", clip_kw=5.0, roughness="smooth year")
    public = body.model_dump(mode="json", include={*PublicChoices.model_fields})
    assert public["roughness"] == "smooth year"
    before = {name: value for name, value in public.items() if name != "roughness"}
    for stored, due in ((public, Roughness.SMOOTH_YEAR), (before, Roughness.SOME_WEEKS)):
        homes = Dataset(
            name="homes",
            closed=False,
            public=stored,
            profiles_file="homes.parquet",
            customer_list_file=None,
            fingerprint="",
        )
        assert homes.request(ReleaseBody(epsilon=1.0)).roughness is due


def test_others_are_refused_by_name() -> None:
    """The three texts are listed."""
    with pytest.raises(InvalidParameterError, match=r"roughness must be .*smooth year"):
        ReleaseRequest(epsilon=1.0, roughness="two years")  # type: ignore[arg-type]  # on purpose

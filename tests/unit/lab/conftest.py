"""Fixtures of the internal experiments: simulated customers, and samples of them."""

from collections.abc import Callable

import numpy as np
import pytest

from wattveil.arrays import Floats
from wattveil.lab.evaluation.customer_samples import Sample, SampleLayout
from wattveil.profiles import Profiles, TimeGrid
from wattveil.simulate import simulate_load_kw


@pytest.fixture(scope="session")
def homes_kw() -> Floats:
    """Return 800 simulated homes."""
    return simulate_load_kw(customers=800)


@pytest.fixture(scope="session")
def named_profiles() -> Callable[..., Profiles]:
    """Return a maker of profiles on the hours of a day."""

    def make(
        load_kw: Floats, attributes: dict[str, tuple[str | None, ...]] | None = None
    ) -> Profiles:
        return Profiles(
            customer_ids=tuple(f"C{row}" for row in range(len(load_kw))),
            load_kw=np.array(load_kw),
            grid=TimeGrid(),
            timezone="Europe/London",
            attributes=attributes or {},
        )

    return make


def sample_of(load_kw: Floats, layout: SampleLayout | None = None) -> Sample:
    """Return a sample whose centroids are its first three customers."""
    layout = layout or SampleLayout(slots_per_day=load_kw.shape[1])
    typical = Sample(load_kw=load_kw, layout=layout, centroids=np.empty((0, 0))).typical
    return Sample(load_kw=load_kw, layout=layout, centroids=typical[:3])


@pytest.fixture
def sampled() -> Callable[..., Sample]:
    """Return a maker of samples."""
    return sample_of


@pytest.fixture
def pair() -> tuple[Sample, Sample]:
    """Return two sets of customers of different sizes; some export."""
    generator = np.random.default_rng(7)
    one = generator.gamma(2.0, 0.5, (60, 24)) * generator.gamma(3.0, 0.4, (60, 1))
    other = generator.gamma(1.5, 0.7, (50, 24)) * generator.gamma(3.0, 0.5, (50, 1))
    one[:5, 10:14] -= 3.0
    other[:3, 11:15] -= 2.0
    return sample_of(one), Sample(
        load_kw=other, layout=SampleLayout(slots_per_day=24), centroids=one[:3]
    )

"""Intervals for the population cover its mean as often as stated: privacy noise and sampling."""

import numpy as np
import pytest

from tests.sample_bundles import only
from tests.sampled_releases import plan_without_errors, released_tables
from wattveil.bundle.statistical_bias import population_intervals
from wattveil.products.request import ReleaseRequest
from wattveil.simulate import simulate_load_kw

POPULATION, SAMPLE, RELEASES = 6000, 500, 40
LOW, HIGH = 0.93, 0.97
REQUEST = ReleaseRequest(
    epsilon=12.0,
    n_clusters=2,
    weights={**only("clusters", "synthesis", "load"), "load": 6.0},
    customers=500,
)


@pytest.mark.statistical
@pytest.mark.usefixtures("cached_constants")
def test_intervals_cover_the_population() -> None:
    """Over releases of random samples: 93 to 97 % of the slots, up to the error of the test; noise
    alone covers far fewer.
    """
    homes = np.array(simulate_load_kw(customers=POPULATION))
    truth = homes.mean(axis=0)
    plan = plan_without_errors(REQUEST)
    random = np.random.default_rng(11)
    stated = {
        "selection": "random sample",
        "all_meters": str(POPULATION),
        "request": {"levels": ()},
    }
    covered, by_noise = [], []
    for _ in range(RELEASES):
        rows = homes[random.choice(POPULATION, SAMPLE, replace=False)]
        tables = released_tables(rows, plan)
        found = population_intervals(stated, tables)
        assert found is not None
        covered.append((found[0] <= truth) & (truth <= found[1]))
        load, std = (tables["load_shapes"].column(name) for name in ("load_kw", "std_kw"))
        by_noise.append(np.abs(load - truth) <= 1.96 * std)
    for inside, holds in ((covered, True), (by_noise, False)):
        shares = np.mean(inside, axis=-1).ravel()  # slots of a release are not independent
        error = 4.0 * shares.std(ddof=1) / np.sqrt(RELEASES)
        is_within = shares.mean() + error >= LOW and shares.mean() - error <= HIGH
        assert is_within == holds, shares.mean()

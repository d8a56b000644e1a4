"""The audit of a whole release, part by part: claims hold, and each planted fault is caught."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.sample_bundles import only, product_names
from tests.statistical import faults
from tests.statistical.harness import ALPHA, draws, guarantee
from wattveil.arrays import Floats
from wattveil.engines.local import LocalRows
from wattveil.lab.audit import release_audit
from wattveil.lab.audit.canaries import ONE_RUN
from wattveil.lab.audit.epsilon_bounds import OneRunAudit, PairedAudit, audit_one_run, paired_bound
from wattveil.lab.audit.release_audit import WHOLE, audit_release
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.numerics.kmeans.instance_query import clip_rms
from wattveil.numerics.synthesis import SyntheticModel
from wattveil.privacy.guarantee import Tier
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles, TimeGrid
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.simulate import simulate_load_kw

pytestmark = pytest.mark.usefixtures("cached_constants")

CONFIDENCE = 1.0 - ALPHA
MIN_CANARIES = 32
DELTA = 1e-12
"""So small that what it allows stays below `ALPHA`: 2 m delta / m at least."""
WEAK = 0.1
"""An epsilon at which 25 releases with and 25 without the customer are enough to refute it."""
CLIP_KW = 0.5
"""So low that a clipped reading is one value among many of its size."""


@cache
def homes() -> Profiles:
    """Return a few homes in two districts."""
    return Profiles(
        customer_ids=tuple(map(str, range(12))),
        load_kw=np.array(simulate_load_kw(customers=12)),
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes={"district": ("north", "south") * 6},
    )


def refuted(request: ReleaseRequest, *, runs: int) -> set[str]:
    """Return the parts whose claim an audit of two neighbours refutes."""
    rows = audit_release(
        request, homes(), runs=draws(runs), canaries=MIN_CANARIES, confidence=CONFIDENCE
    )
    return {row.release for row in rows if row.found.refutes}


def one_run(name: str, *, canaries: int, **choices: Any) -> OneRunAudit:  # noqa: ANN401
    """Audit one part by one run."""
    request = ReleaseRequest(epsilon=1.0, delta=DELTA, n_clusters=3, **choices)
    included, observed, claim = ONE_RUN[name](request, draws(canaries), RandomAssignment(1))
    return audit_one_run(included, observed, claim=claim, level=ALPHA)


# --- two neighbours -----------------------------------------------------------------------------


def test_no_claim_of_a_whole_release_is_refuted() -> None:
    """Every part, with groups and labels, and all of them together."""
    request = ReleaseRequest(
        epsilon=1.0,
        delta=DELTA,
        n_clusters=2,
        clip_kw=5.0,
        by="district",
        levels=("north", "south"),
        label_epsilon=0.3,
    )
    rows = audit_release(
        request, homes(), runs=draws(6), canaries=2 * MIN_CANARIES, confidence=CONFIDENCE
    )
    paired, one_run = (
        {row.release for row in rows if row.method == method} for method in ("paired", "one run")
    )
    alone = {"clusters", "load", "years"}
    due = {one if one in alone else f"clusters + {one}" for one in product_names(request)}
    assert paired == {*due, WHOLE}
    assert one_run == {*ONE_RUN}
    assert not [row for row in rows if row.found.refutes]


def test_the_instance_tier_claimed_as_differential_privacy_is_caught() -> None:
    """Its noise scale is computed from the data: the noise itself reveals membership."""
    request = ReleaseRequest(epsilon=WEAK, delta=DELTA, n_clusters=2, tier=Tier.INSTANCE)
    assert refuted(request, runs=50) == {"clusters"}


def test_a_real_reading_among_the_synthetic_ones_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of thousands of synthetic values one is a clipped reading; nothing else is wrong.

    Only its digits identify it: an observer who does not compare them detects nothing.
    """
    copied: list[float] = []
    fit, sample = LoadSynthesizer.fit, SyntheticModel.sample

    def noticing(
        model: LoadSynthesizer, rows: Floats | LocalRows[Floats], y: object = None
    ) -> LoadSynthesizer:
        (load_kw,) = rows._joined() if isinstance(rows, LocalRows) else (rows,)
        copied[:] = [float(clip_rms(load_kw, CLIP_KW)[-1, 0])]
        return fit(model, rows, y)

    def copying(model: SyntheticModel, *sizes: int, **seeds: Any) -> tuple[Floats, Any]:  # noqa: ANN401
        made, clusters = sample(model, *sizes, **seeds)
        made.flat[0] = copied[0]
        return made, clusters

    seen: list[tuple[Floats, Floats]] = []

    def judging(first: Floats, second: Floats, **how: Any) -> PairedAudit:  # noqa: ANN401
        seen.append((first, second))
        return paired_bound(first, second, **how)

    monkeypatch.setattr(LoadSynthesizer, "fit", noticing)
    monkeypatch.setattr(SyntheticModel, "sample", copying)
    monkeypatch.setattr(release_audit, "paired_bound", judging)
    request = ReleaseRequest(
        epsilon=WEAK,
        delta=DELTA,
        n_clusters=1,
        clip_kw=CLIP_KW,
        weights=only("clusters", "synthesis"),
    )
    assert refuted(request, runs=80) == {"clusters + synthesis", WHOLE}  # 50 may miss it
    _, (first, second), _ = seen  # of synthesis: four extremes, and the number of copies
    claim = guarantee(epsilon=WEAK, delta=DELTA)
    assert not paired_bound(first[:, :4], second[:, :4], claim=claim, level=ALPHA).refutes
    assert paired_bound(first[:, 4:], second[:, 4:], claim=claim, level=ALPHA).refutes


# --- one run ------------------------------------------------------------------------------------


def test_one_run_refutes_no_right_claim() -> None:
    """Of labels, whose noise uses the whole budget, the bound comes close to the claim."""
    assert 0.6 < one_run("labels", canaries=6_000).epsilon <= 1.0
    assert not one_run("shares", canaries=2_000).refutes
    assert not one_run("load", canaries=200).refutes
    assert not one_run("synthesis", canaries=200).refutes


@pytest.mark.parametrize(
    ("name", "canaries", "fault"),
    [
        ("labels", 12_000, faults.weaker_noise),
        ("shares", 400, faults.exact_count),
        ("shares", 400, faults.shared_noise),
        ("load", 400, faults.no_clipping),
    ],
)
def test_one_run_catches(
    name: str,
    canaries: int,
    fault: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half the noise of labels, exact counts, shared noise and forgotten clipping."""
    fault(monkeypatch)
    assert one_run(name, canaries=canaries).refutes


def test_one_run_catches_copied_customers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Synthetic customers who are the real ones, shuffled."""

    def fit(self: LoadSynthesizer, rows: Floats) -> LoadSynthesizer:
        self.guarantee_, self.rows = self.guarantee(), rows
        return self

    def sample(self: LoadSynthesizer, *_: int, **__: int) -> tuple[Floats, Floats]:
        return self.rows[::-1], np.zeros(len(self.rows))

    monkeypatch.setattr(LoadSynthesizer, "fit", fit)
    monkeypatch.setattr(LoadSynthesizer, "sample", sample)
    assert one_run("synthesis", canaries=200).refutes

"""IBM's diffprivlib 0.6, a peer library, run in an interpreter of its own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.arrays import Floats
from wattveil.errors import MissingExtraError, WattveilError
from wattveil.lab.baselines import run_diffprivlib
from wattveil.lab.baselines.baseline_interface import (
    BaselineResult,
    PublicChoices,
    checked,
    claimed_guarantee,
)
from wattveil.lab.baselines.lloyd_baselines import count_weight

PYTHON_VARIABLE = "WATTVEIL_DIFFPRIVLIB_PYTHON"


class Diffprivlib:
    """IBM's diffprivlib 0.6: `KMeans`, run in an interpreter of its own.

    It needs an older scikit-learn. Either this interpreter has the extra ``bench``, or
    ``WATTVEIL_DIFFPRIVLIB_PYTHON`` names one that has ``diffprivlib`` installed.

    Its rounds are those of Su et al. (2016), but

    * a cluster without customers keeps its centroid without noise. The start lies away from the
      walls of the bounds; the noisy mean of a lone customer may lie anywhere between them, and at
      24 slots is almost surely near one of 48 walls. So a start that is released reveals that no
      customer is there, for any epsilon: no guarantee;
    * it hands out the two shares of the split in the wrong order: each of d slots gets the share of
      the counts, w / (d + w), and the counts that of a slot;
    * its noise on a sum fits the width of the slot's bounds, while a customer adds up to the
      farther bound: max(|low|, |high|) / (high - low) times as much.

    For load from 0 on, and where no cluster is ever empty, it spends (1 + d w) / (d + w) times what
    it claims: 1.62 times at 24 slots.
    """

    @staticmethod
    def fit(
        load_kw: ArrayLike,
        *,
        epsilon: float,
        delta: float,
        public: PublicChoices,
        generator: Generator,
    ) -> BaselineResult:
        """Return its centroids: no guarantee."""
        rows = checked(load_kw, epsilon=epsilon, delta=delta, public=public)
        return BaselineResult(
            centroids_kw=centroids_of_runs(
                rows, [epsilon], public, [int(generator.integers(2**31))]
            )[0, 0],
            claimed=claimed_guarantee(epsilon),
            true=None,
            known_violations=(
                "a cluster without customers keeps its start, one with a lone customer does not",
                "so a lone customer can be detected, for any epsilon",
                "it swaps the shares of sums and counts",
                "its noise on sums fits the width of the bounds, not the farther bound",
                f"it spends {overspending(public):.3g} times its claim even if no cluster is empty",
            ),
        )


def overspending(public: PublicChoices) -> float:
    """Return how many times the claimed epsilon it spends, at best."""
    weight = count_weight(public.n_slots)
    farther = np.maximum(np.abs(public.low_kw), np.abs(public.high_kw))
    reach = farther / (public.high_kw - public.low_kw)
    return float((1.0 + weight * reach.sum()) / (public.n_slots + weight))


def centroids_of_runs(
    rows: Floats, epsilons: Sequence[float], public: PublicChoices, seeds: Sequence[int]
) -> Floats:
    """Return the centroids of every epsilon and seed, (epsilons, seeds, K, d), from one process."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "given.npz", Path(folder) / "centroids.npy"
        np.savez(
            source,
            rows=np.clip(rows, public.low_kw, public.high_kw),
            low=public.low_kw,
            high=public.high_kw,
            n_clusters=public.n_clusters,
            epsilons=np.asarray(epsilons, dtype=np.float64),
            seeds=np.asarray(seeds),
        )
        _call(str(source), str(target))
        centroids: Floats = np.load(target)
        return centroids


def check_installed() -> None:
    """Raise `MissingExtraError` if diffprivlib is not installed."""
    _call()


def _call(*files: str) -> None:
    """Run it on these files; without any it is only imported."""
    python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    # -P: the folder of the script, which is ours, is no place to import from.
    command = [python, "-P", run_diffprivlib.__file__, *files]
    try:
        done = subprocess.run(  # noqa: S603 - our own runner
            command, check=False, capture_output=True, text=True
        )
    except OSError as error:
        raise WattveilError(f"{PYTHON_VARIABLE} names no interpreter: {error}") from error
    if done.returncode == run_diffprivlib.NOT_THERE:
        raise MissingExtraError("diffprivlib", "bench")
    if done.returncode:
        raise WattveilError(f"diffprivlib failed: {done.stderr.strip()[-500:]}")

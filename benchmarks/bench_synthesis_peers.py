"""Average days of synthetic customers: this release and other methods, at the same budget.

Run: ``python benchmarks/bench_synthesis_peers.py [epsilon | method ...]``, by default 1, 3 and 10
and all methods, with delta = 1e-6. Every method is given bounds that suit the data: load from 0.02
to 10 kW.

Two textbook methods draw noise here, from NumPy, with the same rho as a release of that epsilon.
Neither has a proof or an audit; they are for comparison only.

* log-normal: noisy mean and covariance of log load, as in Algorithm 2 of the paper with one
  cluster, with Gaussian noise;
* copula: a noisy histogram of each hour, and noisy correlations of normal scores.

Three published methods run in interpreters of their own (`run_synthesis_peer.py`), which
`WATTVEIL_PGM_PYTHON` and `WATTVEIL_SMARTNOISE_PYTHON` name; without one, its methods are skipped
with a message. They get each hour in public cells, and a load is drawn log-uniformly in its cell.

* MST and AIM of private-pgm, in the package ``dpmm``;
* DPCTGAN of SmartNoise (``smartnoise-synth``): a deep generator trained with DP-SGD.

Figures are W1 of an hour over its standard deviation, error of correlations, mean relative error of
the mean load, and W1 of customers' mean load and of the peak of their average day over its standard
deviation. Medians of 20 releases, of the published methods of `PEER_RELEASES`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import run_synthesis_peer
from measured_homes import LONDON, london_homes
from scipy.special import ndtr, ndtri

from wattveil import LoadSynthesizer
from wattveil.arrays import Floats
from wattveil.numerics.measures.fidelity_measures import correlation_error, slot_distance
from wattveil.privacy.guarantee import Budget
from wattveil.simulate import simulate_load_kw

RELEASES, PEER_RELEASES, DRAWN = 20, 1, 4000
SIMULATED = 622
LOW_KW, HIGH_KW, MIDDLE_KW = 0.02, 10.0, 0.4
LOG_RADIUS = 1.0
"""Root-mean-square distance from the middle, on the log scale, to which a row is clipped."""
CELLS = 20
PEERS = {
    "MST": ("WATTVEIL_PGM_PYTHON", 8),
    "AIM": ("WATTVEIL_PGM_PYTHON", 8),
    "DPCTGAN": ("WATTVEIL_SMARTNOISE_PYTHON", 8),
}
"""The variable that names the interpreter of a method, and the cells of each hour."""
PEER_SECONDS = 900.0
"""No further release of a method is begun after this time; twice as late it is stopped."""
SCORE_RADIUS, SCORE_LIMIT = 1.2, 2.5
UNITS = 1e18
"""Units of rho, of which a budget has a whole number."""


def main(*chosen: str) -> None:
    """Print a table of the chosen epsilons and methods."""
    methods = [name for name in chosen if not name.replace(".", "").isdigit()]
    epsilons = [float(name) for name in chosen if name not in methods]
    populations = {f"simulated meters, {SIMULATED}": simulate_load_kw(customers=SIMULATED, seed=3)}
    if LONDON.is_file():
        homes = london_homes()
        populations[f"London homes, {len(homes):,}"] = homes
    say("| customers | ε | method | releases | W1 | correlation | mean load | energy | peak |")
    say("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for epsilon in epsilons or (1.0, 3.0, 10.0):
        for name, real in populations.items():
            for method, releases in drawn(real, epsilon, methods):
                found = np.median([figures_of(real, made) for made in releases], axis=0)
                cells = " | ".join(f"{figure:.3f}" for figure in found)
                say(f"| {name} | {epsilon:g} | {method} | {len(releases)} | {cells} |")


def drawn(real: Floats, epsilon: float, chosen: list[str]) -> list[tuple[str, list[Floats]]]:
    """Return the synthetic customers of each release, by method; absent methods are left out."""
    rho = Budget(LoadSynthesizer(epsilon=epsilon).guarantee()).remaining_rho_units / UNITS
    methods = {
        "LoadSynthesizer": lambda rng: ours(real, epsilon, rng),
        "log-normal": lambda rng: log_normal(real, rho, rng),
        "copula": lambda rng: copula(real, rho, rng),
    }
    found = [
        (method, [draw(np.random.default_rng(seed)) for seed in range(RELEASES)])
        for method, draw in methods.items()
        if method in (chosen or methods)
    ]
    peers = [(name, peer(name, real, epsilon)) for name in PEERS if name in (chosen or PEERS)]
    return [*found, *((method, made) for method, made in peers if made)]


def figures_of(real: Floats, made: Floats) -> list[float]:
    """Return the figures of one release."""
    error = np.abs(made.mean(axis=0) / real.mean(axis=0) - 1.0).mean()
    own = [
        slot_distance(figure(real)[:, None], figure(made)[:, None])
        for figure in (lambda load: load.mean(axis=1), lambda load: load.max(axis=1))
    ]
    return [slot_distance(real, made), correlation_error(real, made), float(error), *own]


def peer(method: str, real: Floats, epsilon: float) -> list[Floats]:
    """Return the releases of a published method; none, with a message, where it cannot run."""
    variable, size = PEERS[method]
    python = os.environ.get(variable)
    if python is None:
        say(f"{method} skipped: {variable} names no interpreter (docs/synthesis.md)", error=True)
        return []
    edges = np.geomspace(LOW_KW, HIGH_KW, size + 1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npy")
        np.savez(
            source,
            cells=np.clip(np.searchsorted(edges, real, side="right") - 1, 0, size - 1),
            size=size,
            epsilon=epsilon,
            delta=LoadSynthesizer().delta,
            drawn=DRAWN,
            releases=PEER_RELEASES,
            seconds=PEER_SECONDS,
        )
        script = run_synthesis_peer.__file__
        command = [python, script, method, str(source), str(target)]
        status: object
        try:
            done = subprocess.run(  # noqa: S603 - an interpreter that the user names
                command, check=False, capture_output=True, timeout=2.0 * PEER_SECONDS
            )
            status = done.stderr.decode()[-300:].strip() or done.returncode
            if done.returncode == run_synthesis_peer.NOT_THERE:
                status = f"{variable} lacks its package (docs/synthesis.md)"
        except subprocess.TimeoutExpired:
            status = f"stopped after {2.0 * PEER_SECONDS:.0f} s"
        except OSError as failure:
            status = failure
        if not target.is_file():
            say(f"{method} skipped: {status}", error=True)
            return []
        releases = np.load(target).astype(np.int64)
    logs = np.log(edges)
    return [np.exp(rng.uniform(logs[cells], logs[cells + 1])) for cells in releases]


def say(text: str, *, error: bool = False) -> None:
    """Print a line without buffering."""
    print(text, flush=True, file=sys.stderr if error else sys.stdout)


def ours(real: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """Release a model with six clusters, and sample it."""
    model = LoadSynthesizer(n_clusters=6, epsilon=epsilon).fit(real)
    return model.sample(DRAWN, random_state=int(rng.integers(1000)))[0]


def log_normal(real: Floats, rho: float, rng: np.random.Generator) -> Floats:
    """Release mean and covariance of log load with Gaussian noise, and sample a normal law."""
    d = real.shape[1]
    logs = np.log(np.clip(real, LOW_KW, HIGH_KW) / MIDDLE_KW) / (LOG_RADIUS * np.sqrt(d))
    logs /= np.maximum(np.linalg.norm(logs, axis=1, keepdims=True), 1.0)
    mean, second = moments(logs, rho, rng)
    scale = LOG_RADIUS * np.sqrt(d)
    covariance = positive(second - np.outer(mean, mean)) * scale**2
    drawn = rng.multivariate_normal(scale * mean, covariance, DRAWN, method="eigh")
    return MIDDLE_KW * np.exp(
        np.clip(drawn, np.log(LOW_KW / MIDDLE_KW), np.log(HIGH_KW / MIDDLE_KW))
    )


def copula(real: Floats, rho: float, rng: np.random.Generator) -> Floats:
    """Release a histogram of each hour and correlations of normal scores, and sample both."""
    n, d = real.shape
    edges = np.geomspace(LOW_KW, HIGH_KW, CELLS + 1)
    cells = np.clip(np.searchsorted(edges, real, side="right") - 1, 0, CELLS - 1)
    counts = np.zeros((d, CELLS))
    np.add.at(counts, (np.tile(np.arange(d), n), cells.ravel()), 1.0)
    # A customer is in one cell of each hour: sensitivity sqrt(d). Half of rho.
    counts += rng.normal(0.0, np.sqrt(d / rho), counts.shape)
    shares = np.maximum(counts, 1e-6)
    below = np.concatenate([np.zeros((d, 1)), np.cumsum(shares, axis=1)], axis=1)
    below /= below[:, -1:]
    chances = np.stack([np.interp(real[:, h], edges, below[h]) for h in range(d)], axis=1)
    scores = np.clip(ndtri(np.clip(chances, 1e-6, 1 - 1e-6)), -SCORE_LIMIT, SCORE_LIMIT)
    scores /= SCORE_RADIUS * np.sqrt(d)
    scores /= np.maximum(np.linalg.norm(scores, axis=1, keepdims=True), 1.0)
    second = moments(scores, rho / 2.0, rng)[1]
    covariance = positive(second)
    deviations = np.sqrt(np.diag(covariance))
    drawn = rng.multivariate_normal(
        np.zeros(d), covariance / np.outer(deviations, deviations), DRAWN, method="eigh"
    )
    return np.stack([np.interp(ndtr(drawn[:, h]), below[h], edges) for h in range(d)], axis=1)


def moments(rows: Floats, rho: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return noisy means of rows of length at most 1, and of their products.

    A row and its products have length at most sqrt(2); the number of rows is taken as public.
    """
    n, d = rows.shape
    std = np.sqrt(2.0) / np.sqrt(2.0 * rho)
    noise = np.triu(rng.normal(0.0, std, (d, d)))
    noise += np.triu(noise, 1).T
    return (rows.sum(axis=0) + rng.normal(0.0, std, d)) / n, (rows.T @ rows + noise) / n


def positive(matrix: Floats) -> Floats:
    """Return the nearest matrix whose eigenvalues are positive."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, 1e-4 * values.max())) @ vectors.T)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Average days of synthetic customers: this release and two textbook methods, at the same budget.

Run: ``python benchmarks/bench_synthesis_peers.py [epsilon]``, by default 3. Both methods draw
noise here, from NumPy, with the same rho as a release of that epsilon, and with bounds that suit
the data: load from 0.02 to 10 kW. Neither has a proof or an audit; they are for comparison only.

* log-normal: noisy mean and covariance of log load, as in Algorithm 2 of the paper with one
  cluster, with Gaussian noise;
* copula: a noisy histogram of each hour, and noisy correlations of normal scores.

Figures are those of ``bench_synthesis.py few``: W1 of an hour over its standard deviation, error of
correlations, mean relative error of the mean load; medians of 20 releases of 600 customers.
"""

import sys

import numpy as np
from measured_homes import london_homes
from scipy.special import ndtr, ndtri

from wattveil import LoadSynthesizer
from wattveil.arrays import Floats
from wattveil.numerics.measures.fidelity_measures import correlation_error, slot_distance
from wattveil.privacy.guarantee import Budget
from wattveil.simulate import simulate_load_kw

RELEASES, CUSTOMERS, DRAWN = 20, 600, 4000
LOW_KW, HIGH_KW, MIDDLE_KW = 0.02, 10.0, 0.4
LOG_RADIUS = 1.0
"""Root-mean-square distance from the middle, on the log scale, to which a row is clipped."""
CELLS = 20
SCORE_RADIUS, SCORE_LIMIT = 1.2, 2.5
UNITS = 1e18
"""Units of rho, of which a budget has a whole number."""


def main(epsilon: float = 3.0) -> None:
    """Print a table."""
    rho = Budget(LoadSynthesizer(epsilon=epsilon).guarantee()).remaining_rho_units / UNITS
    methods = {
        "wattveil": lambda real, rng: ours(real, epsilon, rng),
        "log-normal": lambda real, rng: log_normal(real, rho, rng),
        "copula": lambda real, rng: copula(real, rho, rng),
    }
    populations = {
        "London homes": london_homes()[:CUSTOMERS],
        "simulated meters": simulate_load_kw(customers=CUSTOMERS, seed=3),
    }
    print("| customers | method | W1 | correlation | mean load |\n| --- | --- | --- | --- | --- |")  # noqa: T201
    for name, real in populations.items():
        for method, draw in methods.items():
            found = []
            for seed in range(RELEASES):
                made = draw(real, np.random.default_rng(seed))
                error = np.abs(made.mean(axis=0) / real.mean(axis=0) - 1.0).mean()
                found.append((slot_distance(real, made), correlation_error(real, made), error))
            cells = " | ".join(f"{figure:.3f}" for figure in np.median(found, axis=0))
            print(f"| {name} | {method} | {cells} |", flush=True)  # noqa: T201


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
    main(*map(float, sys.argv[1:]))

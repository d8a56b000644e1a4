"""Fidelity and utility: speed of every metric, and the table of synthetic customers.

Run: ``python benchmarks/bench_evaluation.py [speed | table] ...``; without an argument both. London
homes need the data folder (see `measured_homes`). All figures of the table are private.

Speed is CPU time on 100,000 customers of 96 slots beside straightforward NumPy, SciPy and
scikit-learn, as ratios in one run; a loop over customers is timed on some and scaled up. The table
is the default synthesis at two budgets and other homes, never seen, as `wattveil evaluate` compares
them: score over noise, medians of several releases.
"""

import sys
import time
from collections.abc import Callable, Iterator

import measured_homes
import numpy as np
from scipy import stats
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist
from sklearn.ensemble import ExtraTreesClassifier

from wattveil.arrays import Floats
from wattveil.lab.evaluation import fidelity_metrics
from wattveil.lab.evaluation.customer_samples import FEW, Sample, SampleLayout
from wattveil.lab.evaluation.fidelity_comparison import evaluate_load
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.simulate import simulate_load_kw

Two = tuple[Floats, Floats]

CUSTOMERS, SLOTS = 100_000, 96
LOOPED = 2000
"""Customers that a loop is timed on."""
SYNTHETIC, RELEASES = 20_000, 9
GENERATOR = np.random.default_rng(0)


def main() -> None:
    """Run the parts that are named, or both."""
    parts: dict[str, Callable[[], None]] = {"speed": speed, "table": table}
    for name in sys.argv[1:] or parts:
        parts[name]()


# --- speed ----------------------------------------------------------------------------------------


def speed() -> None:
    """Print CPU seconds of every metric and of a straightforward one, and their ratio."""
    one, other = (_customers() for _ in range(2))
    layout = SampleLayout(slots_per_day=SLOTS)
    for name, (ours, theirs, scale) in METRICS.items():
        samples = [Sample(load_kw=kw, layout=layout, centroids=one[:6]) for kw in (one, other)]
        mine = _cpu(lambda ours=ours, samples=samples: ours(*samples))
        peer = _cpu(lambda theirs=theirs: theirs((one, other))) * scale
        say(f"{name:28} {mine:8.3f} s, straightforward {peer:8.3f} s, ratio {peer / mine:6.1f}")
    whole = _cpu(lambda: evaluate_load(one, other, layout))
    say(f"whole table, 20 repeats      {whole:8.1f} s")


def _customers() -> Floats:
    return GENERATOR.gamma(2.0, 0.3, (CUSTOMERS, SLOTS)) * GENERATOR.gamma(3.0, 0.4, (CUSTOMERS, 1))


def _by_slot(two: Two, distance: Callable[[Floats, Floats], object]) -> list[object]:
    return [distance(a, b) for a, b in zip(two[0].T, two[1].T, strict=True)]


def _profiles(two: Two) -> object:
    return [np.quantile(rows, [0.05, 0.5, 0.95], axis=0) for rows in two]


def _correlations(two: Two) -> object:
    return [np.corrcoef(rows.T) for rows in two]


def _spectra(two: Two) -> object:
    return [np.linalg.eigvalsh(np.cov(rows.T)) for rows in two]


def _lags(two: Two) -> object:
    return [[np.corrcoef(row[:-4], row[4:])[0, 1] for row in rows[:LOOPED]] for rows in two]


def _peaks(two: Two) -> object:
    return stats.wasserstein_distance(*(rows.max(axis=1) for rows in two))


def _factors(two: Two) -> object:
    return stats.wasserstein_distance(*(rows.mean(axis=1) / rows.max(axis=1) for rows in two))


def _energy(two: Two) -> object:
    return stats.wasserstein_distance(*(rows.sum(axis=1) for rows in two))


def _groups(two: Two) -> object:
    starts = range(0, CUSTOMERS, 10)
    return [[rows[i : i + 10].sum(axis=0).max() / 10.0 for i in starts] for rows in two]


def _ramps(two: Two) -> object:
    bases = [np.quantile(rows, 0.05, axis=1) for rows in two]
    steps = (np.diff(rows, axis=1).ravel() for rows in two)
    return stats.wasserstein_distance(*bases), stats.wasserstein_distance(*steps)


def _mmd(two: Two) -> object:
    one, other = (rows[:FEW] for rows in two)
    squares = [cdist(a, b, "sqeuclidean") for a, b in ((one, one), (other, other), (one, other))]
    return [np.exp(square / (-2.0 * np.median(squares[0]))).mean() for square in squares]


def _classifier(two: Two) -> object:
    both = np.concatenate([rows[:FEW] for rows in two])
    trees = ExtraTreesClassifier(60, random_state=0).fit(both[::2], np.repeat([0, 1], FEW)[::2])
    return trees.predict(both[1::2])


def _frechet(two: Two) -> object:
    one, other = (np.cov(rows.T) for rows in two)
    return np.trace(one + other - 2.0 * np.real(sqrtm(one @ other)))


def _neighbours(two: Two) -> object:
    one, other = (rows[:FEW] for rows in two)
    radii = [np.sort(cdist(rows, rows), axis=1)[:, 5] for rows in (one, other)]
    return cdist(one, other) < radii[0][:, None]


def _shares(two: Two) -> object:
    return [cdist(rows, two[0][:6]).argmin(axis=1) for rows in two]


Ours = Callable[[Sample, Sample], object]
METRICS: dict[str, tuple[Ours, Callable[[Two], object], float]] = {
    "F1 W1 of slots": (
        fidelity_metrics.marginal_wasserstein,
        lambda two: _by_slot(two, stats.wasserstein_distance),
        1.0,
    ),
    "F2 KS of slots": (
        fidelity_metrics.marginal_ks,
        lambda two: _by_slot(two, lambda a, b: stats.ks_2samp(a, b, method="asymp")),
        1.0,
    ),
    "F3 profiles": (fidelity_metrics.profile_error, _profiles, 1.0),
    "F5 autocorrelation": (
        lambda a, b: fidelity_metrics.autocorrelation_distance(a, b, hours=1),
        _lags,
        CUSTOMERS / LOOPED,
    ),
    "F6 correlations": (fidelity_metrics.correlation_distance, _correlations, 1.0),
    "F7 spectrum": (fidelity_metrics.spectrum_distance, _spectra, 1.0),
    "F8 peaks": (fidelity_metrics.peak_distance, _peaks, 1.0),
    "F9 load factor": (fidelity_metrics.load_factor_distance, _factors, 1.0),
    "F11 energy": (fidelity_metrics.energy_distance, _energy, 1.0),
    "F12 ADMD of 10": (
        lambda a, b: fidelity_metrics.diversity_distance(a, b, homes=10),
        _groups,
        1.0,
    ),
    "F13 ramps, base load": (fidelity_metrics.ramp_distance, _ramps, 1.0),
    "F14 MMD": (fidelity_metrics.mmd, _mmd, 1.0),
    "F15 classifier": (fidelity_metrics.two_sample_classifier, _classifier, 1.0),
    "F16 Frechet": (fidelity_metrics.frechet, _frechet, 1.0),
    "F17 neighbourhoods": (fidelity_metrics.neighbourhoods, _neighbours, 1.0),
    "F18 shares": (fidelity_metrics.cluster_shares, _shares, 1.0),
}
"""Ours, a straightforward one, and by what its time is multiplied."""


def _cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


# --- table ----------------------------------------------------------------------------------------


def table() -> None:
    """Print the ratio of every figure, one column per case; bold is detectable."""
    columns: dict[str, list[str]] = {}
    names: list[str] = []
    for name, real_kw, releases in cases():
        start = time.process_time()
        found = [evaluate_load(real_kw, kw, SampleLayout(slots_per_day=24)) for kw in releases]
        spent = (time.process_time() - start) / len(found)
        names = [row.metric for row in found[0].rows]
        ratios = np.array([[row.ratio for row in each.rows] for each in found])
        seen = np.sort((ratios > 1.0).sum(axis=1))
        counts = f"detectable in one release: {seen[0]} to {seen[-1]}"
        say(f"{name}: {spent:.1f} CPU s a table; {counts}")
        columns[name] = [cell(ratio) for ratio in np.median(ratios, axis=0)]
        control = [cell(row.control_ratio) for row in found[0].rows]
        columns.setdefault(f"{name.split(':')[0]}: centroids", control)
    say("| metric | " + " | ".join(columns) + " |")
    say("| --- |" + " --- |" * len(columns))
    for place, name in enumerate(names):
        say(f"| {name} | " + " | ".join(column[place] for column in columns.values()) + " |")


def cell(ratio: float) -> str:
    """Return a ratio as the table shows it."""
    text = f"{ratio:.2f}"
    return f"**{text}**" if ratio > 1.0 else text


def cases() -> Iterator[tuple[str, Floats, list[Floats]]]:
    """Yield the column of the table, the real customers and releases of synthetic ones."""
    homes_kw = simulate_load_kw(customers=2818)
    yield from synthetic_of("simulated", homes_kw[:1409])
    yield "simulated: other homes", homes_kw[:1409], [homes_kw[1409:]]
    if measured_homes.LONDON.exists():
        london = GENERATOR.permutation(measured_homes.london_homes())
        yield from synthetic_of("London", london)
        half = len(london) // 2
        yield "London: other homes", london[:half], [london[half:]]


def synthetic_of(name: str, real_kw: Floats) -> Iterator[tuple[str, Floats, list[Floats]]]:
    """Yield releases of the default synthesis."""
    for epsilon in (1.0, 10.0):
        synthesizer = LoadSynthesizer(epsilon=epsilon, delta=1e-6)
        releases = [
            synthesizer.fit(real_kw).sample(SYNTHETIC, random_state=1)[0] for _ in range(RELEASES)
        ]
        yield f"{name}: ε = {epsilon:g}", real_kw, releases


def say(line: str) -> None:
    """Print a line without buffering."""
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

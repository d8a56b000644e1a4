"""Synthetic customers: speed, memory and fidelity.

Run: ``python benchmarks/bench_synthesis.py [speed | stream | fidelity | export | few] ...``; all by
default. Speed is customers per second, compared with normal numbers of NumPy of the same count in
the same run. Fidelity is measured on simulated customers, on real homes, and on homes with panels
(paths: `measured_homes`); each figure is compared with that of two halves of the real customers,
and of a release with negligible noise.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import measured_homes as measured
import numpy as np
from numpy.typing import NDArray
from populations import six_kinds

from wattveil import LoadSynthesizer
from wattveil.arrays import Floats
from wattveil.bundle.customer_files import write_parquet
from wattveil.bundle.drawn_customers import Drawn
from wattveil.numerics.measures.fidelity_measures import correlation_error, slot_distance
from wattveil.numerics.synthesis import SyntheticModel
from wattveil.profiles import TimeGrid
from wattveil.simulate import simulate_load_kw

K = 6
RUNS = 5
RELEASES = 20
"""Releases of which the median is taken."""
DRAWN = 1_000_000
STREAMED = 10_000_000
NO_NOISE = 1e5
FEWEST = 20
"""Customers of a cluster whose distribution is compared."""
MIN_STD = 1e-3
"""In kW: a slot in which all customers of a cluster are alike is not compared."""
MIDDAY = slice(10, 15)


def main() -> None:
    """Run the parts that are named, or all."""
    parts: dict[str, Callable[[], None]] = {
        "speed": speed,
        "stream": stream,
        "fidelity": fidelity,
        "export": export,
        "few": few,
    }
    match sys.argv[1:]:
        case ["streamed", customers]:
            _stream_here(int(customers))
        case names:
            for name in names or parts:
                parts[name]()


def a_model() -> SyntheticModel:
    """Return a model of simulated homes."""
    homes = simulate_load_kw(customers=1409)
    return LoadSynthesizer(n_clusters=K, epsilon=3.0).fit(homes).model_


# --- speed and memory -----------------------------------------------------------------------------


def speed() -> None:
    """Print customers per second relative to NumPy; the target is half its rate, or a million."""
    model = a_model()
    model.sample(1000, random_state=0)  # compiles
    generator = np.random.default_rng(0)
    ours, theirs = [], []
    for seed in range(RUNS):
        ours.append(_seconds(lambda seed=seed: model.sample(DRAWN, random_state=seed)))
        theirs.append(_seconds(lambda: generator.standard_normal((DRAWN, model.n_columns))))
    rate, numpys = DRAWN / min(ours), DRAWN / min(theirs)
    print(f"daily profiles per second: {rate:,.0f}; NumPy's normals {numpys:,.0f}")  # noqa: T201
    print(f"ratio {rate / numpys:.2f}; target {min(1e6, numpys / 2):,.0f}")  # noqa: T201
    begin = time.process_time()
    model.sample(DRAWN, random_state=0)
    sampled = time.process_time()
    generator.standard_normal((DRAWN, model.n_columns))
    spent = (sampled - begin) / DRAWN, (time.process_time() - sampled) / DRAWN
    print(f"processor time of a profile: {spent[0] * 1e9:.0f} ns, NumPy {spent[1] * 1e9:.0f} ns")  # noqa: T201


def stream() -> None:
    """Write few and many customers to disk, each in a process of its own; print peak memory."""
    for customers in (STREAMED // 10, STREAMED):
        command = [sys.executable, __file__, "streamed", str(customers)]
        subprocess.run(command, check=True)  # noqa: S603 - ourselves


def _stream_here(customers: int) -> None:
    """Write customers to a file; print time, size and memory."""
    model = a_model()
    batches = (
        ([f"S{row:09}" for row in range(len(load_kw))], clusters, load_kw)
        for load_kw, clusters in model.batches(customers, random_state=1)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "customers.parquet"
        before = _peak_mb()
        drawn = Drawn(
            batches=batches,
            customers=customers,
            grid=TimeGrid(),
            timezone="UTC",
            power_factor=1.0,
            buses=None,
        )
        took = _seconds(lambda: write_parquet(path, drawn))
        size = path.stat().st_size / 1e9
    print(  # noqa: T201
        f"{customers:,} customers to Parquet: {customers / took:,.0f} a second, {size:.2f} GB, "
        f"peak memory {_peak_mb():.0f} MB ({before:.0f} MB before)"
    )


def _seconds(call: Callable[[], object]) -> float:
    """Return the duration of a call in seconds."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _peak_mb() -> float:
    """Return the largest resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


# --- fidelity -------------------------------------------------------------------------------------

POPULATIONS: dict[str, Callable[[], Floats]] = {
    "simulated meters, 1,409": lambda: simulate_load_kw(customers=1409),
    "six kinds, 1,409": lambda: six_kinds(1_409, 101),
    "six kinds, 10,000": lambda: six_kinds(10_000, 101),
    "London homes, 1,014": measured.london_homes,
    "with panels, 4,200": measured.london_panels,
}


def fidelity() -> None:
    """Print a table for each population: distances over the standard deviation of the real."""
    print("| customers | | W1 | correlation | energy | load factor | peak |")  # noqa: T201
    print("| --- | --- | --- | --- | --- | --- | --- |")  # noqa: T201
    for name, make in POPULATIONS.items():
        real = make()
        kinds = {f"ε = {e:g}": _released(real, e) for e in (1.0, 3.0, 10.0)}
        kinds["no noise"] = _released(real, NO_NOISE)
        kinds["real halves"] = _halves(real)
        for kind, figures in kinds.items():
            cells = " | ".join(f"{figure:.3f}" for figure in figures)
            print(f"| {name} | {kind} | {cells} |", flush=True)  # noqa: T201


def _released(real: Floats, epsilon: float) -> Floats:
    """Return the median figures of releases."""
    found = []
    for seed in range(RELEASES):
        synthesizer = LoadSynthesizer(n_clusters=K, epsilon=epsilon).fit(real)
        labels = synthesizer.predict(real)
        made = [
            synthesizer.sample(4000, random_state=seed, by=[float(j == k) for j in range(K)])[0]
            for k in range(K)
        ]
        found.append(figures_of(real, labels, made))
    return np.median(found, axis=0)


def _halves(real: Floats) -> Floats:
    """Return the figures of one half of the real customers against the other."""
    labels = LoadSynthesizer(n_clusters=K, epsilon=NO_NOISE).fit(real).predict(real)
    generator = np.random.default_rng(0)
    found = []
    for _ in range(RELEASES):
        first = generator.permutation(len(real)) % 2 == 0
        others = [real[~first & (labels == k)] for k in range(K)]
        found.append(figures_of(real[first], labels[first], others))
    return np.median(found, axis=0)


def figures_of(real: Floats, labels: NDArray[np.int64], made: list[Floats]) -> list[float]:
    """Return W1 of a slot and correlation error by cluster, then W1 of energy, factor and peak.

    Clusters count by their real customers; the pooled figures have the real mix.
    """
    generator = np.random.default_rng(0)
    weights, slots, correlations, pooled, kept = [], [], [], [], []
    for k, synthetic in enumerate(made):
        own = real[labels == k]
        if min(len(own), len(synthetic)) < FEWEST:
            continue
        varies = own.std(axis=0) > MIN_STD
        weights.append(len(own))
        slots.append(slot_distance(own[:, varies], synthetic[:, varies]))
        correlations.append(correlation_error(own[:, varies], synthetic[:, varies]))
        pooled.append(synthetic[generator.integers(0, len(synthetic), len(own))])
        kept.append(own)
    customers, synthetics = np.concatenate(kept), np.concatenate(pooled)
    return [
        float(np.average(slots, weights=weights)),
        float(np.average(correlations, weights=weights)),
        *(
            slot_distance(measure(customers)[:, None], measure(synthetics)[:, None])
            for measure in (_energy, _load_factor, _peak)
        ),
    ]


def _energy(load_kw: Floats) -> Floats:
    return np.asarray(load_kw.mean(axis=1))


def _load_factor(load_kw: Floats) -> Floats:
    sizes = np.abs(load_kw)
    return np.asarray(sizes.mean(axis=1) / np.maximum(sizes.max(axis=1), 1e-9))


def _peak(load_kw: Floats) -> Floats:
    return np.asarray(load_kw.max(axis=1))


# --- export ---------------------------------------------------------------------------------------


def export() -> None:
    """Print frequency and depth of export of customers with panels, real and synthetic."""
    print("| customers | | negative hours | export at all | midday kW | deepest 5 % |")  # noqa: T201
    print("| --- | --- | --- | --- | --- | --- |")  # noqa: T201
    populations = {"London with panels": measured.london_panels, "CityLearn": measured.city_weeks}
    for name, make in populations.items():
        real = make()
        kinds = {"real": [_export_of(real)]}
        for epsilon in (1.0, 3.0, 10.0, NO_NOISE):
            kinds["no noise" if epsilon == NO_NOISE else f"ε = {epsilon:g}"] = [
                _export_of(
                    LoadSynthesizer(n_clusters=K, epsilon=epsilon)
                    .fit(real)
                    .sample(20_000, random_state=seed)[0]
                )
                for seed in range(RELEASES)
            ]
        for kind, found in kinds.items():
            hours, homes, midday, deepest = np.median(found, axis=0)
            row = f"{hours:.1%} | {homes:.1%} | {midday:.2f} | {deepest:.2f}"
            print(f"| {name} | {kind} | {row} |", flush=True)  # noqa: T201


def few() -> None:
    """Print figures of all customers together, where customers are few, by number of clusters."""
    print("| customers | | K | W1 | correlation | mean load |")  # noqa: T201
    print("| --- | --- | --- | --- | --- | --- |")  # noqa: T201
    populations = {
        "London homes, 600": measured.london_homes()[:600],
        "simulated meters, 600": simulate_load_kw(customers=600, seed=3),
    }
    for name, real in populations.items():
        for epsilon in (1.0, 3.0):
            for n_clusters in (2, K):
                synthesizer = LoadSynthesizer(n_clusters=n_clusters, epsilon=epsilon)
                found = []
                for seed in range(RELEASES):
                    made = synthesizer.fit(real).sample(4000, random_state=seed)[0]
                    error = np.abs(made.mean(axis=0) / real.mean(axis=0) - 1.0).mean()
                    found.append((slot_distance(real, made), correlation_error(real, made), error))
                cells = " | ".join(f"{figure:.3f}" for figure in np.median(found, axis=0))
                print(f"| {name} | ε = {epsilon:g} | {n_clusters} | {cells} |", flush=True)  # noqa: T201


def _export_of(load_kw: Floats) -> tuple[float, ...]:
    negative = load_kw < 0.0
    deepest = np.quantile(load_kw.min(axis=1), 0.05)
    shares = negative.mean(), negative.any(axis=1).mean()
    return (*shares, load_kw[:, MIDDAY].mean(), deepest)


if __name__ == "__main__":
    main()

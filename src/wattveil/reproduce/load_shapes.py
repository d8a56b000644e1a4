"""Daily load shapes of the clusters: 90 % bands of real and synthetic customers, 15 curves each."""

from collections.abc import Mapping

import numpy as np
from plotly.graph_objects import Figure

from wattveil import calibration
from wattveil.clustering._kernels import Indices
from wattveil.clustering.geometry import Floats
from wattveil.clustering.lloyd import assign
from wattveil.profiles.page import Shown
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.reproduce.figure import Outcome, Reproduction, Table
from wattveil.reproduce.mechanism import N_CLUSTERS
from wattveil.reproduce.plots import BROWN, GREEN, GREY, add_band, new_figure
from wattveil.reproduce.study import Study
from wattveil.reproduce.synthesis import Moment, algorithm_2

EPSILON, DELTA = 30.0, 0.2  # the paper's
PRIVATE_EPSILON, PRIVATE_DELTA = 3.0, 1e-6
CURVES = 15
_SAMPLES = 4000
_BAND = (5.0, 95.0)
LETTER, CENTRED = "Algorithm 2 to the letter", "Algorithm 2, centred, Wishart noise"
NOISELESS, PRIVATE = "Algorithm 2, centred, no noise", "Wattveil, ε = 3"


def run(study: Study) -> Outcome:
    """Synthesise by the paper's algorithm and by Wattveil's, and compare their bands."""
    mechanism, source = study.coloured, study.lots("load-shapes")
    exact, real = mechanism.exact, mechanism.rows
    s = calibration.paper_calibration(epsilon=EPSILON, delta=DELTA).s
    noisy = mechanism.centroids(s, source)
    samples = 600 if study.fast else _SAMPLES
    wanted = np.repeat(np.arange(N_CLUSTERS), samples)

    def drawn(moment: Moment, epsilon: float | None) -> Floats:
        return algorithm_2(
            mechanism, centroids=noisy, wanted=wanted, epsilon=epsilon, moment=moment, lots=source
        )

    letter = drawn("second", EPSILON)
    private = synthesised(real, N_CLUSTERS * samples, study.seed)
    # A model of its own has clusters of its own: they are compared with the paper's by nearness.
    groups = {
        LETTER: (letter, wanted),
        CENTRED: (drawn("centred", EPSILON), wanted),
        NOISELESS: (drawn("centred", None), wanted),
        PRIVATE: (private, assign(private, exact.centroids).astype(np.int64)),
    }
    errors = {
        name: _band_error(rows, own, real, exact.labels) for name, (rows, own) in groups.items()
    }
    sizes = exact.sizes.tolist()
    mean = {name: float(np.average(values, weights=exact.sizes)) for name, values in errors.items()}
    panels = [
        Shown(
            f"{title}: cluster {k}, {sizes[k]:,} customers",
            _cluster(real[exact.labels == k], *groups[name], k, noisy[k] if noise else None),
            "hour",
            "kW",
        )
        for name, title, noise in ((CENTRED, "Paper", True), (PRIVATE, "Wattveil", False))
        for k in range(N_CLUSTERS)
    ]
    return Outcome(
        numbers={
            "sizes": sizes,
            "band_error": {name: list(values) for name, values in errors.items()},
            "mean_band_error": mean,
            "letter_largest_kw": float(np.abs(letter).max()),
            "real_largest_kw": float(np.abs(real).max()),
        },
        panels=panels,
        tables=[_table(errors, sizes)],
        found=(
            "Distance of the synthetic 90 % band from the real one, over the real one's width, in"
            f" the mean over customers: {mean[CENTRED]:.2f} for Algorithm 2 with centred"
            f" covariances and Wishart noise, {mean[NOISELESS]:.2f} without that noise,"
            f" {mean[PRIVATE]:.2f} for Wattveil's synthesis under differential privacy,"
            " ε = 3, δ = 10⁻⁶, all statistics paid for."
        ),
        differs=(
            "To the letter, Algorithm 2 takes X X'/n for the covariance. It contains the square of"
            f" the mean, log 15 squared: its bands are {mean[LETTER]:.3g} widths off"
            f" and its largest load is {np.abs(letter).max():.3g} kW, so the paper must have"
            " centred. Then its bands fit as long as there is no noise on the covariances, and at"
            " ε = 30, δ = 0.2 there is hardly any on the centroids (true δ 0.999999). Wishart"
            " noise for rows as long as the longest, even at ε = 30 (the paper does not say its"
            " ε), widens the bands, the more the smaller the cluster, and is private at no ε. What"
            " means and covariances cost is not in the paper's budget."
        ),
    )


def synthesised(real: Floats, customers: int, seed: int) -> Floats:
    """Draw customers from Wattveil's model, released under differential privacy without a seed."""
    synthesizer = LoadSynthesizer(
        n_clusters=N_CLUSTERS, epsilon=PRIVATE_EPSILON, delta=PRIVATE_DELTA
    )
    rows, _ = synthesizer.fit(real).sample(customers, seed=seed)
    return rows


def _band_error(rows: Floats, own: Indices, real: Floats, labels: Indices) -> list[float]:
    """Return, by cluster, how far the ends of the bands are apart, over the width of the real."""
    errors = []
    for k in range(N_CLUSTERS):
        low, high = np.percentile(real[labels == k], _BAND, axis=0)
        if not (own == k).any():
            errors.append(1.0)  # too rare to be synthesised: a whole width off
            continue
        ends = np.percentile(rows[own == k], _BAND, axis=0)
        apart = (np.abs(ends[0] - low) + np.abs(ends[1] - high)) / 2.0
        errors.append(float(apart.mean() / (high - low).mean()))
    return errors


def _cluster(real: Floats, rows: Floats, own: Indices, k: int, noisy: Floats | None) -> Figure:
    """Draw a cluster: bands, centroid, and fifteen synthetic customers."""
    figure, synthetic = new_figure(), rows[own == k]
    hours = np.arange(real.shape[1]) * 24.0 / (real.shape[1] // 24 * 24)
    for curve in synthetic[:CURVES]:
        figure.add_scatter(
            x=hours,
            y=curve,
            mode="lines",
            line={"color": GREY, "width": 0.7},
            opacity=0.6,
            showlegend=False,
        )
    for name, load, colour in (("real 90 %", real, BROWN), ("synthetic 90 %", synthetic, GREEN)):
        if len(load):
            low, high = np.percentile(load, _BAND, axis=0)
            add_band(figure, hours, low, high, name=name, colour=colour)
    mean = real.mean(axis=0)
    figure.add_scatter(x=hours, y=mean, mode="lines", line={"color": BROWN}, name="real mean")
    if noisy is not None:
        style = {"color": GREEN, "dash": "dash"}
        figure.add_scatter(x=hours, y=noisy, mode="lines", line=style, name="noisy centroid")
    return figure


def _table(errors: Mapping[str, list[float]], sizes: list[int]) -> Table:
    head = ["band error, in widths", *(f"cluster {k} ({size:,})" for k, size in enumerate(sizes))]
    rows = [[name, *(f"{value:.3g}" for value in values)] for name, values in errors.items()]
    return Table("How far the synthetic 90 % band is from the real one", head, rows)


FIGURE = Reproduction(
    name="load-shapes",
    title="Daily load shapes with synthetic customers",
    paper=(
        "Six clusters with the 90 % bands of real customers and of the fitted log-normal law, and"
        " 15 synthetic curves each, α = 15 kW, (ε_c, δ_c, ε_l, δ_l) = (30, 0.2, 30, 0)."
    ),
    run=run,
)

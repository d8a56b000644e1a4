"""Xia, Hua, Tong and Zhong (2020), local k-means, Comput. & Secur. 90, by its abstract.

1. Once: each customer codes every value in b bits and sends each bit by randomised response.
2. Rounds: the server sends centroids; each customer answers with the nearest one to its *true*
   values, by randomised response (the extended mechanism); the server averages the stored values
   of each group, corrected for the response.

The only one here without a trusted curator, and the only rival that releases labels: the answers
of the last round. The basic mechanism sends the index in clear and guarantees nothing.

Assumed: b = 4, half the budget for the values and half for the answers, 2 rounds (they lose 0.8
times what 5 do), a uniformly random start.
"""

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from wattveil.baselines.lap_lloyd import sums_and_counts
from wattveil.baselines.noise import Noise, keep_chance, total_epsilon
from wattveil.baselines.outcome import Floats, Ints, Outcome, PublicChoices, checked, promise
from wattveil.baselines.starts import uniform_start
from wattveil.clustering.lloyd import assign
from wattveil.privacy.guarantee import Neighbours

_BITS = 4
_ROUNDS = 2


def fit(
    load_kw: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,
) -> Outcome:
    """Return centroids and the last answers: pure epsilon, also against the utility itself."""
    points = public.in_box(checked(load_kw, epsilon=epsilon, delta=delta, public=public))
    noise = Noise(generator)
    sent = send_values(points, epsilon / 2.0, noise)
    centroids = uniform_start(public.n_clusters, public.n_slots, generator)
    answers = np.zeros(len(points), np.int64)
    for _ in range(_ROUNDS):
        nearest = assign(points, centroids).astype(np.int64)
        budget = epsilon / 2.0 / _ROUNDS
        answers = noise.respond(nearest, public.n_clusters, epsilon=budget, step="answer")
        centroids = corrected_means(sent, answers, centroids, epsilon=budget)
    paid = promise(total_epsilon(noise.asks), neighbours=Neighbours.REPLACE_ONE)
    return Outcome(
        centroids_kw=public.from_box(centroids),
        labels=answers,
        claimed=promise(epsilon, neighbours=Neighbours.REPLACE_ONE),
        true=paid,
        true_with_labels=paid,
        doubts=("bits, rounds and split are assumed",),
        asks=tuple(noise.asks),
    )


def send_values(points: Floats, epsilon: float, noise: Noise) -> Floats:
    """Return unbiased values in which every bit went through randomised response.

    A bit is kept with p = e^x / (1 + e^x), x = epsilon / (d b); (sent - (1 - p)) / (2 p - 1) is
    right on average.
    """
    per_bit = epsilon / (points.shape[1] * _BITS)
    most = 2**_BITS - 1
    codes = np.rint((points + 1.0) / 2.0 * most).astype(np.int64)
    places = np.arange(_BITS)
    bits = codes[..., None] >> places & 1
    keep = keep_chance(2, per_bit)
    sent = np.empty(bits.shape)
    for slot in range(points.shape[1]):
        for place in places:
            step = f"slot {slot}, bit {place}"
            sent[:, slot, place] = noise.respond(
                bits[:, slot, place], 2, epsilon=per_bit, step=step
            )
    unbiased = (sent - (1.0 - keep)) / (2.0 * keep - 1.0)
    values: Floats = 2.0 * (unbiased @ 2.0**places) / most - 1.0
    return values


def corrected_means(sent: Floats, answers: Ints, previous: Floats, *, epsilon: float) -> Floats:
    """Return the mean of each group, corrected for answers that were not the truth.

    With keep chance p and q = (1 - p) / (K - 1), group r holds sum_k M_kr of what belongs to
    cluster k, M = (p - q) I + q: so what belongs to k is (group k - q total) / (p - q).
    """
    n_clusters = len(previous)
    keep = keep_chance(n_clusters, epsilon)
    other = (1.0 - keep) / (n_clusters - 1)
    sums, counts = sums_and_counts(sent, answers, n_clusters)
    sums = (sums - other * sums.sum(axis=0)) / (keep - other)
    counts = (counts - other * counts.sum()) / (keep - other)
    means = np.clip(sums / np.maximum(counts, 1.0)[:, None], -1.0, 1.0)
    return np.where(counts[:, None] > 1.0, means, previous)

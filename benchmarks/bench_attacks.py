"""Success of attacks on London homes: raw data, 15/15 rule, instance tier and global tier.

Run: ``python benchmarks/bench_attacks.py``. It needs the data folder (see `measured_homes`). All
figures are private. Half of the homes are released; the other half is a hold-out. A
release is any set of rows that an observer receives: the homes themselves, averages that 15/15
permits, the centroids of the instance tier, synthetic customers of the global tier.
"""

from collections.abc import Callable

import measured_homes
import numpy as np

from wattveil.arrays import Floats
from wattveil.lab.attacks.aggregation_rules import Rule, apply_rule
from wattveil.lab.attacks.attack_page import COPY_ROWS
from wattveil.lab.attacks.synthetic_attacks import MemberSplit, copy_attack, label_inference
from wattveil.lab.audit.epsilon_bounds import paired_bound
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.privacy.guarantee import global_guarantee
from wattveil.privacy.mechanisms.response import PARTS
from wattveil.privacy.opening import reveal
from wattveil.release.group_load import load_shapes
from wattveil.release.instance import LeaveOneOutKMeans
from wattveil.release.kmeans import PrivateKMeans
from wattveil.release.synthetic import LoadSynthesizer

DELTA, CLUSTERS = 1e-6, 6
RULE = Rule.parse("15/15")
PLAUSIBLE_KW = (0.04, 400.0)
REPEATS, TARGETS, RELEASES = 3, 5, 60
EPSILONS = (1.0, 10.0)
ASSIGNMENT = RandomAssignment(0)


def main() -> None:
    """Print the table."""
    if not measured_homes.LONDON.exists():
        print(f"skipped: {measured_homes.LONDON} is not there; set WATTVEIL_DATA")  # noqa: T201
        return
    homes = measured_homes.london_homes()
    split = MemberSplit.of(homes, ASSIGNMENT)
    further = ["presence of the largest home inferred", "label inferred", "load recovered"]
    columns: dict[str, list[str]] = {"": [*COPY_ROWS, *further]}
    for name, release, labels, means in cases():
        found = [copy_attack(split, release) for _ in range(REPEATS)]
        shares = [np.mean([getattr(each, field) for each in found]) for field in COPY_ROWS.values()]
        columns[name] = [f"{share:.1%}" for share in shares]
        columns[name] += [presence(split.members, release)]
        columns[name] += [labels(split.members), recovery(split.members, means)]
        print(name, columns[name], flush=True)  # noqa: T201
    print("| " + " | ".join(columns) + " |")  # noqa: T201
    print("| --- |" + " --- |" * (len(columns) - 1))  # noqa: T201
    for row in zip(*columns.values(), strict=True):
        print("| " + " | ".join(row) + " |")  # noqa: T201


Case = tuple[str, Callable[[Floats], Floats], Callable[[Floats], str], Callable[[Floats], Floats]]


def cases() -> list[Case]:
    """Return each release with its label attack and its mean of the customers."""
    found: list[Case] = [
        (
            "raw, without names",
            lambda rows: rows[ASSIGNMENT.order(len(rows))],
            lambda _: "known",
            mean,
        ),
        ("15/15 averages", averages, lambda _: "none", mean),
    ]
    for epsilon in EPSILONS:
        found.append(
            (
                f"instance, ε = {epsilon:g}",
                lambda rows, epsilon=epsilon: leave_one_out(rows, epsilon).cluster_centers_,
                lambda rows, epsilon=epsilon: instance_labels(rows, epsilon),
                lambda rows, epsilon=epsilon: instance_mean(rows, epsilon),
            )
        )
        found.append(
            (
                f"global, ε = {epsilon:g}",
                lambda rows, epsilon=epsilon: synthetic(rows, epsilon),
                lambda rows, epsilon=epsilon: global_labels(rows, epsilon),
                lambda rows, epsilon=epsilon: global_mean(rows, epsilon),
            )
        )
    return found


def mean(rows: Floats) -> Floats:
    """Return the exact mean; it has more than 15 customers, none above 15 %."""
    return rows.mean(axis=0)


def averages(rows: Floats) -> Floats:
    """Return means of random groups of 15: those in which no customer has more than 15 %."""
    group_of = ASSIGNMENT.order(len(rows)) % (len(rows) // RULE.min_customers)
    found = apply_rule(rows, [str(group) for group in group_of], RULE)
    published = [place for place, cell in enumerate(found.cells) if cell.published]
    return np.array([rows[found.cell_of == place].mean(axis=0) for place in published])


def leave_one_out(rows: Floats, epsilon: float) -> LeaveOneOutKMeans:
    """Release clusters under the instance guarantee, half of epsilon for the labels."""
    return LeaveOneOutKMeans(
        n_clusters=CLUSTERS, epsilon_c=epsilon / 2.0, delta_c=DELTA, epsilon_l=epsilon / 2.0
    ).fit(rows)


def instance_labels(rows: Floats, epsilon: float) -> str:
    """Infer the exact label as the released one."""
    fit = leave_one_out(rows, epsilon)
    return f"{(fit.labels_ == reveal(fit.diagnostics_).labels).mean():.1%}"


def instance_mean(rows: Floats, epsilon: float) -> Floats:
    """Return the mean that released centroids and labels add up to."""
    fit = leave_one_out(rows, epsilon)
    return fit.cluster_centers_[fit.labels_].mean(axis=0)


def synthetic(rows: Floats, epsilon: float) -> Floats:
    """Return as many synthetic customers as real ones."""
    fitted = LoadSynthesizer(
        n_clusters=CLUSTERS, epsilon=epsilon, delta=DELTA, plausible_kw=PLAUSIBLE_KW
    ).fit(rows)
    return fitted.sample(len(rows), random_state=1)[0]


def global_labels(rows: Floats, epsilon: float) -> str:
    """Infer the label by Bayes' rule from channel and released sizes; half for labels."""
    kmeans = PrivateKMeans(n_clusters=CLUSTERS, epsilon=epsilon / 2.0, delta=DELTA).fit(rows)
    names = [f"{row:09}" for row in range(len(rows))]  # in the order of the rows
    released = kmeans.release_labels(rows, epsilon=epsilon / 2.0, customer_ids=names, real_ids=True)
    found = label_inference(
        kmeans.predict(rows),
        released.labels,
        channel=released.channel.parts[:-1] / PARTS,
        prior=np.maximum(kmeans.cluster_sizes_, 0.0),
    )
    return f"{found.accuracy:.1%} ({found.prior_accuracy:.1%} without)"


def global_mean(rows: Floats, epsilon: float) -> Floats:
    """Return the released mean load."""
    return load_shapes(rows, epsilon=epsilon, delta=DELTA, plausible_kw=PLAUSIBLE_KW).mean_kw[0]


def presence(rows: Floats, release: Callable[[Floats], Floats]) -> str:
    """Return the accuracy of inferring from one release whether the largest home is included."""
    without = np.delete(rows, np.argmax(np.linalg.norm(rows, axis=1)), axis=0)

    def look(own: Floats) -> Floats:
        made = release(own)
        return np.array([made.mean(), made.min(), made.max(), np.log(made.std())])

    sides = [np.array([look(own) for _ in range(RELEASES)]) for own in (rows, without)]
    found = paired_bound(*sides, claim=global_guarantee(epsilon=1.0, delta=DELTA), level=0.05)
    return f"{(found.hits + found.trials - found.misses) / (2 * found.trials):.0%}"


def recovery(rows: Floats, means: Callable[[Floats], Floats]) -> str:
    """Difference two means; return the median error over some homes, of the home's own load."""
    errors = []
    for target in ASSIGNMENT.order(len(rows))[:TARGETS]:
        both = means(rows), means(np.delete(rows, target, axis=0))
        found = len(rows) * both[0] - (len(rows) - 1) * both[1]
        errors.append(np.linalg.norm(found - rows[target]) / np.linalg.norm(rows[target]))
    return f"error {np.median(errors):.1g}"


if __name__ == "__main__":
    main()

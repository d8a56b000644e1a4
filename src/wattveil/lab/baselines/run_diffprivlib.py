"""Script that runs diffprivlib's KMeans in another interpreter; it does not import Wattveil."""

import sys
import warnings

NOT_THERE = 3
"""Exit status when diffprivlib cannot be imported."""


def main() -> None:
    """Read the input file, write the centroids of every epsilon and seed."""
    import numpy as np

    warnings.simplefilter("ignore")
    try:
        from diffprivlib.models import KMeans
    except ImportError:  # also where scikit-learn is too new for it
        sys.exit(NOT_THERE)
    if not sys.argv[1:]:
        return  # called only to check that it is installed
    source, target = sys.argv[1:]
    given = np.load(source)

    def centroids(epsilon: float, seed: int) -> list[list[float]]:
        model = KMeans(
            int(given["n_clusters"]),
            epsilon=float(epsilon),
            bounds=(given["low"], given["high"]),
            random_state=int(seed),
        )
        found: list[list[float]] = model.fit(given["rows"]).cluster_centers_.tolist()
        return found

    np.save(target, [[centroids(e, seed) for seed in given["seeds"]] for e in given["epsilons"]])


if __name__ == "__main__":
    main()

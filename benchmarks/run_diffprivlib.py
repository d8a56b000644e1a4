"""Run diffprivlib's KMeans in an interpreter of its own; called by `rivals`.

Needs ``pip install diffprivlib==0.6.6 scikit-learn==1.5.2``; imports nothing of this project.
"""

import sys
import warnings

import numpy as np
from diffprivlib.models import KMeans
from numpy.typing import NDArray


def main() -> None:
    """Read rows, write the centroids of every epsilon and run."""
    source, target, n_clusters, runs, *epsilons = sys.argv[1:]
    rows = np.load(source)
    low, high = np.quantile(rows, [0.005, 0.995], axis=0)
    high = np.maximum(high, low + 1e-9)
    rows = np.clip(rows, low, high)
    warnings.simplefilter("ignore")

    def centroids(epsilon: str, run: int) -> NDArray[np.float64]:
        model = KMeans(
            int(n_clusters), epsilon=float(epsilon), bounds=(low, high), random_state=run
        )
        return model.fit(rows).cluster_centers_

    np.save(target, [[centroids(epsilon, run) for run in range(int(runs))] for epsilon in epsilons])


if __name__ == "__main__":
    main()

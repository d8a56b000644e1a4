"""Script that runs a published DP synthesiser in another interpreter; it does not import Wattveil.

`bench_synthesis_peers.py` calls it with a method, an input file and an output file. Input: cells of
customers (rows, columns), their number per column, the numbers of records, epsilon and
delta; output: cells of synthetic customers, one array per release.
"""

import sys
import time
import warnings

NOT_THERE = 3
"""Exit status when the package of a method cannot be imported."""
STEPS = {"MST": 500, "AIM": 100}
"""Steps of mirror descent of each estimate of private-pgm. Their defaults, 2,500 to 10,000 and
1,000, take minutes to hours per release; privacy does not depend on them."""
AIM_ROUNDS, AIM_MODEL_MB = 2, 1.0
"""AIM's rounds per column and the limit on its model. With its defaults, 16 and 80 MB, a release
takes hours (with 16 and 1 MB more than 25 minutes on busy cores). One round per column would leave
nothing for correlations: measuring single columns takes one each."""
GAN_NOISE, GAN_BATCH = 5.0, 64
"""Noise multiplier (its default) and batch of DPCTGAN."""


def main() -> None:
    """Fit and sample the method once per release; write what was made within the time limit."""
    import numpy as np

    warnings.simplefilter("ignore")
    method, *files = sys.argv[1:]
    try:
        draw = {"MST": graphical, "AIM": graphical, "DPCTGAN": gan}[method](method)
    except ImportError:
        sys.exit(NOT_THERE)
    if not files:
        return  # called only to check that it is installed
    source, target = files
    given = np.load(source)
    end = time.monotonic() + float(given["seconds"])
    made = []
    for seed in range(int(given["releases"])):
        made.append(draw(given, seed))
        np.save(target, np.array(made))
        if time.monotonic() > end:
            break


def graphical(method: str):  # noqa: ANN201 - NumPy is imported in the functions
    """Return MST or AIM of private-pgm, as packaged in ``dpmm``."""
    import pandas as pd
    from dpmm.models import mst
    from dpmm.models.aim import AIMGM
    from dpmm.models.mst import MSTGM

    engine = mst.FactoredInference
    mst.FactoredInference = lambda domain, iters, **more: engine(
        domain, iters=min(iters, STEPS["MST"]), **more
    )

    def draw(given, seed: int):  # noqa: ANN001, ANN202
        import numpy as np

        cells, size = given["cells"], int(given["size"])
        names = [f"h{h}" for h in range(cells.shape[1])]
        aim = {"max_model_size": AIM_MODEL_MB, "rounds": AIM_ROUNDS * len(names)}
        model = {"MST": MSTGM, "AIM": AIMGM}[method](
            epsilon=float(given["epsilon"]),
            delta=float(given["delta"]),
            n_jobs=1,
            n_iters=STEPS[method],
            **(aim if method == "AIM" else {}),
        )
        model.set_domain(dict.fromkeys(names, size))
        model.set_random_state(np.random.RandomState(seed))
        model.fit(pd.DataFrame(cells, columns=names))
        return model.generate(n_records=int(given["drawn"]))[names].to_numpy()

    return draw


def gan(_: str):  # noqa: ANN201
    """Return DPCTGAN of SmartNoise: conditional GAN trained with DP-SGD."""
    import pandas as pd
    from snsynth.pytorch.nn import DPCTGAN

    def draw(given, seed: int):  # noqa: ANN001, ANN202
        import torch

        torch.manual_seed(seed)
        cells = given["cells"]
        table = pd.DataFrame(cells, columns=[f"h{h}" for h in range(cells.shape[1])])
        model = DPCTGAN(
            epsilon=float(given["epsilon"]),
            delta=float(given["delta"]),
            sigma=GAN_NOISE,
            batch_size=GAN_BATCH,
            verbose=False,
            cuda=False,
        )
        model.fit(table, categorical_columns=list(table), preprocessor_eps=0.0)
        return model.sample(int(given["drawn"])).to_numpy()

    return draw


if __name__ == "__main__":
    main()

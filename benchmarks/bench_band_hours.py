"""Coverage of the 95 % bands of the mean load, hour by hour, in releases of a thousand homes.

Run: ``python benchmarks/bench_band_hours.py [epsilon] [releases]``, by default 10 and 100. The
request is that of the grid planner's guide; only its mean load is released, with its share of the
budget. First all releases are of the homes of the guide, then each is of other simulated homes.
Hours of one release are correlated, so the standard error is over releases.
"""

import sys

import numpy as np

from wattveil import load_shapes
from wattveil.arrays import Floats
from wattveil.bundle.plan import plan_release
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.simulate import simulate_load_kw

HOMES, CLIP_KW, OTHER_HOMES = 1000, 10.0, 500
HIGH = 1.96


def main(epsilon: float = 10.0, releases: int = 100) -> None:
    """Print the coverage and the mean error by hour."""
    fields = {"epsilon": epsilon, "clip_kw": CLIP_KW, "customers": HOMES}
    request = ReleaseRequest.model_validate({**fields, "roughness": "single month"})
    own = plan_release(request, TimeGrid()).allotments["load"].guarantee
    guide_kw = simulate_load_kw(customers=HOMES)
    others = (simulate_load_kw(customers=HOMES, seed=OTHER_HOMES + run) for run in range(releases))
    for name, homes in (("guide", [guide_kw] * releases), ("other", others)):
        released = [
            error_and_band(load_kw, epsilon=own.epsilon, delta=own.delta) for load_kw in homes
        ]
        error_kw, std_kw, bound_kw, peaks = map(np.array, zip(*released, strict=True))
        covered = np.abs(error_kw) < HIGH * std_kw
        whole = covered.mean(axis=1)
        at_peak = covered[np.arange(releases), peaks].mean()
        by_hour = covered.mean(axis=0)
        lines = (
            f"{name} homes, {releases} releases, mean load at epsilon {own.epsilon:.2f}:",
            f"covered {whole.mean():.3f} ± {whole.std() / releases**0.5:.3f} (standard error)",
            f"at the peak {at_peak:.3f}; every hour of a release {(whole == 1).mean():.2f}",
            "by hour, % " + " ".join(f"{100 * share:.0f}" for share in by_hour),
            "error, W " + " ".join(f"{1000 * mean:+.0f}" for mean in error_kw.mean(axis=0)),
            "bound, kW: {:.2f} to {:.2f}, median {:.2f}".format(*_range(bound_kw)),
        )
        print("\n  ".join(lines), flush=True)  # noqa: T201


def error_and_band(
    load_kw: Floats, *, epsilon: float, delta: float
) -> tuple[Floats, Floats, float, int]:
    """Return error and standard error by hour, the bound on clipping, and the hour of the peak."""
    found = load_shapes(load_kw, epsilon=epsilon, delta=delta, max_clip_kw=CLIP_KW)
    true_kw = load_kw.mean(axis=0)
    bound_kw = float(found.max_clipping_bias_kw[0])
    return found.mean_kw[0] - true_kw, found.std_kw[0], bound_kw, int(true_kw.argmax())


def _range(values: Floats) -> tuple[float, float, float]:
    return float(values.min()), float(values.max()), float(np.median(values))


if __name__ == "__main__":
    main(*(kind(text) for kind, text in zip((float, int), sys.argv[1:], strict=False)))

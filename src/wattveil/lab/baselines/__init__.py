"""INTERNAL. Baselines from the literature, for comparison alone; never published.

Every published method is one class with its citation and `fit(load_kw, epsilon, delta, ...)`, which
returns a `BaselineResult`. Noise is drawn in floating point from a generator that the caller seeds,
so that a comparison can be repeated; the guarantees hold for exact arithmetic and an unseeded
source.
"""

"""Rivals from the literature, for comparison alone: nothing here is ever published.

Every file has one mechanism and one function `fit(load_kw, epsilon, delta, ...) -> Outcome`. They
draw floating-point noise from a generator that the caller seeds, so that a comparison can be
repeated; what they guarantee is meant for exact arithmetic and an unseeded source.
"""

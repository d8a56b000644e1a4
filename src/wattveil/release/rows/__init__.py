"""PRIVATE. Functions of private rows: each output is a function of one customer's row.

A module of this package computes, for a block of customers, the features, cells and labels that
queries add up. Each function is marked with `privacy.private_data.row_function` and proved in
docs/proofs/row-functions.md; its keyword arguments are public or released. Post-processing is in
other packages, which cannot import this one.
"""

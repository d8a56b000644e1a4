"""PRIVATE. Where customers are stored, and how their contributions are summed.

`Rows` is the interface of an engine to a release, with two operations: apply a function to blocks
of customers, and add up integers. Both give the same result on every engine, to the last bit: the
output for a customer depends on that customer alone, and integer sums do not depend on the order of
addition. Clipping, the integer grid and the noise are in `wattveil.privacy`.
"""

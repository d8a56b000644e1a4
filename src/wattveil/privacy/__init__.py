"""The privacy kernel: guarantees, accounting, private rows, and the only code that adds noise.

Read in this order: `guarantee` (what is guaranteed), `accounting` (the privacy cost), `budget`
(charge, then compute), `secret` and `private_rows` (types of private and released values), `noise`
(the only draws), `mechanisms` (bounded contributions and noise), `private_table` (rows bound to a
budget).
"""

"""KERNEL. Guarantees, accounting, private rows, and the only code that adds noise.

Read in this order: `accounting` (the privacy cost of noise), `guarantee` (privacy guarantees, and
budgets: charge, then compute), `private_data` (private values and rows, row functions, released
values), `noise` (the only draws), `mechanisms` (bounded contributions, noise, and rows bound to a
budget).
"""

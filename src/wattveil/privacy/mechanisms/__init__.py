"""KERNEL. Mechanisms: each charges the budget, then computes, then adds noise.

Every mechanism states its formal guarantee in its docstring and has a proof page in docs/proofs,
sealed with a hash of the source it proves.
"""

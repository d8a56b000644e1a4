"""The instance tier: the source paper's mechanism, beside `wattveil.release` and apart from it.

What is promised here is weaker than differential privacy (docs/instance-tier.md), so its code has
a place of its own: nothing of the global tier imports it.
"""

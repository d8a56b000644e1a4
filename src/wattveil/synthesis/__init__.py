"""Synthetic customers: the arithmetic around what a release asks, and the model that samples.

Numeric code that knows no budget: `coordinates` writes a customer as an offset from its cluster,
`features` turns offsets into what is summed, `covariance` and `margins` read the noisy sums, and
`model` is what is published and sampled.
"""

from wattveil.synthesis.model import SyntheticModel

__all__ = ["SyntheticModel"]

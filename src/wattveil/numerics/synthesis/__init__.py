"""BLIND. Synthetic customers: estimates from noisy sums, and the model that is sampled.

`coordinates` defines a customer as an offset from its cluster and `day_deviations` a day as one
from the typical day; `noisy_moments` estimates moments and margins from noisy sums;
`population_model` and `year_model` are published and sampled.
"""

from wattveil.numerics.synthesis.population_model import SyntheticModel

__all__ = ["SyntheticModel"]

"""BLIND. Synthetic customers: estimates from noisy sums, and the model that is sampled.

`coordinates` defines a customer as an offset from its cluster and `day_deviations` a day as one
from the typical day; `noisy_moments` estimates moments and margins from noisy sums;
`population_model` and `year_model` are published and sampled; `synthetic_customers` is a sample.
"""

from wattveil.numerics.synthesis.population_model import SyntheticModel
from wattveil.numerics.synthesis.synthetic_customers import SyntheticCustomers
from wattveil.numerics.synthesis.year_model import YearModel

__all__ = ["SyntheticCustomers", "SyntheticModel", "YearModel"]


def __dir__() -> list[str]:
    return list(__all__)

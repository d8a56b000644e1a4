"""What all figures of one run share, computed when it is first asked for."""

from functools import cached_property

import numpy as np

from wattveil import checks
from wattveil.clustering.geometry import Floats
from wattveil.reproduce.customers import SIMULATED, Customers, customers_of
from wattveil.reproduce.draws import Lots, lots
from wattveil.reproduce.mechanism import Mechanism, paper_mechanism

_MIXTURE_POINTS = 1000
_MIXTURE_MEANS = np.array(
    [[0.0, 0.0], [2.25, 0.5], [0.75, 2.25], [-1.75, 1.5], [-2.0, -1.25], [0.75, -2.0]]
)


class Study:
    """One run.

    Parameters
    ----------
    data : str
        Whose load: simulated, london (with WATTVEIL_DATA), or a file of profiles.
    fast : bool
        Fewer customers, repetitions and settings: the same figures, rougher.
    seed : int
        Of what is drawn for figures. Products of Wattveil that appear in them have no seed.
    """

    def __init__(self, *, data: str = SIMULATED, fast: bool = False, seed: int = 1) -> None:
        self.data = data
        self.fast = fast
        self.seed = checks.integer("seed", seed, least=0)

    def lots(self, name: str) -> Lots:
        """Return the source of random numbers of that name."""
        return lots(self.seed, name)

    @cached_property
    def customers(self) -> Customers:
        """The customers of the AMI figures."""
        return customers_of(self.data, fast=self.fast, seed=self.seed)

    @cached_property
    def mixture(self) -> Floats:
        """The paper's synthetic set: 1,000 points of six round Gaussians in the plane.

        The paper does not say where their means are; here they overlap, or L would be empty.
        """
        source = self.lots("mixture")
        means = _MIXTURE_MEANS[source.integers(len(_MIXTURE_MEANS), size=_MIXTURE_POINTS)]
        return means + source.standard_normal(means.shape)

    @cached_property
    def mixture_mechanism(self) -> Mechanism:
        """White noise: in the plane, with round clusters, the paper needs no colour."""
        return paper_mechanism(self.mixture, noise="white")

    @cached_property
    def white(self) -> Mechanism:
        """White noise on the customers without outliers."""
        return paper_mechanism(self.customers.homes_kw, noise="white")

    @cached_property
    def coloured(self) -> Mechanism:
        """Coloured noise on the customers without outliers, by the certified optimum."""
        return paper_mechanism(self.customers.homes_kw, noise="coloured")

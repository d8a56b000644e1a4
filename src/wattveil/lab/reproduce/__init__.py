"""INTERNAL. Reproduction of every figure and number of the paper, with corrected results.

The paper is Ravi et al., *Differentially Private K-means Clustering Applied to Meter Data Analysis
and Synthesis*. Each figure has one interface: a name, what the paper shows,
and a run that returns numbers, figures, our result, and the cause of each difference. Noise in
figures is seeded and never published. With profiles from a file, every result is private.
"""

from types import MappingProxyType

from wattveil.lab.reproduce.ami_figures import AMI_PERFORMANCE_FIGURE, AMI_SCATTER_FIGURE
from wattveil.lab.reproduce.figure import Outcome, Reproduction
from wattveil.lab.reproduce.load_figures import (
    DURATION_FIGURE,
    HISTOGRAMS_FIGURE,
    LOAD_SHAPES_FIGURE,
)
from wattveil.lab.reproduce.mixture_figures import (
    LABEL_SET_FIGURE,
    MIXTURE_PERFORMANCE_FIGURE,
    MIXTURE_SCATTER_FIGURE,
)
from wattveil.lab.reproduce.pitfall_figures import (
    DIFFERENCING_FIGURE,
    FILTERING_FIGURE,
    WISHART_FIGURE,
)
from wattveil.lab.reproduce.study import Study
from wattveil.lab.reproduce.voltage_figures import VOLTAGES_FIGURE

__all__ = ["FIGURES", "Outcome", "Reproduction", "Study"]

FIGURES = MappingProxyType(
    {
        figure.name: figure
        for figure in (
            DIFFERENCING_FIGURE,
            FILTERING_FIGURE,
            LABEL_SET_FIGURE,
            MIXTURE_SCATTER_FIGURE,
            MIXTURE_PERFORMANCE_FIGURE,
            AMI_SCATTER_FIGURE,
            AMI_PERFORMANCE_FIGURE,
            HISTOGRAMS_FIGURE,
            WISHART_FIGURE,
            LOAD_SHAPES_FIGURE,
            VOLTAGES_FIGURE,
            DURATION_FIGURE,
        )
    }
)
"""All figures by name, in the order of the paper."""


def __dir__() -> list[str]:
    return list(__all__)

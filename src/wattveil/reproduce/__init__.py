"""Every figure and number of the paper, redrawn, each beside what is true.

The paper is Ravi et al., *Differentially Private K-means Clustering Applied to Meter Data Analysis
and Synthesis*. Each figure has a file of its own with one interface: a name, what the paper shows,
and a run that gives numbers, pictures, what we get, and where the two differ and why. Noise in
figures is seeded and never published. With customers of one's own, everything here is private.
"""

from wattveil.reproduce.all_figures import FIGURES
from wattveil.reproduce.figure import Outcome, Reproduction
from wattveil.reproduce.study import Study

__all__ = ["FIGURES", "Outcome", "Reproduction", "Study"]

"""Grid validation: whether synthetic customers behave on a feeder as the real ones do.

Real and synthetic customers are put on the same feeder, hour by hour. The network sees voltages,
losses and peaks; service transformers see how loads coincide. Each figure is judged against what
other draws of real customers would give, and beside a control in which every house follows a
cluster centroid: a figure that the control passes proves nothing. Everything here is private.

>>> from wattveil.grid import power_flow, read_feeder
>>> feeder = read_feeder("ieee123")
>>> flow = power_flow(feeder, load_kw=feeder.nominal_kw, load_kvar=feeder.nominal_kvar)
>>> round(float(flow.voltage_pu.min()), 3)
0.951
"""

from wattveil.grid.comparison import GridComparison, Row
from wattveil.grid.experiment import PAPER_POWER_FACTOR, compare_on_feeder
from wattveil.grid.feeders import read_feeder
from wattveil.grid.flow import Flow, power_flow
from wattveil.grid.houses import Scaling
from wattveil.grid.network import Feeder
from wattveil.grid.opf import Controls, OptimalFlow, optimal_power_flow
from wattveil.grid.page import write_grid_page
from wattveil.measures.verdicts import Verdict

__all__ = [
    "PAPER_POWER_FACTOR",
    "Controls",
    "Feeder",
    "Flow",
    "GridComparison",
    "OptimalFlow",
    "Row",
    "Scaling",
    "Verdict",
    "compare_on_feeder",
    "optimal_power_flow",
    "power_flow",
    "read_feeder",
    "write_grid_page",
]

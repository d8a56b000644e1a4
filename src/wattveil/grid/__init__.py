"""INTERNAL. Grid validation: synthetic and real customers on the same feeder.

Real and synthetic customers are placed on the same feeder, hour by hour. The network shows
voltages, losses and peaks; service transformers show how loads coincide. Each metric is compared
with the sampling variability of real customers and with a control in which every house has the load
of a cluster centroid: a metric that the control passes is inconclusive. Everything is private.

>>> from wattveil.grid import power_flow, read_feeder
>>> feeder = read_feeder("ieee123")
>>> flow = power_flow(feeder, load_kw=feeder.nominal_kw, load_kvar=feeder.nominal_kvar)
>>> round(float(flow.voltage_pu.min()), 3)
0.951
"""

from wattveil.grid.experiment import PAPER_POWER_FACTOR, GridComparison, GridRow, compare_on_feeder
from wattveil.grid.feeders import Feeder, read_feeder
from wattveil.grid.flow import Flow, power_flow
from wattveil.grid.grid_page import write_grid_page
from wattveil.grid.opf import Controls, OptimalFlow, optimal_power_flow
from wattveil.grid.placement import Scaling
from wattveil.grid.planning_summary import Equivalence, PlanningRow, planning_summary
from wattveil.numerics.measures.verdicts import Verdict

__all__ = [
    "PAPER_POWER_FACTOR",
    "Controls",
    "Equivalence",
    "Feeder",
    "Flow",
    "GridComparison",
    "GridRow",
    "OptimalFlow",
    "PlanningRow",
    "Scaling",
    "Verdict",
    "compare_on_feeder",
    "optimal_power_flow",
    "planning_summary",
    "power_flow",
    "read_feeder",
    "write_grid_page",
]


def __dir__() -> list[str]:
    return list(__all__)

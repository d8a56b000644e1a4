"""PUBLIC. Simulator of a population of metered customers, with realistic load.

Households of several kinds follow a Markov chain of sleeping, being up and being away, and switch
on appliances; refrigerators cycle, lamps follow the daylight, heating follows one weather that all
share; some homes charge a car or export from panels; shops, offices, restaurants and a few large
factories keep their hours. A home keeps its size, rhythm and habits from day to day.

No customer here is a real one. The numbers stand in `parameters`, each with its source or reason;
many were moved by hand towards summary figures (averages and quantiles over hundreds of homes) of
open data, which `parameters` lists.

>>> simulate_load_kw(customers=3).shape
(3, 24)
"""

from wattveil.simulate.parameters import (
    DEFAULT_MIX,
    HOMES_MIX,
    LONDON_MIX,
    SUNNY,
    TEMPERATE,
    Climate,
)
from wattveil.simulate.simulated_readings import (
    READINGS_SCHEMA,
    simulate_attributes,
    simulate_kwh,
    simulate_load_kw,
    simulate_readings,
)

__all__ = [
    "DEFAULT_MIX",
    "HOMES_MIX",
    "LONDON_MIX",
    "READINGS_SCHEMA",
    "SUNNY",
    "TEMPERATE",
    "Climate",
    "simulate_attributes",
    "simulate_kwh",
    "simulate_load_kw",
    "simulate_readings",
]


def __dir__() -> list[str]:
    return list(__all__)

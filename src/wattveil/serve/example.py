"""An example for quotes: what the expected error would do to the mean day of made-up homes."""

import json
from functools import cache
from typing import Any

import numpy as np

from wattveil.simulate import simulate_load_kw

_HOMES = 200
_BLUE = "#1f77c4"
"""Seen on paper and in the dark."""


def example_figure(plan: dict[str, Any], typical_kw: float) -> str | None:
    """Return the figure as JSON; None if no part of the plan foresees an error in kW."""
    errors = [
        one["value"]
        for part in plan["parts"]
        for one in part["expected"]
        if one["unit"] == "kW" and one["value"] is not None
    ]
    if not errors:
        return None
    hours = list(range(24))
    day = np.array(_day()) * typical_kw
    low, high = (day - 2.0 * max(errors)).tolist(), (day + 2.0 * max(errors)).tolist()
    band = {"x": hours + hours[::-1], "y": high + low[::-1], "fill": "toself", "mode": "lines"}
    style = {"line": {"width": 0}, "fillcolor": "rgba(31, 119, 196, 0.25)", "hoverinfo": "skip"}
    line = {"x": hours, "y": day.tolist(), "mode": "lines", "line": {"color": _BLUE}}
    layout = {
        "showlegend": False,
        "margin": {"l": 50, "r": 10, "t": 10, "b": 40},
        "xaxis": {"title": {"text": "hour"}},
        "yaxis": {"title": {"text": "kW a customer"}},
    }
    return json.dumps({"data": [{**band, **style}, line], "layout": layout})


@cache
def _day() -> list[float]:
    """Return the mean day of made-up homes, whose mean is 1."""
    mean = simulate_load_kw(customers=_HOMES).mean(axis=0)
    found: list[float] = (mean / mean.mean()).tolist()
    return found

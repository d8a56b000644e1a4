"""All figures by name, in the order of the paper."""

from types import MappingProxyType

from wattveil.reproduce import (
    ami_performance,
    ami_scatter,
    differencing,
    duration,
    filtering,
    histograms,
    label_set,
    load_shapes,
    mixture_performance,
    mixture_scatter,
    voltages,
    wishart,
)

FIGURES = MappingProxyType(
    {
        module.FIGURE.name: module.FIGURE
        for module in (
            differencing,
            filtering,
            label_set,
            mixture_scatter,
            mixture_performance,
            ami_scatter,
            ami_performance,
            histograms,
            wishart,
            load_shapes,
            voltages,
            duration,
        )
    }
)

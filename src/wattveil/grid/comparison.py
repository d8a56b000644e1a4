"""The outcome of an experiment: one row a metric, with a verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from wattveil.grid.metric import Metric
from wattveil.grid.observe import Observation, Setting
from wattveil.measures.verdicts import NOISE_QUANTILE, Verdict, ratio_to_noise, verdict_of


@dataclass(frozen=True, kw_only=True)
class Row:
    """One metric.

    Attributes
    ----------
    real, synthetic : float
        Its value, for one draw of each.
    distance : float
        Of synthetic from real: the median of several draws.
    noise : float
        95th percentile of the distances of redrawn real customers from the real ones.
    ratio, control_ratio : float
        Distance over noise, of the synthetic customers and of the control; infinite where redraws
        never differ and these do.
    """

    metric: str
    unit: str
    real: float
    synthetic: float
    distance: float
    noise: float
    ratio: float
    control_ratio: float
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, eq=False)
class GridComparison:
    """Synthetic customers beside real ones on a feeder. Private: it stays in house.

    Attributes
    ----------
    rows : tuple of Row
        One a metric.
    setting : Setting
        Feeder, houses, and what else was held fixed.
    real, synthetic, control : Observation
        One draw each, for pictures.
    class_names : tuple of str
        The classes whose mix was kept.
    class_mix_distance : float
        Total variation between the class shares of the two files: the experiment keeps the real
        mix, so it does not see that one.
    synthetic_failures : mapping
        Snapshots that the solver did not solve for some draw of synthetic customers, and what it
        said. Where that is every second draw, network metrics are infinite.
    """

    rows: tuple[Row, ...]
    setting: Setting
    real: Observation
    synthetic: Observation
    control: Observation
    class_names: tuple[str, ...]
    class_mix_distance: float
    synthetic_failures: Mapping[int, str]

    def to_arrow(self) -> pa.Table:
        """Return the rows as a table."""
        return pa.Table.from_pylist(self._records())

    def to_json(self) -> dict[str, object]:
        """Return everything but the pictures as JSON values; null where a number is not finite."""
        return {
            "private": True,
            "feeder": self.setting.feeder.name,
            "houses": self.setting.placement.houses,
            "factor": self.setting.placement.factor,
            "power_factor": self.setting.power_factor,
            "classes": list(self.class_names),
            "class_mix_distance": self.class_mix_distance,
            "synthetic_failures": {str(k): v for k, v in self.synthetic_failures.items()},
            "metrics": [
                {name: _finite(value) for name, value in record.items()}
                for record in self._records()
            ],
        }

    def _records(self) -> list[dict[str, object]]:
        return [{**asdict(row), "verdict": row.verdict.value} for row in self.rows]


def judge(
    metric: Metric,
    real: Observation,
    *,
    redraws: Sequence[float],
    synthetic: Sequence[Observation],
    control: Sequence[Observation],
) -> Row:
    """Return the row of a metric.

    Parameters
    ----------
    metric, real
        What is measured, and the draw of real customers that all are compared with.
    redraws
        Distances of other draws of real customers.
    synthetic
        Draws of synthetic customers.
    control
        Draws of real customers, each replaced by the centroid of its cluster.
    """
    noise = float(np.quantile(redraws, NOISE_QUANTILE))
    distance = _typical_distance(metric, synthetic, real)
    ratio = ratio_to_noise(distance, noise)
    control_ratio = ratio_to_noise(_typical_distance(metric, control, real), noise)
    return Row(
        metric=metric.name,
        unit=metric.unit,
        real=metric.value(real),
        synthetic=metric.value(synthetic[0]),
        distance=distance,
        noise=noise,
        ratio=ratio,
        control_ratio=control_ratio,
        verdict=verdict_of(ratio, control_ratio),
    )


def _typical_distance(metric: Metric, draws: Sequence[Observation], real: Observation) -> float:
    """Return the median over draws; infinite where a power flow without solution left NaN."""
    distance = np.array([metric.distance(seen, real) for seen in draws])
    return float(np.median(np.where(np.isnan(distance), math.inf, distance)))


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value

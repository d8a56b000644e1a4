"""Public changes of scale before clustering, and their way back.

Raw load is heavy-tailed: a few large customers become clusters of their own, and small clusters
have large leave-one-out differences. A public transform, chosen before looking at the data, brings
the tail in.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wattveil import checks
from wattveil.errors import InvalidDataError, InvalidParameterError

TransformName = Literal["none", "asinh", "log"]


@dataclass(frozen=True, kw_only=True)
class Transform:
    """``x``, ``asinh(x / scale_kw)`` or ``log(x + scale_kw)``."""

    name: TransformName
    scale_kw: float

    def __post_init__(self) -> None:
        """Refuse an unknown name and a scale that is none."""
        names = get_args(TransformName)
        if self.name not in names:
            raise InvalidParameterError("load_transform", f"one of {names}", self.name)
        checks.positive("transform_kw", self.scale_kw)

    def forward(
        self, load_kw: NDArray[np.float64], row_ids: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """Return what is clustered; an error names rows by ``row_ids``."""
        if self.name == "none":
            return load_kw
        if self.name == "asinh":
            return np.arcsinh(load_kw / self.scale_kw)
        too_low = np.flatnonzero((load_kw <= -self.scale_kw).any(axis=1))
        if too_low.size:
            rule = f"load above -transform_kw = {-self.scale_kw} kW, for the logarithm"
            ids = too_low if row_ids is None else row_ids[too_low]
            raise InvalidDataError(rule, ids.tolist())
        return np.log(load_kw + self.scale_kw)

    def backward(self, clustered: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return centroids in kW; of released numbers this is post-processing."""
        if self.name == "none":
            return clustered
        # Noise can carry a centroid far out; past e^300 a load in kW would overflow.
        bounded = np.clip(clustered, -300.0, 300.0)
        if self.name == "asinh":
            return np.asarray(self.scale_kw * np.sinh(bounded))
        return np.asarray(np.exp(bounded) - self.scale_kw)


def clip_rms(load_kw: NDArray[np.float64], clip_kw: float) -> NDArray[np.float64]:
    """Scale customers back whose root-mean-square load exceeds ``clip_kw``."""
    checks.positive("clip_kw", clip_kw)
    rms = np.sqrt(np.square(load_kw).mean(axis=1, keepdims=True))
    return np.asarray(load_kw * (clip_kw / np.maximum(rms, clip_kw)))

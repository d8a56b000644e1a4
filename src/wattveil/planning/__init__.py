"""What a release will be worth, from public numbers alone, before anything is spent."""

from wattveil.planning.kmeans import KMeansPlan, plan_kmeans
from wattveil.planning.labels import LabelPlan, SharesPlan, plan_labels, plan_shares
from wattveil.planning.shapes import LoadPlan, plan_load_duration, plan_load_shapes
from wattveil.planning.synthetic import SyntheticPlan, plan_synthesizer

__all__ = [
    "KMeansPlan",
    "LabelPlan",
    "LoadPlan",
    "SharesPlan",
    "SyntheticPlan",
    "plan_kmeans",
    "plan_labels",
    "plan_load_duration",
    "plan_load_shapes",
    "plan_shares",
    "plan_synthesizer",
]

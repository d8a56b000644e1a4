"""What a release will be worth, from public numbers alone, before anything is spent."""

from wattveil.planning.kmeans import KMeansPlan, plan_kmeans
from wattveil.planning.labels import LabelPlan, SharesPlan, plan_labels, plan_shares

__all__ = [
    "KMeansPlan",
    "LabelPlan",
    "SharesPlan",
    "plan_kmeans",
    "plan_labels",
    "plan_shares",
]

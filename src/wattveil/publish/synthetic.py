"""The part `synthesis`: a model of synthetic customers, a first set of them, and more for free."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from wattveil import planning
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.errors import InvalidFileError
from wattveil.profiles import Grid
from wattveil.publish import columns
from wattveil.publish.clusters import several_days
from wattveil.publish.parts import Allotment, Ask, Expectation, Part, ReleasedPart, Run, Work
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Column, Table
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.synthesis import SyntheticModel

MODEL = "synthetic_model.json"
FIRST_SET, FIRST_SEED = 1000, 1
"""So many customers are drawn for the bundle, with this public seed: anybody draws the same."""


class Synthesis(Part):
    """A model of the customers around each released centroid: `LoadSynthesizer`."""

    name = "synthesis"

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether there are clusters of all customers, in kW, to model."""
        clustered = request.weight("clusters") > 0.0 and not request.clusters_by_group
        return clustered and not request.normalise and request.weight(self.name) > 0.0

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:
        """Rehearse on simulated customers, around the centroids of theirs."""
        somewhere = np.zeros((ask.request.n_clusters, ask.grid.columns))
        plan = planning.plan_synthesizer(
            _synthesizer(ask, somewhere),
            n_customers=ask.request.customers,
            n_slots=ask.grid.columns,
        )
        return (
            Expectation("distance from real customers", plan.slot_distance, "spreads"),
            Expectation("error of a correlation", plan.correlation_error, "of 1"),
        )

    def release(self, work: Work, allotment: Allotment) -> ReleasedPart:
        """Release a model, and draw from it."""
        grid = work.profiles.grid
        ask = Ask(request=work.request, allotment=allotment, grid=grid)
        centroids = work.kmeans[EVERYBODY[0]].cluster_centers_
        fit = _synthesizer(ask, centroids).fit(work.rows)
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=fit.spends_),),
            tables=(_first_set(fit.model_, grid),),
            postprocessing=("synthetic customers: drawn from the released model",),
            documents={MODEL: fit.model_.to_dict()},
        )


def _synthesizer(ask: Ask, centroids: Floats) -> LoadSynthesizer:
    """Return what is going to be fitted, around centroids that were released."""
    return LoadSynthesizer(
        n_clusters=ask.request.n_clusters,
        epsilon=ask.allotment.guarantee.epsilon,
        delta=ask.allotment.guarantee.delta,
        clip_kw=ask.request.clip_kw,
        plausible_kw=ask.request.plausible_kw,
        slots_per_day=several_days(ask.grid),
        centroids=centroids,
    )


def read_model(bundle: Path) -> SyntheticModel:
    """Read the model of a bundle."""
    path = bundle / MODEL
    try:
        return SyntheticModel.from_dict(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise InvalidFileError(path, "file", "a bundle with synthesis", str(error)) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidFileError(path, "content", "a synthetic model", str(error)) from error


def is_from_model(model: SyntheticModel, load_kw: pa.ChunkedArray) -> bool:
    """Whether these are the customers that the model gives for the public seed."""
    drawn, _ = model.sample(FIRST_SET, seed=FIRST_SEED)
    # The arithmetic of another machine may differ in the last digits.
    return drawn.size == len(load_kw) and bool(
        np.allclose(drawn.ravel(), load_kw.to_numpy(), rtol=1e-6, atol=1e-6)
    )


def _first_set(model: SyntheticModel, grid: Grid) -> Table:
    load_kw, clusters = model.sample(FIRST_SET, seed=FIRST_SEED)
    rows = np.arange(load_kw.size)
    customers, slots = rows // grid.columns, rows % grid.columns
    return Table.of(
        "synthetic",
        "Synthetic customers, who are nobody: drawn from the released model.",
        {
            Column(name="customer", text="number of the synthetic customer", least=0.0): customers,
            columns.CLUSTER: clusters[customers],
            columns.SLOT: slots,
            columns.TIME: np.array(grid.labels)[slots],
            Column(name="load_kw", text="load", unit="kW"): load_kw.ravel(),
        },
    )

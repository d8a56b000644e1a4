"""The part `synthesis`: a model of synthetic customers, a first set of them, and more for free."""

import json
from pathlib import Path

import numpy as np

from wattveil import planning
from wattveil.clustering.geometry import Floats
from wattveil.clustering.group_sizes import EVERYBODY
from wattveil.errors import InvalidFileError
from wattveil.privacy.private_rows import IntArray
from wattveil.publish import columns
from wattveil.publish.clusters import several_days
from wattveil.publish.parts import (
    Allotment,
    Ask,
    Choice,
    Expectation,
    Part,
    ReleasedPart,
    Run,
    Work,
)
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Column, Layout
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.synthesis import SyntheticModel

MODEL = "synthetic_model.json"
FIRST_SET, FIRST_SEED = 1000, 1
"""So many customers are drawn for the bundle, with this public seed: anybody draws the same."""


class Synthesis(Part):
    """A model of the customers around each released centroid: `LoadSynthesizer`."""

    name = "synthesis"
    needs = "clusters of all customers, and no normalise"
    documents = (MODEL,)
    postprocessing = ("synthetic customers: drawn from the released model",)

    def wanted(self, request: ReleaseRequest) -> bool:
        """Whether there are clusters of all customers, in kW, to model."""
        clustered = request.weight("clusters") > 0.0 and not request.clusters_by_group
        return clustered and not request.normalise and request.weight(self.name) > 0.0

    def layouts(self, choice: Choice) -> tuple[Layout, ...]:
        """Return the table of the first synthetic customers."""
        grid = choice.grid
        rows = np.arange(FIRST_SET * grid.columns)
        customers, slots = rows // grid.columns, rows % grid.columns
        number = Column(
            name="customer", text="number of the synthetic customer", type="int64", least=0.0
        )
        layout = Layout(
            name="synthetic",
            text="Synthetic customers, who are nobody: drawn from the released model.",
            keys={
                number: customers,
                columns.SLOT: slots,
                columns.TIME: np.array(grid.labels)[slots],
            },
            values=(columns.CLUSTER, Column(name="load_kw", text="load", unit="kW")),
        )
        return (layout,)

    def expected(self, ask: Ask) -> tuple[Expectation, ...]:
        """Rehearse on simulated customers, around the centroids of theirs."""
        somewhere = np.zeros((ask.request.n_clusters, ask.grid.columns))
        plan = planning.plan_synthesizer(
            _synthesizer(ask, somewhere),
            n_customers=ask.request.customers,
            n_slots=ask.grid.columns,
            typical_kw=ask.request.typical_kw,
        )
        return (
            Expectation("distance from real customers", plan.slot_distance, "spreads"),
            Expectation("error of a correlation", plan.correlation_error, "of 1"),
        )

    def query(self, work: Work, allotment: Allotment) -> LoadSynthesizer:
        """Release a model around the released centroids."""
        budget, grid = allotment.guarantee, work.choice.grid
        ask = Ask(request=work.request, allotment=allotment, grid=grid)
        asked = _synthesizer(ask, work.kmeans[EVERYBODY[0]].cluster_centers_)
        asked.set_params(epsilon=budget.epsilon, delta=budget.delta)  # whatever was planned
        return asked.fit(work.rows)

    def tabulate(
        self, released: LoadSynthesizer, choice: Choice, allotment: Allotment
    ) -> ReleasedPart:
        """Return the model, and customers drawn from it."""
        return ReleasedPart(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends_),),
            tables=(self.layouts(choice)[0].filled(*first_set(released.model_)),),
            documents={MODEL: model_text(released.model_)},
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


def model_text(model: SyntheticModel) -> str:
    """Return the model as it stands in a bundle."""
    return json.dumps(model.to_dict(), separators=(",", ":"))


def read_model(bundle: Path) -> SyntheticModel:
    """Read the model of a bundle."""
    path = bundle / MODEL
    try:
        return SyntheticModel.from_dict(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise InvalidFileError(path, "file", "a bundle with synthesis", str(error)) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidFileError(path, "content", "a synthetic model", str(error)) from error


def first_set(model: SyntheticModel) -> tuple[IntArray, Floats]:
    """Return the clusters and the load of the first customers, slot by slot."""
    load_kw, clusters = model.sample(FIRST_SET, seed=FIRST_SEED)
    return np.repeat(clusters, load_kw.shape[1]), load_kw.ravel()

"""Methods of the leaderboard: what runs, in which variants, and how a method of your own is added.

A method has one or more variants; the variant with the lowest median loss counts, cell by cell, in
hindsight. Peers are given bounds, the mean profile and the number of customers from the data for
free. Neither would be permitted in a release: both favour the peers. Only methods that satisfy
(epsilon, delta)-differential privacy, given these bounds, are listed.

A file with a `Method` named ``METHOD`` is a further method::

    make leaderboard METHOD=my_method.py
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from inspect import getfile, getsource
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.random import Generator

from wattveil.arrays import Floats
from wattveil.lab.baselines.baseline_interface import PublicChoices
from wattveil.lab.baselines.histogram_baselines import FedDpKMeans, PeMeans
from wattveil.lab.baselines.lloyd_baselines import GaussianLloyd, Su2016
from wattveil.lab.baselines.non_lloyd_baselines import Balcan2017, PrivateMean
from wattveil.lab.baselines.relative_lloyd_baselines import CentredLloyd, FastLloyd
from wattveil.lab.baselines.tree_baselines import Dpm, GoogleLsh
from wattveil.numerics import kmeans, load_basis
from wattveil.release import kmeans as release_kmeans

Kind = Literal["kW", "shapes"]
Variants = Mapping[str, Mapping[str, Any]]
Role = Literal["ours", "peer", "oracle"]

_SPREAD: dict[Kind, tuple[float, ...]] = {"kW": (0.6, 1.2, 2.4), "shapes": (0.25, 0.4, 0.8)}
"""Clip radii of offsets from a mean, in typical sizes."""
_SMOOTH = 13


def _one_variant(_kind: Kind) -> Variants:
    return {"": {}}


@dataclass(frozen=True)
class Method:
    """One method.

    Parameters
    ----------
    name, title
        Of the tables.
    fit
        Takes rows and, as keywords, ``epsilon``, ``delta``, ``public``, ``generator`` and those of
        the variant; returns an object with ``centroids_kw``, for instance a `BaselineResult`.
    variants
        Keywords of each variant by its name, for rows in kW or of unit length.
    role
        Whether the method is our own, a peer, or an oracle that is told what no release may know:
        it is shown, and not counted as a peer.
    """

    name: str
    title: str
    fit: Callable[..., Any]
    variants: Callable[[Kind], Variants] = _one_variant
    role: Role = "peer"

    def digest(self) -> str:
        """Return a hash of the code of the method: finished cells of other code are not used."""
        if self.role == "ours":
            folder = Path(kmeans.__file__).parent
            texts = [path.read_text() for path in sorted(folder.glob("*.py"))]
            texts += [getsource(load_basis), getsource(release_kmeans)]
        else:
            texts = [Path(getfile(self.fit)).read_text()]
        return sha256("".join(texts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Released:
    centroids_kw: Floats


def _fit_ours(
    rows: Floats,
    *,
    epsilon: float,
    delta: float,
    public: PublicChoices,
    generator: Generator,  # noqa: ARG001 - the interface of all; our noise has no seed
    normalise: bool,
) -> _Released:
    """Fit the global tier, which is told neither bounds nor mean nor number of customers."""
    model = release_kmeans.PrivateKMeans(
        n_clusters=public.n_clusters, epsilon=epsilon, delta=delta, normalise=normalise
    )
    return _Released(np.asarray(model.fit(rows).cluster_centers_))


def _centred(kind: Kind, *, rounds: tuple[int, ...], **known: Any) -> Variants:  # noqa: ANN401
    return {
        f"{count} rounds, radius {radius:g}": {
            "rounds": count,
            "relative_radius": radius,
            "several_sizes": kind == "kW",
            **known,
        }
        for count, radius in product(rounds, _SPREAD[kind])
    }


def _lsh(_kind: Kind) -> Variants:
    return {
        f"depth {depth}, {coordinates or 'all'} coordinates, radius {radius:g}": {
            "depth": depth,
            "coordinates": coordinates,
            "relative_radius": radius,
        }
        for depth, coordinates, radius in (
            (20, None, 0.5),
            (4, _SMOOTH, 0.5),
            (4, _SMOOTH, 1.0),
            (4, None, 1.0),
        )
    }


def _federated(kind: Kind) -> Variants:
    return {
        f"{rounds} rounds, {coordinates or 'all'} coordinates, radius {radius:g}": {
            "rounds": rounds,
            "coordinates": coordinates,
            "relative_radius": radius,
            "several_sizes": kind == "kW",
        }
        for rounds, coordinates, radius in (
            (0, _SMOOTH, 0.5),
            (0, _SMOOTH, 1.0),
            (0, None, 0.5),
            (1, None, 1.0),
        )
    }


METHODS = [
    Method(
        "ours",
        "Wattveil, global tier",
        _fit_ours,
        lambda kind: {"": {"normalise": kind == "shapes"}},
        "ours",
    ),
    Method(
        "centred-lloyd",
        "DP-Lloyd around a private mean, 13 smooth coordinates",
        CentredLloyd.fit,
        lambda kind: _centred(kind, rounds=(1, 2, 3)),
    ),
    Method(
        "gaussian-lloyd",
        "DP-Lloyd, Gaussian, packed start",
        GaussianLloyd.fit,
        lambda _: {f"{rounds} rounds": {"rounds": rounds} for rounds in (1, 2, 3, 5, 7)},
    ),
    Method(
        "centred-slots",
        "DP-Lloyd, Gaussian, around the exact mean",
        CentredLloyd.fit,
        lambda kind: _centred(kind, rounds=(1, 3), told_mean=True, coordinates=None),
    ),
    Method("su-2016", "Su et al. 2016", Su2016.fit),
    Method("balcan-2017", "Balcan et al. 2017", Balcan2017.fit),
    Method("google-lsh", "Google LSH clustering 2021", GoogleLsh.fit, _lsh),
    Method(
        "dpm",
        "DPM 2023",
        Dpm.fit,
        lambda _: {
            f"{coordinates or 'all'} coordinates": {"coordinates": coordinates}
            for coordinates in (None, _SMOOTH)
        },
    ),
    Method(
        "fast-lloyd",
        "FastLloyd 2024",
        FastLloyd.fit,
        lambda _: {f"alpha {alpha:g}": {"alpha": alpha} for alpha in (0.4, 0.8)},
    ),
    Method("feddp-kmeans", "FedDP-KMeans 2025", FedDpKMeans.fit, _federated),
    Method(
        "pe-means",
        "PE-means 2026",
        PeMeans.fit,
        lambda _: {f"step {step:g}": {"step": step} for step in (0.01, 0.05)},
    ),
    Method(
        "mean",
        "One private mean",
        PrivateMean.fit,
        lambda _: {
            f"radius {radius:g}": {"relative_radius": radius} for radius in (0.35, 0.6, 1.2)
        },
    ),
    Method(
        "told-mean",
        "DP-Lloyd around the exact mean, 13 smooth coordinates",
        CentredLloyd.fit,
        lambda kind: _centred(kind, rounds=(1, 3), told_mean=True),
        "oracle",
    ),
]


def method_of(path: Path) -> Method:
    """Return the method that a file defines."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        message = f"{path} is no Python file"
        raise ValueError(message)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    method = getattr(module, "METHOD", None)
    if not isinstance(method, Method):
        message = f"{path} must define METHOD, a Method of benchmarks/leaderboard_methods.py"
        raise TypeError(message)
    return method

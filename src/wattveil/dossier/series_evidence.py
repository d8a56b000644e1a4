"""The chain of a series as evidence: its periods, verified, as fields for the answers of clauses.

The manifest of a period has other fields than that of a release. What clauses ask under the names
of a release is computed here from all periods, and cited by the fields of the series.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from wattveil.bundle import keys
from wattveil.bundle.replaced_data import inference_sentence
from wattveil.bundle.series_bundle import (
    DAYS_CHECKED,
    Manifest,
    period_bundles,
    periods_folder,
    read_chain,
    unchecked_periods,
)
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_result import SeriesResult
from wattveil.bundle.series_verify import CLOSED, signer, verify_chain
from wattveil.bundle.verify.verify_bundle import VerificationReport
from wattveil.dossier.guarantee_texts import (
    erasure_text,
    inference_text,
    neighbours_text,
    overlap_text,
    variant_text,
)
from wattveil.errors import InvalidFileError
from wattveil.web.charts import TWO_SIDED_95
from wattveil.web.formatting import (
    format_count,
    format_factor,
    format_number,
    format_share,
    format_upper_bound,
)

_COMPOSITION = (
    "The guarantee is that of all periods of the horizon together: the queries of every period are"
    " charged to one budget, and each customer has one allowance for all of them."
)
_MINUTES_PER_DAY = 24 * 60
_DAYS = {True: "yes", False: "no", None: "not stated"}


@dataclass(frozen=True, kw_only=True)
class SeriesField:
    """A value that is computed from a chain, and the fields that it follows from."""

    cited: str
    value: Any


@dataclass(frozen=True, kw_only=True)
class SeriesEvidence:
    """A chain, read and verified."""

    manifest: Manifest
    """That of the last period, with the names that every dossier uses."""
    fields: Mapping[str, SeriesField]
    verification: VerificationReport


def read_series(folder: Path, trusted: Ed25519PublicKey | None) -> SeriesEvidence:
    """Read and verify all periods of a series, in its folder or in the folder of its bundles."""
    within, bundles = periods_folder(folder), period_bundles(folder)
    closing = within / CLOSED if (within / CLOSED).exists() else within.parent / CLOSED
    verification = verify_chain(bundles, trusted=trusted, closing=closing)
    try:
        manifests, released = read_chain(bundles)
    except LookupError:  # of draws that follow from those of a missing period
        expected = "a chain of periods from the first one on"
        raise InvalidFileError(folder, "folder", expected, "a missing period") from None
    if released is None:
        raise InvalidFileError(folder, "folder", "a series with at least one period", None)
    result = SeriesResult(request=SeriesRequest.parse(manifests[0]["request"]), released=released)
    last = manifests[-1]
    manifest = {
        **last,
        "release_id": last["series"],
        "variant": "approximate",
        "composition": _COMPOSITION,
    }
    fields = {
        **_guarantee_fields(manifest),
        **_shared_fields(manifests, result),
        **_series_fields(manifests, result),
        "series_not_proved": SeriesField(
            cited="label, mechanisms[]", value=list(verification.not_proved)
        ),
    }
    return SeriesEvidence(manifest=manifest, fields=fields, verification=verification)


def _guarantee_fields(manifest: Manifest) -> dict[str, SeriesField]:
    """Return the texts about the guarantee that a release has, too."""
    texts = {
        "erasure_text": erasure_text,
        "inference_text": inference_text,
        "neighbours_text": neighbours_text,
        "overlap_text": overlap_text,
        "variant_text": variant_text,
    }
    return {
        name: SeriesField(cited="guarantee", value=text(manifest)) for name, text in texts.items()
    }


def _shared_fields(manifests: Sequence[Manifest], result: SeriesResult) -> dict[str, SeriesField]:
    """Return what the clauses ask of any release, under the names of a release."""
    last, request, guarantee = manifests[-1], result.request, result.guarantee
    periods = format_count(len(manifests), "period")
    tables = {name: result.to_arrow(name) for name in result.tables}
    drawn = [one for manifest in manifests for one in manifest["mechanisms"]]
    total = f"epsilon {guarantee.epsilon} at delta {guarantee.delta}"
    stated: dict[str, tuple[str, Any]] = {
        "real_ids_text": (
            "guarantee.tier, payload[].path",
            (
                f"Real ids: no, {guarantee.tier} tier. No table has a row per customer, under an id"
                " or under a pseudonym: there is nothing to link to an id. The private state, which"
                " is never published, has keyed hashes of the ids."
            ),
        ),
        "total_text": (
            "guarantee, periods",
            (
                f"The total, {total}, covers every published value of all {last['periods']} periods"
                " of the horizon together. No labels are published."
            ),
        ),
        "cumulative_text": (
            "accrued, known_limits",
            (
                f"{periods} of {last['periods']} have accrued epsilon {_accrued(last)} at delta"
                f" {guarantee.delta}, of a total of {guarantee.epsilon}. Other releases about the"
                " same customers add to it; the manifests of a series do not state any."
            ),
        ),
        "mechanism_names": (
            "mechanisms[].mechanism",
            sorted({one["mechanism"] for one in drawn}),
        ),
        "proofs": ("mechanisms[].proof", sorted({one["proof"] for one in drawn})),
        "draws": (
            "mechanisms[]",
            (
                f"{format_count(len(drawn), 'Gaussian draw')} with sensitivity and noise scale, in"
                f" {periods}"
            ),
        ),
        "recomputed_text": (
            "mechanisms[]",
            "The charges were recomputed from these, and compared with the budget of all periods.",
        ),
        "table_list": (
            "payload[].path",
            [f"{name} ({format_count(one.num_rows, 'row')})" for name, one in tables.items()],
        ),
        "products[].tables[].columns[].name": (
            "payload[].path",
            sorted({column for one in tables.values() for column in one.column_names}),
        ),
        "budget_split": ("guarantee, periods", f"one budget for all periods: {total}"),
        "quality": ("payload[].path", _bands(result)),
        "bias_text": ("known_limits", last["known_limits"][2:4]),
        "signature_text": ("signature", _signature_text(manifests)),
        "groups_text": ("request.by, request.levels", _groups(request)),
        "rule_text": (
            "manifest_version",
            "none was applied: cells of any size are published, with noise",
        ),
        "published_text": (
            "payload[].path",
            "Only aggregates of groups and periods are published. No labels are published.",
        ),
        "grid_text": (
            "slots, request.every",
            (
                f"every {_MINUTES_PER_DAY // last['slots']} minutes, one average day of each"
                f" {request.every}"
            ),
        ),
        "period_text": (
            "label, skipped",
            f"from {manifests[0]['label']} to {last['label']}, one bundle per published period",
        ),
        "profiles.timezone": ("request.timezone", request.timezone),
        "guarantee_scope": ("guarantee.tier", "every data set"),
        "contribution": (
            "mechanisms[].squared_sensitivity_steps",
            "one allowance per customer for all periods, which bounds the total contribution",
        ),
        "preprocessing": (
            "mechanisms[].mechanism, request",
            [
                "Readings are averaged to one day per customer and period",
                (
                    "A customer contributes offsets from a predicted mean, clipped to what is left"
                    " of the customer's allowance"
                ),
                f"Groups: {_groups(request)}",
            ],
        ),
        "products[].postprocessing[]": (
            "payload[].path",
            ["means are filtered over periods", "load duration curves are sorted filtered means"],
        ),
        "composition": ("guarantee, periods", _COMPOSITION),
        "refresh": (
            "known_limits",
            "The next period is published under the same guarantee, and revises earlier figures",
        ),
        "supersedes": ("known_limits", "none; the newest bundle of the series is to be used"),
        "tuning": ("unprotected", last["unprotected"][0]),
        "deployment": (
            "manifest_version",
            (
                "Central curator: the data holder computes each period from the rows and from the"
                " private state of the series, which records the used part of each allowance."
            ),
        ),
        "implementation.software": ("software", last["software"]),
        "implementation.sampler": (
            "mechanisms[].mechanism, software.opendp",
            "OpenDP discrete Gaussian",
        ),
        "implementation.random_numbers": (
            "software.opendp",
            "OpenSSL and the operating system; no seed",
        ),
        "implementation.floating_point": (
            "mechanisms[].grid_step",
            "contributions are rounded to an integer grid, and summed in integers",
        ),
        "implementation.timing": (
            "published_at",
            "Run time is not protected; each period was computed before it was published",
        ),
    }
    return {name: SeriesField(cited=cited, value=value) for name, (cited, value) in stated.items()}


def _series_fields(manifests: Sequence[Manifest], result: SeriesResult) -> dict[str, SeriesField]:
    """Return what only a series has."""
    last, guarantee = manifests[-1], result.guarantee
    spent = int(last["accrued"]["rho_units"]) / int(last["accrued"]["of_rho_units"])
    factor = format_factor(guarantee.epsilon)
    price = (
        f"Epsilon {guarantee.epsilon} at delta {guarantee.delta} is the total price of the series,"
        f" for all {last['periods']} periods of the horizon together. After {last['label']},"
        f" epsilon {_accrued(last)} has accrued: {format_share(spent)} of the privacy cost (rho)."
        " The share of a skipped period accrues with the next one. If the series is closed early,"
        " the rest is not spent"
    )
    observer = (
        "A reader of all periods learns no more about one customer than the guarantee of the whole"
        " series permits: the data of one customer in all periods together change the probability"
        f" of any published result by a factor of at most {factor} (e^{guarantee.epsilon:g}), plus"
        f" at most {guarantee.delta:g}. {inference_sentence(guarantee)} Differences between periods"
        " are covered, also if the reader knows everything about all other customers"
    )
    rows = [
        {
            "period": one["label"],
            "published": one["published_at"][:10],
            "epsilon accrued": _accrued(one),
            "days compared": _DAYS[one.get(DAYS_CHECKED)],
            "segments computed": "yes" if one["label"] in one["segments_found_in"] else "no",
        }
        for one in manifests
    ]
    stated: dict[str, tuple[str, Any]] = {
        "series_price": ("guarantee, accrued", price),
        "series_periods": ("label, published_at, accrued.epsilon", rows),
        "series_unchecked": (DAYS_CHECKED, unchecked_periods(manifests) or ["none"]),
        "series_skipped": ("skipped", last["skipped"] or "none"),
        "series_observer": ("guarantee", observer),
        "series_bands": ("payload[].path", _bands(result)),
    }
    return {name: SeriesField(cited=cited, value=value) for name, (cited, value) in stated.items()}


def _accrued(manifest: Manifest) -> str:
    """Return the epsilon so far, never below what has accrued."""
    return format_upper_bound(float(manifest["accrued"]["epsilon"]), 4)


def _bands(result: SeriesResult) -> list[dict[str, str]]:
    """Return the mean load of each group in the last period, with the width of its bands."""
    groups = result.request.levels or ("all",)
    load, band = result.load_kw[:, -1], TWO_SIDED_95 * result.std_kw[:, -1]
    count, count_std = (values[:, -1] for values in result.customers())
    return [
        {
            "group": str(group),
            "period": result.periods[-1],
            "mean load, kW": format_number(float(load[place].mean())),
            "band of one slot (median), kW": _half_width(float(np.median(band[place]))),
            "customers": format_number(float(count[place])),
            "band of customers": _half_width(TWO_SIDED_95 * float(count_std[place])),
        }
        for place, group in enumerate(groups)
    ]


def _half_width(width: float) -> str:
    return f"± {format_upper_bound(width)}"


def _groups(request: SeriesRequest) -> str:
    if request.by is None:
        return "no attribute: all customers together"
    return f"{request.by}: {', '.join(request.levels)}"


def _signature_text(manifests: Sequence[Manifest]) -> str:
    """Return who signed all periods, or that not all of them are validly signed by one key."""
    if not any("signature" in one for one in manifests):
        return "not signed"
    found = [signer(one) for one in manifests]
    first = found[0]
    if first is None or any(one != first for one in found):
        return "signatures are false, or not all by one key"
    return f"all periods are signed by key {keys.fingerprint(first)}"

"""The release statement: everything needed to recompute the promise, and nothing exact.

The schema, `manifest.schema.json`, is a list of what may be in it: no row count, no hash of data,
no iteration count has a place there. Numbers that a check depends on are strings that read back
exactly.
"""

import hashlib
import json
import platform
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import jsonschema

from wattveil.errors import InvalidParameterError
from wattveil.privacy.budget import Spend
from wattveil.privacy.guarantee import Tier
from wattveil.public_estimate import delta_warning
from wattveil.publish.cumulative import ALONE, Cumulative
from wattveil.publish.keys import canonical
from wattveil.publish.parts import Choice, Part, PublicFacts, ReleasedPart
from wattveil.publish.plan import ReleasePlan
from wattveil.publish.request import ReleaseRequest

VERSION = "1"
"""Of the statement: the fields, the tables and columns of every part. A change of any is a new one.
"""

SOFTWARE = ("wattveil", "opendp", "python-flint", "numpy", "scipy", "scikit-learn", "plotly")

PROOFS = {
    "gaussian_histogram": "docs/proofs/gaussian-sum.md",
    "gaussian_cell_sums": "docs/proofs/gaussian-sum.md",
    "gaussian_answer": "docs/proofs/coloured-gaussian.md",
    "channel_response": "docs/proofs/randomised-response.md",
    "keyed_response": "docs/proofs/randomised-response.md",
    "modulo_labels": "docs/proofs/modulo-labels.md",
}
"""Every mechanism that a statement may name, and where it is proved."""

THROUGH_A_CHANNEL = ("channel_response", "keyed_response")
"""Those that draw labels: in memory, and by executors, whose promise is computational."""

READING_RULES = (
    "unit",
    "minutes",
    "stamp",
    "period",
    "conflicts",
    "estimated",
    "register_rollover",
)
"""Of the options of reading, those that decide what counts; the others name files and columns."""

Manifest = dict[str, Any]


def build_statement(
    facts: PublicFacts,
    plan: ReleasePlan,
    parts: Sequence[ReleasedPart],
    cumulative: Cumulative | None = None,
) -> Manifest:
    """Return the statement of a release, without files and signature.

    ``cumulative`` is what a ledger has counted; None without one.
    """
    request, promise = plan.request, plan.guarantee
    about = request.about
    choice = Choice(request=request, grid=facts.grid)
    public = _public_inputs(facts, request)
    is_global = promise.tier is Tier.GLOBAL
    words = fixed_words(public, [part.name for part in parts], counted=cumulative is not None)
    return {
        "statement_version": VERSION,
        "release_id": str(uuid.uuid4()),
        "request_sha256": hashlib.sha256(canonical(public)).hexdigest(),
        **asdict(about),
        "published_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "variant": "approximate" if is_global else "instance",
        "guarantee": promise.to_json(),
        "guarantee_text": promise.sentence,
        "guarantee_scope": "every data set" if is_global else "this data set only",
        "parts": [
            {**part_words(asked, choice), **_part(part, plan)}
            for asked, part in zip(plan.parts, parts, strict=True)
        ],
        "public_inputs": public,
        "cumulative": ALONE if cumulative is None else cumulative.to_json(),
        **words,
        "implementation": {
            **words["implementation"],
            "software": {name: version(name) for name in SOFTWARE},
            "python": platform.python_version(),
        },
    }


def fixed_words(
    public: Mapping[str, Any], parts: Sequence[str], *, counted: bool
) -> dict[str, Any]:
    """Return everything a statement says in words: it follows from the public choices.

    ``counted``: by the ledger of a server that answers analysts.
    """
    is_global = public["tier"] == Tier.GLOBAL.value
    return {
        "sector": "Energy",
        "composition": _COMPOSITION,
        "refresh": "none: what is spent on these people stays spent",
        "audit": "none of this release: its mechanisms are audited in the tests of the software",
        "unprotected": _unprotected(public, parts),
        "preprocessing": _preprocessing(public),
        "tuning": _TUNING,
        "contribution": "one row a customer",
        "deployment": _DEPLOYMENT.format(asked=_BY_A_SERVER if counted else _ONCE),
        "implementation": {
            "sampler": "OpenDP discrete Gaussian; exact rational draws for labels",
            "random_numbers": "OpenSSL and the operating system; labels drawn on Spark: HMAC-SHA256"
            " under a key from there; no seed",
            "floating_point": _INTEGER_SUMS if is_global else _FLOATING_CENTROIDS,
            "timing": _ON_A_TICK
            if counted
            else "not hidden: computed in house, published afterwards",
            "test_mode": False,
        },
        "known_limits": [*_warnings(public), *_LIMITS],
    }


def part_words(part: Part, choice: Choice) -> dict[str, Any]:
    """Return what a statement says of a part that follows from the public choices."""
    record: dict[str, Any] = {
        "name": part.name,
        "postprocessing": list(part.done_afterwards(choice)),
    }
    return {**record, "documents": list(part.documents)} if part.documents else record


def check_public(facts: PublicFacts, request: ReleaseRequest) -> None:
    """Refuse, before anything is spent, public choices that a statement has no room for."""
    schema = _schema()
    asked = {**schema["properties"]["public_inputs"], "$defs": schema["$defs"]}
    if problems := _problems(_public_inputs(facts, request), asked):
        rule = "made by rules that a statement has room for"
        raise InvalidParameterError("profiles", rule, "; ".join(problems))


def check_schema(manifest: object) -> list[str]:
    """Return where a manifest breaks the schema, in words; nothing if it does not."""
    return _problems(manifest, _schema())


def _problems(record: object, schema: dict[str, Any]) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema)
    errors = sorted(validator.iter_errors(record), key=lambda error: list(map(str, error.path)))
    return [
        f"{'/'.join(map(str, error.absolute_path)) or 'manifest'}: {error.message[:200]}"
        for error in errors
    ]


@cache
def _schema() -> dict[str, Any]:
    text = files("wattveil.publish").joinpath("manifest.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def _part(part: ReleasedPart, plan: ReleasePlan) -> dict[str, object]:
    promise, grant = part.allotment.guarantee, part.allotment.grant
    record: dict[str, object] = {
        "epsilon": repr(promise.epsilon),
        "delta": repr(promise.delta),
        "grant": {
            "rho_units": str(grant.rho_units),
            "response_epsilon": repr(grant.response_epsilon),
            "response_delta": repr(grant.response_delta),
            "eta": repr(grant.eta),
        },
        "runs": [
            {
                "group": run.group,
                "mechanisms": [_mechanism(spend, promise.tier) for spend in run.spends],
            }
            for run in part.runs
        ],
        "expected": [f"{one.quantity}: {one}" for one in plan.expected[part.name]],
        "tables": [table.to_json() for table in part.tables],
    }
    if part.channel:
        record["channel"] = [[str(parts) for parts in row] for row in part.channel]
    return record


def _mechanism(spend: Spend, tier: Tier) -> dict[str, object]:
    """Return a charge with what it was drawn by; in the instance tier that is private."""
    if spend.mechanism not in PROOFS:
        raise InvalidParameterError("mechanism", f"one of {[*PROOFS]}", spend.mechanism)
    record: dict[str, object] = {
        "tag": spend.tag,
        "mechanism": spend.mechanism,
        "proof": PROOFS[spend.mechanism],
    }
    if spend.rho_units:
        record["rho_units"] = str(spend.rho_units)
    else:  # also 0.0: a channel that always draws the same label costs nothing
        record["response_epsilon"] = repr(spend.response_epsilon)
    if spend.drawn and tier is Tier.GLOBAL:
        record["gaussian"] = {
            "noise": "discrete Gaussian on the integer grid",
            "numbers": int(spend.drawn["numbers"]),
            "squared_sensitivity_steps": str(int(spend.drawn["squared"])),
            "noise_scale_steps": repr(float(spend.drawn["scale"])),
            "grid_step": repr(float(spend.drawn["step"])),
            "norm": "L2",
            "eta": repr(spend.eta),
        }
    return record


def _public_inputs(facts: PublicFacts, request: ReleaseRequest) -> dict[str, object]:
    """Return every choice of the curator, in the order in which it matters."""
    rules = facts.rules
    reading = rules.get("readings")
    kept = reading if isinstance(reading, Mapping) else {}
    return {
        "epsilon": repr(request.epsilon),
        "delta": repr(request.delta),
        "tier": request.tier.value,
        "n_clusters": request.n_clusters,
        "clip_kw": request.clip_kw,
        "normalise": request.normalise,
        "by": request.by,
        "levels": list(request.levels),
        "clusters_by_group": request.clusters_by_group,
        "label_epsilon": None if request.label_epsilon is None else repr(request.label_epsilon),
        "real_ids": request.real_ids,
        "weights": dict(request.weights),
        "customers_guessed": request.customers,
        "typical_kw_guessed": request.typical_kw,
        "grid": facts.grid.to_json(),
        "timezone": facts.timezone,
        "least_days": rules.get("least_days"),
        "longest_gap_hours": rules.get("longest_gap_hours"),
        "reading_rules": {name: kept.get(name) for name in READING_RULES},
        "reading_guessed": bool(rules.get("guesses")),
    }


def _unprotected(public: Mapping[str, Any], parts: Sequence[str]) -> list[str]:
    """List what leaves, or was decided, without protection."""
    is_global = public["tier"] == Tier.GLOBAL.value
    found = [_CHOSEN, "That the curator has such data, from the place that is named."]
    if "labels" in parts:
        found += [_LISTED if is_global else _LABELLED]
    if public["by"] is not None:
        found += [f"Which group ({public['by']}) a customer is in: taken as public."]
    if not is_global:
        found += [_TAKEN_AS_KNOWN]
    if public["reading_guessed"]:
        found += ["How the files are to be read was in part guessed from the files."]
    return found


def _warnings(public: Mapping[str, Any]) -> list[str]:
    """List what makes the guarantee weaker than it reads."""
    found = delta_warning(float(public["delta"]), public["customers_guessed"])
    return [] if found is None else [f"Warning: {found}"]


def _preprocessing(public: Mapping[str, Any]) -> list[str]:
    days, clip_kw = public["least_days"], public["clip_kw"]
    steps = [_AVERAGED, *([] if days is None else [_COVERED.format(days=days)])]
    if clip_kw is not None:
        steps += [f"Customers above {clip_kw:g} kW (root mean square) are scaled back."]
    if public["normalise"]:
        steps += ["For the clusters every customer's row is scaled to length 1."]
    return steps


_COMPOSITION = (
    "Grants were fixed before anything was released. Gaussian parts add up in rho, labels in"
    " epsilon; groups of customers that are clustered by themselves are disjoint and count once."
    " The sum is turned into epsilon at delta by the exact curve of the Gaussian mechanism composed"
    " with randomised response, plus eta for the integer grid (docs/proofs/accounting.md)."
)
_TUNING = (
    "Constants of the software were chosen on public and simulated data. How the curator chose"
    " public_inputs is not known to the software."
)
_DEPLOYMENT = (
    "Central: the curator holds the data and is trusted with them; readers see the bundle alone and"
    " may all work together. {asked}"
)
_ONCE = "One release, not interactive."
_BY_A_SERVER = (
    "Interactive: a server answers analysts, who may choose by earlier answers; all that they are"
    " told is counted in one sum."
)
_ON_A_TICK = "published on the tick of a slow clock; how many ticks it took is not hidden"
_INTEGER_SUMS = "contributions are clipped, rounded to a grid and summed as integers"
_FLOATING_CENTROIDS = "centroids are computed in floating point, then rounded to a grid"
_CHOSEN = (
    "All of public_inputs: chosen by the curator. What was chosen by looking at the data is not"
    " covered by the promise."
)
_TAKEN_AS_KNOWN = (
    "The covariance of the noise, which clusters were merged, and which labels can change: computed"
    " from the data and taken as known. Labels that no removal changes leave without noise."
)
_LISTED = (
    "Who is on the list of labels: a public list that the curator gave. Whether somebody on it has"
    " readings is protected."
)
_LABELLED = (
    "Which customers are on the list of labels, and so how many there are: those with readings"
    " enough for a profile. That a customer has none is not hidden."
)
_AVERAGED = (
    "Readings were checked and averaged to one load profile a customer, each from the customer's"
    " own readings, which are taken or left by their own stamps and lengths and summed as whole"
    " units of 1e-7 kWh."
)
_COVERED = (
    "Customers with readings on fewer than {days} days, or without a reading in a cell of the grid,"
    " count nowhere: decided by the customer's own readings, so nothing was paid for it."
)
_LIMITS = (
    "Privacy losses of other releases about the same people add up to this one.",
    "The unit is a row. A customer with two rows has less than half the protection.",
    "Facts about a whole population are not hidden, also if they tell something about its members.",
    "How long the computation took was not hidden from those who could watch it.",
)

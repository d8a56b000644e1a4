"""The manifest: everything needed to recompute the privacy guarantee, and no exact figure.

The schema, `manifest.schema.json`, is an allow-list: it has no field for a row count, a hash of
data or an iteration count. Numbers that a check depends on are strings that read back exactly.
"""

import hashlib
import json
import platform
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import jsonschema

from wattveil.bundle.cumulative import ALONE, Cumulative
from wattveil.bundle.keys import canonical
from wattveil.bundle.plain_schema import json_schema
from wattveil.bundle.plan import ReleasePlan, stated_request
from wattveil.bundle.statistical_bias import bias_record
from wattveil.declaration import to_plain
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Spend, Tier
from wattveil.products.product import Choice, Product, PublicFacts, ReleasedProduct
from wattveil.products.request import About, ReleaseRequest
from wattveil.products.tables import Table
from wattveil.profiles import TimeGrid
from wattveil.release.weak_guarantees import choice_warnings, guarantee_warnings

VERSION = "2"
"""Of the manifest: its fields, and tables and columns of every product. Any change is a new one."""

SOFTWARE = ("wattveil", "opendp", "python-flint", "numpy", "scipy", "scikit-learn", "plotly")

PROOFS = {
    "gaussian_histogram": "docs/proofs/gaussian-sum.md",
    "gaussian_cell_sums": "docs/proofs/gaussian-sum.md",
    "gaussian_answer": "docs/proofs/coloured-gaussian.md",
    "channel_response": "docs/proofs/randomised-response.md",
    "keyed_response": "docs/proofs/randomised-response.md",
    "modulo_labels": "docs/proofs/modulo-labels.md",
}
"""Every mechanism that a manifest may name, and its proof."""

GUARANTEE_SCOPES = {
    Tier.GLOBAL: "every data set",
    Tier.INSTANCE: "this data set only, with its noise scale and the labels without noise treated"
    " as known",
}
"""Data sets for which the guarantee holds, by tier: values of ``guarantee_scope``."""

CHANNEL_MECHANISMS = frozenset({"channel_response", "keyed_response"})
"""Randomised response: in memory, and on executors, whose guarantee is computational."""

READING_RULES = (
    "unit",
    "cumulative",
    "minutes",
    "stamp",
    "period",
    "conflicts",
    "estimated",
    "register_rollover",
)
"""Reading options that decide which readings are used; the others name files and columns."""

Manifest = dict[str, Any]


def build_manifest(
    facts: PublicFacts,
    plan: ReleasePlan,
    released: Sequence[ReleasedProduct],
    cumulative: Cumulative | None = None,
    customer_list: Sequence[str] = (),
    *,
    at: datetime | None = None,
) -> Manifest:
    """Return the manifest of a release, without files and signature.

    Parameters
    ----------
    facts
        Public facts about the profiles.
    plan
        Plan of the release.
    released
        What each product released, in the order of the plan.
    cumulative
        Sum of a ledger, this release included; None without a ledger.
    customer_list
        Public list of customers, for products with one value per customer.
    at
        Time of publication; None is now.
    """
    request, guarantee = plan.request, plan.guarantee
    about = request.about
    choice = Choice(request=request, grid=facts.grid)
    stated = _listed_choices(facts, request, plan.products, customer_list)
    is_global = guarantee.tier is Tier.GLOBAL
    words = fixed_words(stated, plan.products, counted=cumulative is not None)
    tables = {table.name: table for one in released for table in one.tables}
    products: list[dict[str, Any]] = []
    for product, one in zip(plan.products, released, strict=True):
        own = {**product_record(product, choice), **_released_record(one, plan)}
        products.append({**own, **achieved_record(product, own, tables)})
    record = {
        "manifest_version": VERSION,
        "release_id": str(uuid.uuid4()),
        "request_sha256": request_sha256(stated),
        **to_plain(about),
        "published_at": (at or datetime.now(UTC)).isoformat(timespec="seconds"),
        "variant": "approximate" if is_global else "instance",
        "guarantee": guarantee.to_json(),
        "guarantee_text": guarantee.sentence,
        "guarantee_scope": GUARANTEE_SCOPES[guarantee.tier],
        "products": products,
        **stated,
        "cumulative": ALONE if cumulative is None else cumulative.to_json(),
        **words,
        "implementation": {
            **words["implementation"],
            "software": {name: version(name) for name in SOFTWARE},
            "python": platform.python_version(),
        },
    }
    return {**record, "bias": bias_record(record, tables)}


def planned_choices(
    facts: PublicFacts, plan: ReleasePlan, customer_list: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the public choices that the manifest of a release will state, and their hash."""
    stated = _listed_choices(facts, plan.request, plan.products, customer_list)
    return {**stated, "request_sha256": request_sha256(stated)}


def request_sha256(stated: Mapping[str, Any]) -> str:
    """Return the hash of the public choices that a manifest states, without descriptive texts."""
    chosen = {name: stated[name] for name in ("request", "profiles", "customer_list_sha256")}
    return hashlib.sha256(canonical(chosen)).hexdigest()


def customer_list_sha256(customer_list: Sequence[str]) -> str:
    """Return the hash of a public list of customers, in any order."""
    return hashlib.sha256(canonical({"customers": sorted(customer_list)})).hexdigest()


def fixed_words(
    stated: Mapping[str, Any], products: Sequence[Product], *, counted: bool
) -> dict[str, Any]:
    """Return the texts of a manifest: they follow from the public choices.

    Parameters
    ----------
    stated
        ``request`` and ``profiles`` of the manifest, by name.
    products
        Products of the release.
    counted
        Whether the ledger of a server counted the release.
    """
    is_global = stated["request"]["tier"] == Tier.GLOBAL.value
    return {
        "sector": "Energy",
        "composition": _COMPOSITION,
        "refresh": "Spent budget is never restored",
        "audit": "none of this release: its mechanisms are audited in the tests of the software",
        "unprotected": _unprotected(stated, products),
        "preprocessing": _preprocessing(stated, products),
        "tuning": _TUNING,
        "contribution": "one row per customer",
        "deployment": _DEPLOYMENT.format(mode=_BY_A_SERVER if counted else _ONCE),
        "implementation": {
            "sampler": "OpenDP discrete Gaussian; exact rational draws for labels",
            "random_numbers": "OpenSSL and the operating system; labels drawn on Spark: HMAC-SHA256"
            " under a key from there; no seed",
            "floating_point": _INTEGER_SUMS if is_global else _FLOATING_CENTROIDS,
            "timing": _ON_A_TICK
            if counted
            else "Run time is not protected; the release was computed before it was published",
            "test_mode": False,
        },
        "known_limits": [
            *choice_warnings(is_instance=not is_global, real_ids=stated["request"]["real_ids"]),
            *_warnings(stated["request"]),
            *_LIMITS,
        ],
    }


def product_record(product: Product, choice: Choice) -> dict[str, Any]:
    """Return the fields of a product in the manifest that follow from the public choices."""
    record: dict[str, Any] = {
        "name": product.name,
        "postprocessing": list(product.all_postprocessing(choice)),
    }
    return {**record, "documents": list(product.documents)} if product.documents else record


def achieved_record(
    product: Product, record: Mapping[str, Any], tables: Mapping[str, Table]
) -> dict[str, Any]:
    """Return what a product counts in its record and in released tables, if it counts anything."""
    counted = [asdict(one) for one in product.achieved(record, tables)]
    return {"achieved": counted} if counted else {}


def choice_of(manifest: Manifest) -> Choice:
    """Return the public choices that a manifest states."""
    grid = TimeGrid.from_json(manifest["profiles"]["grid"])
    return Choice(request=request_of(manifest), grid=grid)


def request_of(manifest: Manifest) -> ReleaseRequest:
    """Return the request that a manifest states."""
    about = {name: manifest[name] for name in About.model_fields}
    return ReleaseRequest.parse({**manifest["request"], "about": about})


def check_public(facts: PublicFacts, request: ReleaseRequest) -> None:
    """Refuse, before anything is spent, public choices that the schema does not permit."""
    schema = manifest_schema()
    for name, stated in _stated_choices(facts, request).items():
        permitted = {**schema["properties"][name], "$defs": schema["$defs"]}
        if problems := _problems(stated, permitted):
            rule = "made by rules that the manifest can state"
            raise InvalidParameterError("profiles", rule, "; ".join(problems))


def check_schema(manifest: object) -> list[str]:
    """Return where a manifest breaks the schema; empty if it does not."""
    return _problems(manifest, manifest_schema())


def check_fields(manifest: object) -> list[str]:
    """Return which fields of a manifest are missing or of another type; values are not checked."""
    return _problems(manifest, manifest_schema(), rules=("required", "type", "oneOf"))


def check_names(manifest: object) -> list[str]:
    """Return which fields of a manifest are missing or unknown: signs of another version."""
    return _problems(
        manifest, manifest_schema(), rules=("required", "additionalProperties", "oneOf")
    )


def _problems(record: object, schema: dict[str, Any], rules: Sequence[str] = ()) -> list[str]:
    """Return where a record breaks a schema, or some of its rules, by keyword of JSON Schema."""
    validator = jsonschema.Draft202012Validator(schema)
    errors = sorted(validator.iter_errors(record), key=lambda error: list(map(str, error.path)))
    return [
        f"{'/'.join(map(str, error.absolute_path)) or 'manifest'}: {error.message[:200]}"
        for error in errors
        if not rules or error.validator in rules
    ]


def manifest_schema() -> dict[str, Any]:
    """Return the JSON schema of a manifest; that of the request follows from `ReleaseRequest`."""
    text = files("wattveil.bundle").joinpath("manifest.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    request = json_schema(ReleaseRequest)
    about = request["$defs"].pop("About")
    del request["properties"]["about"]
    request["required"].remove("about")
    schema["$defs"] |= request.pop("$defs")
    schema["properties"] |= {**about["properties"], "request": request}
    schema["required"] += [*about["required"], "request"]
    return schema


def _released_record(released: ReleasedProduct, plan: ReleasePlan) -> dict[str, object]:
    guarantee, grant = released.allotment.guarantee, released.allotment.grant
    record: dict[str, object] = {
        "epsilon": repr(guarantee.epsilon),
        "delta": repr(guarantee.delta),
        "grant": {
            "rho_units": str(grant.rho_units),
            "response_epsilon": repr(grant.response_epsilon),
            "response_delta": repr(grant.response_delta),
            "eta": repr(grant.eta),
        },
        "runs": [
            {
                "group": run.group,
                "mechanisms": [_mechanism(spend, guarantee.tier) for spend in run.spends],
            }
            for run in released.runs
        ],
        "expected": [f"{one.quantity}: {one}" for one in plan.expected.get(released.name, ())],
        "tables": [table.to_json() for table in released.tables],
    }
    if released.channel:
        record["channel"] = [[str(parts) for parts in row] for row in released.channel]
    return record


def _mechanism(spend: Spend, tier: Tier) -> dict[str, object]:
    """Return a charge with the parameters of its draw; in the instance tier they are private."""
    if spend.mechanism not in PROOFS:
        raise InvalidParameterError("mechanism", f"one of {[*PROOFS]}", spend.mechanism)
    record: dict[str, object] = {
        "tag": spend.tag,
        "mechanism": spend.mechanism,
        "proof": PROOFS[spend.mechanism],
    }
    if spend.rho_units:
        record["rho_units"] = str(spend.rho_units)
    else:  # also 0.0: a constant channel costs nothing
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


def _stated_choices(facts: PublicFacts, request: ReleaseRequest) -> dict[str, Any]:
    """Return every public choice: the request, and how the profiles were made."""
    rules = facts.rules
    reading = rules.get("readings")
    kept = reading if isinstance(reading, Mapping) else {}
    chosen = stated_request(request)
    del chosen["about"]  # its texts are fields of the manifest
    return {
        "request": chosen,
        "profiles": {
            "grid": facts.grid.to_json(),
            "timezone": facts.timezone,
            "min_days": rules.get("min_days"),
            "max_gap_hours": rules.get("max_gap_hours"),
            "reading_rules": {name: kept.get(name) for name in READING_RULES},
            "reading_options_inferred": bool(rules.get("assumptions")),
        },
    }


def _listed_choices(
    facts: PublicFacts,
    request: ReleaseRequest,
    products: Sequence[Product],
    customer_list: Sequence[str],
) -> dict[str, Any]:
    """Return every public choice with the hash of the customer list, if a product uses the list."""
    is_listed = any(product.needs_customer_list for product in products)
    sha256 = customer_list_sha256(customer_list) if is_listed else None
    return {**_stated_choices(facts, request), "customer_list_sha256": sha256}


def _unprotected(stated: Mapping[str, Any], products: Sequence[Product]) -> list[str]:
    """Return what is revealed, or was decided, without protection."""
    request = stated["request"]
    is_global = request["tier"] == Tier.GLOBAL.value
    found = [_CHOSEN, "The fact that the curator holds such data, for the region if one is stated."]
    found += [text for product in products for text in product.unprotected]
    if request["by"] is not None:
        found += [f"The group ({request['by']}) of each customer, which is taken as public."]
    if not is_global:
        found += [_TAKEN_AS_KNOWN]
    if stated["profiles"]["reading_options_inferred"]:
        found += ["Reading options that were inferred from the files."]
    return found


def _warnings(request: Mapping[str, Any]) -> list[str]:
    """Return warnings about the parameters of the guarantee."""
    found = guarantee_warnings(
        epsilon=float(request["epsilon"]),
        delta=float(request["delta"]),
        customers=request["customers"],
    )
    return [f"Warning: {text}" for text in found]


def _preprocessing(stated: Mapping[str, Any], products: Sequence[Product]) -> list[str]:
    names = {product.name for product in products}
    request, days = stated["request"], stated["profiles"]["min_days"]
    steps = [_AVERAGED, *([] if days is None else [_COVERED.format(days=days)])]
    if request["clip_kw"] is not None:
        clip_kw = float(request["clip_kw"])
        if names != {"load"}:
            whose = "Except for load by group, customers" if "load" in names else "Customers"
            steps += [f"{whose} above {clip_kw:g} kW (root mean square) are clipped."]
        if "load" in names:
            steps += [_LOAD_BOUND.format(clip_kw=clip_kw)]
    elif request["tier"] == Tier.GLOBAL.value:
        steps += ["No public clipping bound was given: bounds were chosen from noisy sizes."]
    if request["normalise"]:
        steps += ["For the segments, each customer is scaled to unit L2 norm."]
    return steps


_COMPOSITION = (
    "Grants were fixed before anything was released. Gaussian products compose in rho, labels in"
    " epsilon; groups of customers that are clustered separately are disjoint and compose in"
    " parallel. The sum is converted to epsilon at delta by the exact curve of the Gaussian"
    " mechanism composed with randomised response, plus eta for the integer grid"
    " (docs/proofs/accounting.md)."
)
_TUNING = (
    "Constants of the software were tuned on public and simulated data. How the curator chose"
    " request and profiles is not recorded."
)
_DEPLOYMENT = (
    "Central: the curator holds the data and is trusted with them. Readers have access to the"
    " bundle only, and may collude. {mode}"
)
_ONCE = "One release, not interactive."
_BY_A_SERVER = (
    "Interactive: a server answers analysts, who may base queries on earlier answers. One total"
    " covers all releases."
)
_ON_A_TICK = "Published at fixed ticks of a slow clock; the number of ticks is not hidden"
_INTEGER_SUMS = "contributions are clipped, rounded to a grid and summed as integers"
_FLOATING_CENTROIDS = "centroids are computed in floating point, then rounded to a grid"
_CHOSEN = (
    "All values of the fields request and profiles, which the curator chose. The guarantee does not"
    " cover choices made by inspecting the data."
)
_TAKEN_AS_KNOWN = (
    "The covariance of the noise, which clusters were merged, and which labels can change. They are"
    " computed from the data and treated as known. Labels that the removal of any one customer"
    " leaves unchanged are released without noise."
)
_AVERAGED = (
    "Readings were checked and averaged to one load profile per customer. Each profile is computed"
    " from the customer's own readings only, which are kept or dropped by their own time stamps and"
    " lengths and summed as whole units of 1e-7 kWh."
)
_LOAD_BOUND = (
    "For load by group, customers are clipped to a bound of their group, at most {clip_kw:g} kW,"
    " which was chosen from noisy sizes: column clip_kw of the table groups."
)
_COVERED = (
    "Customers with readings on fewer than {days} days, or without a reading in some interval of"
    " the profile, are excluded. This depends on the customer's own readings only and costs no"
    " privacy budget."
)
_LIMITS = (
    "The privacy losses of other releases about the same people add to that of this release.",
    "The privacy unit is one row. A customer with two rows has more than twice the privacy loss.",
    "Facts about a whole population are not protected, even if they apply to its members.",
    "The run time of the computation is not protected against observers of it.",
)

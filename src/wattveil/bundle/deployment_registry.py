"""A record for the OpenDP registry of differential privacy deployments, ready to be proposed.

Its form is that of `schemas/deployments-schema.yaml` in ``opendp/deployments-registry-data``, at
the commit `SCHEMA_COMMIT`. `tools/check_registry_schema.py` checks a record against a newer one.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from wattveil.bundle.cumulative import sentences
from wattveil.bundle.manifest import Manifest
from wattveil.errors import InvalidParameterError
from wattveil.products.request import About

SCHEMA_COMMIT = "3e9c812a924cf01d228f26f6c462c59c391c3f2a"
"""Of 15 July 2026."""

_NO_OTHERS = (About.model_fields["other_releases_on_same_people"].default, "none")


def registry_record(manifest: Manifest) -> str:
    """Return the record as YAML, in the form of the registry's entries of tier 3.

    Its first line is the slug: a script of the registry searches for it there.
    """
    if manifest["variant"] != "approximate":
        rule = "of the global tier: the registry lists differential privacy"
        raise InvalidParameterError("registry", rule, manifest["variant"])
    tables = [table for part in manifest["products"] for table in part["tables"]]
    done = dict.fromkeys(step for part in manifest["products"] for step in part["postprocessing"])
    basic = {
        "name": manifest["title"],
        "data_curators": [manifest["curator"]],
        "intended_use": manifest["intended_use"],
        "data_product_type": "Summary statistics",
        "data_product_region": manifest["region"],
        "description": _lines(f"{one['name']}: {one['text']}" for one in tables),
        "publication_date": manifest["published_at"][:10],
        "data_product_sector": manifest["sector"],
    }
    deployment = {
        "basic": basic,
        "dp_variant": {
            "variant_name": "Approximate DP",
            "data_domain": "One load profile in kW per customer; any real numbers.",
            "unprotected_quantities": _lines(manifest["unprotected"]),
        },
        "privacy_loss": _privacy_loss(manifest),
        "deployment_model": _deployment_model(manifest),
        "accounting": {
            "post_processing": _lines(done),
            "composition": manifest["composition"],
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _lines(
                [*manifest["preprocessing"], manifest["tuning"]]
            ),
            "mechanisms": _lines(_mechanisms(manifest)),
            "justification": "Every privacy cost has a proof, sealed with a hash of the code, and"
            " is recomputed from this release's manifest by an independent accountant.",
        },
        "administrative": {
            "notes": f"Release {manifest['release_id']}. Contact: {manifest['contact']}.",
            "registry_authors": [manifest["curator"]],
        },
    }
    record = {
        "url_slug": _slug(manifest["title"], manifest["curator"], manifest["published_at"][:4]),
        "status": "Draft",
        "tier": 3,
        "deployment": deployment,
    }
    text: str = yaml.dump(record, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def _slug(*parts: str) -> str:
    """Return the stable name of a record, as the registry derives it from title, curator, year."""
    return "-".join(re.sub(r"[\W_]+", "-", part.lower()) for part in parts)


def _privacy_loss(manifest: Manifest) -> dict[str, object]:
    """Return unit and parameters.

    With a ledger, the deployment is all releases that it counts: its epsilon is that of the cap.
    """
    guarantee, cumulative = manifest["guarantee"], manifest["cumulative"]
    rho = sum(int(part["grant"]["rho_units"]) for part in manifest["products"]) * 1e-18
    about = [f"This release: Gaussian parts together rho = {rho:.6g}. {manifest['guarantee_text']}"]
    epsilon, delta = guarantee["epsilon"], guarantee["delta"]
    if _is_counted(cumulative):
        epsilon, delta = cumulative["epsilon_cap"], cumulative["delta"]
        capped = (
            f"Epsilon {float(epsilon):.6g} at delta {delta} is the cap of the ledger, for all"
            " releases about these people together."
        )
        about += [capped, *sentences(cumulative)]
    return {
        "privacy_unit": "User-level (customer)",
        "privacy_unit_details": "Adjacent data sets differ in one customer, whose data are replaced"
        f" by no data. {manifest['contribution'].capitalize()}.",
        "privacy_parameters": {"epsilon": float(epsilon), "delta": float(delta)},
        "privacy_parameters_details": _lines(about),
    }


def _deployment_model(manifest: Manifest) -> dict[str, str]:
    """Return who is trusted, and how privacy loss is managed over releases."""
    counted = _is_counted(manifest["cumulative"])
    others = manifest["other_releases_on_same_people"]
    many = counted or others not in _NO_OTHERS or manifest["supersedes"] != "none"
    loss = [
        *sentences(manifest["cumulative"]),
        f"{manifest['refresh']}.",
        _CAPPED if counted else _UNCAPPED,
        f"Other releases about the same people, as stated by the curator: {others}.",
        f"Release that this one replaces, whose loss remains: {manifest['supersedes']}.",
    ]
    return {
        "model_name": "Central",
        "actors": manifest["deployment"],
        "release_type": "Many releases" if many else "One release",
        "release_type_details": _lines(loss),
        "data_source_type": "Static",
        "data_source_type_details": "The profiles of a release are fixed before it is made.",
        "access_type": "Interactive" if counted else "Non-interactive",
        "access_type_details": _APPORTIONED if counted else "Readers see the published files only.",
    }


def _is_counted(cumulative: str | Mapping[str, Any]) -> bool:
    """Whether a ledger counts the release."""
    return not isinstance(cumulative, str)


_CAPPED = (
    "The loss is fixed in advance: each release is charged before it is computed, and one that"
    " would exceed the cap is refused. Administrators raise caps by entries with a reason, in a"
    " ledger that is append-only."
)
_UNCAPPED = "No ledger bounds the sum over releases: the curator keeps the list of them."
_APPORTIONED = (
    "Every analyst has a cap, and all analysts together have the cap of the data set. Analysts may"
    " collude: the guarantee is that of the sum."
)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)


def _mechanisms(manifest: Manifest) -> list[str]:
    made = manifest["implementation"]
    return [
        f"{part['name']}, {mechanism['tag']}: {mechanism['mechanism']}"
        for part in manifest["products"]
        for run in part["runs"][:1]
        for mechanism in run["mechanisms"]
    ] + [
        f"Sampler: {made['sampler']}. Random numbers: {made['random_numbers']}.",
        f"Floating point: {made['floating_point']}. Timing: {made['timing']}.",
        f"Software: Wattveil {made['software']['wattveil']}.",
    ]


def _lines(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)

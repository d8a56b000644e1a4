"""A record for the OpenDP registry of differential privacy deployments, ready to be proposed."""

from collections.abc import Iterable

import yaml

from wattveil.bundle.manifest import Manifest
from wattveil.errors import InvalidParameterError


def registry_record(manifest: Manifest) -> str:
    """Return the record as YAML, in the form of the registry's entries of tier 3."""
    if manifest["variant"] != "approximate":
        rule = "of the global tier: the registry lists differential privacy"
        raise InvalidParameterError("registry", rule, manifest["variant"])
    parts, guarantee = manifest["products"], manifest["guarantee"]
    rho = sum(int(part["grant"]["rho_units"]) for part in parts) * 1e-18
    tables = [table for part in parts for table in part["tables"]]
    done = dict.fromkeys(step for part in parts for step in part["postprocessing"])
    record = {
        "status": "Draft",
        "registry_authors": [manifest["curator"]],
        "tier": 3,
        "deployment": {
            "name": manifest["title"],
            "data_curator": manifest["curator"],
            "description": "\n".join(f"- {one['name']}: {one['text']}" for one in tables),
            "intended_use": manifest["intended_use"],
            "data_product_type": "Summary statistics",
            "publication_date": manifest["published_at"][:10],
            "data_product_region": manifest["region"],
            "data_product_sector": manifest["sector"],
            "dp_flavor": {
                "name": "Approximate DP",
                "data_domain": "One load profile in kW per customer; any real numbers.",
                "unprotected_quantities": _lines(manifest["unprotected"]),
            },
            "privacy_loss": {
                "privacy_unit": "User-level (customer)",
                "privacy_unit_description": "Adjacent data sets differ in one customer, whose data"
                " are replaced by no data.",
                "privacy_parameters": {
                    "epsilon": float(guarantee["epsilon"]),
                    "delta": float(guarantee["delta"]),
                },
                "privacy_parameters_description": f"Gaussian parts together: rho = {rho:.6g}."
                f" {manifest['guarantee_text']}",
            },
            "model": {
                "model_name": "Central",
                "actors": manifest["deployment"],
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": _lines(done),
                "composition": manifest["composition"],
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": _lines(
                    [*manifest["preprocessing"], manifest["tuning"]]
                ),
                "mechanisms": _lines(_mechanisms(manifest)),
                "justification": "Every price is proved on a page that is sealed with a hash of the"
                " code, and recomputed from this release's manifest by a second accountant.",
            },
            "additional_information": f"Release {manifest['release_id']}. Contact:"
            f" {manifest['contact']}.",
        },
    }
    text: str = yaml.dump(record, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


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

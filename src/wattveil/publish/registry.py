"""A record for the OpenDP registry of differential privacy deployments, ready to be proposed."""

from collections.abc import Iterable

import yaml

from wattveil.errors import InvalidParameterError
from wattveil.publish.manifest import Manifest


def registry_record(statement: Manifest) -> str:
    """Return the record as YAML, in the form of the registry's entries of tier 3."""
    if statement["variant"] != "approximate":
        rule = "of the global tier: the registry lists differential privacy"
        raise InvalidParameterError("registry", rule, statement["variant"])
    parts, guarantee = statement["parts"], statement["guarantee"]
    rho = sum(int(part["grant"]["rho_units"]) for part in parts) * 1e-18
    tables = [table for part in parts for table in part["tables"]]
    done = dict.fromkeys(step for part in parts for step in part["postprocessing"])
    record = {
        "status": "Draft",
        "registry_authors": [statement["curator"]],
        "tier": 3,
        "deployment": {
            "name": statement["title"],
            "data_curator": statement["curator"],
            "description": "\n".join(f"- {one['name']}: {one['text']}" for one in tables),
            "intended_use": statement["intended_use"],
            "data_product_type": "Summary statistics",
            "publication_date": statement["published_at"][:10],
            "data_product_region": statement["region"],
            "data_product_sector": statement["sector"],
            "dp_flavor": {
                "name": "Approximate DP",
                "data_domain": "One load profile in kW a customer; any real numbers.",
                "unprotected_quantities": _lines(statement["unprotected"]),
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
                f" {statement['guarantee_text']}",
            },
            "model": {
                "model_name": "Central",
                "actors": statement["deployment"],
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": _lines(done),
                "composition": statement["composition"],
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": _lines(
                    [*statement["preprocessing"], statement["tuning"]]
                ),
                "mechanisms": _lines(_mechanisms(statement)),
                "justification": "Every price is proved on a page that is sealed with a hash of the"
                " code, and recomputed from this release's statement by a second accountant.",
            },
            "additional_information": f"Release {statement['release_id']}. Contact:"
            f" {statement['contact']}.",
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


def _mechanisms(statement: Manifest) -> list[str]:
    made = statement["implementation"]
    return [
        f"{part['name']}, {mechanism['tag']}: {mechanism['mechanism']}"
        for part in statement["parts"]
        for run in part["runs"][:1]
        for mechanism in run["mechanisms"]
    ] + [
        f"Sampler: {made['sampler']}. Random numbers: {made['random_numbers']}.",
        f"Floating point: {made['floating_point']}. Timing: {made['timing']}.",
        f"Software: Wattveil {made['software']['wattveil']}.",
    ]


def _lines(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)

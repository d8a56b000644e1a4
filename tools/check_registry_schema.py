"""Check a record for the OpenDP registry of deployments against a schema of the registry.

``python -m tools.check_registry_schema record.yaml --schema deployments-schema.yaml``

The schema is `schemas/deployments-schema.yaml` of ``opendp/deployments-registry-data``; without
``--schema``, the version that the tests pin. Prints each problem; the exit code is 1 if there is
one. The rules are those of the registry's own checks: schema, form of texts, slug first.
"""

import argparse
import sys
from pathlib import Path

import yaml
from jsonschema import Draft7Validator

PINNED = Path(__file__).parents[1] / "tests/data/registry/deployments-schema.yaml"


def record_problems(record: str, schema: str) -> list[str]:
    """Return where a record breaks a schema or another rule of the registry; both are YAML."""
    validator = Draft7Validator(
        yaml.safe_load(schema), format_checker=Draft7Validator.FORMAT_CHECKER
    )
    found = [
        f"{'.'.join(map(str, error.absolute_path)) or 'record'}: {error.message}"
        for error in validator.iter_errors(yaml.safe_load(record))
    ]
    if not record.startswith("url_slug: "):
        found.append("url_slug: not in the first line")
    folded = [token for token in yaml.scan(record) if getattr(token, "style", None) == ">"]
    return found + [f"line {token.start_mark.line + 1}: folded text" for token in folded]


def main() -> int:
    """Check the record that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--schema", type=Path, default=PINNED)
    given = parser.parse_args()
    texts = (path.read_text(encoding="utf-8") for path in (given.record, given.schema))
    problems = record_problems(*texts)
    sys.stdout.write("".join(f"{problem}\n" for problem in problems) or "The record is valid.\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

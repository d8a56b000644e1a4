"""The record of an audit as evidence: bounds, the power behind them, and results of attacks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wattveil.errors import InvalidFileError
from wattveil.lab.audit.audit_power import runs_to_detect
from wattveil.lab.audit.intruder_record import permitted_result
from wattveil.lab.audit.release_audit import NOT_REFUTED, is_weak
from wattveil.privacy.guarantee import Guarantee, global_guarantee
from wattveil.web.formatting import format_lower_bound, format_upper_bound

RECORD_FIELDS = (
    *("record_version", "visibility", "customers", "made_at", "review_by"),
    *("request", "audits", "confidence"),
)
"""Fields that a record must have to be read."""


def read_record(path: Path) -> dict[str, Any]:
    """Read a record of `wattveil audit --record`; its signature is not checked here."""
    try:
        record = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidFileError(path, "content", "JSON", type(error).__name__) from error
    if not isinstance(record, dict) or any(name not in record for name in RECORD_FIELDS):
        raise InvalidFileError(path, "content", "a record of `wattveil audit --record`", None)
    return record


def audited_customers(record: Mapping[str, Any]) -> str:
    """Return whose data an audit used."""
    known = {"own": "the utility's own customers", "simulated": "simulated customers"}
    return known.get(record["customers"], f"{record['customers']} customers")


def bounds_table(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the lower bound of each audit beside the claim."""
    return [
        {
            "release": one["release"],
            "method": one["method"],
            "epsilon at least": format_lower_bound(one["epsilon_lower_bound"]),
            # Rounded down too: rounded up, an audit would seem to have more power than it had.
            "largest lower bound that this audit could have found": format_lower_bound(
                one["max_epsilon"]
            ),
            "claimed": format_upper_bound(float(one["claim"]["epsilon"]), 4),
            "evidence": one["evidence"],
            "verdict": f"{one['verdict']} (weak)" if has_little_power(one) else one["verdict"],
        }
        for one in record["audits"]
    ]


def has_little_power(audit: Mapping[str, Any]) -> bool:
    """Whether an audit did not refute its claim, and could have found gross violations only."""
    claimed = float(audit["claim"]["epsilon"])
    return bool(audit["verdict"] == NOT_REFUTED and is_weak(audit["max_epsilon"], claimed))


_EXCESSES = (0.1, 0.5, 1.0, 3.0)
"""Relative violations for which the power of an audit is stated."""


def power_table(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return how many runs would detect violations of each claim, by their size."""
    level = (1.0 - record["confidence"]) / max(len(record["audits"]), 1)
    claims = {one["release"]: one["claim"] for one in record["audits"] if one["method"] == "paired"}
    return [
        {
            "release": release,
            "claimed epsilon": format_upper_bound(float(claim["epsilon"]), 4),
            **{
                f"true epsilon {100.0 * excess:.0f} % larger": _runs(claim, excess, level)
                for excess in _EXCESSES
            },
        }
        for release, claim in claims.items()
    ]


def _runs(claim: Mapping[str, str], excess: float, level: float) -> str:
    """Return the number of runs in two digits, rounded up."""
    guarantee = global_guarantee(epsilon=float(claim["epsilon"]), delta=float(claim["delta"]))
    runs = runs_to_detect(guarantee, excess=excess, level=level)
    return "more than 10^12" if runs is None else format_upper_bound(runs, 2)


def attacks_table(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the result of each attack beside the one without leakage and the largest one."""
    request = record["request"]
    guarantee = global_guarantee(epsilon=float(request["epsilon"]), delta=float(request["delta"]))
    return [
        {
            "attack": one["attack"],
            "result": one["result"],
            "without leakage": one["no_leakage"],
            "largest value that the guarantee permits": _permitted(one["attack"], guarantee),
        }
        for one in record.get("attacks", [])
    ]


def _permitted(attack: str, guarantee: Guarantee) -> str:
    share = permitted_result(attack, guarantee)
    return "no bound follows" if share is None else f"{format_upper_bound(100.0 * share)} %"

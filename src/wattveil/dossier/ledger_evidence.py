"""The ledger as evidence: an export, replayed, and its sums beside those of a manifest."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattveil.bundle.cumulative import Cumulative
from wattveil.bundle.manifest import Manifest
from wattveil.errors import MissingExtraError
from wattveil.privacy.accounting import Composition
from wattveil.products.findings import Finding

_SPENDING = ("charge", "series", "lost")
"""Kinds of entries whose amounts are spent: those of lost entries count too."""


@dataclass(frozen=True, kw_only=True)
class LedgerEvidence:
    """What an export says about the people of a release."""

    findings: tuple[Finding, ...]
    """Checks of the whole export: chain, caps, charges."""
    values: Mapping[str, Any]
    """Fields for the answers of clauses."""
    counted: bool
    """Whether the charge of the release is an entry of it."""
    disagreements: tuple[str, ...]
    """Where the sums of the manifest are not those of the entries."""


def read_ledger(path: Path, manifest: Manifest) -> LedgerEvidence:
    """Replay an export, and compare it with the sums that a manifest states."""
    try:
        from wattveil.server.ledger import ledger_audit  # noqa: PLC0415 - needs the extra
    except ModuleNotFoundError as error:
        raise MissingExtraError("the ledger", "serve") from error
    findings = tuple(ledger_audit.audit_export(path))
    lines = path.read_text("utf-8").splitlines()[1:]
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    stated = manifest["cumulative"]
    charge = None if isinstance(stated, str) else _charge(entries, stated)
    chain, caps = (next(one for one in findings if word in one.check) for word in ("chain", "cap"))
    values: dict[str, Any] = {
        "entries": len(entries),
        "charges": sum(entry["kind"] == "charge" for entry in entries),
        "chain": f"{chain.check}: {chain.seen}" if chain.holds else f"BROKEN: {chain.seen}",
        "caps": f"{caps.check}: {caps.seen}" if caps.holds else f"EXCEEDED: {caps.seen}",
    }
    if charge is None or isinstance(stated, str):
        return LedgerEvidence(findings=findings, values=values, counted=False, disagreements=())
    cumulative = Cumulative.from_json(stated)
    account = [entry for entry in entries if _is_on(entry, charge)]
    known = [entry for entry in account if entry["seq"] <= charge["seq"]]
    now, then = _sums(account), _sums(known)
    values |= {
        "releases": sum(entry["kind"] == "charge" for entry in account),
        "epsilon_spent": now.spent.epsilon(cumulative.delta),
        "epsilon_cap": now.caps.epsilon(cumulative.delta),
        "delta": repr(cumulative.delta),
        "cap_changes": [
            f"entry {entry['seq']} of {entry['at'][:10]}" for entry in account if _is_cap(entry)
        ],
        "first_entry": account[0]["at"][:10],
        "last_entry": account[-1]["at"][:10],
    }
    return LedgerEvidence(
        findings=findings,
        values=values,
        counted=True,
        disagreements=tuple(_disagreements(cumulative, then)),
    )


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """Spent and cap of an account, and the number of its charges."""

    spent: Composition
    caps: Composition
    releases: int


def _charge(entries: list[dict[str, Any]], stated: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the entry that charged the release: position and hash are those of the manifest."""
    place = (stated["ledger_seq"], stated["chain_head"])
    return next((one for one in entries if (one["seq"], one["row_sha256"]) == place), None)


def _is_on(entry: Mapping[str, Any], charge: Mapping[str, Any]) -> bool:
    """Whether an entry changes the account of the data set that paid for the release."""
    return all(entry[name] == charge[name] for name in ("journal_id", "account_id"))


def _is_cap(entry: Mapping[str, Any]) -> bool:
    return bool(entry["kind"] == "cap")


def _sums(entries: list[dict[str, Any]]) -> _Sums:
    """Add up the charges of an account; its cap is the last one that was set."""
    from wattveil.server.ledger.amounts import MEASURES, Amounts  # noqa: PLC0415 - the extra

    amounts = [(entry["kind"], Amounts(*(entry[name] for name in MEASURES))) for entry in entries]
    spent = sum((one for kind, one in amounts if kind in _SPENDING), Amounts())
    caps = [one for kind, one in amounts if kind == "cap"]
    return _Sums(
        spent=spent.composition,
        caps=(caps[-1] if caps else Amounts()).composition,
        releases=sum(kind == "charge" for kind, _ in amounts),
    )


def _disagreements(stated: Cumulative, found: _Sums) -> list[str]:
    """Compare the sums of a manifest with those of the entries up to its charge."""
    pairs = {
        "spent": (stated.spent, found.spent),
        "caps": (stated.caps, found.caps),
        "releases": (stated.releases, found.releases),
    }
    return [
        f"cumulative.{name} is not the sum of the entries up to {stated.ledger_seq}"
        for name, (said, due) in pairs.items()
        if said != due
    ]

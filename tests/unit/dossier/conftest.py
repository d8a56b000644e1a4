"""A release that a ledger counted, the export of the ledger, and an audit record: all signed."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests.sample_bundles import only, some_profiles
from tests.sample_ledgers import LARGER, populate
from wattveil.bundle.keys import read_key, sign, write_key
from wattveil.bundle.plan import plan_release, stated_request
from wattveil.bundle.produce import release_bundle
from wattveil.bundle.verify.verify_bundle import VerificationReport, verify_bundle
from wattveil.dossier import evidence
from wattveil.dossier.dossier_document import Dossier, make_dossier
from wattveil.dossier.evidence import Evidence
from wattveil.products.request import About, ReleaseRequest
from wattveil.profiles import TimeGrid
from wattveil.server.ledger.accounts import cumulative_at
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_audit import export_ledger
from wattveil.server.ledger.pricing import order_release

ABOUT = About(
    title="Load of a town",
    curator="Town Energy",
    region="North",
    contact="data@town.example",
    other_releases_on_same_people="none",
)
REQUEST = ReleaseRequest(epsilon=0.5, weights=only("load"), customers=300, about=ABOUT)


@dataclass(frozen=True)
class Files:
    """The files of a dossier."""

    bundle: Path
    ledger: Path
    audit: Path
    key: Path

    def evidence(self, **changes: Path | None) -> Evidence:
        """Return what the files say, with some of them exchanged."""
        given: dict[str, Any] = {
            "ledger": self.ledger,
            "audit": self.audit,
            "trusted": read_key(self.key).public_key(),
            **changes,
        }
        return Evidence.read(given.pop("bundle", self.bundle), **given)

    def dossier(self, standard: str = "nist-800-226", **changes: Path | None) -> Dossier:
        """Return the dossier of these files."""
        return make_dossier(self.evidence(**changes), standard, answers={})


@pytest.fixture(scope="module", autouse=True)
def _verified_once() -> Iterator[None]:
    """Verify equal files once: most tests change other files than the bundle."""
    reports: dict[tuple[object, ...], VerificationReport] = {}

    def shared(bundle: Path, *, trusted: Ed25519PublicKey | None) -> VerificationReport:
        files = sorted(path for path in bundle.rglob("*") if path.is_file())
        content = tuple((str(path.relative_to(bundle)), path.read_bytes()) for path in files)
        key = (content, trusted and trusted.public_bytes_raw())
        if key not in reports:
            reports[key] = verify_bundle(bundle, trusted=trusted)
        return reports[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "verify_bundle", shared)
        yield


@pytest.fixture(scope="session")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Files of a release that agree with each other. Do not change them."""
    folder = tmp_path_factory.mktemp("dossier")
    write_key(folder / "utility.key")
    signing = read_key(folder / "utility.key")
    bundle, ledger_file = folder / "bundle", folder / "ledger.jsonl"
    with Ledger.open(folder) as ledger:
        populate(ledger, LARGER)
        first, charge = (
            ledger.charge(order_release(request, dataset="homes", principal="ann", key=key))
            for key, request in (("a", REQUEST.replace(epsilon=0.6)), ("b", REQUEST))
        )
        assert first != charge
        with ledger.engine.connect() as connection:
            cumulative = cumulative_at(connection, charge)
        plan = plan_release(REQUEST, TimeGrid())
        readings = {"unit": "kWh", "period": ["2025-03-03", "2027-03-03"]}
        customers = replace(some_profiles(), rules={"min_days": 14, "readings": readings})
        release_bundle(customers, plan, bundle, key=signing, cumulative=cumulative)
        export_ledger(ledger.engine, ledger_file)
    audit = folder / "audit.json"
    files = Files(bundle=bundle, ledger=ledger_file, audit=audit, key=folder / "utility.key")
    write_signed(audit, audit_record(), files.key)
    return files


def audit_record(**changes: object) -> dict[str, object]:
    """Return a record as `wattveil audit --record` makes it, made just now."""
    made_at = datetime.now(UTC) + timedelta(seconds=1)  # after the release
    chosen = stated_request(REQUEST)
    del chosen["about"]
    claim = {"epsilon": "0.5", "delta": "1e-06", "tier": "global"}
    bound = {
        "release": "load",
        "method": "paired",
        "claim": claim,
        "epsilon_lower_bound": 0.1,
        "max_epsilon": 2.0,
        "evidence": "few",
        "verdict": "not refuted",
    }
    attack = {
        "attack": "membership inference by distance, AUC",
        "result": "51 %",
        "no_leakage": "50 %",
    }
    return {
        "record_version": "1",
        "kind": "motivated-intruder test",
        "visibility": "internal",
        "made_at": made_at.isoformat(timespec="seconds"),
        "review_by": (made_at + timedelta(days=365)).date().isoformat(),
        "tester": "Jo",
        "customers": "own",
        "request": chosen,
        "confidence": 0.95,
        "audits": [bound],
        "attacks": [attack],
        **changes,
    }


def write_signed(path: Path, record: dict[str, object], key: Path) -> None:
    """Write a record with its signature."""
    signed = {**record, "signature": sign(record, read_key(key))}
    path.write_text(json.dumps(signed), encoding="utf-8")


@pytest.fixture
def record_file(counted: Files, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a signed record with some fields changed."""

    def write(**changes: object) -> Path:
        path = tmp_path / "audit.json"
        write_signed(path, audit_record(**changes), counted.key)
        return path

    return write

"""Record of a motivated-intruder test: attacks and empirical lower bounds, dated and signed.

A record of real customers is *internal*: its figures are exact, and no budget was charged for them.
It may be shown to a regulator in confidence. One of simulated homes is *public*: it states what the
attacks achieve against the software, not against a release.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.special import expit

from wattveil.bundle.keys import sign
from wattveil.bundle.plan import stated_request
from wattveil.errors import InvalidParameterError
from wattveil.lab.attacks.differencing import RELEASES, recover
from wattveil.lab.attacks.synthetic_attacks import (
    CopyAttack,
    MemberSplit,
    copy_attack,
    demonstrated_releases,
)
from wattveil.lab.audit.release_audit import AuditRow
from wattveil.lab.seeded_draws import RandomAssignment
from wattveil.privacy.guarantee import Guarantee, Tier
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles
from wattveil.web.formatting import format_number, format_share, format_share_interval

RECORD_VERSION = "1"
_LARGEST = 700.0
"""Exponents above it are cut: no float holds the power."""
REVIEW_AFTER = timedelta(days=365)
"""A record is to be reviewed after so long."""

_EXPECTED = {
    "copied": ("synthetic values equal to a real reading", "0 %"),
    "maxima": ("slots with the real maximum", "0 %"),
    "closest_is_member": ("synthetic customers closest to a member", "50 %"),
    "membership_auc": ("membership inference by distance, AUC", "50 %"),
    "tpr_at_1_percent": ("members found at 1 % false positives", "1 %"),
    "tpr_at_01_percent": ("members found at 0.1 % false positives", "0.1 %"),
    "outliers_found": ("planted outliers reconstructed", "0 %"),
}
"""Title of each attack on synthetic customers, and its result where nothing leaks."""
_FALSE_POSITIVES = {
    _EXPECTED["tpr_at_1_percent"][0]: 0.01,
    _EXPECTED["tpr_at_01_percent"][0]: 0.001,
}
"""Share of others who are taken for members, by title of an attack that finds members."""


def permitted_result(attack: str, guarantee: Guarantee) -> float | None:
    """Return the largest expected result that a guarantee permits; None if no bound follows.

    A member is removed from the release: then it ranks among the hold-out customers like any of
    them, so that it is found with the probability f of a false positive. With its data, the
    probability is at most e^epsilon f + delta, and that of the contrary at least e^-epsilon
    (1 - f - delta). The AUC is the integral of this bound over f.
    """
    epsilon, delta = guarantee.epsilon, guarantee.delta
    if attack == _EXPECTED["membership_auc"][0]:
        return 1.0 - (1.0 - delta) ** 2 * float(expit(-epsilon))
    share = _FALSE_POSITIVES.get(attack)
    if share is None:
        return None
    kept = 1.0 - math.exp(-epsilon) * (1.0 - delta - share)
    return min(kept, math.exp(min(epsilon, _LARGEST)) * share + delta, 1.0)


_REASONS = {
    "internal": "figures are exact and computed from real customers, without a privacy budget:"
    " to be shown in confidence only",
    "public": "all customers are simulated",
}


def check_recordable(request: ReleaseRequest) -> None:
    """Refuse, before the work, a release that the attacks are not about."""
    if request.tier is not Tier.GLOBAL:
        rule = "for the global tier: the attacks are on its releases"
        raise InvalidParameterError("record", rule, request.tier.value)


def intruder_record(
    request: ReleaseRequest,
    profiles: Profiles,
    audits: Sequence[AuditRow],
    *,
    simulated: bool,
    tester: str,
    confidence: float,
    seed: int,
    release_id: str | None = None,
) -> dict[str, object]:
    """Attack a release of the same epsilon, and return the record, not yet signed.

    Parameters
    ----------
    audits
        Empirical lower bounds of `audit_release`, for the same request and customers.
    simulated
        Whether the customers are simulated: only then is the record public.
    tester
        Who made the test.
    confidence
        Joint confidence of the lower bounds.
    seed
        Of the split into members and others; the noise has no seed.
    release_id
        The release that the record is about, if it was read from its bundle.
    """
    check_recordable(request)
    made_at = datetime.now(UTC)
    visibility = "public" if simulated else "internal"
    chosen = stated_request(request)
    del chosen["about"]  # texts for readers of a release
    return {
        "record_version": RECORD_VERSION,
        "kind": "motivated-intruder test",
        "visibility": visibility,
        "reason": _REASONS[visibility],
        "made_at": made_at.isoformat(timespec="seconds"),
        "review_by": (made_at + REVIEW_AFTER).date().isoformat(),
        "tester": tester,
        "software": f"wattveil {version('wattveil')}",
        "customers": "simulated" if simulated else "own",
        "request": chosen,
        **({} if release_id is None else {"release_id": release_id}),
        "confidence": confidence,
        "audits": [row.to_json() for row in audits],
        "attacks": [*_copy_attacks(request, profiles, seed), _differencing(request, profiles)],
        "limits": "Lower bounds and attacks can refute a claim; they do not prove one.",
    }


def write_record(record: Mapping[str, object], path: Path, key: Ed25519PrivateKey) -> None:
    """Sign a record and write it to a new file, for its owner alone unless it is public."""
    signed = {**record, "signature": sign(record, key)}
    path.touch(mode=0o666 if record["visibility"] == "public" else 0o600, exist_ok=False)
    path.write_text(json.dumps(signed, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _copy_attacks(request: ReleaseRequest, profiles: Profiles, seed: int) -> list[dict[str, str]]:
    """Attack synthetic customers that have the whole budget of the release: more than its own."""
    assignment = RandomAssignment(seed)
    split = MemberSplit.of(profiles.load_kw, assignment)
    releases = demonstrated_releases(
        assignment,
        epsilon=request.epsilon,
        delta=request.delta,
        n_clusters=request.n_clusters,
    )
    *_, private = releases.values()
    found = copy_attack(split, private)
    return [
        {"attack": title, "result": _result(found, field), "no_leakage": expected}
        for field, (title, expected) in _EXPECTED.items()
    ]


def _result(found: CopyAttack, field: str) -> str:
    share = getattr(found, field)
    interval = found.intervals.get(field)
    return format_share(share) if interval is None else format_share_interval(share, *interval)


def _differencing(request: ReleaseRequest, profiles: Profiles) -> dict[str, str]:
    """Recover the largest customer from two released means, with and without it."""
    load_kw = profiles.load_kw
    largest = int(np.argmax(np.square(load_kw).mean(axis=1)))
    found = recover(
        load_kw,
        np.arange(len(load_kw)),
        largest,
        epsilon=request.epsilon,
        delta=request.delta,
        releases=RELEASES,
    )
    return {
        "attack": "load of the largest customer from two released means, relative error (median)",
        "result": format_number(found.protected_error),
        "no_leakage": "at least 1, the error of guessing 0",
    }

"""Profiles in a file, for those who must not touch rows: what is public of it, and its releases."""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil.errors import InvalidFileError
from wattveil.profiles import Grid, Profiles
from wattveil.publish.cumulative import Cumulative
from wattveil.publish.manifest import Manifest, check_public
from wattveil.publish.parts import PublicFacts
from wattveil.publish.plan import ReleasePlan, plan_release
from wattveil.publish.produce import release_bundle
from wattveil.publish.request import ReleaseRequest


@dataclass(frozen=True, kw_only=True)
class Description:
    """What may be known of a file of profiles."""

    grid: dict[str, object]
    """The columns of a profile, as JSON values."""
    attributes: tuple[str, ...]
    """The names of the attributes; their values may tell who is there."""
    fingerprint: str
    """Of the content, by a key that stays in house: a bare hash could be guessed."""


def describe(path: Path, *, key: bytes, request: ReleaseRequest) -> Description:
    """Look at a file once, for its registration.

    ``request`` stands for those that are to come: what no statement could say of these profiles is
    refused here.
    """
    profiles = Profiles.read_parquet(path)
    check_public(PublicFacts.of(profiles), request)
    return Description(
        grid=profiles.grid.to_json(),
        attributes=tuple(sorted(profiles.attributes)),
        fingerprint=_fingerprint(profiles, key),
    )


def plan_for(request: ReleaseRequest, grid: dict[str, object]) -> ReleasePlan:
    """Plan a release of profiles with these columns; nothing else is known of them."""
    return plan_release(request, Grid.from_json(grid))


def release_file(
    path: Path,
    request: ReleaseRequest,
    out: Path,
    *,
    fingerprint: str,
    fingerprint_key: bytes,
    signing_key: Ed25519PrivateKey,
    check_plan: Callable[[ReleasePlan], None],
    customer_list: Sequence[str] = (),
    cumulative: Cumulative | None = None,
) -> Manifest:
    """Release the profiles of a file that is still the one that was registered.

    ``check_plan`` sees what the parts are granted before anything is drawn, and refuses what was
    not paid for.
    """
    profiles = Profiles.read_parquet(path)
    if not hmac.compare_digest(_fingerprint(profiles, fingerprint_key), fingerprint):
        # Other people's data on this budget would be nobody's promise.
        raise InvalidFileError(path, "content", "the profiles that were registered", "others")
    plan = plan_release(request, profiles.grid)
    check_plan(plan)
    return release_bundle(
        profiles,
        plan,
        out,
        key=signing_key,
        customer_list=customer_list,
        cumulative=cumulative,
    )


def _fingerprint(profiles: Profiles, key: bytes) -> str:
    """Return a keyed hash of customers and their load, whatever the order of rows."""
    digest = hmac.new(key, digestmod=hashlib.sha256)
    load_kw = profiles.load_kw
    for row in sorted(range(len(profiles)), key=lambda row: profiles.customer_ids[row]):
        name = profiles.customer_ids[row].encode("utf-8", "surrogatepass")
        digest.update(len(name).to_bytes(8) + name + load_kw[row].tobytes())
    return f"hmac-sha256:{digest.hexdigest()}"

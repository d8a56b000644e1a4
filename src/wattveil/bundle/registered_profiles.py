"""Profile files of a server: written once, described by public facts, and released.

A registered file does not change, because its budget is that of its content: several files, or a
query of a database that changes, are read once and written to one file. The server itself reads no
rows; it uses `Description`.
"""

import hashlib
import hmac
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil import checks
from wattveil.bundle.cumulative import Cumulative
from wattveil.bundle.manifest import Manifest, check_public
from wattveil.bundle.plan import ReleasePlan, allotments_from_json, plan_release
from wattveil.bundle.produce import release_bundle
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.products.product import PublicFacts
from wattveil.products.request import ReleaseRequest
from wattveil.profiles import Profiles, Split, TimeGrid
from wattveil.readings.sources import spill_query

_ID = "customer_id"


def gather_profiles(sources: Sequence[Path]) -> Profiles:
    """Return the profiles of files, and of all Parquet files in folders, as one table.

    They must be of one kind: grid, time zone, rules and attributes.
    """
    files = [file for source in sources for file in _files(source)]
    parts = [Profiles.read_parquet(file) for file in files]
    first = parts[0]
    for file, part in zip(files, parts, strict=True):
        for field in ("grid", "timezone", "rules"):
            if (found := getattr(part, field)) != (due := getattr(first, field)):
                raise InvalidFileError(file, field, f"{due}, as in {files[0]}", str(found))
        if part.attributes.keys() != first.attributes.keys():
            due = f"{[*first.attributes]}, as in {files[0]}"
            raise InvalidFileError(file, "attributes", due, str([*part.attributes]))
    return Profiles(
        customer_ids=tuple(name for part in parts for name in part.customer_ids),
        load_kw=np.concatenate([part.load_kw for part in parts]),
        grid=first.grid,
        timezone=first.timezone,
        attributes={
            name: tuple(value for part in parts for value in part.attributes[name])
            for name in first.attributes
        },
        rules=first.rules,
        days_kw=np.concatenate([part.days_kw for part in parts if part.days_kw is not None])
        if first.grid.n_days
        else None,
    )


def query_profiles(
    database: str, query: str, *, timezone: str, minutes: int, split: str
) -> Profiles:
    """Return the profiles that a query yields, one row per customer.

    Its columns are ``customer_id``, ``kw_1`` to ``kw_d`` in the order of the grid, and attributes.
    """
    grid = TimeGrid(minutes=minutes, split=checks.enum_value("split", split, Split))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "rows.parquet"
        spill_query(database, query, target)
        rows = pq.read_table(target).to_pydict()
    loads = [f"kw_{number}" for number in range(1, grid.columns + 1)]
    if missing := [name for name in (_ID, *loads) if name not in rows]:
        rule = f"one with columns {_ID} and kw_1 to kw_{grid.columns}"
        raise InvalidParameterError("sql", rule, f"without {missing[0]}")
    attributes = [name for name in rows if name not in {_ID, *loads}]
    return Profiles(
        customer_ids=tuple(map(str, rows[_ID])),
        load_kw=np.array([_numbers(name, rows[name]) for name in loads]).T.reshape(-1, len(loads)),
        grid=grid,
        timezone=timezone,
        attributes={name: tuple(map(_text, rows[name])) for name in attributes},
    )


def keep_profiles(profiles: Profiles, out: Path) -> None:
    """Write profiles to a new file, for its owner alone."""
    try:
        out.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        rule = "a new file: a registered file must not change"
        raise InvalidParameterError("name", rule, out.name) from None
    try:
        profiles.write_parquet(out)
    except BaseException:
        out.unlink()
        raise


@dataclass(frozen=True, kw_only=True)
class Description:
    """Public facts about a file of profiles."""

    grid: dict[str, object]
    """The columns of a profile, as JSON values."""
    attributes: tuple[str, ...]
    """Names of the attributes; their values are not public."""
    fingerprint: str
    """Keyed hash of the content, by an internal key: a plain hash could be guessed."""


def describe(path: Path, *, key: bytes, request: ReleaseRequest) -> Description:
    """Return the public facts of a file, for its registration.

    ``request`` is an example of later requests: profiles that no manifest could describe are
    refused here.
    """
    facts, attributes, fingerprint = _public_facts(path, key)
    check_public(facts, request)
    return Description(grid=facts.grid.to_json(), attributes=attributes, fingerprint=fingerprint)


def _public_facts(path: Path, key: bytes) -> tuple[PublicFacts, tuple[str, ...], str]:
    """Return how the profiles of a file were made, the names of attributes, and the fingerprint."""
    profiles = Profiles.read_parquet(path)
    return PublicFacts.of(profiles), tuple(sorted(profiles.attributes)), keyed_hash(profiles, key)


def keyed_hash(profiles: Profiles, key: bytes, *, names: Sequence[str] = ()) -> str:
    """Return a keyed hash of customers, their load and days, whatever the order of rows.

    With ``names`` of attributes, of these as well: it then distinguishes a file with corrected
    groups, and is no fingerprint of a data set, which must not change with them.
    """
    digest = hmac.new(key, digestmod=hashlib.sha256)
    loads = [one for one in (profiles.load_kw, profiles.days_kw) if one is not None]
    for row in sorted(range(len(profiles)), key=lambda row: profiles.customer_ids[row]):
        name = profiles.customer_ids[row].encode("utf-8", "surrogatepass")
        digest.update(len(name).to_bytes(8) + name + b"".join(one[row].tobytes() for one in loads))
        digest.update("".join(f"{a!r}{profiles.attributes[a][row]!r}" for a in names).encode())
    return f"hmac-sha256:{digest.hexdigest()}"


def plan_for(
    request: ReleaseRequest, grid: dict[str, object], allotments: Mapping[str, Any]
) -> ReleasePlan:
    """Plan a release of profiles with these columns; ``allotments`` is the split of its price."""
    split = allotments_from_json(allotments)
    return plan_release(request, TimeGrid.from_json(grid), allotments=split)


def release_file(
    path: Path,
    plan: ReleasePlan,
    out: Path,
    *,
    fingerprint: str,
    fingerprint_key: bytes,
    signing_key: Ed25519PrivateKey,
    customer_list: Sequence[str] = (),
    cumulative: Cumulative | None = None,
    published_at: datetime | None = None,
) -> Manifest:
    """Release the profiles of a file that is still the one that was registered."""
    write_bundle = _registered(path, fingerprint, fingerprint_key)
    return write_bundle(
        plan,
        out,
        key=signing_key,
        customer_list=customer_list,
        cumulative=cumulative,
        published_at=published_at,
    )


def _registered(path: Path, fingerprint: str, key: bytes) -> Callable[..., Manifest]:
    """Return the function that releases the profiles of a file; rows stay in it."""
    profiles = Profiles.read_parquet(path)
    if not hmac.compare_digest(keyed_hash(profiles, key), fingerprint):
        # The budget is that of the registered customers, and protects no others.
        raise InvalidFileError(path, "content", "the profiles that were registered", "others")
    return lambda *public, **choices: release_bundle(profiles, *public, **choices)


def _files(source: Path) -> list[Path]:
    found = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
    if not found:
        raise InvalidFileError(source, "folder", "Parquet files of `wattveil profiles`", None)
    return found


def _numbers(name: str, values: Sequence[object]) -> list[float]:
    """Read a column; a value that is not a number is refused, and not quoted."""
    try:
        return [float(str(value)) for value in values]
    except ValueError:
        raise InvalidParameterError("sql", f"one whose {name} is a number", "another") from None


def _text(value: object) -> str | None:
    return None if value is None else str(value)

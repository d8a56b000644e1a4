"""Bundle of one period of a series, and the chain that the bundles of a series form.

The manifest of a period names the series, the period and the horizon, the hash of the manifest
before it, the cost accrued so far, the guarantee of the whole series, and the hashes of the
strategies. From it and the raw sums anyone recomputes costs, centres and every table.
"""

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil.bundle.keys import canonical, sign
from wattveil.bundle.series_report import series_report
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_result import CLIPPED, SeriesResult, raw_tables, read_period
from wattveil.bundle.series_segments import FOUND_RAW, STEP_RAW, found_labels, planned_labels
from wattveil.declaration import to_plain
from wattveil.errors import InvalidFileError
from wattveil.privacy.accounting import Composition
from wattveil.privacy.guarantee import Spend
from wattveil.release.load_series import LOAD, MEMBERS, ReleasedSeries

VERSION = "series-1"
"""Of the manifest of a period."""
MANIFEST = "manifest.json"
DAYS_CHECKED = "days_checked"
"""Field: whether stated days of the profiles were compared with the period.

Periods of earlier versions have no such field: for them it is not known."""
REPORT = "report.html"
PROOF = "docs/proofs/series.md"
FIRST_PROOF = "docs/proofs/gaussian-sum.md"
RAW = ("sums", "counts")
FIRST_RAW = ("first_means", "first_groups", "first_lengths")

_UNPROTECTED = (
    "Horizon, calendar, groups, counted properties and budget, which must not depend on the data.",
    "The group of each customer, if groups are used.",
    "Which periods were released or skipped. This must not depend on the data.",
    "In which periods segments were computed again. This must not depend on the data.",
)
_LIMITS = (
    "The privacy losses of other releases about the same people add to that of this series.",
    "A customer is identified by an id: one who returns under another id has a second allowance.",
    "Each customer has one allowance for all periods, so large changes appear late or in part.",
    f"{CLIPPED} Bands include the clipping of typical customers only.",
    "Figures of past periods are revised when later periods are published. Use the newest bundle.",
    "Facts about a whole population are not protected, even if they apply to its members.",
)

Manifest = dict[str, Any]


def build_manifest(
    request: SeriesRequest,
    released: ReleasedSeries,
    *,
    series: str,
    previous: str,
    at: datetime | None = None,
) -> Manifest:
    """Return the manifest of the last released period, without files and signature.

    ``at`` is the time of publication; None is now.
    """
    last, design = released.periods[-1], released.design
    spends = released.spends
    units = sum(spend.rho_units for spend in spends)
    accrued = Composition(rho_units=units, eta=sum(spend.eta for spend in spends))
    skipped = [place for place, seen in enumerate(released.mask) if not seen]
    return {
        "manifest_version": VERSION,
        "series": series,
        "title": request.title,
        "curator": request.curator,
        "region": request.region,
        "contact": request.contact,
        "period": last.period + 1,
        "periods": design.horizon,
        "label": request.label(last.period),
        "skipped": [request.label(place) for place in skipped],
        "segments_found_in": found_labels(request, released),
        "segments_planned_in": planned_labels(request, released),
        "previous_sha256": previous,
        "request": to_plain(request),
        "request_sha256": request.sha256,
        "guarantee": design.guarantee.to_json(),
        "guarantee_text": design.guarantee.sentence,
        "accrued": {
            "rho_units": str(units),
            "of_rho_units": str(sum(design.rho_units.values())),
            "epsilon": repr(accrued.epsilon(design.guarantee.delta)),
        },
        "strategies": {name: design.strategy(name).sha256 for name in (LOAD, MEMBERS)},
        "slots": released.begun().n_slots,
        "mechanisms": [_mechanism(spend) for spend in last.spends],
        "unprotected": list(_UNPROTECTED),
        "known_limits": list(_LIMITS),
        "published_at": (at or datetime.now(UTC)).isoformat(timespec="seconds"),
        "software": {name: _version(name) for name in ("wattveil", "opendp", "numpy")},
    }


def _version(name: str) -> str:
    """Return the version of a package; `verify` compares only names, and runs without OpenDP."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _mechanism(spend: Spend) -> dict[str, Any]:
    return {
        "tag": spend.tag,
        "mechanism": spend.mechanism,
        "proof": PROOF if spend.mechanism == "series_sums" else FIRST_PROOF,
        "rho_units": str(spend.rho_units),
        "eta": repr(spend.eta),
        "numbers": int(spend.drawn["numbers"]),
        "squared_sensitivity_steps": str(int(spend.drawn["squared"])),
        "noise_scale_steps": repr(float(spend.drawn["scale"])),
        "grid_step": repr(float(spend.drawn["step"])),
    }


def spends_of(manifest: Manifest) -> tuple[Spend, ...]:
    """Return the charges that a manifest states."""
    return tuple(
        Spend(
            tag=one["tag"],
            mechanism=one["mechanism"],
            rho_units=int(one["rho_units"]),
            eta=float(one["eta"]),
            drawn={
                "numbers": one["numbers"],
                "squared": int(one["squared_sensitivity_steps"]),
                "scale": float(one["noise_scale_steps"]),
                "step": float(one["grid_step"]),
            },
        )
        for one in manifest["mechanisms"]
    )


def bundle_files(
    request: SeriesRequest, released: ReleasedSeries, manifest: Manifest
) -> dict[str, bytes]:
    """Return tables and report of a period, by path."""
    result = SeriesResult(request=request, released=released)
    tables = {name: result.to_arrow(name) for name in result.tables} | raw_tables(released)
    found = {f"tables/{name}.parquet": _parquet(table) for name, table in tables.items()}
    found |= {f"tables/{name}.csv": _csv(tables[name]) for name in result.tables}
    found[REPORT] = series_report(manifest, result).encode()
    return found


def write_period(
    out: Path,
    manifest: Manifest,
    files: Mapping[str, bytes],
    *,
    key: Ed25519PrivateKey | None,
) -> Manifest:
    """Write a bundle to a new folder; return its manifest."""
    manifest = {
        **manifest,
        "payload": [
            {"path": path, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
            for path, body in sorted(files.items())
        ],
    }
    if key is not None:
        manifest["signature"] = sign(manifest, key)
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    for path, body in {**files, MANIFEST: text.encode()}.items():
        file = out / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as handle:
            handle.write(body)
    return manifest


def manifest_sha256(manifest: Manifest) -> str:
    """Return the hash by which the next manifest names this one."""
    return hashlib.sha256(canonical(manifest)).hexdigest()


def read_manifest(bundle: Path) -> Manifest:
    """Read the manifest of a period."""
    path = bundle / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except OSError as error:
        expected = "a bundle of `wattveil series add`"
        raise InvalidFileError(bundle, "folder", expected, None) from error
    except ValueError as error:
        raise InvalidFileError(path, "content", "JSON", str(error)) from error
    if not isinstance(manifest, dict) or manifest.get("manifest_version") != VERSION:
        raise InvalidFileError(path, "manifest_version", VERSION, None)
    return manifest


def is_series(folder: Path) -> bool:
    """Whether a folder holds the periods of a series."""
    bundles = period_bundles(folder)
    if (folder / MANIFEST).exists() or not bundles:
        return False
    with suppress(InvalidFileError):  # not a manifest: the error of a release says so
        return bool(read_manifest(bundles[0]))
    return False


def periods_folder(folder: Path) -> Path:
    """Return the folder with the bundles of a series: within its folder, or the same."""
    return folder / "periods" if (folder / "periods").is_dir() else folder


def period_bundles(folder: Path) -> list[Path]:
    """Return the bundles of a series, given its folder or the folder of its bundles."""
    within = periods_folder(folder)
    if not within.is_dir():
        return []
    return sorted(path for path in within.iterdir() if (path / MANIFEST).is_file())


def read_chain(bundles: Sequence[Path]) -> tuple[list[Manifest], ReleasedSeries | None]:
    """Read the bundles of a series in the order of their periods; nothing is verified."""
    read = sorted(
        ((read_manifest(bundle), bundle) for bundle in bundles), key=lambda one: one[0]["period"]
    )
    released = None
    for manifest, bundle in read:
        if released is None:
            request = SeriesRequest.parse(manifest["request"])
            released = ReleasedSeries(design=request.design)
        tables = {name: read_table(bundle, name) for name in raw_names(manifest)}
        period, spends = manifest["period"] - 1, spends_of(manifest)
        released = read_period(released, tables, period=period, spends=spends)
    return [manifest for manifest, _ in read], released


def unchecked_periods(manifests: Sequence[Manifest]) -> list[str]:
    """Return the periods that do not state that the days of their profiles were compared."""
    return [one["label"] for one in manifests if one.get(DAYS_CHECKED) is not True]


def table_names(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the tables of a period."""
    segments = ("segments", "segment_sizes") if manifest["request"]["segments"] else ()
    return ("load", "load_duration", "customers", "trends", *segments)


def raw_names(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the raw tables of a period."""
    is_first = manifest["previous_sha256"] == manifest["request_sha256"]
    names = (*RAW, *FIRST_RAW) if is_first else RAW
    if not manifest["request"]["segments"]:
        return names
    found = manifest["label"] in manifest["segments_found_in"]
    return (*names, *(FOUND_RAW if found else STEP_RAW))


def read_table(bundle: Path, name: str) -> pa.Table:
    """Read a table of a bundle."""
    path = bundle / "tables" / f"{name}.parquet"
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InvalidFileError(path, "content", "a Parquet table", str(error)) from error


def _parquet(table: pa.Table) -> bytes:
    return _bytes(lambda sink: pq.write_table(table, sink, compression="zstd"))


def _csv(table: pa.Table) -> bytes:
    return _bytes(lambda sink: pc.write_csv(table, sink))


def _bytes(write: Callable[[io.BytesIO], object]) -> bytes:
    sink = io.BytesIO()
    write(sink)
    return sink.getvalue()

"""Series of periods in Python: begin, plan, add a period, read the result, erase, close, verify."""

import json
import os
import shutil
import uuid
import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from wattveil.bundle import series_erasure
from wattveil.bundle.keys import fingerprint, sign
from wattveil.bundle.series_bundle import (
    Manifest,
    build_manifest,
    bundle_files,
    manifest_sha256,
    read_chain,
    write_period,
)
from wattveil.bundle.series_plans import SegmentPrices, SeriesPlan, plan_series, segment_prices
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_result import SeriesResult
from wattveil.bundle.series_verify import (
    CLOSED,
    changed_files,
    closing_statement,
    signer,
    verify_chain,
)
from wattveil.bundle.verify.verify_bundle import VerificationReport
from wattveil.declaration import to_plain
from wattveil.engines.local import DistributedProfiles
from wattveil.engines.series_folder import DECLARATION, SeriesFolder, period_folder
from wattveil.engines.series_rows import without_records
from wattveil.errors import (
    ErasedCustomersWarning,
    InvalidFileError,
    InvalidParameterError,
    SeriesStateError,
    UnstatedDaysWarning,
    WattveilError,
)
from wattveil.privacy.pseudonyms import customer_names
from wattveil.profiles import Profiles
from wattveil.release.load_series import (
    ReleasedSeries,
    release_load_period,
)
from wattveil.release.series_noise import check_noise

_ERASED = "private: erased customers who have not returned (--returned) are excluded from a period"
UNSTATED_DAYS = (
    "the profiles do not state their days, so they are not compared with the period; state them"
    " with `wattveil profiles --period FIRST END`"
)


class Deleted(NamedTuple):
    """What the end of a series deleted of its private folders, and what is left of them."""

    deleted: tuple[Path, ...]
    left: tuple[Path, ...]
    """Folders that could not be deleted: delete them by hand."""


class LoadSeries:
    """Load by group, published every month or quarter under one privacy budget.

    Parameters
    ----------
    folder : path
        Folder of the series, which `begin` made.
    secrets : path or None
        Folder with the key and the high-water mark; None is the folder's name with ``.secrets``
        added. Keep it apart from copies of the folder.

    Examples
    --------
    >>> LoadSeries.begin(
    ...     "series",
    ...     epsilon=2.0,
    ...     delta=1e-6,
    ...     periods=20,
    ...     first="2026-Q1",
    ...     by="class",
    ...     levels=("home", "shop"),
    ... )  # doctest: +SKIP
    >>> LoadSeries("series").add(profiles)  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path, *, secrets: str | Path | None = None) -> None:
        self.folder = Path(folder)
        self.secrets = _secrets(self.folder, secrets)
        path = self.folder / DECLARATION
        try:
            record = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            expected = "a folder of `wattveil series init`"
            raise InvalidFileError(self.folder, "folder", expected, None) from error
        self.series_id = str(record["series"])
        self.request = SeriesRequest.parse(record["request"])

    @classmethod
    def begin(
        cls,
        folder: str | Path,
        request: SeriesRequest | None = None,
        *,
        secrets: str | Path | None = None,
        encrypt: bool = False,
        **choices: object,
    ) -> "LoadSeries":
        """Begin a series in a new folder; nothing is released.

        Parameters
        ----------
        folder : path
            New folder for declaration, periods and private state.
        request : SeriesRequest or None
            Public choices; or its fields as keywords.
        secrets : path or None
            New folder for the key and the high-water mark.
        encrypt : bool
            Encrypt the private state on disk.
        """
        own = SeriesRequest.model_validate(choices) if request is None else request
        check_noise(ReleasedSeries(design=own.design), period=0, recluster=False)
        series = str(uuid.uuid4())
        record = {"series": series, "request": to_plain(own)}
        SeriesFolder.create(
            Path(folder),
            _secrets(Path(folder), secrets),
            (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode(),
            series=series,
            declaration_sha256=own.sha256,
            manifest_sha256=own.sha256,
            encrypted=encrypt,
        )
        return cls(folder, secrets=secrets)

    def __repr__(self) -> str:
        """Show how many periods are released, and the budget that they have spent."""
        try:
            bundles = self.bundles
            newest = bundles[-1] / "manifest.json" if bundles else None
            record = (
                json.loads(newest.read_text("utf-8")) if newest else {"accrued": {"epsilon": 0}}
            )
            spent = float(record["accrued"]["epsilon"])
        except (OSError, ValueError, KeyError):
            return f"LoadSeries({self.folder.name!r}: its periods cannot be read)"
        released = f"{len(bundles)} of {self.request.periods} periods released"
        budget = f"epsilon {spent:.2g} of {self.request.epsilon:g}"
        return f"LoadSeries({self.folder.name!r}: {released}, {budget})"

    @property
    def bundles(self) -> tuple[Path, ...]:
        """The bundles of the released periods, in order: for publication."""
        return tuple(sorted((self.folder / "periods").iterdir()))

    @property
    def closed(self) -> str | None:
        """Why the series was closed; None while it is open."""
        path = self.folder / CLOSED
        return str(json.loads(path.read_text("utf-8"))["reason"]) if path.exists() else None

    def plan(self, *customers: int) -> SeriesPlan:
        """Return the expected accuracy for groups of so many customers; nothing is spent."""
        return plan_series(self.request, *customers)

    def segment_prices(self) -> SegmentPrices:
        """Return what the segments of the next period cost; nothing is spent."""
        return segment_prices(self.request, read_chain(self.bundles)[1])

    def add(
        self,
        profiles: Profiles | DistributedProfiles,
        *,
        period: str | None = None,
        key: Ed25519PrivateKey | None = None,
        again: bool = False,
        recluster: bool = False,
        published_at: datetime | None = None,
    ) -> Path:
        """Release the next period from the profiles of its customers; return its bundle.

        Parameters
        ----------
        profiles : Profiles or DistributedProfiles
            Average day of each customer in this period, with the attributes that the series names.
            Erased customers who have not returned are excluded, of profiles in memory with an
            `ErasedCustomersWarning`. Profiles that state other days (`Profiles.period`) are
            refused; for profiles that state none, an `UnstatedDaysWarning` is issued.
        period : str or None
            Name of the period, such as 2026-Q3; None is the one after the last. Periods between are
            skipped, which is a public decision.
        key : private key or None
            Signs the manifest: the same key in all periods, or none.
        again : bool
            After a crash: states that nothing of the period that was begun was seen or copied. Its
            noise is drawn again.
        recluster : bool
            Find the segments anew in this period: a public decision, at the price of
            `segment_prices`. Each has the number of the nearest one before.
        published_at : datetime or None
            Time that the manifest states; None is now. A server states the time of the order: how
            long a computation takes depends on the rows.
        """
        self._check_open()
        self.request.check_profiles(profiles.grid, profiles.timezone)
        with SeriesFolder.open(self.folder, self.secrets) as folder:
            manifests, past = self._past(folder)
            place = self.request.next_period(period, released=past.released, days=profiles.period)
            stated = stated_days(profiles.period)
            erased = series_erasure.still_erased(self.folder, self.secrets)
            if erased.size and not isinstance(profiles, DistributedProfiles):
                names = customer_names(profiles.customer_ids, key=folder.key.names)
                if np.isin(names, erased).any():
                    warnings.warn(_ERASED, ErasedCustomersWarning, stacklevel=2)
            check_signer(manifests, key)
            check_noise(past, period=place, recluster=recluster)
            pending = folder.begin(place, again=again)
            try:
                released = release_load_period(
                    profiles.load_kw,
                    groups=profiles.attributes,
                    customer_ids=profiles.customer_ids,
                    past=past,
                    period=place,
                    state=pending,
                    recluster=recluster,
                    erased=erased,
                )
            except WattveilError as error:
                if not isinstance(error, SeriesStateError):  # before any charge: nothing was drawn
                    folder.withdraw()
                raise
            last = self._bundled(pending.bundle, released, manifests, stated, published_at, key=key)
            pending.commit(manifest_sha256=last)
        return period_folder(self.folder, place)

    def result(self) -> SeriesResult:
        """Return load, numbers of customers and trends over the released periods."""
        released = read_chain(self.bundles)[1]
        if released is None:
            raise InvalidParameterError("series", "one with at least one released period", "none")
        return SeriesResult(request=self.request, released=released)

    def erase(self, customer_ids: Iterable[str]) -> series_erasure.Erasure:
        """Delete what the state holds of these customers, except the odometers of their hashes.

        A receipt names the hashes: `add` excludes these customers until `readmit`, also those who
        were never in the series. A customer that returns under the same id does not start afresh.
        """
        self._check_open()
        with SeriesFolder.open(self.folder, self.secrets) as folder:
            self._past(folder)
            names = customer_names(customer_ids, key=folder.key.names)
            found = series_erasure.add_receipt(folder, self.secrets, names)
            pending = folder.begin(None)
            for kind in folder.head.files:
                with pending.keeping(kind) as keep:
                    for block in pending.blocks(kind):
                        keep(without_records(block, names))
            pending.commit(manifest_sha256=folder.head.manifest_sha256)
        return found

    def readmit(self, customer_ids: Iterable[str]) -> None:
        """State that erased customers have returned: `add` includes them until they are erased."""
        with SeriesFolder.open(self.folder, self.secrets) as folder:
            names = customer_names(customer_ids, key=folder.key.names)
            series_erasure.note_return(self.folder, self.secrets, names)

    def close(self, reason: str, *, key: Ed25519PrivateKey | None = None) -> Deleted:
        """End the series and delete its private state; it can never be continued.

        It needs neither the state nor the secrets: this is the way out when they are lost. Secrets
        in another folder than the named one stay, and must be deleted by hand. After a crash, or
        if something could not be deleted, the same call deletes the rest; the statement stays.

        Parameters
        ----------
        reason : str
            Public reason.
        key : private key or None
            Signs the statement: the key of the periods, none if they are not signed.
        """
        manifests = [] if self.closed is not None else read_chain(self.bundles)[0]
        if self.closed is None:  # before the mark is changed
            check_signer(manifests, key)
        with SeriesFolder.closing(self.secrets, series=self.series_id):
            if self.closed is None:
                write_statement(self, reason, manifests, key=key)
            return delete_state(self.folder, self.secrets)

    def verify(self, *, trusted: Ed25519PublicKey | None = None) -> VerificationReport:
        """Check all bundles of the series and its closing statement, without the data."""
        return verify_chain(self.bundles, trusted=trusted, closing=self.folder / CLOSED)

    def _bundled(
        self,
        out: Path,
        released: ReleasedSeries,
        before: Sequence[Manifest],
        stated: Mapping[str, bool],
        at: datetime | None,
        *,
        key: Ed25519PrivateKey | None,
    ) -> str:
        """Write the bundle of the last released period; return the hash of its manifest."""
        previous = manifest_sha256(before[-1]) if before else self.request.sha256
        manifest = build_manifest(
            self.request, released, series=self.series_id, previous=previous, at=at
        )
        files = bundle_files(self.request, released, manifest)
        return manifest_sha256(write_period(out, {**manifest, **stated}, files, key=key))

    def _check_open(self) -> None:
        if self.closed is not None:
            raise InvalidParameterError("series", "open", f"closed: {self.closed}")

    def _past(self, folder: SeriesFolder) -> tuple[list[Manifest], ReleasedSeries]:
        """Return what was released before, which must be what the state belongs to.

        The head names series, declaration and last manifest, each manifest its files and the one
        before it.
        """
        head = folder.head
        begun = (head.series, head.declaration_sha256)
        if begun != (self.series_id, self.request.sha256):
            raise InvalidParameterError(DECLARATION, "that of `wattveil series init`", "another")
        manifests, past = read_chain(self.bundles)
        if past is None:
            past = ReleasedSeries(design=self.request.design)
        last, whole = self.request.sha256, past.released == head.released
        for manifest in manifests:
            named = (manifest["previous_sha256"], manifest["request"])
            bundle = period_folder(self.folder, manifest["period"] - 1)
            whole &= named == (last, to_plain(self.request)) and not changed_files(bundle, manifest)
            last = manifest_sha256(manifest)
        if not whole or last != head.manifest_sha256:
            rule = "the bundles of all released periods, unchanged"
            raise InvalidParameterError("periods", rule, "others")
        return manifests, past


def write_statement(
    series: LoadSeries,
    reason: str,
    manifests: Sequence[Manifest],
    *,
    key: Ed25519PrivateKey | None,
    is_complete: bool = True,
) -> None:
    """Write the closing statement of a series with these periods, in one step."""
    record = closing_statement(
        series=series.series_id, reason=reason, manifests=manifests, is_complete=is_complete
    )
    if key is not None:
        record["signature"] = sign(record, key)
    new = series.folder / f"{CLOSED}.new"
    with new.open("w", encoding="utf-8") as file:
        file.write(json.dumps(record, indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(series.folder / CLOSED)


def delete_state(folder: Path, secrets: Path) -> Deleted:
    """Delete the private state of a series and its secrets, as far as they are there."""
    there = [path for path in (folder / "private", secrets) if path.exists()]
    for path in there:
        shutil.rmtree(path, ignore_errors=True)  # what is left is reported
    return Deleted(
        deleted=tuple(path for path in there if not path.exists()),
        left=tuple(path for path in there if path.exists()),
    )


def _secrets(folder: Path, secrets: str | Path | None) -> Path:
    return folder.with_name(f"{folder.name}.secrets") if secrets is None else Path(secrets)


def stated_days(days: tuple[date, date] | None) -> dict[str, bool]:
    """Return the field of the manifest that states whether days were compared; warn if not.

    The days are a public option, which is not taken from the readings.
    """
    if days is None:
        warnings.warn(UNSTATED_DAYS, UnstatedDaysWarning, stacklevel=3)
    return {"days_checked": days is not None}


def check_signer(manifests: Sequence[Manifest], key: Ed25519PrivateKey | None) -> None:
    """Refuse another key than that of the earlier periods: readers would reject the series."""
    if not manifests:
        return
    due, own = signer(manifests[-1]), None if key is None else key.public_key()
    if due != own:
        rule = "omitted: earlier periods are unsigned"
        if due is not None:
            rule = f"that of the earlier periods, {fingerprint(due)}"
        raise InvalidParameterError("key", rule, "none" if own is None else fingerprint(own))

"""Total privacy loss of several releases and series about the same customers.

Costs are taken from the manifests: the Gaussian parts add up as rho, the labels as plain epsilons,
and the accountant of the kernel composes both. A manifest whose charges contradict its own draws or
its guarantee is refused; files and signatures are checked by `verify`. A series is counted in full,
with all periods of its horizon. The instance tier is not differential privacy: its releases have no
place in the total and are named.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from wattveil import checks
from wattveil.bundle.bundle_files import MANIFEST, read_complete_manifest
from wattveil.bundle.bundle_files import read_manifest as read_any
from wattveil.bundle.series_bundle import VERSION as SERIES_VERSION
from wattveil.bundle.series_bundle import is_series, period_bundles, read_manifest
from wattveil.bundle.series_request import SeriesRequest
from wattveil.bundle.series_verify import accounting_findings as series_findings
from wattveil.bundle.verify.verify_budget import granted
from wattveil.bundle.verify.verify_bundle import accounting_findings
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.privacy.accounting import Composition, sum_up
from wattveil.privacy.guarantee import Budget, Guarantee, Tier
from wattveil.products.findings import Finding
from wattveil.release.weak_guarantees import delta_warning, epsilon_warning
from wattveil.web.formatting import format_upper_bound


@dataclass(frozen=True, kw_only=True)
class CountedRelease:
    """A release or a series, with its own guarantee and its cost."""

    folder: str
    release_id: str
    published_at: str
    """Of a series: that of its newest period."""
    title: str
    kind: str
    """``release`` or ``series``."""
    guarantee: Guarantee
    cost: Composition
    customers: int
    """Public estimate of the number of customers."""
    has_real_ids: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the fields that a reader needs."""
        return {
            "folder": self.folder,
            "kind": self.kind,
            "release_id": self.release_id,
            "published_at": self.published_at,
            "title": self.title,
            "tier": self.guarantee.tier.value,
            "epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "label_epsilon": self.cost.response_epsilon,
            "real_ids": self.has_real_ids,
        }


@dataclass(frozen=True, kw_only=True)
class TotalLoss:
    """The guarantee of all releases together, and the releases that it does not cover."""

    counted: Sequence[CountedRelease]
    not_counted: Sequence[CountedRelease]
    """Those of the instance tier."""
    guarantee: Guarantee
    warnings: Sequence[str]
    """What weakens the total, or the protection beside it; often nothing. The first says that there
    is no total of all releases, if some are not counted."""

    @property
    def is_complete(self) -> bool:
        """Whether the total covers all named releases."""
        return not self.not_counted

    @property
    def epsilon(self) -> float:
        """Total epsilon as it is stated: rounded up to four digits."""
        return float(format_upper_bound(self.guarantee.epsilon, 4).replace(",", ""))


def read_cost(folder: Path) -> CountedRelease:
    """Read the cost of a release, or of a whole series, from its manifests."""
    return _series(folder) if is_series(folder) else _release(folder)


def total_loss(releases: Sequence[CountedRelease], *, delta: float | None = None) -> TotalLoss:
    """Compose the releases about the same customers.

    Parameters
    ----------
    releases
        Each once; all with the same unit and neighbouring relation.
    delta
        That of the total; None is the largest of the counted releases.
    """
    names = [one.release_id for one in releases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        same = [one.folder for one in releases if one.release_id == twice[0]]
        rule = f"different releases, each named once; release {twice[0]} is in several folders"
        raise InvalidParameterError("bundles", rule, same)
    counted = [one for one in releases if one.guarantee.tier is Tier.GLOBAL]
    if not counted:
        text = "No global-tier release was named: no total can be computed"
        raise InvalidParameterError("bundles", "", [one.folder for one in releases], text=text)
    for field in ("unit", "neighbours"):
        found = {getattr(one.guarantee, field).value for one in counted}
        if len(found) > 1:
            rule = f"releases with the same {field}, or there is no common total"
            raise InvalidParameterError("bundles", rule, sorted(found))
    due = max(one.guarantee.delta for one in counted)
    if delta is not None:
        due = checks.probability("delta", delta)
    cost = Composition(
        rho_units=sum(one.cost.rho_units for one in counted),
        response_epsilon=sum_up(*(one.cost.response_epsilon for one in counted)),
        response_delta=sum_up(*(one.cost.response_delta for one in counted)),
        eta=sum_up(*(one.cost.eta for one in counted)),
    )
    not_counted = [one for one in releases if one.guarantee.tier is not Tier.GLOBAL]
    return TotalLoss(
        counted=counted,
        not_counted=not_counted,
        guarantee=replace(counted[0].guarantee, epsilon=cost.epsilon(due), delta=due),
        warnings=[
            *_incomplete(not_counted),
            *_weaknesses(counted, epsilon=cost.epsilon(due), delta=due),
            *([] if delta is not None else _several_deltas(counted)),
            *_named_customers(releases),
        ],
    )


def _incomplete(not_counted: Sequence[CountedRelease]) -> Iterator[str]:
    """Yield that releases of the instance tier are left out of the total."""
    if not_counted:
        verb = "is" if len(not_counted) == 1 else "are"
        yield (
            "No total exists for all named releases:"
            f" {', '.join(one.folder for one in not_counted)} {verb} not counted, because the"
            " instance tier is not differential privacy. Nothing bounds what it adds."
        )


def _weaknesses(
    counted: Sequence[CountedRelease], *, epsilon: float, delta: float
) -> Iterator[str]:
    """Yield what weakens the total: the warnings of a release, with its epsilon and delta."""
    estimates = {one.customers for one in counted}
    known_from = "largest public estimate" if len(estimates) > 1 else "public estimate"
    found = (
        epsilon_warning(float(format_upper_bound(epsilon, 4).replace(",", ""))),
        delta_warning(delta, max(estimates), known_from=known_from),
    )
    yield from (f"Total: {text}" for text in found if text is not None)


def _several_deltas(counted: Sequence[CountedRelease]) -> Iterator[str]:
    """Yield that the total is at the largest of several deltas."""
    deltas = sorted({one.guarantee.delta for one in counted})
    if len(deltas) > 1:
        stated = ", ".join(f"{one:g}" for one in deltas)
        yield (
            f"The deltas of the releases differ ({stated}). The total is at the largest;"
            " --delta chooses another."
        )


def _named_customers(releases: Sequence[CountedRelease]) -> Iterator[str]:
    """Yield the releases with real ids: their labels are about identified customers."""
    named = [one.folder for one in releases if one.has_real_ids]
    if named:
        yield (
            f"Real customer ids are published in {', '.join(named)}: each label there is about an"
            " identified customer."
        )


def _release(bundle: Path) -> CountedRelease:
    if (found := read_any(bundle).get("manifest_version")) == SERIES_VERSION:
        rule = "that of a release; for a series, give its folder, with the bundles of all periods"
        raise InvalidFileError(bundle / MANIFEST, "manifest_version", rule, found)
    manifest = read_complete_manifest(bundle)
    guarantee = Guarantee.from_json(manifest["guarantee"])
    cost = granted(manifest["products"])
    if cost.delta(guarantee.epsilon) > guarantee.delta:
        path, rule = bundle / MANIFEST, "kept by the grants of its products"
        problem = (
            f": the stated epsilon {guarantee.epsilon} is smaller than the grants of its products"
            " permit"
        )
        raise InvalidFileError(path, "guarantee", rule, guarantee.epsilon, problem=problem)
    _check(bundle / MANIFEST, accounting_findings(manifest))
    return CountedRelease(
        folder=str(bundle),
        release_id=manifest["release_id"],
        published_at=manifest["published_at"],
        title=manifest["title"],
        kind="release",
        guarantee=guarantee,
        cost=cost,
        customers=int(manifest["request"]["customers"]),
        has_real_ids=bool(manifest["request"]["real_ids"]),
    )


def _series(folder: Path) -> CountedRelease:
    """Return the cost of all periods of the horizon, published or not: it is committed."""
    bundles = period_bundles(folder)
    manifests = [read_manifest(bundle) for bundle in bundles]
    first = manifests[0]
    if any(one.get("series") != first["series"] for one in manifests):
        raise InvalidFileError(folder, "series", "one series in a folder", "several")
    for bundle, one in zip(bundles, manifests, strict=True):
        _check(bundle / MANIFEST, series_findings(one))
    request = SeriesRequest.parse(first["request"])
    guarantee = request.design.guarantee
    return CountedRelease(
        folder=str(folder),
        release_id=first["series"],
        published_at=manifests[-1]["published_at"],
        title=request.title,
        kind="series",
        guarantee=guarantee,
        cost=Budget(guarantee).grant,
        customers=request.customers,
    )


def _check(path: Path, findings: Iterable[Finding]) -> None:
    """Refuse a manifest that contradicts itself: its costs are not those of its draws."""
    for finding in findings:
        if not finding.holds:
            problem = f': the check "{finding.check}" failed: {finding.seen}'
            rule = "a check that passes"
            raise InvalidFileError(path, finding.check, rule, "failed", problem=problem)

"""Evidence of a dossier: manifest, verification, ledger export and audit record, field by field.

A source is a file, or the result of a check of one. Beside the fields of its file, a source has
derived ones, such as a sum in words; each states the fields that it follows from, which are cited.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from wattveil.bundle import keys
from wattveil.bundle.bundle_files import MANIFEST, read_complete_manifest, read_manifest
from wattveil.bundle.label_texts import customer_text, real_ids_text, total_text
from wattveil.bundle.manifest import Manifest
from wattveil.bundle.series_bundle import VERSION as SERIES_VERSION
from wattveil.bundle.series_bundle import is_series
from wattveil.bundle.total_loss import TotalLoss, read_cost, total_loss
from wattveil.bundle.verify.verify_bundle import VerificationReport, verify_bundle
from wattveil.dossier.audit_evidence import (
    attacks_table,
    audited_customers,
    bounds_table,
    power_table,
    read_record,
)
from wattveil.dossier.guarantee_texts import (
    draws_text,
    erasure_text,
    inference_text,
    mechanisms_of,
    neighbours_text,
    overlap_text,
    recomputed_text,
    variant_text,
)
from wattveil.dossier.ledger_evidence import LedgerEvidence, read_ledger
from wattveil.dossier.manifest_texts import (
    bias_table,
    delta_text,
    grid_text,
    groups_text,
    over_releases_text,
    published_text,
    quality_table,
    rule_text,
    stated_period,
)
from wattveil.dossier.series_evidence import SeriesField, read_series
from wattveil.dossier.total_evidence import CITED as TOTAL_CITED
from wattveil.dossier.total_evidence import FILES as TOTAL_FILES
from wattveil.dossier.total_evidence import total_values
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.products.request import NOT_STATED
from wattveil.web.formatting import format_count

_UNKNOWN: tuple[object, ...] = (None, "", NOT_STATED, "unknown", [])
"""Values that answer nothing."""
_SOURCES = {
    "manifest": "the manifest",
    "verify": "the verification",
    "ledger": "the ledger",
    "audit": "the audit record",
    "total": "the total",
}
"""Sources in the words of questions: names of files differ between releases."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a file, and where it stands."""

    source: str
    path: str
    file: str
    cited: str
    """The field of the file, or the fields that a derived one follows from."""
    value: Any
    """As in the file, or as derived: a list of mappings is a table."""

    @property
    def rows(self) -> tuple[dict[str, str], ...]:
        """Rows of a table, by column; empty if the value is none."""
        if not isinstance(self.value, list) or not isinstance(self.value[0], dict):
            return ()
        return tuple({name: _text(one) for name, one in row.items()} for row in self.value)

    @property
    def items(self) -> tuple[str, ...]:
        """Entries of a list; a single value is one."""
        return tuple(dict.fromkeys(_entries(self.value)))

    @property
    def text(self) -> str:
        """The value in one line."""
        return "; ".join(self.items)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A field that is in no file that was given."""

    name: str
    """Short, as it is marked within an answer."""
    question: str
    """What a person may state instead; the same in every standard."""
    remedy: str
    """What else to do."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that a dossier is made from."""

    manifest: Manifest
    verification: VerificationReport
    ledger: LedgerEvidence | None = None
    audit: Mapping[str, Any] | None = None
    files: Mapping[str, str]
    """Name of the file of each source, for citations."""
    series: Mapping[str, SeriesField] | None = None
    """Fields that are computed from the chain of a series; None for a release."""
    is_key_given: bool = False
    """Whether the signature of the release was compared with a key that the reader trusts."""
    total: TotalLoss | None = None
    """Of the release and others about the same customers, if others were named."""

    @classmethod
    def read(
        cls,
        bundle: Path,
        *,
        ledger: Path | None = None,
        audit: Path | None = None,
        trusted: Ed25519PublicKey | None = None,
        others: Sequence[Path] = (),
    ) -> "Evidence":
        """Read the files; whether they agree is decided by `conflicts`.

        ``others`` are other releases and series about the same customers, for the total.
        """
        total = total_loss([*map(read_cost, (bundle, *others))]) if others else None
        if is_series(bundle):
            for name, given in (("ledger", ledger), ("audit", audit)):
                if given is not None:
                    rule = "omitted for a series: the file is about single releases"
                    raise InvalidParameterError(name, rule, str(given))
            series = read_series(bundle, trusted)
            return cls(
                manifest=series.manifest,
                verification=series.verification,
                series=series.fields,
                files={
                    "manifest": f"{MANIFEST} of all periods",
                    "verify": "result of wattveil series verify",
                    "total": TOTAL_FILES,
                },
                is_key_given=trusted is not None,
                total=total,
            )
        if (found := read_manifest(bundle).get("manifest_version")) == SERIES_VERSION:
            rule = (
                "that of a release; for a series, give the folder with the bundles of all periods,"
                " because one guarantee covers them together"
            )
            raise InvalidFileError(bundle / MANIFEST, "manifest_version", rule, found)
        manifest = read_complete_manifest(bundle)
        names = {
            "manifest": MANIFEST,
            "verify": "result of wattveil verify",
            "total": TOTAL_FILES,
        }
        if ledger is not None:
            names["ledger"] = ledger.name
        if audit is not None:
            names["audit"] = audit.name
        return cls(
            manifest=manifest,
            verification=verify_bundle(bundle, trusted=trusted),
            ledger=None if ledger is None else read_ledger(ledger, manifest),
            audit=None if audit is None else read_record(audit),
            files=names,
            is_key_given=trusted is not None,
            total=total,
        )

    @property
    def has_real_ids(self) -> bool:
        """Whether real customer ids are published; a series has no row per customer."""
        return self.series is None and bool(self.manifest["request"]["real_ids"])

    @cached_property
    def _values(self) -> dict[str, Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {
            "manifest": self.manifest,
            "verify": _verified(self.verification),
        }
        if self.ledger is not None:
            found["ledger"] = self.ledger.values
        if self.audit is not None:
            found["audit"] = self.audit
        if self.total is not None:
            found["total"] = total_values(self.total)
        return found

    def field(self, source: str, path: str) -> Field | Gap:
        """Return a field, or what is missing where it is in no file that was given."""
        values = self._values.get(source)
        if values is None:
            return self.absent(source)
        derived = DERIVED.get((source, path))
        if source == "manifest" and self.series is not None and path in self.series:
            cited, value = self.series[path].cited, self.series[path].value
        elif derived is not None:
            cited, value = derived.cited, derived.compute(values)
        else:
            cited, value = TOTAL_CITED if source == "total" else path, _at(values, path)
        if value in _UNKNOWN:
            return self.gap(source, path)
        return Field(source=source, path=path, file=self.files[source], cited=cited, value=value)

    def gap(self, source: str, path: str) -> Gap:
        """Return the gap where a file states nothing."""
        derived = DERIVED.get((source, path))
        cited, name = (path, path) if derived is None else (derived.cited, derived.name)
        name = name or cited
        return Gap(
            name=name,
            question=_question(source, name),
            remedy=f"{cited} is empty in {self.files.get(source, _SOURCES[source])}",
        )

    def absent(self, source: str) -> Gap:
        """Return the gap where a file was not given; a series has neither ledger nor audit."""
        found = _ABSENT[source]
        if self.series is None:
            return found
        return replace(found, remedy=_WITH if source == "ledger" else "no file for a series")


def _question(source: str, name: str) -> str:
    """Return what a person is asked where a file states nothing."""
    file = f"{_SOURCES[source][0].upper()}{_SOURCES[source][1:]}"
    if name == "curator":
        return f"{file} names no curator. Who is it?"
    what = name if " " in name else f"the {name}"  # a field of the manifest, such as contact
    return f"{file} does not state {what}. What is it?"


_WITH = "give --with for each other release"
_ABSENT = {
    "ledger": Gap(
        name="ledger",
        question="No ledger is attached: how are releases about the same customers counted, and"
        " what is their total epsilon?",
        remedy=f"give --ledger, the output of wattveil admin ledger export, or {_WITH[5:]}",
    ),
    "audit": Gap(
        name="audit record",
        question="No audit record is attached: which tests of re-identification were made, by whom,"
        " when, and with what result?",
        remedy="give --audit, a record made by wattveil audit --record",
    ),
}
"""Gap of each source whose file may be left out."""


def signature_text(record: Mapping[str, Any]) -> str:
    """Return who signed a manifest or record, or that nobody validly did."""
    signature = record.get("signature")
    if signature is None:
        return "not signed"
    key = keys.signer(record, signature)
    return "signature is false" if key is None else f"signed by key {keys.fingerprint(key)}"


def _verified(report: VerificationReport) -> dict[str, Any]:
    failed = [f"{one.check} ({one.seen})" for one in report.findings if not one.holds]
    return {
        "outcome": "accepted" if report.accepted else "REJECTED",
        "checks": len(report.findings),
        "failed": failed or ["none"],
        "not_run": [f"{one.check} ({one.reason})" for one in report.not_run] or ["none"],
        "not_proved": list(report.not_proved),
    }


def _at(values: Any, path: str) -> Any:  # noqa: ANN401 - of any field
    """Return the value at a path; a list for ``[]``; None if there is none."""
    if not path:
        return values
    first, _, rest = path.partition(".")
    name = first.removesuffix("[]")
    if not isinstance(values, Mapping) or name not in values:
        return None
    if first == name:
        return _at(values[name], rest)
    if not isinstance(values[name], list):
        return None
    found = (_at(one, rest) for one in values[name])
    return [one for one in found if one not in _UNKNOWN]  # `_text` joins lists of lists


def _entries(value: Any) -> Iterator[str]:  # noqa: ANN401 - of any field
    """Yield every entry of a list, those of lists within it apart; other values are one."""
    if isinstance(value, list):
        for one in value:
            yield from (text.rstrip(".") for text in _entries(one))
    else:
        yield _text(value)


def _text(value: Any) -> str:  # noqa: ANN401 - of any field
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return "; ".join(dict.fromkeys(_entries(value)))
        case dict():
            return ", ".join(f"{name} {_text(one)}" for name, one in value.items())
        case float():
            return f"{value:.4g}"
        case _:
            return str(value)


@dataclass(frozen=True)
class _Derived:
    """A text that follows from fields."""

    cited: str
    compute: Callable[[Mapping[str, Any]], Any]
    name: str = ""
    """In words, for questions where it is empty; the fields themselves if omitted."""


DERIVED = {
    ("manifest", "cumulative_text"): _Derived(
        "cumulative, other_releases_on_same_people, supersedes", over_releases_text
    ),
    ("manifest", "mechanism_names"): _Derived(
        "products[].runs[].mechanisms[].mechanism",
        lambda manifest: sorted({one["mechanism"] for one in mechanisms_of(manifest)}),
    ),
    ("manifest", "proofs"): _Derived(
        "products[].runs[].mechanisms[].proof",
        lambda manifest: sorted({one["proof"] for one in mechanisms_of(manifest)}),
    ),
    ("manifest", "draws"): _Derived("products[].runs[].mechanisms[].gaussian", draws_text),
    ("manifest", "recomputed_text"): _Derived("variant", recomputed_text),
    ("manifest", "inference_text"): _Derived("variant, guarantee", inference_text),
    ("manifest", "table_list"): _Derived(
        "products[].tables[].name",
        lambda manifest: [
            f"{table['name']} ({format_count(table['rows'], 'row')})"
            for part in manifest["products"]
            for table in part["tables"]
        ],
    ),
    ("manifest", "budget_split"): _Derived(
        "products[].epsilon",
        lambda manifest: [f"{one['name']} {one['epsilon']}" for one in manifest["products"]],
    ),
    ("manifest", "quality"): _Derived(
        "products[].expected, products[].achieved", quality_table, "expected and achieved accuracy"
    ),
    ("manifest", "signature_text"): _Derived("signature", signature_text),
    ("manifest", "bias_text"): _Derived("bias", bias_table),
    ("manifest", "groups_text"): _Derived("request.by, request.levels", groups_text),
    ("manifest", "rule_text"): _Derived("request.rule", rule_text),
    ("manifest", "published_text"): _Derived("products[].name, request.real_ids", published_text),
    ("manifest", "real_ids_text"): _Derived(
        "request.real_ids, products[].name, guarantee.tier", real_ids_text
    ),
    ("manifest", "customer_text"): _Derived("request.real_ids, products[].channel", customer_text),
    ("manifest", "period_text"): _Derived(
        "profiles.reading_rules.period", stated_period, "the period of the readings"
    ),
    ("manifest", "total_text"): _Derived("guarantee, products[].epsilon", total_text),
    ("manifest", "grid_text"): _Derived("profiles.grid", grid_text),
    ("manifest", "variant_text"): _Derived("variant", variant_text),
    ("manifest", "neighbours_text"): _Derived("guarantee", neighbours_text),
    ("manifest", "erasure_text"): _Derived("guarantee, request.real_ids", erasure_text),
    ("manifest", "overlap_text"): _Derived("variant, composition", overlap_text),
    ("manifest", "delta_text"): _Derived("request.delta, request.customers", delta_text),
    ("audit", "bounds_text"): _Derived(
        "audits[].epsilon_lower_bound", bounds_table, "lower bounds on epsilon"
    ),
    ("audit", "power_text"): _Derived(
        "audits[].claim, confidence", power_table, "runs that a paired audit needs"
    ),
    ("audit", "attacks_text"): _Derived(
        "attacks[], request.epsilon, request.delta", attacks_table, "results of attacks"
    ),
    ("audit", "customers_text"): _Derived("customers", audited_customers),
    ("audit", "signature_text"): _Derived("signature", signature_text),
}
"""Derived fields, by source and name."""

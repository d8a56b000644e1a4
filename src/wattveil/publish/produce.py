"""From profiles to a bundle: release every part of a plan, state what was done, write it."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil.engines.kept import KeptProfiles
from wattveil.errors import InvalidFileError, InvalidParameterError
from wattveil.privacy.guarantee import Tier
from wattveil.profiles import Profiles
from wattveil.publish.bundle import check_out, write_bundle
from wattveil.publish.card import card_text
from wattveil.publish.cumulative import Cumulative
from wattveil.publish.manifest import Manifest, build_statement, check_public
from wattveil.publish.parts import PublicFacts, ReleasedPart, Work
from wattveil.publish.plan import ReleasePlan
from wattveil.publish.report import report_page
from wattveil.publish.request import ReleaseRequest
from wattveil.publish.tables import Table


def read_customer_list(path: Path) -> tuple[str, ...]:
    """Read one name a line; empty lines are none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidFileError(path, "content", "text in UTF-8", error.reason) from error
    return tuple(name for line in lines if (name := line.strip()))


def check_list(request: ReleaseRequest, customer_list: Sequence[str]) -> None:
    """Refuse labels without a public list of those who get one."""
    labelled = request.label_epsilon is not None and request.tier is Tier.GLOBAL
    if labelled and (not customer_list or len(set(customer_list)) < len(customer_list)):
        rule = "the public list of all customers, each once: who has a profile is private"
        raise InvalidParameterError("customer_list", rule, f"{len(customer_list)} names")


def release_parts(
    profiles: Profiles | KeptProfiles,
    plan: ReleasePlan,
    *,
    customer_list: Sequence[str] = (),
    started: Callable[[str], None] = lambda _: None,
) -> tuple[ReleasedPart, ...]:
    """Release every part, in order. ``started`` is told the name of each before its turn."""
    work = Work(profiles=profiles, request=plan.request, customer_list=customer_list)
    check_list(plan.request, customer_list)
    if plan.request.by is not None:
        _ = work.groups  # a wrong name is refused before anything is spent
    released = []
    for part in plan.parts:
        started(part.name)
        released.append(part.release(work, plan.allotments[part.name]))
    return tuple(released)


def release_bundle(
    profiles: Profiles | KeptProfiles,
    plan: ReleasePlan,
    out: Path,
    *,
    key: Ed25519PrivateKey | None = None,
    customer_list: Sequence[str] = (),
    cumulative: Cumulative | None = None,
    started: Callable[[str], None] = lambda _: None,
) -> Manifest:
    """Release, and write a bundle at ``out``; return its manifest.

    ``cumulative`` is what the ledger has counted that charged for it; None without one.
    """
    facts = PublicFacts.of(profiles)
    check_out(out)  # what could not be written afterwards is refused before anything is spent
    check_public(facts, plan.request)
    parts = release_parts(profiles, plan, customer_list=customer_list, started=started)
    return write_bundle(
        out, *_contents(build_statement(facts, plan, parts, cumulative), parts), key=key
    )


def _contents(
    statement: Manifest, parts: Sequence[ReleasedPart]
) -> tuple[Manifest, Collection[Table], dict[str, bytes]]:
    """Return the manifest, tables and pages of a bundle."""
    tables = {table.name: table for part in parts for table in part.tables}
    pages = {
        "report.html": report_page(statement, tables).encode(),
        "CARD.md": card_text(statement).encode(),
    }
    for part in parts:
        for name, document in part.documents.items():
            pages[name] = document.encode()
    return statement, tables.values(), pages

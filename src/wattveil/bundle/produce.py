"""From profiles to a bundle: release every product of a plan, and write tables and manifest."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from wattveil.bundle.bundle_files import check_out, write_bundle
from wattveil.bundle.card import card_text
from wattveil.bundle.cumulative import Cumulative
from wattveil.bundle.manifest import Manifest, build_manifest, check_public
from wattveil.bundle.plan import ReleasePlan, requested, requested_products
from wattveil.bundle.report import report_page
from wattveil.engines.local import DistributedProfiles
from wattveil.errors import BudgetExceededError, InvalidFileError, InvalidParameterError
from wattveil.products.product import Product, PublicFacts, ReleasedProduct, Work
from wattveil.products.request import ReleaseRequest, check_published_ids
from wattveil.products.tables import Table
from wattveil.profiles import Profiles


def read_customer_list(path: Path) -> tuple[str, ...]:
    """Read one customer id per line; empty lines are skipped."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidFileError(path, "content", "text in UTF-8", error.reason) from error
    return tuple(name for line in lines if (name := line.strip()))


def check_list(request: ReleaseRequest, customer_list: Sequence[str]) -> None:
    """Refuse values per customer without a public list of the customers."""
    listed = any(product.needs_customer_list for product in requested_products(request))
    if listed and (not customer_list or len(set(customer_list)) < len(customer_list)):
        rule = "given for labels: the public list of all customers, each once"
        found = "an id twice" if customer_list else "none"
        raise InvalidParameterError("customer_list", rule, found)
    if request.real_ids:
        check_published_ids("customer_list", customer_list)


def release_products(
    profiles: Profiles | DistributedProfiles,
    plan: ReleasePlan,
    *,
    customer_list: Sequence[str] = (),
    started: Callable[[str], None] = lambda _: None,
) -> tuple[ReleasedProduct, ...]:
    """Release every product, in order; ``started`` is called with the name of each before it.

    A product that spent more than its allotment, or states another one, is refused: nothing of the
    release is returned.
    """
    work = Work(profiles=profiles, request=plan.request, customer_list=customer_list)
    check_list(plan.request, customer_list)
    if plan.request.by is not None:
        _ = work.groups  # an unknown name is refused before anything is spent
    for product in plan.products:
        product.layouts(work.choice)  # what profiles of this grid cannot give is refused here too
    released = []
    for product in plan.products:
        started(product.name)
        one = product.release(work, plan.allotments[product.name])
        released.append(_within_allotment(one, product, plan))
    return tuple(released)


def _within_allotment(
    released: ReleasedProduct, product: Product, plan: ReleasePlan
) -> ReleasedProduct:
    """Return what a product released, or refuse what is beyond its allotment; sums are exact.

    Each run may spend the whole grant, because no customer is in two groups.
    """
    allotment = plan.allotments[product.name]
    stated = (released.name, released.allotment)
    if stated != (product.name, allotment):
        rule = f"released as {product.name} with the allotment of the plan, {allotment}"
        raise InvalidParameterError("product", rule, stated)
    groups = [run.group for run in released.runs]
    if groups != [*product.run_groups(plan.request)]:
        rule = f"released in one run per group of {[*product.run_groups(plan.request)]}"
        raise InvalidParameterError(f"product {product.name}", rule, groups)
    for run in released.runs:
        for measure, granted in vars(allotment.grant).items():
            spent = sum(Fraction(getattr(spend, measure)) for spend in run.spends)
            if spent > Fraction(granted):
                raise BudgetExceededError(f"{product.name}, {measure}", float(spent), granted)
    return released


def release_bundle(
    profiles: Profiles | DistributedProfiles,
    plan: ReleasePlan,
    out: str | Path,
    *,
    key: Ed25519PrivateKey | None = None,
    customer_list: Sequence[str] = (),
    cumulative: Cumulative | None = None,
    started: Callable[[str], None] = lambda _: None,
    published_at: datetime | None = None,
) -> Manifest:
    """Release, and write a bundle at ``out``; return its manifest.

    Parameters
    ----------
    profiles
        The customers.
    plan
        Plan of the release, from `plan_release`.
    out
        New folder.
    key
        Signs the manifest; None leaves it unsigned.
    customer_list
        Public list of customers, for products with one value per customer.
    cumulative
        Sum of the ledger that charged for the release; None without one.
    started
        Called with the name of each product before it.
    published_at
        Time that the manifest states; None is now. A server states the time of the charge: how
        long a computation takes depends on the rows.
    """
    facts = PublicFacts.of(profiles)
    # What could not be written afterwards is refused before anything is spent.
    check_out(out := Path(out))
    check_public(facts, requested(plan))
    released = release_products(profiles, plan, customer_list=customer_list, started=started)
    manifest = build_manifest(facts, plan, released, cumulative, customer_list, at=published_at)
    return write_bundle(out, *_contents(manifest, released), key=key)


def _contents(
    manifest: Manifest, released: Sequence[ReleasedProduct]
) -> tuple[Manifest, Collection[Table], dict[str, bytes]]:
    """Return the manifest, tables and pages of a bundle."""
    tables = {table.name: table for product in released for table in product.tables}
    pages = {
        "report.html": report_page(manifest, tables).encode(),
        "CARD.md": card_text(manifest).encode(),
    }
    for product in released:
        for name, document in product.documents.items():
            pages[name] = document.encode()
    return manifest, tables.values(), pages

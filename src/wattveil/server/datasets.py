"""Data sets: registered once, with public parameters that never change.

The parameters are part of every request. If they could change, a repeated request would no longer
be the one that was charged.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from wattveil.bundle.plan import requested_products
from wattveil.bundle.produce import read_customer_list
from wattveil.bundle.registered_profiles import Description
from wattveil.errors import InvalidParameterError, ProductNeedsError, one_of
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.products.public_estimate import rounded_customers, rounded_kw
from wattveil.products.registry import default_weights, named_weights, product_named
from wattveil.products.request import NO_RULE, About, ReleaseRequest, is_computed
from wattveil.server.dataset_choices import (
    FIXED,
    AllowanceBody,
    DatasetBody,
    PublicChoices,
    offered_products,
)
from wattveil.server.http import responses
from wattveil.server.http.requests import ReleaseBody
from wattveil.server.ledger import administration
from wattveil.server.ledger.amounts import Allowance
from wattveil.server.ledger.journal import LedgerTransaction
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.ledger_tables import account, dataset, principal, registration
from wattveil.server.ledger.order import canonical_text
from wattveil.server.observe.request_record import SecurityEvent, security_event

FOLDER = "profiles"
"""Folder of profile files, in the data folder of a server."""

DescribeProfiles = Callable[[Path, ReleaseRequest], Description]
"""Returns the public facts of a profile file, for requests like this one."""

_CHOSEN = ReleaseRequest.model_fields.keys() & ReleaseBody.model_fields.keys()
_OTHER_RELEASES = "those of this server are counted in cumulative; others are unknown to it"


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Registered data set."""

    name: str
    closed: bool
    public: Mapping[str, Any]
    profiles_file: str
    customer_list_file: str | None
    fingerprint: str

    def description(self) -> responses.Dataset:
        """Return the public parameters, for principals that have an account."""
        fields = {"name": self.name, "closed": self.closed, **self.public}
        found: responses.Dataset = responses.Dataset.model_validate(fields)
        return found

    def request(self, body: ReleaseBody) -> ReleaseRequest:
        """Return the release request, with all public parameters filled in."""
        offered: list[str] = self.public["products"]
        wanted = offered if body.products is None else body.products
        for product in wanted:
            if product not in offered:
                raise InvalidParameterError("products", one_of(offered), product)
        is_global = body.tier is Tier.GLOBAL
        if not is_global and body.products is not None:
            rule = "omitted in the instance tier: its mechanism has segments and labels"
            raise InvalidParameterError("products", rule, "given")
        if is_global and body.label_epsilon is not None and "labels" not in wanted:
            raise InvalidParameterError("label_epsilon", "omitted without labels", "given")
        if body.by is not None and body.by not in self.public["groups"]:
            raise InvalidParameterError("by", one_of(self.public["groups"]), body.by)
        left_out = {part: 0.0 for part in default_weights() if part not in wanted}
        named = {part: weight for part, weight in named_weights().items() if part in wanted}
        request = ReleaseRequest(
            **{
                **{name: getattr(body, name) for name in _CHOSEN},
                **{name: self.public[name] for name in FIXED if name in self.public},
                "delta": self.public["delta"] if body.delta is None else body.delta,
                "levels": () if body.by is None else tuple(self.public["groups"][body.by]),
                "weights": {**left_out, **named} if is_global else {},
                "about": About(
                    **{name: self.public[name] for name in About.model_fields & self.public.keys()},
                    other_releases_on_same_people=_OTHER_RELEASES,
                ),
            }
        )
        included = requested_products(request, names=body.products or ())
        if is_global and (extra := {one.name for one in included} - {*wanted}):
            raise InvalidParameterError("products", one_of(offered), sorted(extra))
        return request


def register(
    ledger: Ledger, folder: Path, body: DatasetBody, *, by: str, describe_profiles: DescribeProfiles
) -> None:
    """Check the file, and open the data set in the ledger, with its public parameters."""
    public = body.model_dump(mode="json", include={*PublicChoices.model_fields})
    file = file_inside(folder, "file", body.file)
    if body.customer_list_file is not None:
        read_customer_list(file_inside(folder, "customer_list_file", body.customer_list_file))
    elif listed := [one for one in body.products if _needs_list(one)]:
        raise InvalidParameterError("customer_list_file", f"given with {listed[0]}", None)
    for values in body.groups.values():
        for name in filter(is_computed, values):
            rule = "without names that begin with =, +, - or @: spreadsheets take them for formulas"
            raise InvalidParameterError("groups", rule, name)
    if body.rule != NO_RULE:
        ruled = offered_products(body.rule, has_customer_list=True)
        for name in body.products:
            if name not in ruled:
                rule = f"{one_of(ruled)} (the rule of the data set applies to nothing else)"
                raise InvalidParameterError("products", rule, name)
    allowance = None if body.allowance is None else allowance_of(body.allowance)
    if allowance is not None:
        _ = allowance.caps  # computed before the lock is taken
    found = _described(file, body, public, describe_profiles)

    def write(transaction: LedgerTransaction) -> None:
        administration.open_dataset(
            transaction,
            body.name,
            by=by,
            fingerprint=found.fingerprint,
            unit=Unit.CUSTOMER,
            neighbours=Neighbours.ZERO_OUT,
            allowance=allowance,
            linked_to=body.linked_to,
            never_charged=body.never_charged,
        )
        number = select(dataset.c.id).where(dataset.c.name == body.name)
        row = insert(registration).values(
            dataset_id=transaction.connection.execute(number).scalar_one(),
            public=canonical_text("public parameters", {**public, "grid": found.grid}),
            profiles_file=body.file,
            customer_list_file=body.customer_list_file,
        )
        transaction.connection.execute(row)

    ledger.write(write, linked_to=body.linked_to, compares=True)
    security_event(SecurityEvent.DATASET_REGISTERED, by, about=body.name)


def allowance_of(body: AllowanceBody) -> Allowance:
    """Return the allowance of a request body."""
    return Allowance(epsilon=body.epsilon, delta=body.delta, label_epsilon=body.label_epsilon)


def find_dataset(connection: Connection, name: str) -> Dataset | None:
    """Return a data set by its name."""
    row = connection.execute(_DATASET.where(dataset.c.name == name)).one_or_none()
    return None if row is None else _dataset_of(row)


def all_datasets(connection: Connection) -> list[Dataset]:
    """Return every data set, by name."""
    return [_dataset_of(row) for row in connection.execute(_DATASET.order_by(dataset.c.name))]


def admitted_to(connection: Connection, name: str) -> set[str]:
    """Return the names of the data sets for which a principal has an account."""
    return set(connection.execute(_ADMITTED, {"principal": name}).scalars())


def _needs_list(product: str) -> bool:
    return product_named(product, Tier.GLOBAL).needs_customer_list


def _described(
    file: Path, body: DatasetBody, public: Mapping[str, Any], describe_profiles: DescribeProfiles
) -> Description:
    """Read the file once, and check that each kind of request can be computed from it."""
    trial = Dataset(
        name=body.name,
        closed=False,
        public=public,
        profiles_file=body.file,
        customer_list_file=body.customer_list_file,
        fingerprint="",
    )
    asked = [ReleaseBody(epsilon=1.0), *(ReleaseBody(epsilon=1.0, by=name) for name in body.groups)]
    requests = [trial.request(one) for one in asked]
    found = describe_profiles(file, requests[0])
    for product in map(partial(product_named, tier=Tier.GLOBAL), body.products):
        if product.needs_days and not found.grid.get("n_days"):
            raise ProductNeedsError("products", product.name, product.needs, [*body.products])
    for name in body.groups:
        if name not in found.attributes:
            raise InvalidParameterError(
                "groups", f"attributes of the profiles, {one_of(found.attributes)}", name
            )
    return found


def has_file(path: Path) -> bool:
    """Whether a file is there and can be read; a folder that cannot be searched lacks it."""
    return os.access(path, os.R_OK) and path.is_file()


def file_inside(folder: Path, field: str, name: str) -> Path:
    """Return a file of the folder of profiles; names of other paths are refused."""
    found = [path for path in (folder / FOLDER).iterdir() if path.name == name and path.is_file()]
    if not found:
        raise InvalidParameterError(field, "the name of a file in the folder of profiles", name)
    return found[0]


def _dataset_of(row: Any) -> Dataset:  # noqa: ANN401 - a row of `_DATASET`
    public = json.loads(row.public)
    # A stored estimate may be unrounded; nothing unrounded is shown.
    public["customers"] = rounded_customers(public["customers"])
    public["typical_kw"] = rounded_kw(public["typical_kw"])
    public.setdefault("minimum_epsilon", 0.0)  # registered before there was one
    return Dataset(
        name=row.name,
        closed=row.closed_at is not None,
        public=public,
        profiles_file=row.profiles_file,
        customer_list_file=row.customer_list_file,
        fingerprint=row.fingerprint,
    )


_DATASET = select(
    dataset.c.name,
    dataset.c.closed_at,
    dataset.c.fingerprint,
    registration.c.public,
    registration.c.profiles_file,
    registration.c.customer_list_file,
).join(registration, registration.c.dataset_id == dataset.c.id)
_ADMITTED = (
    select(dataset.c.name)
    .join(account, account.c.journal_id == dataset.c.journal_id)
    .join(principal, principal.c.id == account.c.principal_id)
    .where(principal.c.name == bindparam("principal"))
    .distinct()
)

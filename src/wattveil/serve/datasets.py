"""Data sets as the server offers them: registered once, with public parameters that never change.

They are part of every request. If they could change, a request would no longer be the one that was
paid for, and its repetition no longer free.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.public_estimate import rounded_customers
from wattveil.publish.plan import wanted_parts
from wattveil.publish.private_file import Description
from wattveil.publish.produce import read_customer_list
from wattveil.publish.request import DEFAULT_WEIGHTS, About, ReleaseRequest
from wattveil.serve.bodies import AllowanceBody, AskBody, DatasetBody, Product, PublicChoices
from wattveil.serve.ledger import acts
from wattveil.serve.ledger.amounts import Allowance
from wattveil.serve.ledger.journal import Session
from wattveil.serve.ledger.ledger import Ledger
from wattveil.serve.ledger.order import canonical_text
from wattveil.serve.ledger.tables import account, dataset, principal, registration

FOLDER = "profiles"
"""Where the owner puts files of profiles, in the data folder of a server."""

Look = Callable[[Path, ReleaseRequest], Description]
"""Says what may be known of a file of profiles, for requests like this one."""

_ABOUT = ("title", "curator", "region", "contact", "intended_use")
_OTHER_RELEASES = "those of this server are counted in cumulative; of others it does not know"


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set that is registered."""

    name: str
    closed: bool
    public: Mapping[str, Any]
    profiles_file: str
    customer_list_file: str | None
    fingerprint: str

    def description(self) -> dict[str, object]:
        """Return what anybody who is admitted may read."""
        return {"name": self.name, "closed": self.closed, **self.public}

    def request(self, body: AskBody) -> ReleaseRequest:
        """Return the release that is asked for, with all public parameters filled in."""
        offered = [Product(one) for one in self.public["products"]]
        wanted = offered if body.products is None else body.products
        for product in wanted:
            if product not in offered:
                raise InvalidParameterError("products", f"of {self.public['products']}", product)
        is_global = body.tier is Tier.GLOBAL
        if not is_global and body.products is not None:
            rule = "left out in the instance tier: its mechanism has clusters and labels"
            raise InvalidParameterError("products", rule, "given")
        if is_global and body.label_epsilon is not None and Product.LABELS not in wanted:
            raise InvalidParameterError("label_epsilon", "left out without labels", "given")
        if body.by is not None and body.by not in self.public["groups"]:
            raise InvalidParameterError("by", f"one of {[*self.public['groups']]}", body.by)
        left_out = {part: 0.0 for part in DEFAULT_WEIGHTS if Product(part) not in wanted}
        request = ReleaseRequest(
            epsilon=body.epsilon,
            delta=self.public["delta"] if body.delta is None else body.delta,
            n_clusters=body.clusters,
            tier=body.tier,
            clip_kw=self.public["clip_kw"],
            normalise=body.normalise,
            by=body.by,
            levels=() if body.by is None else tuple(self.public["groups"][body.by]),
            clusters_by_group=body.clusters_by_group,
            label_epsilon=body.label_epsilon,
            weights=left_out if is_global else {},
            customers=self.public["customers"],
            typical_kw=self.public["typical_kw"],
            about=About(
                **{name: self.public[name] for name in _ABOUT},
                other_releases_on_same_people=_OTHER_RELEASES,
            ),
        )
        wanted_parts(request, products=body.products or ())
        return request


def register(ledger: Ledger, folder: Path, body: DatasetBody, *, by: str, look: Look) -> None:
    """Have the file looked at, and open the data set in the ledger, with its public parameters."""
    public = body.model_dump(mode="json", include={*PublicChoices.model_fields})
    file = _inside(folder, "file", body.file)
    if body.customer_list_file is not None:
        read_customer_list(_inside(folder, "customer_list_file", body.customer_list_file))
    elif Product.LABELS in body.products:
        raise InvalidParameterError("customer_list_file", "given with labels", None)
    allowance = None if body.allowance is None else allowance_of(body.allowance)
    if allowance is not None:
        _ = allowance.caps  # computed before anybody waits for the lock
    found = _looked_at(file, body, public, look)

    def act(session: Session) -> None:
        acts.open_dataset(
            session,
            body.name,
            by=by,
            fingerprint=found.fingerprint,
            unit=Unit.CUSTOMER,
            neighbours=Neighbours.ZERO_OUT,
            allowance=allowance,
            linked_to=body.linked_to,
        )
        number = select(dataset.c.id).where(dataset.c.name == body.name)
        row = insert(registration).values(
            dataset_id=session.connection.execute(number).scalar_one(),
            public=canonical_text("public parameters", {**public, "grid": found.grid}),
            profiles_file=body.file,
            customer_list_file=body.customer_list_file,
        )
        session.connection.execute(row)

    ledger.write(act, linked_to=body.linked_to)


def allowance_of(body: AllowanceBody) -> Allowance:
    """Return the allowance that somebody sent."""
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


def _looked_at(file: Path, body: DatasetBody, public: Mapping[str, Any], look: Look) -> Description:
    """Have the file read once, and try whether each kind of request could be answered with it."""
    trial = Dataset(
        name=body.name,
        closed=False,
        public=public,
        profiles_file=body.file,
        customer_list_file=body.customer_list_file,
        fingerprint="",
    )
    asked = [AskBody(epsilon=1.0), *(AskBody(epsilon=1.0, by=name) for name in body.groups)]
    requests = [trial.request(one) for one in asked]
    found = look(file, requests[0])
    for name in body.groups:
        if name not in found.attributes:
            raise InvalidParameterError("groups", f"attributes, of {list(found.attributes)}", name)
    return found


def _inside(folder: Path, field: str, name: str) -> Path:
    """Return a file of the folder of profiles; whatever is no name of one leads nowhere."""
    found = [path for path in (folder / FOLDER).iterdir() if path.name == name and path.is_file()]
    if not found:
        raise InvalidParameterError(field, "the name of a file in the folder of profiles", name)
    return found[0]


def _dataset_of(row: Any) -> Dataset:  # noqa: ANN401 - a row of `_DATASET`
    public = json.loads(row.public)
    # Version 0.1 stored the estimate as it came; nothing unrounded is shown.
    public["customers"] = rounded_customers(public["customers"])
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
    .join(account, account.c.book_id == dataset.c.book_id)
    .join(principal, principal.c.id == account.c.principal_id)
    .where(principal.c.name == bindparam("principal"))
    .distinct()
)

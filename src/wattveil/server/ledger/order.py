"""Orders: a request, its price, and the idempotency key under which it may be repeated."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from wattveil.bundle.keys import canonical
from wattveil.errors import InvalidParameterError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.products.product import Allotment
from wattveil.server.ledger.amounts import Amounts

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEY = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(frozen=True, kw_only=True)
class Order:
    """One request of one principal.

    Parameters
    ----------
    dataset, principal
        Their names.
    key
        The idempotency key: the same key and request give the same release, for ever and for free.
    request
        The canonical request: every choice, defaults filled in, numbers as strings.
    price
        What it costs, from public parameters alone.
    tier, neighbours, unit
        Guarantee that the price buys.
    allotments
        Split of the price over the products of a release: made once, it travels to the computation.
    plan
        Split and expected errors as JSON, stored with a charge until its release is; no part of the
        request.
    """

    dataset: str
    principal: str
    key: str
    request: Mapping[str, object]
    price: Amounts
    tier: Tier
    neighbours: Neighbours
    unit: Unit
    allotments: Mapping[str, Allotment] = field(default_factory=dict)
    plan: str | None = None

    def __post_init__(self) -> None:
        """Refuse names and keys that cannot be written down unambiguously, and a price of 0."""
        check_name("dataset", self.dataset)
        check_name("principal", self.principal)
        check_key("key", self.key)
        if self.price == Amounts():
            raise InvalidParameterError("price", "above 0 in some measure", self.price)
        _ = self.request_sha256  # a request that cannot be written fails here, before it waits

    @cached_property
    def request_text(self) -> str:
        """The request as it is hashed and kept."""
        return canonical_text("request", self.request)

    @cached_property
    def request_sha256(self) -> str:
        """Hash that distinguishes requests: of data set, tier and every choice."""
        text = f"{self.dataset}\n{self.tier.value}\n{self.request_text}"
        return hashlib.sha256(text.encode()).hexdigest()


def is_name(name: str) -> bool:
    """Whether a text is a name of a data set or principal."""
    return _NAME.fullmatch(name) is not None


def check_name(field: str, name: str) -> str:
    """Accept a name of a data set or principal."""
    if not is_name(name):
        rule = "1 to 63 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit"
        raise InvalidParameterError(field, rule, name)
    return name


def check_key(field: str, key: str) -> str:
    """Accept a key or a fingerprint."""
    if not _KEY.fullmatch(key):
        rule = "1 to 128 printable ASCII characters without a space"
        raise InvalidParameterError(field, rule, key)
    return key


def canonical_text(field: str, record: Mapping[str, object]) -> str:
    """Return JSON with sorted keys; refuse what no database could keep."""
    try:
        return canonical(record).decode()
    except UnicodeEncodeError:
        raise InvalidParameterError(field, "text that UTF-8 can hold", "another text") from None

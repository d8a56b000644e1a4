"""Keyed hashes that stand for the ids of customers: HMAC-SHA256, cut to 128 bits."""

import hmac
from collections.abc import Iterable

import numpy as np

from wattveil.arrays import Names, Texts
from wattveil.errors import InvalidDataError


def pseudonyms(names: Iterable[str], *, key: bytes) -> Texts:
    """Return HMAC-SHA256 of names: 32 hexadecimal digits each."""
    codes = (name.encode("utf-8", "surrogatepass") for name in names)
    found = [hmac.digest(key, code, "sha256").hex()[:32] for code in codes]
    return np.array(found, dtype=np.object_)


def customer_names(ids: Iterable[object], *, key: bytes) -> Names:
    """Return HMAC-SHA256 of customer ids under the key of a series: 32 hexadecimal digits.

    An id is text, without the white space around it: the number 1001 may be "1001" in one period
    and "1001.0" in another, which would be two customers.
    """
    return pseudonyms(map(_id_text, ids), key=key).astype("S32")


def _id_text(customer: object) -> str:
    if not isinstance(customer, str):
        raise InvalidDataError(f"customer_ids that are text, not {type(customer).__name__}", [])
    return customer.strip()

"""What a release contains, in words: the same in lists of a server's pages and of its client."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_NO_TITLES: Mapping[str, str] = MappingProxyType({})


def contents_text(request: Mapping[str, Any], titles: Mapping[str, str] = _NO_TITLES) -> str:
    """Return the products of a request, with the number of segments and the grouping.

    Parameters
    ----------
    request
        Canonical request, as a server sends it; what is missing is left out.
    titles
        Names of products for people; the name of the product itself without one.

    >>> request = {"products": ["clusters", "load"], "n_clusters": 4, "by": "class"}
    >>> contents_text(request, {"clusters": "Customer segments"})
    'Customer segments (4), load; by class'
    >>> contents_text({"series": "quarters", "period": "2026-Q3"})
    '2026-Q3 of the series quarters'
    """
    if "period" in request:
        return f"{request['period']} of the series {request.get('series')}"
    names = [
        titles.get(name, name) + _number_of_segments(name, request)
        for name in request.get("products") or ()
    ]
    by = f"by {request['by']}" if request.get("by") else ""
    return "; ".join(filter(None, (", ".join(names), by)))


def _number_of_segments(product: str, request: Mapping[str, Any]) -> str:
    number = request.get("n_clusters")
    return f" ({number})" if product == "clusters" and number else ""

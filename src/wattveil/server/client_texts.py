"""What a server has sent, as text and numbers for results of the client."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from wattveil.server.client_transport import invalid_response
from wattveil.web.formatting import format_count
from wattveil.web.request_texts import contents_text

_MAX_LISTED = 10
"""Lines of a list in `repr`."""


def listed_lines(name: str, lines: Sequence[str]) -> str:
    """Return lines below their number; of a long list the first ones."""
    more = len(lines) - _MAX_LISTED
    rest = [f"and {more} more; to_pandas() has all"] if more > 0 else []
    shown = [f"  {line}" for line in [*lines[:_MAX_LISTED], *rest]]
    return "\n".join([f"{format_count(len(lines), name)}{':' if lines else ''}", *shown])


def dataset_line(one: Mapping[str, Any]) -> str:
    """Return name, title, size, products and groups of a data set."""
    parts = [
        str(one.get("title")),
        f"about {one.get('customers')} customers",
        f"products: {', '.join(one.get('products') or ())}",
        *([f"groups: {group_names(one)}"] if one.get("groups") else []),
        *(["closed"] if one.get("closed") else []),
    ]
    return f"{one.get('name')}: {'; '.join(parts)}"


def group_names(one: Mapping[str, Any]) -> str:
    """Return the groupings of a data set with their values, such as ``class (home, shop)``."""
    groups = one.get("groups") or {}
    return ", ".join(f"{name} ({', '.join(values)})" for name, values in groups.items())


def release_words(one: Mapping[str, Any]) -> str:
    """Return data set, contents, epsilon, time and state; what is missing is left out."""
    request = one.get("request") or {}
    epsilon = request.get("epsilon")
    at = None if one.get("ordered_at") is None else sent_time(one["ordered_at"])
    parts = [
        one.get("dataset"),
        contents_text(request),
        None if epsilon is None else f"epsilon {sent_number(epsilon):g}",
        None if at is None else f"ordered {at:%Y-%m-%d %H:%M} UTC",
        one.get("state"),
    ]
    return ", ".join(str(part) for part in parts if part)


def sent_number(text: object) -> float:
    """Return a number that the server sends as text; NaN if it sends none."""
    try:
        return math.nan if text is None else float(str(text))
    except ValueError:
        raise invalid_response("not a number") from None


def sent_time(text: object) -> datetime | None:
    """Return a time that the server sends, in UTC."""
    try:
        found = None if text is None else datetime.fromisoformat(str(text))
    except ValueError:
        raise invalid_response("not a time") from None
    if found is None or found.tzinfo is not None:
        return found
    return found.replace(tzinfo=UTC)

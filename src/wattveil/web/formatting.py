"""Numbers and curves as plain text, for tables of the command line and of pages."""

import decimal
import math
from collections.abc import Iterable

_MARKS = "▁▂▃▄▅▆▇█"
_ESCAPES = str.maketrans(
    {"<": "&lt;", ">": "&gt;"} | {mark: f"\\{mark}" for mark in "\\`*[]|"}
)  # not every renderer knows a backslash before < and >
MAX_SHOWN_EXPONENT = 20.0
"""Below e^20, 485 million, a factor is written as a number."""
_MIN_FIXED = 1e-6  # below it, exponents: a milliwatt is no load, but 7e-14 is an error of rounding


def format_number(number: float, digits: int = 3) -> str:
    """Return a number with this many significant digits; all digits before the decimal point.

    >>> format_number(0.012345), format_number(999.7), format_number(112.3, 2)
    ('0.0123', '1,000', '112')
    """
    if math.isnan(number):
        return "none"
    if math.isinf(number):
        return "∞" if number > 0.0 else "-∞"
    if 0.0 < abs(number) < _MIN_FIXED:
        return f"{number:.{digits}g}"
    decimals = digits - 1 - math.floor(math.log10(abs(number))) if number else 0
    text = f"{number:,.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_lower_bound(bound: float, digits: int = 3) -> str:
    """Return a lower bound with this many significant digits, never above it.

    >>> format_lower_bound(0.99999), format_lower_bound(1.2399), format_lower_bound(0.0)
    ('0.999', '1.23', '0')
    """
    return _rounded(bound, digits, decimal.ROUND_FLOOR)


def format_upper_bound(bound: float, digits: int = 3) -> str:
    """Return an upper bound with this many significant digits, never below it.

    >>> format_upper_bound(2.71828), format_upper_bound(1234567.0, 2)
    ('2.72', '1,300,000')
    """
    return _rounded(bound, digits, decimal.ROUND_CEILING)


def format_factor(epsilon: float) -> str:
    """Return e^epsilon with four significant digits, never below it; from e^20 on as a power.

    The sentence of a guarantee has the same digits.

    >>> format_factor(1.0), format_factor(12.0), format_factor(23.5)
    ('2.719', '162,800', 'e^23.5')
    """
    if epsilon < MAX_SHOWN_EXPONENT:
        return format_upper_bound(math.exp(epsilon), 4)
    return f"e^{format_upper_bound(epsilon, 6)}"


def _rounded(number: float, digits: int, direction: str) -> str:
    if not math.isfinite(number):
        return format_number(number)
    context = decimal.Context(prec=digits, rounding=direction)
    return format_number(float(context.create_decimal(number)), digits)


def format_ratio(ratio: float) -> str:
    """Return a ratio to a limit, with enough digits to tell on which side of 1 it is.

    >>> format_ratio(1.234), format_ratio(1.0004), format_ratio(0.99996), format_ratio(1.0)
    ('1.23', '1.0004', '0.99996', '1')
    """
    shown = (format_number(ratio, digits) for digits in range(3, 18))
    return next((text for text in shown if text != "1"), "1")


def escape_markdown(text: str) -> str:
    r"""Return a text that Markdown shows as it is, without markup, links or HTML.

    >>> print(escape_markdown("<b> *a* [b](c)"))
    &lt;b&gt; \*a\* \[b\](c)
    """
    return text.translate(_ESCAPES)


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> format_count(1, "row"), format_count(1200, "entry"), format_count(2, "day")
    ('1 row', '1,200 entries', '2 days')
    """
    is_consonant = noun[-2:-1] not in {*"aeiou"}
    many = f"{noun[:-1]}ies" if noun.endswith("y") and is_consonant else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def format_interval(low: float, high: float) -> str:
    """Return both ends of an interval."""
    if math.isnan(low) and math.isnan(high):
        return format_number(math.nan)
    return f"{format_number(low)} to {format_number(high)}"


def format_share_interval(share: float, low: float, high: float) -> str:
    """Return a share with its interval, in percent; small ones are not rounded to 0."""
    shown = [f"{100.0 * one:.3g}" for one in (share, low, high)]
    return f"{shown[0]} % ({shown[1]} to {shown[2]})"


def format_share(share: float, decimals: int = 1) -> str:
    """Return a share in percent; never 0 % for a share above 0, nor 100 % for one below 1.

    >>> format_share(0.00002), format_share(0.12345), format_share(0.99999, 2)
    ('< 0.1 %', '12.3 %', '> 99.99 %')
    """
    if math.isnan(share):
        return "none"
    text, step = f"{100.0 * share:.{decimals}f}", 10.0**-decimals
    if share > 0.0 and float(text) == 0.0:
        return f"< {step:.{decimals}f} %"
    if share < 1.0 and float(text) >= 100.0:  # noqa: PLR2004 - percent
        return f"> {100.0 - step:.{decimals}f} %"
    return f"{text} %"


def sparkline(curve: Iterable[float]) -> str:
    """Return a curve as one line of text, from its minimum to its maximum."""
    values = list(curve)
    low, high = min(values), max(values)
    height = max(high - low, 1e-12)
    return "".join(_MARKS[round(7 * (value - low) / height)] for value in values)

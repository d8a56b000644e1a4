"""The rules for public arguments: what passes, what is refused, and how the refusal reads."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from wattveil import checks
from wattveil.errors import InvalidDataError, InvalidParameterError
from wattveil.privacy.guarantee import Tier

NOT_A_NUMBER = [True, "1", None, 1j, [1.0], Decimal(1), math.nan, math.inf, -math.inf, 10**400]

Rule = Callable[[str, object], float]


@pytest.mark.parametrize(
    "rule",
    [
        checks.positive,
        checks.non_negative,
        checks.epsilon,
        checks.probability,
        checks.probability_or_zero,
    ],
)
@pytest.mark.parametrize("value", NOT_A_NUMBER, ids=repr)
def test_only_finite_numbers_are_numbers(rule: Rule, value: object) -> None:
    """No rule takes a bool, a string, None, NaN or an infinity; the error keeps all three parts."""
    with pytest.raises(InvalidParameterError) as caught:
        rule("width", value)
    assert caught.value.field == "width"
    assert caught.value.value is value
    assert str(caught.value) == f"width must be {caught.value.rule}, got width={value!r}"


@pytest.mark.parametrize(
    ("rule", "accepted", "refused", "words"),
    [
        (checks.positive, [5e-324, 1, 1.7e308], [0, -0.0, -5e-324], "a finite number above 0"),
        (checks.non_negative, [0, -0.0, 1e308], [-5e-324, -1], "a finite number of at least 0"),
        (checks.epsilon, [0, 1e6], [-5e-324, 1000000.1], "at least 0 and at most 1e6"),
        (
            checks.probability,
            [5e-324, 0.5, math.nextafter(1.0, 0.0)],
            [0, 1, 1.5, -0.1],
            "above 0 and below 1",
        ),
        (
            checks.probability_or_zero,
            [0, 0.5, math.nextafter(1.0, 0.0)],
            [1, 1.5, -5e-324],
            "at least 0 and below 1",
        ),
    ],
)
def test_range_of_each_rule(
    rule: Rule, accepted: list[float], refused: list[float], words: str
) -> None:
    """Each rule draws its line where its words say, to the last float on either side."""
    for value in accepted:
        assert rule("x", value) == value
    for value in refused:
        with pytest.raises(InvalidParameterError, match=words):
            rule("x", value)


@pytest.mark.parametrize(
    "value", [3, np.float64(3.0), np.float32(3.0), np.int64(3), Fraction(3)], ids=repr
)
def test_any_real_number_becomes_a_float(value: object) -> None:
    """Whatever kind of real number comes in, a plain float goes on."""
    accepted = checks.positive("x", value)
    assert type(accepted) is float
    assert accepted == 3.0


@pytest.mark.parametrize("value", [2, np.int64(2), 10**30], ids=repr)
def test_whole_numbers_of_any_kind_pass(value: int) -> None:
    """A whole number passes, whatever its type, and comes out as an int."""
    accepted = checks.integer("n", value, minimum=2)
    assert type(accepted) is int
    assert accepted == value


@pytest.mark.parametrize("value", [1, -5, 2.0, "2", True, None, math.nan, np.float64(3.5)])
def test_what_is_not_a_whole_number_is_refused(value: object) -> None:
    """A float, even a whole one, a bool and a number below the minimum are refused."""
    with pytest.raises(InvalidParameterError, match="n must be a whole number of at least 2"):
        checks.integer("n", value, minimum=2)


def test_whole_numbers_may_have_an_upper_limit() -> None:
    """The limit itself passes, one more does not, and the rule names both ends."""
    assert checks.integer("n", 5000, minimum=2, maximum=5000) == 5000
    for value in (1, 5001):
        with pytest.raises(InvalidParameterError, match="of at least 2 and at most 5,000, got n="):
            checks.integer("n", value, minimum=2, maximum=5000)


def test_masked_arrays_are_refused_by_name() -> None:
    """A mask would be dropped, and who was masked would count; alone or row by row."""
    masked = np.ma.masked_array(np.ones((2, 3)), mask=[[False] * 3, [True] * 3])
    for given in (masked, list(masked), tuple(masked)):
        with pytest.raises(InvalidDataError, match="load_kw is no masked array: leave rows out"):
            checks.matrix("load_kw", given)
    assert checks.matrix("load_kw", masked.filled(np.nan)).shape == (2, 3)


def test_member_takes_the_member_and_not_its_text() -> None:
    """A string cannot choose a tier, not even the right one."""
    assert checks.member("tier", Tier.GLOBAL, Tier) is Tier.GLOBAL
    with pytest.raises(InvalidParameterError, match="tier must be a Tier, got tier='global'"):
        checks.member("tier", "global", Tier)


def test_enum_value_reads_the_text() -> None:
    """The text of a member is read back; anything else is refused with the choices."""
    assert checks.enum_value("tier", "instance", Tier) is Tier.INSTANCE
    for text in ("Instance", "", None, ["global"]):
        with pytest.raises(InvalidParameterError, match="one of: global, instance"):
            checks.enum_value("tier", text, Tier)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300, 0.1, 5e-324, 1e16, -2.5])
def test_decimal_reads_what_repr_wrote(value: float) -> None:
    """The shortest text of a float gives the same float back."""
    assert checks.decimal("x", repr(value)) == value


@pytest.mark.parametrize(
    "text",
    ["1", "1.00", " 1.0", "1e5", "0x1p0", "1_0.0", "nan", "inf", "-inf", "", "a", 1.0, None],
    ids=repr,
)
def test_decimal_reads_nothing_looser(text: object) -> None:
    """A number has one spelling: what repr would not write is refused."""
    with pytest.raises(InvalidParameterError, match="x must be a finite decimal number"):
        checks.decimal("x", text)

"""What arrives at the server: forms of any bytes, and any rhythm of requests."""

from fractions import Fraction
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_clock import fake_clock
from wattveil.server.auth import access
from wattveil.server.auth.access import Limiter, Rate
from wattveil.server.http.form_fields import read_groups
from wattveil.server.http.server_pages import Form

_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_NAMES = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)


@given(st.binary(max_size=300))
def test_a_form_of_any_bytes_is_read_or_refused(body: bytes) -> None:
    """Numbers come out as numbers or as the text that was sent; nothing else happens."""
    try:
        form = Form(body)
    except ValueError:  # too many fields
        return
    for name in [*form.fields, "missing"]:
        text = form.text(name)
        assert isinstance(form.number(name), float | str | None)
        whole = form.integer(name)
        assert whole is None or str(whole) == text or int(text) == whole
        assert form.checked(name) == (name in form.fields)


@given(st.dictionaries(_NAMES, st.one_of(_FINITE, st.integers(0, 10**18))))
def test_a_form_says_what_was_typed(sent: dict[str, float | int]) -> None:
    """Every number comes back, to the last bit."""
    form = Form(urlencode({name: repr(value) for name, value in sent.items()}).encode())
    for name, value in sent.items():
        assert form.number(name) == float(value)
        if isinstance(value, int):
            assert form.integer(name) == value


@pytest.mark.parametrize("text", ["1_0", "\u0661", "\uff11", "nan", "inf", "0x1", "1e", "."])
def test_what_only_python_takes_for_a_number_stays_text(text: str) -> None:
    """It is refused where the rule of its field stands."""
    assert Form(urlencode({"epsilon": text}).encode()).number("epsilon") == text


@given(
    st.dictionaries(_NAMES, st.lists(_NAMES, max_size=5), max_size=5), st.sampled_from(["", " "])
)
def test_groups_are_read_as_they_were_written(groups: dict[str, list[str]], space: str) -> None:
    """A line each, with or without spaces and empty lines."""
    lines = [f"{space}{name}{space}:{f'{space},'.join(values)}" for name, values in groups.items()]
    assert read_groups(f"\n{space}\n".join(lines)) == groups


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 16)), max_size=60),
    st.integers(1, 5),
    st.integers(0, 4),
)
def test_a_limiter_is_a_bucket_that_fills_up(
    steps: list[tuple[str, int]], burst: int, quarters: int
) -> None:
    """As exact fractions say, for two names in any rhythm; times are sixteenths of a second."""
    with pytest.MonkeyPatch.context() as patch:
        clock = fake_clock(patch, access)
        limiter = Limiter(Rate(burst, quarters / 4))
        left = dict.fromkeys("ab", Fraction(burst))
        then = dict.fromkeys("ab", Fraction(0))
        for name, sixteenths in steps:
            clock.sleep(sixteenths / 16)
            now = Fraction(clock.now)
            left[name] = min(Fraction(burst), left[name] + (now - then[name]) * quarters / 4)
            then[name] = now
            admitted = left[name] >= 1
            left[name] -= admitted
            assert limiter.admits(name) is admitted

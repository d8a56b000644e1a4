"""The tree of errors and warnings: who catches what, and what the texts say."""

import pytest

from wattveil import errors
from wattveil.errors import (
    BudgetExceededError,
    InvalidDataError,
    InvalidFileError,
    InvalidParameterError,
    MissingExtraError,
    ServerRefusalError,
    SimulatedNoiseError,
    WattveilError,
    WattveilWarning,
    WeakGuaranteeWarning,
)


@pytest.mark.parametrize(
    ("kind", "also"),
    [
        (InvalidParameterError, ValueError),
        (InvalidDataError, ValueError),
        (InvalidFileError, ValueError),
        (MissingExtraError, ImportError),
        (BudgetExceededError, Exception),
        (SimulatedNoiseError, Exception),
    ],
)
def test_every_error_is_caught_as_ours_and_as_pythons(
    kind: type[Exception], also: type[Exception]
) -> None:
    """One `except WattveilError` catches all; the builtin that a caller expects catches too."""
    assert issubclass(kind, WattveilError)
    assert issubclass(kind, also)


def test_warnings_have_their_own_tree() -> None:
    """A warning is no error: it can be filtered by our base or by the builtin."""
    assert issubclass(WeakGuaranteeWarning, WattveilWarning)
    assert issubclass(WattveilWarning, UserWarning)
    assert not issubclass(WattveilWarning, WattveilError)


def test_tree_in_the_docstring_is_complete() -> None:
    """The module's picture of the tree names every class of the module."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    names = [kind.__name__ for kind in kinds if kind.__module__ == errors.__name__]
    assert errors.__doc__ is not None
    assert all(name in errors.__doc__ for name in names)


def test_parameter_error_names_field_rule_and_value() -> None:
    """The text has all three, and so have the attributes."""
    error = InvalidParameterError("epsilon", "positive", -1)
    assert str(error) == "epsilon must be positive, got epsilon=-1"
    assert (error.field, error.rule, error.value) == ("epsilon", "positive", -1)


def test_file_error_states_place_and_expectation() -> None:
    """Path, place, what was expected and what was there are in the text and on the error."""
    error = InvalidFileError("load.csv", "line 3", "a number", "abc")
    assert str(error) == "load.csv, line 3: expected a number, found 'abc'"
    assert (error.path, error.where) == ("load.csv", "line 3")
    assert (error.expected, error.found) == ("a number", "abc")


@pytest.mark.parametrize(
    ("ids", "tail"),
    [
        ([7], "7"),
        (["a", "b", "c", "d", "e"], "a, b, c, d, e"),
        ([1, 2, 3, 4, 5, 6], "1, 2, 3, 4, 5 and 1 more"),
        (list(range(100)), "0, 1, 2, 3, 4 and 95 more"),
    ],
)
def test_data_error_shows_five_rows_and_keeps_all(ids: list[object], tail: str) -> None:
    """The text shows five ids at most and counts the rest; the attribute has them all."""
    error = InvalidDataError("every value is finite", ids)
    assert str(error) == f"rows {tail} violate the rule 'every value is finite'"
    assert error.row_ids == tuple(ids)
    assert error.rule == "every value is finite"


def test_budget_error_states_the_request_and_the_rest() -> None:
    """Resource, request and remainder are in the text and on the error."""
    error = BudgetExceededError("rho_units", 5, 3.0)
    assert str(error) == "budget exceeded: rho_units requested 5, remaining 3.0"
    assert (error.resource, error.requested, error.remaining) == ("rho_units", 5, 3.0)


def test_missing_extra_names_the_install_command() -> None:
    """The text is the command that helps."""
    error = MissingExtraError("the map", "grid")
    assert error.extra == "grid"
    assert str(error) == (
        'the map needs packages that are not installed: pip install "wattveil[grid]"'
    )


def test_a_refusal_of_the_server_states_fields_and_rules() -> None:
    """As the same mistake is reported without a server."""
    broken = [{"field": "epsilon", "rule": "given"}, {"field": "clusters", "rule": "at least 1"}]
    error = ServerRefusalError("invalid", "A rule is broken", {"errors": broken})
    assert "epsilon must be given; clusters must be at least 1" in str(error)

"""Files that name no customer: names that may be one home's are reported, copies are refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from wattveil.errors import InvalidFileError
from wattveil.readings import read_readings
from wattveil.readings.explain import explain
from wattveil.readings.home_names import numbered_files
from wattveil.readings.options import ReadOptions

Write = Callable[..., Path]


def _home(write: Write, name: str, month: int, kwh: float) -> Path:
    rows = [f"2024-{month:02}-01 {hour:02}:00,{kwh}" for hour in range(24)]
    return write("time,consumption (kWh)", *rows, name=name)


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["smith.2024-01", "smith.2024-02", "smith.2024-03", "jones"], 3),
        (["home", "home (1)", "home (2)"], 3),
        (["export_20240101-20240131", "export_20240201-20240229"], 2),
        (["a1", "a2", "b1", "b2", "c"], 4),
        (["smith", "jones"], 0),
        (["1 smith", "2 jones"], 0),
        (["a/home", "b/home"], 0),
    ],
)
def test_names_that_differ_only_by_numbers(names: list[str], files: int) -> None:
    """Digits, dates and numbers of copies; every such file is counted."""
    said = numbered_files(names)
    assert [text.endswith(f"{files} files") for text in said] == [True] * bool(files)


def test_months_of_one_home_give_a_warning(write: Write) -> None:
    """In the report and the explanation, until the caller names the customer."""
    paths = [_home(write, f"smith.2024-{month:02}.csv", month, 0.5) for month in (1, 2, 3)]
    readings = read_readings(paths, timezone="UTC")
    assert len(readings.customer_ids()) == 3
    (warning,) = readings.report.warnings
    assert "3 files" in warning
    assert "--customer NAME" in warning
    assert explain(paths, ReadOptions(timezone="UTC")).warnings == (warning,)
    one = read_readings(paths, timezone="UTC", customer="smith")
    assert one.customer_ids() == ["smith"]
    assert not one.report.warnings


def test_other_names_give_no_warning(write: Write) -> None:
    """Nor do numbered files whose rows name their customers."""
    paths = [_home(write, "smith.csv", 1, 0.5), _home(write, "jones.csv", 1, 0.25)]
    assert not read_readings(paths, timezone="UTC").report.warnings
    tables = [
        write("customer_id,timestamp,kwh", *(f"a,2024-01-0{d} 0{h}:00,1" for h in range(9)), name=n)
        for d, n in ((1, "part 1.csv"), (2, "part 2.csv"))
    ]
    assert not read_readings(tables, timezone="UTC").report.warnings


def test_a_copy_is_not_a_second_home(write: Write) -> None:
    """Equal content under two names is refused; of one stated customer it is read once."""
    paths = [_home(write, name, 1, 0.5) for name in ("smith.csv", "jones.csv")]
    with pytest.raises(InvalidFileError, match=r"jones\.csv.*customer=NAME.*smith\.csv"):
        read_readings(paths, timezone="UTC")
    both = read_readings(paths, timezone="UTC", customer="smith").to_arrow()
    assert both["kwh"].to_pylist() == [0.5] * 24
    _home(write, "jones.csv", 1, 0.7)  # of the same size
    assert len(read_readings(paths, timezone="UTC").customer_ids()) == 2

"""Released sizes of groups: small ones, and lists of groups that are probably misspelled."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sample_bundles import LEVELS
from wattveil.bundle.bundle_files import read_table
from wattveil.bundle.released_groups import size_warning, spelling_warnings


@pytest.mark.parametrize(
    ("customers", "std", "warned"),
    [(100.0, 4.0, False), (20.0, 4.0, False), (19.0, 1.0, True), (100.0, 21.0, True)],
)
def test_a_group_with_few_customers_is_warned_of(
    whole: Path, tmp_path: Path, customers: float, std: float, *, warned: bool
) -> None:
    """Below 20 released customers, or below 5 standard errors; not where no count was released."""
    table = read_table(whole, "groups").to_pandas()
    table["customers"], table["customers_std"] = customers, std
    (tmp_path / "tables").mkdir()
    assert not size_warning(tmp_path, "home")
    table.to_parquet(tmp_path / "tables" / "groups.parquet")
    found = size_warning(tmp_path, "home")
    assert (f"{customers:,.0f} ± {std:,.0f} customers in the group home" in found) is warned
    assert bool(found) is warned


def write_sizes(folder: Path, sizes: dict[str, float], std: float) -> None:
    """Write the released sizes of groups to a bundle."""
    (folder / "tables").mkdir()
    columns = {
        "group": list(sizes),
        "customers": list(sizes.values()),
        "customers_std": [std] * len(sizes),
    }
    pq.write_table(pa.table(columns), folder / "tables" / "groups.parquet")


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"yes": 5.0, "no": 3.0}, "the listed groups have 8 ± 7 of about 1,000 customers"),
        ({"yes": -4.0, "no": -1.0}, "the listed groups have 0 ± 7 of about 1,000 customers"),
        ({"yes": 196.0, "no": 3.0}, "have 199 ± 7 of"),
        ({"yes": 600.0, "no": 9.0}, "size not distinguishable from zero: no. Check the spelling"),
        ({"yes": 600.0, "no": 11.0}, ""),
        ({"yes": 201.0, "no": 20.0}, ""),
    ],
)
def test_probable_misspellings_are_warned_of(
    tmp_path: Path, sizes: dict[str, float], words: str
) -> None:
    """Below a fifth of the public estimate together, or one below two standard errors."""
    write_sizes(tmp_path, {**sizes, "all": 1000.0}, 5.0)
    found = spelling_warnings(tmp_path, ("yes", "no"), 1000)
    assert len(found) == bool(words)
    assert words in "".join(found)


def test_a_release_without_counts_has_no_warning(whole: Path, tmp_path: Path) -> None:
    """Nor has one of well-spelled groups."""
    assert not spelling_warnings(tmp_path, LEVELS, 300)
    assert not spelling_warnings(whole, LEVELS, 300)

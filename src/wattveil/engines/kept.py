"""Profiles that stay where an engine keeps them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wattveil.clustering.geometry import Floats
from wattveil.privacy.private_rows import Rows, Texts
from wattveil.profiles import Grid


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KeptProfiles(ABC):
    """The load profiles of customers, private: `Profiles` with columns that an engine keeps.

    ``load_kw`` and ``attributes`` can be given to every release, ``customer_ids`` to
    `release_labels`. Columns of the same profiles fit beside each other, and no others.
    """

    customer_ids: Rows[Texts]
    load_kw: Rows[Floats]
    grid: Grid
    timezone: str
    attributes: Mapping[str, Rows[Texts]]
    rules: Mapping[str, object] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return the public facts alone."""
        name = type(self).__name__
        return f"{name}(grid={self.grid!r}, timezone={self.timezone!r}, private rows not shown)"

    @abstractmethod
    def listed(self, customer_list: Sequence[str]) -> "KeptProfiles":
        """Return one profile for each customer on a public list: NaN for one without a profile."""

    @abstractmethod
    def write_parquet(self, path: str | Path) -> None:
        """Write the profiles from where they are, to a new folder that `read_parquet` reads."""

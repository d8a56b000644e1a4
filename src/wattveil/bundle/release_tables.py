"""Published releases for analysts: a bundle on disk, its tables, charts, model and verification.

>>> import wattveil
>>> bundle = wattveil.read_bundle("bundle")  # doctest: +SKIP
>>> bundle.verify().accepted  # doctest: +SKIP
>>> bundle.to_pandas("centroids")  # doctest: +SKIP
"""

import shutil
import tempfile
import weakref
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattveil.errors import InvalidFileError, InvalidParameterError, one_of
from wattveil.web.formatting import format_number
from wattveil.web.results import ChartedResult, ResultTable, one_line, records_table

if TYPE_CHECKING:  # slow to load, and `wattveil admin` needs none of them
    import pyarrow as pa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from plotly.graph_objects import Figure

    from wattveil.bundle.comparison import Compared, Comparison
    from wattveil.bundle.manifest import Manifest
    from wattveil.bundle.verify.verify_bundle import VerificationReport
    from wattveil.numerics.synthesis import SyntheticModel
    from wattveil.numerics.synthesis.year_model import YearModel
    from wattveil.products.mean_load import MeanLoad
    from wattveil.products.released_channel import LabelChannel
    from wattveil.products.tables import Table
    from wattveil.web.curves import Chart, Curve

_CURVES = {
    "centroids": "Load curve of each segment",
    "load_shapes": "Mean load per customer",
    "load_duration": "Load duration curve",
}
"""Tables of load curves, the most important first, with the titles of their charts."""


class ReleaseTables(ChartedResult):
    """Base class of releases whose tables are described by a manifest."""

    @property
    @abstractmethod
    def manifest(self) -> "Manifest":
        """The manifest."""

    @abstractmethod
    def _read(self, name: str) -> "pa.Table":
        """Return a table that the manifest lists."""

    def plot(self, table: str | None = None) -> "Figure":
        """Return a Plotly figure of load curves with 95 % bands (± 1.96 standard errors).

        Parameters
        ----------
        table
            A table of load curves, such as ``load_shapes``; None is the first available one.
        """
        from wattveil.web.curves import chart_figure  # noqa: PLC0415 - slow to load

        chart = self._curves(table)
        if not chart.curves:
            text = self._nothing_to_plot()
            raise InvalidParameterError("table", "with load curves", table, text=text)
        return chart_figure(chart)

    def compare(
        self, a: "Compared", b: "Compared", other: "ReleaseTables | None" = None
    ) -> "Comparison":
        """Return difference and ratio of two released load curves, with 95 % intervals.

        Errors of the two are taken to be independent: docs/guides/analyst.md has the measured
        coverage. A ratio is stated where the denominator b is above 4 standard errors.

        Parameters
        ----------
        a, b
            Numbers of segments; pairs such as ``("home", 0)`` if segments are by group; or names of
            groups, for their mean load; ``"all"`` is that of a release without groups.
        other
            The release of b, such as that of the next year, with the same slots; a and b are then
            names of groups, or ``"all"`` for the mean load of all groups of a release. None: both
            are of this release.
        """
        from wattveil.bundle.comparison import compare  # noqa: PLC0415 - slow to load

        return compare(self, a, b, other=other)

    def mean_load(self) -> "MeanLoad":
        """Return the mean load of all customers with standard errors and 95 % intervals.

        Its table ``slots`` has one row per slot, ``mean`` the mean over all slots. Of a release by
        group it is the mean of the listed groups, weighted by their released numbers of customers.

        Raises
        ------
        InvalidParameterError
            If the release has no mean load, or an aggregation rule suppresses every group.
        """
        from wattveil.products.mean_load import mean_load, why_no_mean_load  # noqa: PLC0415 - slow

        needed = {"groups", "load_shapes"}
        tables = {name: self._table(name) for name in self.tables if name in needed}
        if text := why_no_mean_load(self.manifest["request"], tables):
            rule = "of a release with mean load"
            raise InvalidParameterError("bundle", rule, self.manifest["title"], text=text)
        return mean_load(tables)

    def label_channel(self) -> "LabelChannel":
        """Return what published labels say: probabilities given the segment, and given the label.

        Its table ``channel`` has the probability of each published label given the true segment,
        ``posterior`` that of each segment given the label, with the released sizes as prior, and
        ``no_readings`` that of each label for a listed customer without readings.

        Raises
        ------
        InvalidParameterError
            If the release has no randomised labels.
        """
        from wattveil.products.released_channel import channel_of  # noqa: PLC0415 - slow to load

        for record in self.manifest["products"]:
            if record["name"] == "labels" and "channel" in record:
                found = channel_of(record, {"cluster_sizes": self._table("cluster_sizes")})
                if found is not None:
                    return found
        text = "this release has no randomised labels, and so no channel"
        rule = "of a release with randomised labels"
        raise InvalidParameterError("bundle", rule, self.manifest["title"], text=text)

    def population_intervals(self) -> "pa.Table":
        """Return 95 % intervals of the mean load of the population that the customers represent.

        They combine privacy noise and sampling error; those of `plot` cover the noise alone. One
        row per group and slot: ``load_kw``, ``low_kw`` and ``high_kw``.

        Raises
        ------
        InvalidParameterError
            If the sampling error is not known: without mean load, if the selection of the customers
            is not stated or, for a sample, in a release by group or without synthetic customers.
            The text names the condition that fails.
        """
        from wattveil.bundle.statistical_bias import population_table  # noqa: PLC0415 - slow

        names = [one for one in ("groups", "load_shapes", "synthetic") if one in self.tables]
        return population_table(self.manifest, {name: self._table(name) for name in names})

    def _result_tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        products = self.manifest["products"]
        names = [table["name"] for product in products for table in product["tables"]]
        return {name: partial(self._indexed, name) for name in names}

    def _indexed(self, name: str) -> ResultTable:
        data = self._read(name)
        named = ("customer", "slot") if "customer" in data.column_names else ()
        keys = named or ("group", "cluster", "slot", "rank")
        return ResultTable(data, tuple(key for key in keys if key in data.column_names))

    def _statement(self) -> str:
        from wattveil.bundle.card import choice_banners  # noqa: PLC0415 - slow to load

        sentence = one_line(str(self.manifest["guarantee_text"]))
        return " ".join([sentence, *choice_banners(self.manifest)])

    def _notes(self) -> Sequence[str]:
        title, release_id = (self.manifest.get(name) for name in ("title", "release_id"))
        notes = [f"{title}. Release {release_id}."] if title and release_id else []
        is_empty = set(_CURVES) & set(self.tables) and not self._chart().curves
        return [*notes, self._nothing_to_plot()] if is_empty else notes

    @property
    def _short_name(self) -> str:
        """Name that tells releases with the same title apart."""
        return str(self.manifest["release_id"])[:8]

    def _nothing_to_plot(self) -> str:
        """Return why there is no curve: the rule suppresses every group, or no table has one."""
        from wattveil.products.request import NO_RULE  # noqa: PLC0415 - slow to load
        from wattveil.products.ruled_load import no_group_meets  # noqa: PLC0415 - slow to load

        rule = self.manifest["request"].get("rule", NO_RULE)
        if rule == NO_RULE:
            return "This release has no load curves: nothing to plot."
        return f"{no_group_meets(rule)}: nothing to plot."

    def _chart(self) -> "Chart":
        return self._curves(None)

    def _curves(self, name: str | None) -> "Chart":
        from wattveil.products.segments import curves  # noqa: PLC0415 - slow to load
        from wattveil.web.curves import Chart  # noqa: PLC0415 - slow to load

        drawable = [one for one in _CURVES if one in self.tables]
        if name is not None and name not in drawable:
            raise InvalidParameterError("table", one_of(drawable), name)
        if not drawable:
            return Chart([], "")
        chosen = name or drawable[0]
        drawn = (
            self._clusters() if chosen == "centroids" else self._named(curves(self._table(chosen)))
        )
        if chosen == "load_duration":
            is_day = self.manifest["profiles"]["grid"]["split"] == "day"
            period = "average day" if is_day else "time"
            together = "kW, all customers together"
            unit = together if len(drawn) == 1 else "kW, all customers of a group"
            return Chart(drawn, unit, "ranks", period=period, title=_CURVES[chosen])
        in_kw = "load_kw" in self._read(chosen).column_names
        unit = "kW per customer" if in_kw else "relative to unit L2 norm"
        return Chart(drawn, unit, title=_CURVES[chosen])

    def _named(self, drawn: "list[Curve]") -> "list[Curve]":
        """Return the curves of groups with labels such as ``has_ev: yes``."""
        from wattveil.products.group_labels import request_labels  # noqa: PLC0415 - slow to load

        labels = request_labels(self.manifest["request"])
        return [one._replace(name=labels.get(one.group, one.group)) for one in drawn]

    def _clusters(self) -> "list[Curve]":
        """Return the curves of clusters; those that noise may explain are marked."""
        from wattveil.products.segments import segments  # noqa: PLC0415 - slow to load

        sizes = self._table("cluster_sizes") if "cluster_sizes" in self.tables else None
        drawn = []
        found = segments(self._table("centroids"), sizes)
        several = len({one.group for one in found}) > 1
        for one, named in zip(found, self._named([one.curve for one in found]), strict=True):
            group = f" ({named.name})" if several else ""
            curve = one.curve._replace(name=f"segment {one.curve.number}{group}")
            if not one.is_supported and one.customers is not None and one.customers_std is not None:
                curve = curve.unsupported(one.customers, one.customers_std)
            drawn.append(curve)
        return drawn

    def _table(self, name: str) -> "Table":
        from wattveil.products.tables import Table  # noqa: PLC0415 - slow to load

        return Table(name=name, text="", columns=(), data=self._read(name))


@dataclass(frozen=True, eq=False, repr=False)
class Bundle(ReleaseTables):
    """A published release on disk, opened by `read_bundle`; not checked until `verify`."""

    folder: Path

    def __repr__(self) -> str:
        """Return the folder, the tables and the privacy guarantee."""
        tables = ", ".join(self.tables)
        return f"Bundle({str(self.folder)!r}: {tables}; {self._statement()})"

    @cached_property
    def manifest(self) -> "Manifest":
        """The manifest: public choices, guarantee, draws, tables and files."""
        from wattveil.bundle.bundle_files import read_manifest  # noqa: PLC0415 - slow to load

        return read_manifest(self.folder)

    @property
    def model(self) -> "SyntheticModel":
        """The released model of synthetic customers; ``sample`` draws them at no privacy cost."""
        from wattveil.products.synthesis import read_model  # noqa: PLC0415 - slow to load

        return read_model(self.folder)

    @property
    def year_model(self) -> "YearModel":
        """The released model of years; ``sample`` draws synthetic years at no privacy cost."""
        from wattveil.products.years import read_year_model  # noqa: PLC0415 - slow to load

        return read_year_model(self.folder)

    def verify(self, trusted: "Ed25519PublicKey | None" = None) -> "VerificationReport":
        """Verify the bundle without access to the data, as `verify_bundle` does.

        Parameters
        ----------
        trusted
            The public key that must have signed it: ``wattveil.bundle.read_public_key(path)``.
        """
        from wattveil.bundle.verify.verify_bundle import verify_bundle  # noqa: PLC0415 - slow

        return verify_bundle(self.folder, trusted=trusted)

    def _read(self, name: str) -> "pa.Table":
        from wattveil.bundle.bundle_files import read_table  # noqa: PLC0415 - slow to load

        return read_table(self.folder, name)


def read_bundle(path: str | Path) -> Bundle:
    """Open a published release from its folder, which must contain a manifest, or its zip archive.

    Parameters
    ----------
    path
        The folder: written by `wattveil release`, or by `download` of a release on a server; or the
        zip archive that a server sends, unpacked to a folder that is deleted with the result.
    """
    bundle = Bundle(Path(path))
    _check_is_bundle(bundle.folder)
    if bundle.folder.is_file():
        from wattveil.bundle.bundle_archive import unpack_archive  # noqa: PLC0415 - seldom needed

        bundle = Bundle(Path(tempfile.mkdtemp(prefix="wattveil-")))
        weakref.finalize(bundle, shutil.rmtree, bundle.folder, ignore_errors=True)
        unpack_archive(Path(path), bundle.folder)
    if "products" not in bundle.manifest:
        expected = "a release; for periods of a series, use LoadSeries(folder).result()"
        raise InvalidFileError(bundle.folder, "manifest.json", expected, None)
    return bundle


def _check_is_bundle(path: Path) -> None:
    """Refuse a path that does not exist, or is neither a folder nor an archive of a release."""
    if not path.exists():
        problem = ": no such file or folder"
    elif zipfile.is_zipfile(path) if path.is_file() else (path / "manifest.json").exists():
        return
    else:
        problem = "is neither a bundle folder nor a zip archive"
    raise InvalidFileError(path, "folder", "a bundle", None, problem=problem)


def plan_tables(
    products: Sequence[Mapping[str, Any]], customers: int
) -> dict[str, Callable[[], ResultTable]]:
    """Return the tables of a plan: the split of the budget, and the expected quality.

    Parameters
    ----------
    products
        As `PlannedProduct` has them, in JSON values.
    customers
        Estimate of the number of customers, for which the quality is expected.
    """

    def split() -> ResultTable:
        columns = {
            "product": [str(one["name"]) for one in products],
            "epsilon": [float(one["epsilon"]) for one in products],
            "delta": [float(one["delta"]) for one in products],
            "share_of_rho": [float(one["share_of_rho"]) for one in products],
        }
        return ResultTable(columns, ("product",))

    def expected() -> ResultTable:
        records = [
            {"product": one["name"], **line, "for_customers": customers}
            for one in products
            for line in one["expected"]
        ]
        return records_table(records, "product", "quantity")

    return {"expected": expected, "products": split}


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """Return a plan as lines of text: for how many customers, and what is expected.

    Parameters
    ----------
    plan
        As `PlanSummary` has it, in JSON values; what is missing is left out.
    """
    lines = []
    if customers := plan.get("customers_estimate"):
        lines.append(f"  expected for about {customers:,} customers:")
    for product in plan.get("products", ()):
        texts = "; ".join(map(_expected_text, product["expected"]))
        lines.append(f"  {product['name']}: {texts}")
    return [*lines, *(f"  Warning: {text}" for text in plan.get("warnings", ()))]


def _expected_text(one: Mapping[str, Any]) -> str:
    """Return an expected quality, with its range if one is stated."""
    if one["value"] is None:
        return f"{one['quantity']} {one['unit']}"
    text = f"{one['quantity']} {format_number(one['value'], 2)} {one['unit']}".rstrip()
    if one.get("low") is None:
        return text
    return f"{text} ({format_number(one['low'], 2)} to {format_number(one['high'], 2)})"

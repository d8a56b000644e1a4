"""A toy product, written as a contributor would: one class, and one call of `register`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from wattveil.declaration import Declaration
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
from wattveil.privacy.guarantee import Budget, Spend
from wattveil.privacy.mechanisms.contributions import Query
from wattveil.privacy.mechanisms.gaussian import PrivateTable
from wattveil.products.findings import Finding, same_numbers
from wattveil.products.product import (
    Allotment,
    Choice,
    Contents,
    Expectation,
    Product,
    ReleasedProduct,
    Run,
    Work,
)
from wattveil.products.tables import CUSTOMERS, CUSTOMERS_STD, GROUP, Table, TableLayout
from wattveil.release.rows.load_features import one_cell
from wattveil.web.charts import ReportFigure, new_figure


class ToyOptions(Declaration):
    """Options of the toy product."""

    multiple: Annotated[int, Field(ge=0, le=1000)] = 0
    """Round the count to a multiple of this; 0 leaves it as drawn."""


class Counted(NamedTuple):
    """A noisy count."""

    customers: float
    std: float
    spends: tuple[Spend, ...]


class Toy(Product):
    """Noisy number of customers, by one histogram of one cell."""

    name = "toy"
    title = "Number of customers"
    default_weight: float | None = 0.5
    Options: ClassVar[type[Declaration] | None] = ToyOptions
    postprocessing = ("toy: as drawn",)

    def layouts(self, choice: Choice) -> tuple[TableLayout, ...]:
        """Return a table of one row."""
        del choice
        layout = TableLayout(
            name="toy_customers",
            text="Noisy number of customers.",
            keys={GROUP: list(ALL_CUSTOMERS)},
            values=(CUSTOMERS, CUSTOMERS_STD),
        )
        return (layout,)

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the one count."""
        del tags, choice
        return {"toy count": 1}

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:
        """Return an expected error without a simulation."""
        del choice
        return (Expectation("error of the count", 10.0 / allotment.guarantee.epsilon, "customers"),)

    def query(self, work: Work, allotment: Allotment) -> Counted:
        """Count the customers, with all of the allotment."""
        budget = Budget(allotment.guarantee)
        query = Query(tag="toy count", rho_units=budget.rho_units, n_cells=1)
        counted, std = PrivateTable(work.load_kw, budget).release(one_cell.bind(), query)[0]
        return Counted(float(counted[0]), std, budget.spends)

    def tabulate(self, released: Counted, choice: Choice, allotment: Allotment) -> ReleasedProduct:
        """Return the table."""
        (layout,) = self.layouts(choice)
        options: ToyOptions = choice.request.options[self.name]
        customers = released.customers
        if options.multiple:
            customers = options.multiple * float(round(customers / options.multiple))
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(layout.filled([customers], [released.std]),),
        )

    def recompute(self, contents: Contents) -> Iterator[Finding]:
        """Compute the standard error again, from the stated noise."""
        if "toy_customers" in contents.tables:
            gaussian = contents.record["runs"][0]["mechanisms"][0]["gaussian"]
            std = float(gaussian["noise_scale_steps"]) * float(gaussian["grid_step"])
            same = same_numbers(contents.tables["toy_customers"].column("customers_std"), [std])
            yield Finding("the toy error follows from the noise", same, f"{std:.6g}")

    def figures(self, tables: Mapping[str, Table], choice: Choice) -> Iterator[ReportFigure]:
        """Return a bar."""
        del choice
        if "toy_customers" in tables:
            figure = new_figure()
            figure.add_bar(x=["all"], y=tables["toy_customers"].column("customers"))
            yield ReportFigure("Customers", figure, "A toy.")

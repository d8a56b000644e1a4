"""A toy product, written as a contributor would: one class, and one call of `register`.

Its release function is in `tests.toy_release`: products do not import functions of private rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from tests.toy_release import CustomerCount, count_customers
from wattveil.declaration import Declaration
from wattveil.numerics.groups.group_sizes import ALL_CUSTOMERS
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
from wattveil.products.tables import COUNT, COUNT_STD, GROUP, Table, TableLayout
from wattveil.web.charts import ReportFigure, new_figure


class ToyOptions(Declaration):
    """Options of the toy product."""

    multiple: Annotated[int, Field(ge=0, le=1000)] = 0
    """Round the count to a multiple of this; 0 leaves it as drawn."""


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
            values=(COUNT, COUNT_STD),
        )
        return (layout,)

    def draws(self, tags: Sequence[str], choice: Choice) -> Mapping[str, int]:
        """Return the one count."""
        del tags, choice
        return {"toy count": 1}

    def expected(self, choice: Choice, allotment: Allotment) -> tuple[Expectation, ...]:
        """Return the standard error of the count."""
        del choice
        return (Expectation("error of the count", allotment.count_std, "customers"),)

    def query(self, work: Work, allotment: Allotment) -> CustomerCount:
        """Count the customers, with all of the allotment."""
        return count_customers(
            work.load_kw,
            epsilon=allotment.guarantee.epsilon,
            delta=allotment.guarantee.delta,
        )

    def tabulate(
        self, released: CustomerCount, choice: Choice, allotment: Allotment
    ) -> ReleasedProduct:
        """Return the table."""
        (layout,) = self.layouts(choice)
        options: ToyOptions = choice.request.options[self.name]
        count = released.count
        if options.multiple:
            count = options.multiple * float(round(count / options.multiple))
        return ReleasedProduct(
            name=self.name,
            allotment=allotment,
            runs=(Run(group=None, spends=released.spends),),
            tables=(layout.filled([count], [released.count_std]),),
        )

    def recompute(self, contents: Contents) -> Iterator[Finding]:
        """Compute the standard error again, from the stated noise."""
        if "toy_customers" in contents.tables:
            std = contents.noise_std
            same = same_numbers(contents.tables["toy_customers"].column("count_std"), [std])
            yield Finding("the toy error follows from the noise", same, f"{std:.6g}")

    def figures(self, tables: Mapping[str, Table], choice: Choice) -> Iterator[ReportFigure]:
        """Return a bar."""
        del choice
        if "toy_customers" in tables:
            figure = new_figure()
            figure.add_bar(x=["all"], y=tables["toy_customers"].column("count"))
            yield ReportFigure("Customers", figure, "A toy.")

"""Releases of samples of simulated homes, made as `wattveil release` makes them."""

from wattveil.arrays import Floats
from wattveil.bundle.plan import ReleasePlan, requested_products, split_budget
from wattveil.bundle.produce import release_products
from wattveil.products.request import ReleaseRequest
from wattveil.products.tables import Table
from wattveil.profiles import Profiles, TimeGrid


def plan_without_errors(request: ReleaseRequest) -> ReleasePlan:
    """Return the plan of a release; expected errors, which take long to compute, are left out."""
    return ReleasePlan(
        request=request,
        products=requested_products(request),
        allotments=split_budget(request),
        expected={},
    )


def released_tables(load_kw: Floats, plan: ReleasePlan) -> dict[str, Table]:
    """Release the products of a plan; return their tables by name."""
    profiles = Profiles(
        customer_ids=tuple(map(str, range(len(load_kw)))),
        load_kw=load_kw,
        grid=TimeGrid(),
        timezone="UTC",
    )
    parts = release_products(profiles, plan)
    return {table.name: table for part in parts for table in part.tables}

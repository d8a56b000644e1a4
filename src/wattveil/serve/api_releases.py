"""Releases for those who paid for them: state, manifest, report, tables, all of it."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Response

from wattveil.publish.bundle import MANIFEST
from wattveil.serve import files
from wattveil.serve.access import Access
from wattveil.serve.bodies import ShareBody
from wattveil.serve.checking import check_bundle
from wattveil.serve.counter import Counter
from wattveil.serve.house import House
from wattveil.serve.releases import shown_to
from wattveil.serve.shares import share_release
from wattveil.serve.tokens import Holder

_MOST_LISTED = 500

REPORT_POLICY = (
    "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline';"
    " script-src 'unsafe-inline'; frame-ancestors 'self'; sandbox allow-scripts"
)
"""A report has its scripts inside; it can reach nothing, not even this server."""


def release_routes(house: House, access: Access) -> APIRouter:
    """Return the addresses of releases."""
    routes, counter = APIRouter(prefix="/v1"), Counter(house)
    asking = Depends(access.holder)

    @routes.get("/releases")
    def list_releases(holder: Annotated[Holder, asking]) -> dict[str, object]:
        """List one's own releases, the newest first."""
        with house.ledger.reading() as connection:
            latest = shown_to(connection, holder.name, most=_MOST_LISTED)
        return {"releases": [counter.release(paid) for paid in latest]}

    @routes.get("/releases/{release}")
    def read_release(release: str, holder: Annotated[Holder, asking]) -> dict[str, object]:
        """Say how a release stands: state, request, price, names of tables."""
        paid = access.paid(holder, release)
        said = counter.release(paid)
        if said["state"] == "ok":
            said["tables"] = files.tables(counter.bundle(paid))
        return said

    @routes.post("/releases/{release}/shares", status_code=201)
    def share(
        release: str, body: ShareBody, holder: Annotated[Holder, asking]
    ) -> dict[str, object]:
        """Let somebody else read a release, for good; free."""
        paid = access.own_paid(holder, release)
        share_release(house.ledger, paid, reader=body.reader, by=holder.name)
        return {"id": paid.id, "reader": body.reader}

    @routes.post("/verify")
    def verify(
        bundle: Annotated[bytes, Body(media_type="application/zip")],
        _: Annotated[Holder, asking],
    ) -> dict[str, object]:
        """Check a bundle, sent as a zip file, as `wattveil verify` does."""
        return check_bundle(house, bundle)

    @routes.get("/releases/{release}/manifest")
    def read_manifest(release: str, holder: Annotated[Holder, asking]) -> Response:
        """Fetch the release statement."""
        bundle = counter.bundle(access.paid(holder, release))
        return Response((bundle / MANIFEST).read_bytes(), media_type="application/json")

    @routes.get("/releases/{release}/report")
    def read_report(release: str, holder: Annotated[Holder, asking]) -> Response:
        """Fetch the page for people."""
        bundle = counter.bundle(access.paid(holder, release))
        policy = {"Content-Security-Policy": REPORT_POLICY}
        return Response((bundle / "report.html").read_bytes(), 200, policy, "text/html")

    @routes.get("/releases/{release}/bundle.zip")
    def read_bundle(release: str, holder: Annotated[Holder, asking]) -> Response:
        """Fetch all of it, for `wattveil verify` and `wattveil synthesize`."""
        bundle = counter.bundle(access.paid(holder, release))
        return Response(files.zipped(bundle), media_type="application/zip")

    @routes.get("/releases/{release}/payload/{file}")
    def read_payload(release: str, file: str, holder: Annotated[Holder, asking]) -> Response:
        """Fetch one table, as `.csv`, `.json` or `.parquet`."""
        content, kind = files.payload(counter.bundle(access.paid(holder, release)), file)
        return Response(content, media_type=kind)

    return routes

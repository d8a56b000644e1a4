"""Files of a release, for the API and for the pages."""

from pathlib import Path

from starlette.responses import Response

from wattveil.bundle.bundle_files import MANIFEST
from wattveil.server import bundle_archives
from wattveil.server.auth.access import Access
from wattveil.server.auth.principals import Principal
from wattveil.server.http.downloads import Downloads
from wattveil.server.http.problems import Code, Problem
from wattveil.server.ordered_releases import OrderedRelease
from wattveil.server.release_service import ReleaseService
from wattveil.server.server_state import ServerState

REPORT = "report.html"
REPORT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"
)
"""A report has no scripts; it can reach no server, not even this one."""


class BundleFiles:
    """Sends files of releases, a few at a time to one principal."""

    def __init__(self, state: ServerState, access: Access) -> None:
        self._service, self._access = ReleaseService(state), access
        self._downloads = Downloads()

    def manifest(self, ordered: OrderedRelease, reader: Principal) -> Response:
        """Return the manifest."""
        with self._downloads.place(reader.name):
            content = self._service.read_bundle(ordered, lambda one: (one / MANIFEST).read_bytes())
        return Response(content, media_type="application/json")

    def report(self, ordered: OrderedRelease, reader: Principal) -> Response:
        """Return the report."""
        with self._downloads.place(reader.name):
            content = self._service.read_bundle(ordered, lambda one: (one / REPORT).read_bytes())
        return Response(content, 200, {"Content-Security-Policy": REPORT_POLICY}, "text/html")

    def archive(self, ordered: OrderedRelease, reader: Principal) -> Response:
        """Return the bundle as it is stored."""
        path, etag = self._service.archive(ordered)
        return self._file(reader, path, "application/zip", etag=etag)

    def table(self, ordered: OrderedRelease, name: str, reader: Principal) -> Response:
        """Return a table in the format that its file name states."""
        path, table, kind = self._service.read_bundle(
            ordered, lambda one: bundle_archives.payload_file(one, name)
        )
        media_type = bundle_archives.MEDIA_TYPES[kind]
        if kind != "json":
            etag = f"{self._service.content_hash(ordered)}-{name}"
            return self._file(reader, path, media_type, etag=etag)
        with self._downloads.place(reader.name), self._access.writing(reader):
            content = self._service.read_bundle(
                ordered, lambda one: bundle_archives.table_json(one, table)
            )
        return Response(content, media_type=media_type)

    def _file(self, reader: Principal, path: Path, media_type: str, *, etag: str) -> Response:
        try:
            return self._downloads.file(reader.name, path, media_type, etag=etag)
        except OSError:
            raise Problem(Code.BUNDLE_MISSING) from None

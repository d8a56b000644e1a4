"""Downloads: files are sent as they are stored, in pieces, and a few at a time to a principal."""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from wattveil.server.http.problems import Code, Problem

MAX_PER_PRINCIPAL = 4
"""Downloads of one principal at the same time."""
HEAD = "wattveil.head"
"""Key of the scope of a request whose response has no body."""

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class Downloads:
    """Counts the downloads of each principal while they are sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sending: Counter[str] = Counter()

    @contextmanager
    def place(self, principal: str) -> Iterator[None]:
        """Hold a place of a principal, or refuse."""
        with self._lock:
            if self._sending[principal] >= MAX_PER_PRINCIPAL:
                raise Problem(Code.BUSY)
            self._sending[principal] += 1
        try:
            yield
        finally:
            with self._lock:
                self._sending[principal] -= 1
                self._sending += Counter()  # drop zero counts

    def file(self, principal: str, path: Path, media_type: str, *, etag: str) -> Response:
        """Return a response that sends a file; its content never changes."""
        return _FileDownload(self, principal, path, media_type, etag)


class _FileDownload(FileResponse):
    """A file, a part of it (`Range`), or the statement that the client has it (304)."""

    def __init__(
        self,
        downloads: Downloads,
        principal: str,
        path: Path,
        media_type: str,
        etag: str,
    ) -> None:
        facts = path.stat()
        super().__init__(path, 200, {"ETag": f'"{etag}"'}, media_type, stat_result=facts)
        # The file was written when the computation ended, which depends on the rows.
        del self.headers["last-modified"]
        self._downloads, self._principal, self._bytes = downloads, principal, facts.st_size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        given = Headers(scope=scope)
        etag = self.headers["etag"]
        if {etag, f"W/{etag}", "*"} & {one.strip() for one in _all(given, "if-none-match")}:
            await Response(status_code=304, headers={"ETag": etag})(scope, receive, send)
            return
        if (wanted := given.get("range")) is not None:
            kept = MutableHeaders(raw=list(scope["headers"]))
            if not self._has_part(wanted) or given.get("if-range", etag) != etag:
                del kept["range"]
            del kept["if-range"]  # compared above: the class below would read a time as well
            scope = {**scope, "headers": kept.raw}
        if scope.get(HEAD):
            scope = {**scope, "method": "HEAD"}
        try:
            with self._downloads.place(self._principal):
                await super().__call__(scope, receive, send)
        except Problem as problem:
            await problem.response()(scope, receive, send)

    def _has_part(self, wanted: str) -> bool:
        """Whether a range names a part of the file; any other range is answered with all of it."""
        found = _RANGE.fullmatch(wanted.strip())
        if found is None or found[1] + found[2] == "":
            return False
        if found[1] == "":
            return int(found[2]) > 0
        last = int(found[2]) if found[2] else self._bytes
        return int(found[1]) <= last and int(found[1]) < self._bytes


def _all(headers: Headers, name: str) -> list[str]:
    return ",".join(headers.getlist(name)).split(",")

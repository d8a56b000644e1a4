"""Outermost middleware: identifier, log line, metrics and span of each request; operator routes."""

import logging
import time
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wattveil.server.auth.access import Access
from wattveil.server.auth.principals import Principal
from wattveil.server.http.problems import Code, Problem, problem_responses
from wattveil.server.http.responses import Health, Ready
from wattveil.server.log_throttle import THROTTLED
from wattveil.server.observe.readiness import REQUIRED
from wattveil.server.observe.request_record import begin_record
from wattveil.server.observe.server_metrics import MEDIA_TYPE, ServerMetrics
from wattveil.server.observe.tracing import RequestTracer

REQUEST_ID = "X-Request-Id"
_RAW_ID = REQUEST_ID.lower().encode()
_NO_ROUTE = "-"
_MIN_ANSWERED, _MIN_REFUSED = 200, 400
"""Statuses of requests that were not refused; 0 is that of a client that has gone."""

_LOG = logging.getLogger("wattveil.server")


class ObservedMiddleware:
    """Counts, logs and traces every request."""

    def __init__(
        self, app: ASGIApp, metrics: ServerMetrics, tracer: RequestTracer | None = None
    ) -> None:
        self._app, self._metrics, self._tracer = app, metrics, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, and record it when it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        record = begin_record(_header(scope, _RAW_ID), client[0] if client else "")
        started, started_ns, status = time.perf_counter(), time.time_ns(), 0

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (_RAW_ID, record.id.encode())]
            await send(message)

        await self._app(scope, receive, send_observed)
        seconds = time.perf_counter() - started
        # Route templates and statuses only: addresses as sent could contain secrets.
        route = getattr(scope.get("route"), "path", _NO_ROUTE)
        method = scope["method"][:7] if status else "-"
        fields: dict[str, object] = {"method": method, "route": route, "status": status}
        if record.problem is not None:
            fields["problem"] = record.problem
        if record.is_timed:
            fields["seconds"] = round(seconds, 6)
            if self._tracer is not None:
                self._tracer.record(
                    started_ns=started_ns,
                    ended_ns=started_ns + round(seconds * 1e9),
                    name=f"{method} {route}",
                    parent=_header(scope, b"traceparent") or None,
                    status=status,
                    attributes={
                        "http.request.method": method,
                        "http.route": route,
                        "http.response.status_code": status,
                        "wattveil.request_id": record.id,
                    },
                )
        self._metrics.count(record, method, route, status, seconds)
        extra: dict[str, object] = {"fields": fields}
        if not record.is_authenticated or not _MIN_ANSWERED <= status < _MIN_REFUSED:
            extra[THROTTLED] = f"{route} {status}"  # not its method, which anybody may invent
        _LOG.info("%s %s %s", method, route, status, extra=extra)


def _header(scope: Scope, name: bytes) -> str:
    """Return the first header of a name, in lower case; empty if there is none."""
    for one, value in scope["headers"]:
        if one == name:
            return str(value.decode("latin-1"))
    return ""


def operator_routes(access: Access, metrics: ServerMetrics) -> APIRouter:
    """Return the routes for supervisors: alive, ready, metrics."""
    routes = APIRouter()
    monitor = Depends(access.monitor)

    @routes.get("/livez")
    async def read_liveness() -> Health:
        """Return whether the process answers; needs no token, and neither thread nor database."""
        return Health(status="ok")

    @routes.get("/readyz", responses=problem_responses(Code.UNAVAILABLE))
    async def read_readiness() -> Ready:
        """Return whether database, disk, queue, key and high-water mark are ready; needs no token.

        While the database or the key fails, it is a problem. Otherwise stored releases can be read,
        and the response names the components that fail.
        """
        found = await metrics.readiness.failing()
        failing = [one.value for one in found]
        if REQUIRED & {*found}:
            title = "the server is not ready"
            raise Problem(Code.UNAVAILABLE, title=title, failing=failing)
        return Ready(status="degraded" if failing else "ok", failing=failing)

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={
            200: {"description": "Metrics of Prometheus.", "content": {"text/plain": {}}},
            **problem_responses(Code.UNAUTHORIZED, Code.FORBIDDEN, Code.BUSY),
        },
    )
    async def read_metrics(_: Annotated[Principal, monitor]) -> Response:
        """Return the metrics, for tokens of monitors and administrators."""
        await metrics.readiness.failing()
        content = await run_in_threadpool(metrics.text)
        return Response(content, media_type=MEDIA_TYPE)

    return routes

"""The server as one ASGI application: middleware, API, pages, error responses."""

from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from wattveil.errors import WattveilError
from wattveil.server.auth.access import Access, Limits
from wattveil.server.auth.identity_provider import IdentityProvider
from wattveil.server.auth.sessions import Sessions
from wattveil.server.http.api import (
    admin_routes,
    dataset_routes,
    principal_routes,
    release_routes,
)
from wattveil.server.http.bundle_downloads import BundleFiles
from wattveil.server.http.compression import CompressMiddleware
from wattveil.server.http.direct_answers import HEALTHY, DirectAnswers
from wattveil.server.http.middleware import GuardMiddleware, unexpected
from wattveil.server.http.observed import ObservedMiddleware, operator_routes
from wattveil.server.http.pages_admin import admin_pages, ledger_pages
from wattveil.server.http.pages_analyst import (
    analyst_pages,
    file_pages,
    release_pages,
    verify_pages,
)
from wattveil.server.http.pages_identity import provider_pages, session_pages
from wattveil.server.http.pages_order import confirmation_pages, order_pages
from wattveil.server.http.problems import (
    Code,
    Problem,
    problem_of,
    problem_responses,
    use_problems,
)
from wattveil.server.http.responses import Health
from wattveil.server.http.series_routes import series_pages, series_routes
from wattveil.server.http.server_pages import (
    SignInRequired,
    problem_response,
    redirect_to_sign_in,
    sign_in_pages,
    user_of,
)
from wattveil.server.observe.server_metrics import ServerMetrics
from wattveil.server.observe.tracing import RequestTracer
from wattveil.server.server_state import ServerState

_METHODS = ("GET", "POST")

_PAGES = (
    analyst_pages,
    order_pages,
    confirmation_pages,
    release_pages,
    verify_pages,
    admin_pages,
    ledger_pages,
    series_pages,
    provider_pages,
    session_pages,
)


def make_app(
    state: ServerState,
    limits: Limits | None = None,
    tracer: RequestTracer | None = None,
    provider: IdentityProvider | None = None,
    certificate: Path | None = None,
) -> ObservedMiddleware:
    """Return the application of a server; metrics state when its TLS certificate expires."""
    access, sessions = Access(state, limits or Limits(), provider), Sessions(state)
    identify = partial(_identify_sender, access, sessions)
    metrics = ServerMetrics(state, certificate)
    api = make_api(state, access, sessions, metrics)
    guarded = GuardMiddleware(api, identify, DirectAnswers(state, access).find)
    return ObservedMiddleware(guarded, metrics, tracer)


class _Api(FastAPI):
    """FastAPI with problems in the place of its own error responses."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, made at the first request."""
        if self.openapi_schema is None:
            use_problems(super().openapi())
        return super().openapi()


def make_api(
    state: ServerState, access: Access, sessions: Sessions, metrics: ServerMetrics
) -> FastAPI:
    """Return the API and the pages; the API is described at `/v1/openapi.json`."""
    app = _Api(
        title="Wattveil",
        version=version("wattveil"),
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its page would fetch scripts from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(CompressMiddleware)

    @app.get("/healthz", response_model=Health, responses=problem_responses(Code.UNAVAILABLE))
    async def read_health() -> Response:  # in the event loop: it waits for no thread, no database
        """Return the state of the server; needs no token."""
        if not state.worker.is_healthy:
            raise Problem(Code.UNAVAILABLE)
        return Response(HEALTHY, media_type="application/json")

    bundle_files = BundleFiles(state, access)
    for routes in (dataset_routes, admin_routes, principal_routes, series_routes):
        app.include_router(routes(state, access))
    app.include_router(release_routes(state, access, bundle_files))
    app.include_router(operator_routes(access, metrics))
    app.include_router(sign_in_pages(access, sessions))
    for pages in _PAGES:
        app.include_router(pages(state, access, sessions))
    app.include_router(file_pages(access, sessions, bundle_files))
    app.add_exception_handler(SignInRequired, redirect_to_sign_in)

    async def send_problem(request: Request, error: Exception) -> Response:
        expected = getattr(request.scope.get("endpoint"), "__annotations__", {}).get("body")
        found = problem_of(error, fields=getattr(expected, "model_fields", ()))
        problem = unexpected(error) if found.code is Code.INTERNAL else found
        user = await run_in_threadpool(user_of, sessions, access, request)
        response = problem_response(request, problem, user)
        if problem.code is Code.METHOD_NOT_ALLOWED:
            response.headers["Allow"] = ", ".join(_allowed(app, request))
        return response

    for kind in (Problem, WattveilError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, send_problem)
    return app


def _allowed(app: FastAPI, request: Request) -> list[str]:
    """Return the methods of an address, of all routes that have it."""
    methods = {
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in app.routes
        )
    }
    return sorted({*methods, "HEAD"} if "GET" in methods else methods)


def _identify_sender(
    access: Access, sessions: Sessions, request: Request, *, json_bytes: int = 0
) -> str | None:
    """Return the name of the principal that sends a request, by token or, of pages, by cookie.

    If it has a JSON body, that is counted, and an invalid token is refused and counted.
    """
    try:
        principal = access.identify(request, json_bytes=json_bytes)
        if principal is None and not request.url.path.startswith("/v1/"):
            by_session = sessions.find(request)
            principal = by_session and by_session[1]
    except WattveilError as error:
        raise problem_of(error) from None  # the sender may well be known
    return principal.name if principal else None

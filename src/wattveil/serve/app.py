"""The server as one ASGI application: guard, API, problems."""

from functools import partial

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from wattveil.errors import WattveilError
from wattveil.serve.access import Access, Limits
from wattveil.serve.api_datasets import dataset_routes
from wattveil.serve.api_owner import owner_routes
from wattveil.serve.api_people import people_routes
from wattveil.serve.api_releases import release_routes
from wattveil.serve.described import DescribedApi
from wattveil.serve.guard import Guard, unexpected
from wattveil.serve.house import House
from wattveil.serve.pages import SignInFirst, page, to_the_door
from wattveil.serve.pages_admin import admin_pages
from wattveil.serve.pages_analyst import asking_pages
from wattveil.serve.pages_check import check_pages
from wattveil.serve.pages_door import door_pages
from wattveil.serve.pages_ledger import ledger_pages
from wattveil.serve.pages_release import file_pages, release_pages
from wattveil.serve.problems import Code, Problem, problem_of
from wattveil.serve.sessions import Sessions

_PAGES = (asking_pages, release_pages, file_pages, check_pages, admin_pages, ledger_pages)


def make_app(house: House, limits: Limits | None = None) -> Guard:
    """Return the application that serves a house."""
    access, sessions = Access(house, limits or Limits()), Sessions(house)
    return Guard(make_api(house, access, sessions), partial(_sender, access, sessions))


def make_api(house: House, access: Access, sessions: Sessions) -> FastAPI:
    """Return what is behind the guard; it describes itself at `/v1/openapi.json`."""
    app = DescribedApi(
        title="Wattveil",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # its page would fetch scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    for routes in (dataset_routes, release_routes, owner_routes, people_routes):
        app.include_router(routes(house, access))

    app.include_router(door_pages(access, sessions))
    for pages in _PAGES:
        app.include_router(pages(house, access, sessions))
    app.add_exception_handler(SignInFirst, to_the_door)

    @app.get("/healthz")
    def is_well() -> dict[str, str]:
        """Say that the server works; needs no token."""
        if not house.worker.is_well:
            raise Problem(Code.UNAVAILABLE)
        return {"status": "ok"}

    for kind in (Problem, WattveilError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _say_problem)
    app.add_exception_handler(Exception, _say_nothing)
    return app


def _sender(access: Access, sessions: Sessions, request: Request) -> str | None:
    """Return who sends a request, by token or by cookie; None for a stranger."""
    try:
        found, at_a_page = access.known(request), sessions.find(request)
    except WattveilError as error:
        raise problem_of(error) from None  # a stranger it need not be
    holder = found or (at_a_page and at_a_page[1])
    return holder.name if holder else None


async def _say_problem(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    said = unexpected(error) if problem.code is Code.INTERNAL else problem
    return _shown(request, said)


async def _say_nothing(request: Request, error: Exception) -> Response:
    return _shown(request, unexpected(error))


def _shown(request: Request, problem: Problem) -> Response:
    """Return a problem as a page to a browser, and as JSON to everything else."""
    at_a_page = not request.url.path.startswith("/v1/")
    if at_a_page and "text/html" in request.headers.get("Accept", ""):
        return page("problem.html", problem.code.status, title=problem.code.title)
    return problem.response()

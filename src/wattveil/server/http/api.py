"""HTTP API of analysts and of administrators, below `/v1`.

Every administrative action on a budget is an entry of the ledger, in the name of its actor.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Query
from sqlalchemy import select
from starlette.responses import Response

from wattveil.privacy.guarantee import Tier
from wattveil.server import bundle_archives, datasets
from wattveil.server.auth import principals
from wattveil.server.auth.access import Access
from wattveil.server.auth.principals import Principal
from wattveil.server.bundle_archives import check_bundle
from wattveil.server.dataset_choices import DatasetBody
from wattveil.server.http import responses
from wattveil.server.http.bundle_downloads import BundleFiles
from wattveil.server.http.direct_answers import description_of
from wattveil.server.http.problems import COMMON_PROBLEMS, Code, problem_responses
from wattveil.server.http.requests import (
    BudgetBody,
    PrincipalBody,
    ReasonBody,
    ReleaseBody,
    ShareBody,
    TokenBody,
)
from wattveil.server.ledger.journal import SEALED
from wattveil.server.ledger.ledger_tables import entry
from wattveil.server.ledger.order import check_key
from wattveil.server.ordered_releases import MAX_ID, share_release, visible_releases
from wattveil.server.release_service import ReleaseService
from wattveil.server.server_state import ServerState

_MAX_RELEASES = 100
"""Most releases in a list: one that is longer would take the processor from others."""
_MAX_ENTRIES = 1000
_MAX_EVENTS = 1000

_FORBIDDEN = problem_responses(Code.FORBIDDEN)
_NOT_FOUND = problem_responses(Code.NOT_FOUND)
_RELEASE = problem_responses(Code.NOT_FOUND, Code.BUNDLE_MISSING, Code.NOT_RECORDED)
_LIST = problem_responses(Code.NOT_FOUND, Code.INVALID_REQUEST)
_INVALID = problem_responses(Code.INVALID_REQUEST)
_ACTION = problem_responses(Code.FORBIDDEN, Code.INVALID_REQUEST)
_ORDER = problem_responses(
    Code.FORBIDDEN,
    Code.INVALID_REQUEST,
    Code.BUDGET_REFUSED,
    Code.REFUSED,
    Code.KEY_CONFLICT,
)
_FILE_PROBLEMS = (
    *(Code.NOT_FOUND, Code.NOT_READY, Code.FAILED),
    *(Code.BUNDLE_MISSING, Code.NOT_RECORDED),
)
_SHARE = problem_responses(Code.NOT_FOUND, Code.FORBIDDEN, Code.INVALID_REQUEST)


def _file(*media_types: str) -> dict[str, Any]:
    """Return the options of a route that sends a file."""
    content = {"description": "A file.", "content": {kind: {} for kind in media_types}}
    problems = problem_responses(*_FILE_PROBLEMS)
    return {"response_class": Response, "responses": {200: content, **problems}}


def _router(prefix: str) -> APIRouter:
    return APIRouter(prefix=prefix, responses=problem_responses(*COMMON_PROBLEMS))


def dataset_routes(state: ServerState, access: Access) -> APIRouter:
    """Return the routes of analysts for data sets: budgets, quotes, orders."""
    routes, service = _router("/v1"), ReleaseService(state)
    authenticated = Depends(access.current)

    @routes.get("/me", response_model=responses.Me)
    async def read_me(principal: Annotated[Principal, authenticated]) -> Response:
        """Return the principal that the token belongs to."""
        return Response(description_of(principal), media_type="application/json")

    @routes.get("/datasets")
    def list_datasets(principal: Annotated[Principal, authenticated]) -> responses.Datasets:
        """List the data sets for which the principal has an account."""
        return responses.Datasets(
            datasets=[one.description() for one in access.datasets(principal)]
        )

    @routes.get("/datasets/{dataset}", responses=_FORBIDDEN)
    def read_dataset(
        dataset: str, principal: Annotated[Principal, authenticated]
    ) -> responses.Dataset:
        """Return the public parameters of a data set: clipping bound, groups, products, grid."""
        return access.dataset(principal, dataset).description()

    @routes.get("/datasets/{dataset}/budget", responses=_ACTION)
    def read_budget(
        dataset: str, principal: Annotated[Principal, authenticated], tier: Tier = Tier.GLOBAL
    ) -> responses.Budget:
        """Return caps and amounts spent, of the data set and of the principal."""
        return service.budget(principal, access.dataset(principal, dataset), tier)

    @routes.post("/datasets/{dataset}/quotes", responses=_ACTION)
    def make_quote(
        dataset: str, body: ReleaseBody, principal: Annotated[Principal, authenticated]
    ) -> responses.Quote:
        """Return price, budget split and expected quality of a request. Nothing is charged."""
        with access.pricing(principal):
            return service.quote(principal, access.dataset(principal, dataset), body)

    @routes.post(
        "/datasets/{dataset}/releases",
        status_code=202,
        response_model_exclude_unset=True,
        responses={200: {"model": responses.Release, "description": "It is computed."}, **_ORDER},
    )
    def order_release(
        dataset: str,
        body: ReleaseBody,
        principal: Annotated[Principal, authenticated],
        idempotency_key: Annotated[str, Header()],
        response: Response,
    ) -> responses.Release:
        """Order a release: 202 while it is computed, 200 afterwards.

        Repeating a request with its idempotency key returns the same release; it is charged once.
        """
        key = check_key("Idempotency-Key", idempotency_key)
        with access.pricing(principal):
            ordered = service.order(principal, access.dataset(principal, dataset), body, key)
        release = service.release(ordered)
        response.headers["Location"] = f"/v1/releases/{ordered.id}"
        if release.state != "computing":
            response.status_code = 200
        return release

    return routes


def release_routes(state: ServerState, access: Access, bundle_files: BundleFiles) -> APIRouter:
    """Return the routes of analysts for releases: state, files, sharing, verification."""
    routes, service = _router("/v1"), ReleaseService(state)
    authenticated = Depends(access.current)

    @routes.get("/releases", response_model=responses.Releases, responses=_LIST)
    def list_releases(
        principal: Annotated[Principal, authenticated],
        limit: Annotated[int, Query(ge=1, le=_MAX_RELEASES)] = 50,
        before: Annotated[str, Query(max_length=MAX_ID)] = "",
    ) -> Response:
        """List the releases of the principal and those shared with it, the newest first.

        For the next page, set `before` to the last `id`.
        """
        last = access.release(principal, before) if before else None
        with state.ledger.reading() as connection:
            latest = visible_releases(connection, principal.name, limit=limit, before=last)
        found = responses.Releases(releases=[service.release(one) for one in latest])
        # Written here, in a thread: FastAPI would do it on the event loop, after a second check.
        return Response(found.model_dump_json(exclude_unset=True), media_type="application/json")

    @routes.get("/releases/{release}", response_model_exclude_unset=True, responses=_RELEASE)
    def read_release(
        release: str, principal: Annotated[Principal, authenticated]
    ) -> responses.Release:
        """Return state, request, price and table names of a release."""
        ordered = access.release(principal, release)
        service.check_recorded(ordered)
        found = service.release(ordered)
        if found.state != "ok":
            return found
        tables = service.read_bundle(ordered, bundle_archives.tables)
        return found.model_copy(update={"tables": tables})

    @routes.post("/releases/{release}/shares", status_code=201, responses=_SHARE)
    def share(
        release: str, body: ShareBody, principal: Annotated[Principal, authenticated]
    ) -> responses.Shared:
        """Permit another principal to read a release, permanently. Nothing is charged."""
        ordered = access.own_release(principal, release)
        share_release(state.ledger, ordered, reader=body.reader, by=principal.name)
        return responses.Shared(id=ordered.id, reader=body.reader)

    @routes.post("/verify", responses=_INVALID)
    def verify(
        bundle: Annotated[bytes, Body(media_type="application/zip")],
        principal: Annotated[Principal, authenticated],
    ) -> responses.BundleVerification:
        """Verify a bundle, sent as a zip file, as `wattveil verify` does."""
        return check_bundle(state, bundle, principal)

    @routes.get("/releases/{release}/manifest", **_file("application/json"))
    def read_manifest(release: str, principal: Annotated[Principal, authenticated]) -> Response:
        """Download the manifest."""
        return bundle_files.manifest(access.release(principal, release), principal)

    @routes.get("/releases/{release}/report", **_file("text/html"))
    def read_report(release: str, principal: Annotated[Principal, authenticated]) -> Response:
        """Download the report."""
        return bundle_files.report(access.release(principal, release), principal)

    @routes.get("/releases/{release}/bundle.zip", **_file("application/zip"))
    def read_bundle(release: str, principal: Annotated[Principal, authenticated]) -> Response:
        """Download the bundle, for `wattveil verify` and `wattveil synthesize`.

        The file never changes: `Range` and `If-None-Match` are supported.
        """
        return bundle_files.archive(access.release(principal, release), principal)

    @routes.get(
        "/releases/{release}/payload/{file}", **_file(*bundle_archives.MEDIA_TYPES.values())
    )
    def read_payload(
        release: str, file: str, principal: Annotated[Principal, authenticated]
    ) -> Response:
        """Download one table, as `.csv`, `.json` or `.parquet`."""
        return bundle_files.table(access.release(principal, release), file, principal)

    return routes


def admin_routes(state: ServerState, access: Access) -> APIRouter:
    """Return the routes of administrators for data sets, budgets and the ledger."""
    routes, ledger, service = _router("/v1/admin"), state.ledger, ReleaseService(state)
    administrator = Depends(access.admin)

    @routes.post("/datasets", status_code=201, responses=_ACTION)
    def register_dataset(
        body: DatasetBody, admin: Annotated[Principal, administrator]
    ) -> responses.Dataset:
        """Register a data set with its budget. Its public parameters never change."""
        datasets.register(
            ledger, state.folder, body, by=admin.name, describe_profiles=state.describe_profiles
        )
        return access.dataset(admin, body.name).description()

    @routes.post("/datasets/{dataset}/budgets", responses=_ACTION)
    def set_budget(
        dataset: str, body: BudgetBody, admin: Annotated[Principal, administrator]
    ) -> responses.BudgetSet:
        """Set the cap of the account of the data set or of one principal."""
        name = access.dataset(admin, dataset).name
        ledger.set_budget(
            name,
            datasets.allowance_of(body.allowance),
            by=admin.name,
            reason=body.reason,
            tier=body.tier,
            principal=body.principal,
            lost=body.lost(),
        )
        return responses.BudgetSet(dataset=name, tier=body.tier, principal=body.principal)

    @routes.get("/datasets/{dataset}/accounts", responses=_FORBIDDEN)
    def list_accounts(
        dataset: str, admin: Annotated[Principal, administrator]
    ) -> responses.Accounts:
        """List the accounts of a data set, with caps and amounts spent."""
        return responses.Accounts(accounts=service.accounts(access.dataset(admin, dataset)))

    @routes.post("/datasets/{dataset}/close", responses=_ACTION)
    def close_dataset(
        dataset: str, body: ReasonBody, admin: Annotated[Principal, administrator]
    ) -> responses.Closed:
        """Close a data set permanently. Its releases stay readable."""
        name = access.dataset(admin, dataset).name
        ledger.close_dataset(name, by=admin.name, reason=body.reason)
        return responses.Closed(dataset=name, closed=True)

    @routes.get("/ledger", responses=_ACTION)
    def read_ledger(
        _: Annotated[Principal, administrator],
        journal: Annotated[int, Query(ge=1, le=2**31 - 1)] = 1,
        after: Annotated[int, Query(ge=0, le=2**62)] = 0,
    ) -> responses.Entries:
        """Return entries of a journal, at most 1000.

        For the next page, set `after` to the last `seq`.
        """
        page = (
            select(*(entry.c[name] for name in (*SEALED, "row_sha256")))
            .where(entry.c.journal_id == journal, entry.c.seq > after)
            .order_by(entry.c.seq)
            .limit(_MAX_ENTRIES)
        )
        with ledger.reading() as connection:
            rows = connection.execute(page).mappings().all()
        return responses.Entries(entries=[responses.Entry(**row) for row in rows])

    return routes


def principal_routes(state: ServerState, access: Access) -> APIRouter:
    """Return the routes of administrators for principals and their tokens."""
    routes, ledger = _router("/v1/admin"), state.ledger
    administrator = Depends(access.admin)

    @routes.get("/principals", responses=_FORBIDDEN)
    def list_principals(_: Annotated[Principal, administrator]) -> responses.Principals:
        """List all principals."""
        with ledger.reading() as connection:
            found = principals.list_principals(connection)
        return responses.Principals(principals=[responses.PrincipalRecord(**one) for one in found])

    @routes.get("/events", responses=_FORBIDDEN)
    def list_events(_: Annotated[Principal, administrator]) -> responses.PrincipalEvents:
        """List the latest administrative actions on principals, the newest first."""
        with ledger.reading() as connection:
            found = principals.latest_events(connection, limit=_MAX_EVENTS)
        return responses.PrincipalEvents(events=[responses.PrincipalEvent(**one) for one in found])

    @routes.post("/principals", status_code=201, responses=_ACTION)
    def create_principal(
        body: PrincipalBody, admin: Annotated[Principal, administrator]
    ) -> responses.NewPrincipal:
        """Create a principal; its token is shown once."""
        token = principals.create_principal(
            ledger, body.name, body.kind, by=admin.name, days=body.token_days
        )
        return responses.NewPrincipal(name=body.name, kind=body.kind, token=token)

    @routes.post("/principals/{name}/tokens", status_code=201, responses=_ACTION)
    def issue_token(
        name: str, body: TokenBody, admin: Annotated[Principal, administrator]
    ) -> responses.NewToken:
        """Issue a further token of a principal; it is shown once."""
        token = principals.issue_token(ledger, name, by=admin.name, days=body.days)
        return responses.NewToken(name=name, token=token)

    @routes.get("/principals/{name}/tokens", responses=_ACTION)
    def list_tokens(name: str, _: Annotated[Principal, administrator]) -> responses.Tokens:
        """List the valid tokens of a principal."""
        with ledger.reading() as connection:
            found = principals.valid_tokens(connection, name)
        return responses.Tokens(tokens=[responses.TokenRecord(**one) for one in found])

    @routes.post("/principals/{name}/tokens/{token}/revoke", responses=_ACTION)
    def revoke_token(
        name: str,
        token: Annotated[int, Path(ge=1, le=2**31 - 1)],
        admin: Annotated[Principal, administrator],
    ) -> responses.Revoked:
        """Revoke one token of a principal, and end its sessions."""
        principals.revoke_token(ledger, name, token, by=admin.name)
        return responses.Revoked(name=name, revoked=1)

    @routes.post("/principals/{name}/revoke", responses=_ACTION)
    def revoke_tokens(name: str, admin: Annotated[Principal, administrator]) -> responses.Revoked:
        """Revoke every token of a principal."""
        revoked = principals.revoke_tokens(ledger, name, by=admin.name)
        return responses.Revoked(name=name, revoked=revoked)

    @routes.post("/principals/{name}/disable", responses=_ACTION)
    def disable_principal(
        name: str, admin: Annotated[Principal, administrator]
    ) -> responses.Disabled:
        """Disable a principal permanently."""
        principals.disable(ledger, name, by=admin.name)
        return responses.Disabled(name=name, disabled=True)

    return routes

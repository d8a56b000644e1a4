"""Sign-in by an OpenID Connect provider: authorization code with PKCE, and JWTs for the API.

A token of the provider is accepted only if its signature is by a key of the provider, its algorithm
is asymmetric, issuer and audience are those that were configured, and it has not expired. The ID
token of a sign-in has the nonce of that sign-in as well. What a person may do follows from groups.
"""

import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import httpx
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken, IDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from wattveil.errors import InvalidParameterError
from wattveil.server.auth.identity_provider import (
    Identity,
    OpenIdSettings,
    PendingSignIn,
    ProviderError,
    check_address,
)
from wattveil.server.auth.principals import random_secret
from wattveil.server.ledger.administration import PrincipalKind

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
"""Asymmetric ones: with HS256, whoever has the public key could sign."""
_MAX_SECONDS = 10.0
"""Time limit of a request to the provider."""
_KEPT_SECONDS = 3600.0
"""Endpoints and keys of the provider are read again after this time."""
_SOONEST_SECONDS = 30.0
"""Unknown keys make the server read the keys again, at most this often. After a failure, nothing is
read again sooner."""
MAX_WAITING = 4
"""Threads that wait for one thing from the provider; others are refused at once. Strangers can
cause such requests, and must not occupy the threads of the server while a provider is silent."""
_LEEWAY_SECONDS = 30
"""Permitted difference of clocks."""
_SCOPE = "openid profile"
_CAUSES: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "its host name is not known: check --oidc-issuer and DNS"),
    (ssl.SSLError, "TLS failed: check its certificate and the certificate authorities"),
    (ConnectionRefusedError, "it refused the connection"),
    (httpx.TimeoutException, "it did not respond in time"),
    (httpx.TransportError, "it cannot be reached"),
    (ValueError, "it sent no JSON"),
)
"""Why a request failed, the first that is in the chain of errors."""
_OAUTH_CAUSES = {
    "invalid_client": "it does not accept the client: check --oidc-client-id and the secret",
    "unauthorized_client": "it does not accept the client: check --oidc-client-id and the secret",
    "invalid_grant": "it does not accept the code of a sign-in",
}
"""By the error that a token endpoint states (RFC 6749)."""


class OpenIdProvider:
    """The provider: endpoints and keys, read when they are needed."""

    def __init__(self, settings: OpenIdSettings) -> None:
        self.settings = settings
        self._metadata = _Fetched(self._fetch_metadata)
        self._keys = _Fetched(self._fetch_keys)
        self._exchanges = threading.BoundedSemaphore(MAX_WAITING)

    def check(self) -> None:
        """Read the description of the provider; why it fails is in the log."""
        with suppress(ProviderError):
            self._endpoint("authorization_endpoint")

    def begin(self, redirect_uri: str, *, to: str, seconds: float) -> tuple[str, PendingSignIn]:
        """Return the address at the provider to send a browser to, and what to keep meanwhile."""
        pending = PendingSignIn(
            state=random_secret(),
            nonce=random_secret(),
            verifier=random_secret(),
            redirect_uri=redirect_uri,
            to=to,
            until=time.time() + seconds,
        )
        address = prepare_grant_uri(
            self._endpoint("authorization_endpoint"),
            self.settings.client_id,
            "code",
            redirect_uri,
            _SCOPE,
            pending.state,
            nonce=pending.nonce,
            code_challenge=create_s256_code_challenge(pending.verifier),
            code_challenge_method="S256",
        )
        return str(address), pending

    def finish(self, pending: PendingSignIn, code: str) -> Identity | None:
        """Return the person who signed in; None if none of its groups has a role."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "client_id": self.settings.client_id,
            "code_verifier": pending.verifier,
        }
        secret = self.settings.client_secret
        auth = None if secret is None else (self.settings.client_id, secret)
        address = self._endpoint("token_endpoint")
        with _place(self._exchanges):
            answer = _request("POST", address, fields, auth)
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise _failed("it sent no ID token")
        try:
            claims = self._claims(
                text,
                CodeIDToken,
                audience=self.settings.client_id,
                nonce=pending.nonce,
                client_id=self.settings.client_id,
            )
        except ProviderError:
            cause = "its ID token is not accepted: check issuer, audience and clocks"
            raise _failed(cause) from None
        return self._identity(claims)

    def identify(self, text: str) -> Identity | None:
        """Return the person of a JWT that was sent to the API; None if no group has a role."""
        if self.settings.audience is None:
            raise ProviderError
        return self._identity(self._claims(text, IDToken, audience=self.settings.audience))

    def _identity(self, claims: Mapping[str, Any]) -> Identity | None:
        found = claims.get(self.settings.groups_claim, [])
        groups = (
            {one for one in found if isinstance(one, str)} if isinstance(found, list) else set()
        )
        if groups & self.settings.admin_groups:
            role = PrincipalKind.ADMIN
        elif groups & self.settings.analyst_groups:
            role = PrincipalKind.ANALYST
        else:
            return None
        return Identity(
            issuer=self.settings.issuer,
            subject=str(claims["sub"]),
            name=str(claims.get("preferred_username", "")),
            role=role,
            issued_at=int(claims["iat"]),  # each token has one, not in the future: `IDToken`
        )

    def _claims(
        self, text: str, kind: type[IDToken], *, audience: str, **expected: str
    ) -> Mapping[str, Any]:
        """Check signature and claims of a JWT."""
        try:
            decoded = self._decoded(text)
            if decoded.header.get("alg") not in _ALGORITHMS:
                raise ProviderError
            options = {
                "iss": {"essential": True, "value": self.settings.issuer},
                "aud": {"essential": True, "value": audience},
                "exp": {"essential": True},
                "sub": {"essential": True},
            }
            if "nonce" in expected:
                options["nonce"] = {"essential": True, "value": expected["nonce"]}
            checked = kind(decoded.claims, decoded.header, options, expected)
            checked.validate(leeway=_LEEWAY_SECONDS)
        except (JoseError, ValueError, TypeError, KeyError):
            raise ProviderError from None
        claims: Mapping[str, Any] = checked
        return claims

    def _decoded(self, text: str) -> jwt.Token:
        """Check the signature; a key that is not known yet may be new."""
        try:
            return jwt.decode(text, self._keys.get(_KEPT_SECONDS), algorithms=_ALGORITHMS)
        except (JoseError, ValueError):
            keys = self._keys.get(_SOONEST_SECONDS)
            return jwt.decode(text, keys, algorithms=_ALGORITHMS)

    def _fetch_keys(self) -> KeySet:
        address = self._endpoint("jwks_uri")
        try:
            return KeySet.import_key_set(_request("GET", address))  # type: ignore[arg-type]  # checked there
        except (JoseError, ValueError, TypeError, KeyError):
            raise ProviderError from None

    def _fetch_metadata(self) -> dict[str, Any]:
        issuer = self.settings.issuer
        found = _request("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise _failed("its issuer is not that of --oidc-issuer, to the letter")
        return found

    def _endpoint(self, name: str) -> str:
        """Return an address of the provider, from its own description."""
        address = self._metadata.get(_KEPT_SECONDS).get(name)
        if not isinstance(address, str):
            raise _failed("its description lacks an endpoint")
        try:
            check_address(name, address)
        except InvalidParameterError:
            raise _failed("an endpoint is no https:// address") from None
        return address


class _Fetched(Generic[T]):
    """Something that the provider states: read by one thread at a time, and kept for a time."""

    def __init__(self, fetch: Callable[[], T]) -> None:
        self._fetch = fetch
        self._turn = threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_WAITING)
        self._found: tuple[float, T] | None = None
        self._failed_at = -math.inf

    def get(self, kept_seconds: float) -> T:
        """Return what was read within these seconds, or read it; a failure is remembered."""
        if (found := self._known(kept_seconds)) is not None:
            return found
        with _place(self._places), self._turn:
            if (found := self._known(kept_seconds)) is not None:  # read by another thread
                return found
            try:
                found = self._fetch()
            except _NoPlaceError:
                raise  # says nothing about the provider
            except ProviderError:
                self._failed_at = time.monotonic()
                raise
            self._found = time.monotonic(), found
            return found

    def _known(self, kept_seconds: float) -> T | None:
        """Return what is known; refuse if reading it has failed a moment ago."""
        now, kept = time.monotonic(), self._found
        if kept is not None and now - kept[0] < kept_seconds:
            return kept[1]
        if now - self._failed_at < _SOONEST_SECONDS:
            raise ProviderError
        return None


class _NoPlaceError(ProviderError):
    """Too many threads wait for the provider."""


@contextmanager
def _place(places: threading.BoundedSemaphore) -> Iterator[None]:
    """Take one of the places of threads that wait; refuse at once if all are taken."""
    if not places.acquire(blocking=False):
        raise _NoPlaceError
    try:
        yield
    finally:
        places.release()


def _request(
    method: str,
    address: str,
    fields: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> dict[str, Any]:
    """Send a request to the provider, and return its JSON; redirects are not followed."""
    try:
        answer = httpx.request(method, address, data=fields, auth=auth, timeout=_MAX_SECONDS)
        content = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise _failed(_cause(error)) from None
    if not isinstance(content, dict):
        raise _failed("it sent no JSON object")
    return content


def _cause(error: Exception) -> str:
    """Return why a request failed: of a fixed list, never a text of the provider."""
    if isinstance(error, httpx.HTTPStatusError):
        with suppress(ValueError, KeyError, TypeError):
            return _OAUTH_CAUSES[error.response.json()["error"]]
        return f"it responded with status {error.response.status_code}"
    chain: list[BaseException] = [error]
    while (earlier := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(earlier)
    found = (words for kind, words in _CAUSES if any(isinstance(one, kind) for one in chain))
    return next(found, "it cannot be reached")


def _failed(cause: str) -> ProviderError:
    """Log why the provider failed, for the operator, and return the error that says no more."""
    _LOG.warning("the identity provider failed: %s", cause)
    return ProviderError()

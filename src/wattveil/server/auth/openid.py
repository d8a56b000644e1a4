"""Sign-in by an OpenID Connect provider: authorization code with PKCE, and JWTs for the API.

A token of the provider is accepted only if its signature is by a key of the provider, its algorithm
is asymmetric, issuer and audience are those that were configured, and it has not expired. The ID
token of a sign-in has the nonce of that sign-in as well. What a person may do follows from groups.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any

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

_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
"""Asymmetric ones: with HS256, whoever has the public key could sign."""
_MAX_SECONDS = 10.0
"""Time limit of a request to the provider."""
_KEPT_SECONDS = 3600.0
"""Endpoints and keys of the provider are read again after this time."""
_SOONEST_SECONDS = 30.0
"""Unknown keys make the server read the keys again, at most this often."""
_LEEWAY_SECONDS = 30
"""Permitted difference of clocks."""
_SCOPE = "openid profile"


class OpenIdProvider:
    """The provider: endpoints and keys, read when they are needed."""

    def __init__(self, settings: OpenIdSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._metadata: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None

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
        answer = _request("POST", self._endpoint("token_endpoint"), fields, auth)
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise ProviderError
        claims = self._claims(
            text,
            CodeIDToken,
            audience=self.settings.client_id,
            nonce=pending.nonce,
            client_id=self.settings.client_id,
        )
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
            return jwt.decode(text, self._known_keys(_KEPT_SECONDS), algorithms=_ALGORITHMS)
        except (JoseError, ValueError):
            keys = self._known_keys(_SOONEST_SECONDS)
            return jwt.decode(text, keys, algorithms=_ALGORITHMS)

    def _known_keys(self, kept_seconds: float) -> KeySet:
        with self._lock:
            if self._keys is not None and time.monotonic() - self._keys[0] < kept_seconds:
                return self._keys[1]
        address = self._endpoint("jwks_uri")
        try:
            keys = KeySet.import_key_set(_request("GET", address))  # type: ignore[arg-type]  # checked there
        except (JoseError, ValueError, TypeError, KeyError):
            raise ProviderError from None
        with self._lock:
            self._keys = time.monotonic(), keys
        return keys

    def _endpoint(self, name: str) -> str:
        """Return an address of the provider, from its own description."""
        with self._lock:
            kept = self._metadata
        if kept is None or time.monotonic() - kept[0] > _KEPT_SECONDS:
            issuer = self.settings.issuer
            found = _request("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != issuer:
                raise ProviderError
            kept = time.monotonic(), found
            with self._lock:
                self._metadata = kept
        address = kept[1].get(name)
        if not isinstance(address, str):
            raise ProviderError
        try:
            check_address(name, address)
        except InvalidParameterError:
            raise ProviderError from None
        return address


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
    except (httpx.HTTPError, ValueError):
        raise ProviderError from None
    if not isinstance(content, dict):
        raise ProviderError
    return content

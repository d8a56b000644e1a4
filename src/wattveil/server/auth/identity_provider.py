"""What the server knows about an identity provider: settings, and people as it states them.

The provider itself is in `openid`, which needs the extra `oidc`.
"""

import ipaddress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from wattveil.errors import InvalidParameterError
from wattveil.server.ledger.administration import PrincipalKind


class ProviderError(Exception):
    """A provider cannot be reached, or sent something that is not accepted. Says no more."""


@dataclass(frozen=True, kw_only=True)
class OpenIdSettings:
    """Provider, client, and the groups that have a role."""

    issuer: str
    client_id: str
    client_secret: str | None
    """None: a public client, protected by PKCE alone."""
    audience: str | None
    """Audience of JWTs that the API accepts; None: it accepts none."""
    groups_claim: str
    admin_groups: frozenset[str]
    analyst_groups: frozenset[str]

    def __post_init__(self) -> None:
        """Refuse settings that would be unsafe."""
        check_address("oidc_issuer", self.issuer)
        if self.audience == self.client_id:
            # An ID token states that somebody signed in; it is no permission to use the API.
            rule = "different from the client: ID tokens would be accepted by the API"
            raise InvalidParameterError("oidc_audience", rule, self.audience)
        if not self.admin_groups | self.analyst_groups:
            rule = "given, one at least: nobody could sign in"
            raise InvalidParameterError("oidc_admin_group, oidc_analyst_group", rule, None)
        if both := self.admin_groups & self.analyst_groups:
            rule = "different groups"
            value = min(both)
            raise InvalidParameterError("oidc_admin_group, oidc_analyst_group", rule, value)


@dataclass(frozen=True, kw_only=True)
class PendingSignIn:
    """A sign-in that was sent to the provider; kept by the browser, never sent to the provider."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    to: str
    """Page of this server to go to afterwards."""
    until: float


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A person as the provider states it."""

    issuer: str
    subject: str
    name: str
    """Preferred name; not unique, and chosen by the person at many providers."""
    role: PrincipalKind
    issued_at: int
    """Time of issue of the token that states this, in seconds of Unix time."""


class IdentityProvider(Protocol):
    """A provider at which people sign in."""

    def check(self) -> None:
        """Read the description of the provider; why it fails is in the log."""

    def begin(self, redirect_uri: str, *, to: str, seconds: float) -> tuple[str, PendingSignIn]:
        """Return the address at the provider to send a browser to, and what to keep meanwhile."""

    def finish(self, pending: PendingSignIn, code: str) -> Identity | None:
        """Return the person who signed in; None if none of its groups has a role."""

    def identify(self, text: str) -> Identity | None:
        """Return the person of a JWT that was sent to the API; None if no group has a role."""


def check_address(field: str, address: str) -> None:
    """Refuse plain HTTP beyond the loopback: keys could be replaced in transit."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    try:
        here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = False
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and here)):
        raise InvalidParameterError(field, "an https:// address", address)

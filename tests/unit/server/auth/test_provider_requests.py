"""Requests to an identity provider that does not respond: few threads wait for it, and seldom."""

import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.fake_clock import fake_clock
from wattveil.server.auth import openid
from wattveil.server.auth.identity_provider import OpenIdSettings, PendingSignIn, ProviderError
from wattveil.server.auth.openid import OpenIdProvider

ISSUER = "https://identity.example"
CALLERS = 20
PATIENCE_SECONDS = 120
PENDING = PendingSignIn(
    state="s", nonce="n", verifier="v", redirect_uri=f"{ISSUER}/back", to="/", until=0.0
)

Call = Callable[[OpenIdProvider], object]


class SilentProvider:
    """Stands for the network: an address that does not respond until it is told to fail."""

    def __init__(self, silent: str) -> None:
        self.silent, self.failing, self.asked = silent, threading.Event(), 0

    def request(self, _: str, address: str, *__: object) -> dict[str, Any]:
        """Respond as a provider does, or not at all."""
        if address.endswith(self.silent):
            self.asked += 1
            self.failing.wait(PATIENCE_SECONDS)
            raise ProviderError
        return {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys", "token_endpoint": f"{ISSUER}/token"}


def provider() -> OpenIdProvider:
    """Return a provider of which nothing is known yet."""
    return OpenIdProvider(
        OpenIdSettings(
            issuer=ISSUER,
            client_id="pages",
            client_secret=None,
            audience="api",
            groups_claim="groups",
            admin_groups=frozenset({"admins"}),
            analyst_groups=frozenset(),
        )
    )


def sign_in(of: OpenIdProvider) -> object:
    """Begin a sign-in."""
    return of.begin("https://data.example/back", to="/", seconds=60)


def present(of: OpenIdProvider) -> object:
    """Present a JWT that somebody made up."""
    return of.identify(f"{'a' * 20}.{'b' * 20}.{'c' * 20}")


def come_back(of: OpenIdProvider) -> object:
    """Come back from the provider with a code."""
    return of.finish(PENDING, "code")


@pytest.mark.parametrize(
    ("silent", "call", "asked"),
    [
        ("openid-configuration", sign_in, 1),
        ("openid-configuration", present, 1),
        ("keys", present, 1),
        ("token", come_back, openid.MAX_WAITING),  # each has a code of its own
    ],
)
def test_few_wait_for_a_silent_provider(
    silent: str, call: Call, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are refused at once, so that the threads of a server stay free."""
    network, one = SilentProvider(silent), provider()
    monkeypatch.setattr(openid, "_request", network.request)
    if call is come_back:
        one._endpoint("token_endpoint")  # known since the sign-in began
    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [pool.submit(call, one) for _ in range(CALLERS)]
        until = time.monotonic() + PATIENCE_SECONDS
        while sum(not each.done() for each in calls) > openid.MAX_WAITING:
            assert time.monotonic() < until
            time.sleep(0.001)
        network.failing.set()
    assert network.asked == asked
    assert all(isinstance(each.exception(), ProviderError) for each in calls)


@pytest.mark.parametrize(("silent", "call"), [("configuration", sign_in), ("keys", present)])
def test_a_failure_is_remembered(silent: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is asked again after half a minute, not before."""
    network, one = SilentProvider(silent), provider()
    network.failing.set()
    clock = fake_clock(monkeypatch, openid, 1000.0)
    monkeypatch.setattr(openid, "_request", network.request)
    for seconds, asked in ((0.0, 1), (1.0, 1), (28.0, 1), (2.0, 2)):
        clock.sleep(seconds)
        with pytest.raises(ProviderError):
            call(one)
        assert network.asked == asked


def responding(status: int, content: str) -> Callable[..., httpx.Response]:
    """Return what stands for a provider with one response."""

    def respond(method: str, address: str, **_: object) -> httpx.Response:
        return httpx.Response(status, text=content, request=httpx.Request(method, address))

    return respond


def failing(cause: Exception) -> Callable[..., httpx.Response]:
    """Return what stands for a network that fails, as httpx states it."""

    def fail(*_: object, **__: object) -> httpx.Response:
        raise httpx.ConnectError("secret words") from cause

    return fail


def silent(*_: object, **__: object) -> httpx.Response:
    """Stand for a provider that does not respond."""
    raise httpx.ReadTimeout("secret words")


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (failing(socket.gaierror(-2, "secret words")), "host name is not known"),
        (failing(ssl.SSLCertVerificationError("secret words")), "TLS failed"),
        (failing(ConnectionRefusedError("secret words")), "refused the connection"),
        (failing(OSError("secret words")), "cannot be reached"),
        (silent, "did not respond in time"),
        (responding(500, "secret words"), "status 500"),
        (responding(401, '{"error": "invalid_client"}'), "check --oidc-client-id and the secret"),
        (responding(401, '{"error": ["secret words"]}'), "status 401"),
        (responding(200, "secret words"), "no JSON"),
        (responding(200, "[]"), "no JSON object"),
        (responding(200, '{"issuer": "secret words"}'), "its issuer is not that of --oidc-issuer"),
        (responding(200, f'{{"issuer": "{ISSUER}"}}'), "lacks an endpoint"),
    ],
)
def test_the_cause_of_a_failure_is_logged(
    network: Callable[..., httpx.Response],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a fixed list, for the operator; nothing that the provider or the network said."""
    monkeypatch.setattr(httpx, "request", network)
    provider().check()  # raises nothing: the server starts without its provider
    (message,) = caplog.messages
    assert message.startswith("the identity provider failed: ")
    assert words in message
    assert "secret words" not in caplog.text

"""Options of `wattveil serve` from the environment."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wattveil.cli import app
from wattveil.server import run


def started(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, Any]:
    """Return what the server would be started with."""
    seen: dict[str, Any] = {}

    def start(data: Path, database: str | None, **options: Any) -> None:  # noqa: ANN401 - as given
        seen.update(options, data=data, database=database)

    monkeypatch.setattr(run, "run", start)
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert result.exit_code == 0, result.output
    return seen


def test_every_option_has_a_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The command line takes precedence, and a repeated option is a list."""
    secret = tmp_path / "secret"
    secret.write_text("hidden\n")
    given = {
        "DATA": str(tmp_path),
        "DATABASE": "postgresql:///wattveil",
        "HOST": "0.0.0.0",  # noqa: S104 - nothing listens
        "PORT": "8500",
        "TLS_CERTIFICATE": "a.pem",
        "TLS_KEY": "a.key",
        "BEHIND_PROXY": "10.0.0.1 10.1.0.0/24",
        "PROCESSES": "2",
        "COMPUTE_PROCESSES": "3",
        "OIDC_ISSUER": "https://identity.example",
        "OIDC_CLIENT_ID": "pages",
        "OIDC_CLIENT_SECRET_FILE": str(secret),
        "OIDC_AUDIENCE": "api",
        "OIDC_GROUPS_CLAIM": "roles",
        "OIDC_ADMIN_GROUP": "one two",
        "OIDC_ANALYST_GROUP": "three",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"WATTVEIL_SERVE_{name}", value)
    seen = started(monkeypatch, "--port", "9000")
    assert (seen["data"], seen["database"]) == (tmp_path, "postgresql:///wattveil")
    assert (seen["host"], seen["port"]) == ("0.0.0.0", 9000)  # noqa: S104 - nothing listens
    assert seen["tls"] == (Path("a.pem"), Path("a.key"))
    assert seen["behind_proxy"] == ("10.0.0.1", "10.1.0.0/24")
    assert (seen["processes"], seen["compute_processes"]) == (2, 3)
    openid = seen["openid"]
    assert (openid.issuer, openid.client_id, openid.client_secret, openid.audience) == (
        *("https://identity.example", "pages"),
        *("hidden", "api"),
    )
    assert openid.groups_claim == "roles"
    assert openid.admin_groups == {"one", "two"}
    assert openid.analyst_groups == {"three"}


def test_settings_of_a_provider_belong_together(tmp_path: Path) -> None:
    """A server that was meant to have a provider does not start without it."""
    data = ["serve", "--data", str(tmp_path)]
    for wrong in (
        ["--oidc-issuer", "https://identity.example"],
        ["--oidc-admin-group", "x"],
        [
            *("--oidc-issuer", "https://identity.example", "--oidc-client-id", "pages"),
            *("--oidc-admin-group", "x", "--oidc-client-secret-file", str(tmp_path / "none")),
        ],
    ):
        result = CliRunner().invoke(app, [*data, *wrong])
        assert result.exit_code == 2, result.output


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("TLS_CERTIFICAT", "did you mean WATTVEIL_SERVE_TLS_CERTIFICATE?\n"),
        ("QQQQ", "no option of this name"),
    ],
)
def test_a_misspelled_variable_is_refused(
    name: str, near: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By its name, with the nearest one; its value, which may be secret, is not shown."""
    name = f"WATTVEIL_SERVE_{name}"
    monkeypatch.setenv(name, "the-value")
    monkeypatch.setattr(run, "run", lambda *_, **__: pytest.fail("started"))
    result = CliRunner().invoke(app, ["serve", "--data", str(tmp_path)])
    assert result.exit_code == 2
    assert name in result.stderr
    assert near in result.stderr
    assert "the-value" not in result.output

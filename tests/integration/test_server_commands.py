"""Commands of administrators: the API from a terminal; a token is never on a command line."""

import json

import pytest
from typer.testing import CliRunner

from tests.live_server import Running, put_profiles
from tests.sample_bundles import some_profiles
from wattveil import Profiles, connect
from wattveil.cli import app
from wattveil.errors import InvalidParameterError


def run(*arguments: str) -> tuple[int, str]:
    """Run a command of an administrator; return its exit code and what it printed."""
    result = CliRunner().invoke(app, ["admin", *arguments], terminal_width=200)
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_an_owner_does_everything_from_a_terminal(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Register, admit, budget, revoke, close, disable; what the server refuses is said."""
    file = put_profiles(server.state.folder, "terminal.parquet", some_profiles(25))
    register = ("dataset", "--name", "terminal", "--file", file, "--clip-kw", "5", "--epsilon", "2")
    groups = ("--group", "class=home,shop", "--title", "A town", "--url", server.url)
    monkeypatch.delenv("WATTVEIL_TOKEN", raising=False)
    assert run(*register, *groups)[0] == 2
    monkeypatch.setenv("WATTVEIL_TOKEN", "")  # as if it were not set
    code, said = run(*register, *groups)
    assert (code, "WATTVEIL_TOKEN must be set to the token of an" in said) == (2, True), said
    with pytest.raises(InvalidParameterError, match="token is empty"):
        connect(server.url, "")
    monkeypatch.setenv("WATTVEIL_TOKEN", server.tokens["ann"])
    code, said = run(*register, *groups)
    assert (code, "forbidden" in said) == (1, True)
    monkeypatch.setenv("WATTVEIL_TOKEN", server.tokens["owner"])
    assert run(*register, "--group", "class", "--url", server.url)[0] == 2
    # The process of the server, which is this one, reads no rows: another one does.
    monkeypatch.setattr(Profiles, "read_parquet", None)
    assert run(*register, *groups, "--customers", "0")[0] == 2
    rounded = "public estimate of the number of customers: 30, rounded to 20"
    code, said = run(*register, *groups, "--customers", "30")
    assert (code, said) == (0, f"{rounded} terminal is registered.")
    assert server.send("GET", "/v1/datasets/terminal").json["customers"] == 20
    code, said = run("analyst", "--name", "tess", "--days", "3", "--url", server.url, "--json")
    server.tokens["tess"] = json.loads(said)["token"]
    spend = (
        "--dataset",
        "terminal",
        "--principal",
        "tess",
        "--reason",
        "thesis",
        "--url",
        server.url,
    )
    code, said = run("budget", *spend, "--epsilon", "-1")
    assert (code, "invalid_request" in said) == (1, True), said
    assert run("budget", *spend, "--epsilon", "1") == (0, "The budget is set.")
    seen = server.send("GET", "/v1/datasets/terminal", as_="tess").json
    assert (seen["title"], seen["groups"]) == ("A town", {"class": ["home", "shop"]})
    principal = ("--name", "tess", "--url", server.url)
    assert run("revoke", *principal) == (0, "tess has no valid token.")
    assert server.send("GET", "/v1/me", as_="tess").status == 401
    again = server.send("POST", "/v1/admin/principals/tess/tokens", {}).json
    server.tokens["tess"] = again["token"]
    assert server.send("GET", "/v1/datasets/terminal", as_="tess").status == 200
    closing = ("close", "--dataset", "terminal", "--reason", "over", "--url", server.url)
    assert run(*closing) == (0, "terminal is closed.")
    assert server.send("GET", "/v1/datasets/terminal", as_="tess").json["closed"] is True
    code, said = run("disable", *principal, "--json")
    assert (code, json.loads(said)) == (0, {"name": "tess", "disabled": True})
    assert server.send("GET", "/v1/me", as_="tess").status == 401
    code, said = run("disable", *principal)
    assert (code, "invalid_request" in said) == (1, True), said
    events = server.send("GET", "/v1/admin/events").json["events"]
    tess = [one["action"] for one in events if one["name"] == "tess"]
    assert tess[0] == "disabled"
    assert "tokens revoked" in tess


def test_tokens_are_in_no_help() -> None:
    """No command has an option for a secret."""
    for command in (
        *("dataset", "analyst", "revoke", "disable", "budget", "close", "token", "profiles"),
    ):
        code, said = run(command, "--help")
        assert code == 0
        assert "--token" not in said
        assert "Example" in said


def test_labels_have_no_budget_without_epsilon() -> None:
    """A part of nothing is refused before the server is asked."""
    register = ("dataset", "--name", "a", "--file", "b", "--clip-kw", "5", "--linked-to", "homes")
    code, said = run(*register, "--label-epsilon", "1")
    assert (code, "--label-epsilon must be omitted without epsilon" in said) == (2, True), said

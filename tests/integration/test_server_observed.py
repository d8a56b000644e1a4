"""What an operator sees of a real server: health, metrics, logs, traces; nothing of rows."""

import http.server
import io
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from tests.live_server import (
    QUICK,
    Browser,
    Running,
    computing_here,
    furnish,
    refused,
    serving,
)
from wattveil.server.http.problems import Code
from wattveil.server.observe import readiness, server_metrics
from wattveil.server.observe.json_logs import JsonFormatter
from wattveil.server.observe.request_record import SecurityEvent
from wattveil.server.observe.tracing import RequestTracer

LABELS = {
    *("method", "route", "status", "code", "event", "component"),
    *("dataset", "tier", "state", "version", "le", "role", "principal"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Return a server with a data set and one release."""
    with computing_here(), serving(tmp_path_factory.mktemp("observed")) as running:
        furnish(running)
        made = running.send(
            "POST", "/v1/admin/principals", {"name": "prometheus", "kind": "monitor"}
        )
        running.tokens["prometheus"] = made.json["token"]
        ordered = running.order("first", QUICK).json
        assert running.finished(ordered["id"])["state"] == "ok"
        yield running


Samples = dict[str, list[tuple[dict[str, str], float]]]


def scraped(server: Running) -> Samples:
    """Return the samples of all metrics, by name, as Prometheus itself parses them."""
    answer = server.send("GET", "/metrics", as_="prometheus")
    assert answer.status == 200
    found: Samples = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value_of(samples: Samples, name: str, **labels: str) -> float:
    """Return the sum of the samples of a metric with these labels."""
    return sum(value for own, value in samples.get(name, []) if labels.items() <= own.items())


def test_liveness_and_readiness_need_no_token(server: Running) -> None:
    """Supervisors have none."""
    for path, expected in (("/livez", {}), ("/readyz", {"failing": list[str]()})):
        answer = server.send("GET", path, as_=None)
        assert (answer.status, answer.json) == (200, {"status": "ok", **expected})


def test_each_failing_component_is_named_and_nothing_else_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stays alive, and the report has the names of components alone.

    It is a problem only if nothing can be read: a proxy would withdraw the only server.
    """
    monkeypatch.setattr(readiness, "_KEPT_SECONDS", 0.0)
    monkeypatch.setattr(readiness, "_MAX_SECONDS", 600.0)  # however busy disk and processors are
    with serving(tmp_path) as server:

        def failing() -> list[str]:
            assert server.send("GET", "/livez", as_=None).status == 200
            answer = server.send("GET", "/readyz", as_=None)
            names: list[str] = answer.json["failing"]
            if {"database", "key"} & {*names}:
                refused(answer, Code.UNAVAILABLE)
                assert set(answer.json) == {"type", "title", "status", "code", "failing"}
                assert answer.json["title"] == "the server is not ready"
            else:
                assert (answer.status, answer.json["status"]) == (200, "degraded")
                assert set(answer.json) == {"status", "failing"}
            return names

        with monkeypatch.context() as patch:
            patch.setattr(readiness, "MIN_FREE_BYTES", 2**62)
            with logged() as lines:
                assert failing() == ["disk"]
            (line,) = (one for one in lines() if one["message"] == "not ready")
            assert (line["component"], line["cause"]) == ("disk", "ENOSPC")
            patch.setattr(server_metrics, "_LOW_BYTES", 2**62)
            assert value_of(scraped_as_owner(server), "wattveil_disk_low") == 1
        monkeypatch.setattr(server_metrics, "_LOW_BYTES", 0)
        assert value_of(scraped_as_owner(server), "wattveil_disk_low") == 0
        key = tmp_path / "release.key"
        hidden = key.rename(tmp_path / "hidden")
        assert failing() == ["key"]
        samples = scraped_as_owner(server)
        assert value_of(samples, "wattveil_ready", component="key") == 0
        assert value_of(samples, "wattveil_ready", component="disk") == 1
        hidden.rename(key)
        assert server.send("GET", "/readyz", as_=None).status == 200
        with monkeypatch.context() as patch:
            release, entered = threading.Event(), threading.Event()

            def hang() -> None:
                entered.set()
                release.wait()

            patch.setattr(readiness, "_MAX_SECONDS", 0.05)
            patch.setattr(readiness.Readiness, "_check_database", lambda _: hang())
            with serving_again(server) as other:
                answer = refused(other.send("GET", "/readyz", as_=None), Code.UNAVAILABLE)
                assert "database" in answer.json["failing"]  # and what a busy machine delayed
                assert entered.wait(600)
                release.set()
        server.state.worker.stop()
        assert failing() == ["queue"]


@contextmanager
def serving_again(server: Running) -> Iterator[Running]:
    """Serve another folder, with tokens of its own."""
    folder = server.state.folder / "other"
    folder.mkdir()
    with serving(folder) as other:
        yield other


def scraped_as_owner(server: Running) -> Samples:
    """Return the samples of a server whose administrator asks."""
    server.tokens.setdefault("prometheus", server.tokens["owner"])
    return scraped(server)


def test_metrics_need_a_token_of_a_monitor(server: Running) -> None:
    """Strangers, invalid tokens and analysts get nothing; a monitor gets nothing else."""
    refused(server.send("GET", "/metrics", as_=None), Code.UNAUTHORIZED)
    refused(server.send("GET", "/metrics", as_="ann"), Code.FORBIDDEN)
    assert server.send("GET", "/metrics", as_="owner").status == 200
    for path in ("/v1/me", "/v1/datasets", "/v1/admin/principals"):
        refused(server.send("GET", path, as_="prometheus"), Code.FORBIDDEN)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = f"token={server.tokens['prometheus']}".encode()
    answer = server.send("POST", "/sign-in", body, as_=None, headers=form)
    assert (answer.status, answer.headers.get("set-cookie")) == (403, None)


def test_figures_agree_with_the_api(server: Running) -> None:
    """Epsilons are those of the budget, and releases those of the ledger."""
    samples = scraped(server)
    budget = server.send("GET", "/v1/datasets/homes/budget", as_="ann").json["dataset"]
    whole = {"dataset": "homes", "tier": "global"}
    assert value_of(samples, "wattveil_epsilon_spent", **whole) == float(budget["epsilon_spent"])
    assert value_of(samples, "wattveil_epsilon_cap", **whole) == float(budget["epsilon_cap"])
    left = value_of(samples, "wattveil_epsilon_left", **whole)
    spent, cap = (float(budget[f"epsilon_{name}"]) for name in ("spent", "cap"))
    assert cap - spent <= left < cap
    assert value_of(samples, "wattveil_budget_spent_ratio", **whole) == budget["share_spent"]
    assert value_of(samples, "wattveil_releases", dataset="homes", state="ok") == 1
    assert value_of(samples, "wattveil_releases", dataset="homes", state="failed") == 0
    assert value_of(samples, "wattveil_queue_length") == 0
    assert value_of(samples, "wattveil_queue_limit") == 20
    assert value_of(samples, "wattveil_queue_longest") == 0
    assert value_of(samples, "wattveil_last_backup_timestamp_seconds") == 0


def test_a_data_set_without_its_file_is_reported(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its charges would wait without an error; the file of one that is closed may be deleted."""
    monkeypatch.setattr(server_metrics, "_KEPT_SECONDS", -1.0)

    def missing() -> dict[str, float]:
        found = scraped(server)["wattveil_datasets_without_file"]
        return {labels["dataset"]: value for labels, value in found}

    assert missing() == {"homes": 0}
    folder = server.state.folder / "profiles"
    for name in ("homes.parquet", "customers.txt"):
        hidden = (folder / name).rename(folder / "hidden")
        assert missing() == {"homes": 1}
        hidden.rename(folder / name)
    assert missing() == {"homes": 0}


def test_a_closed_data_set_has_no_figures_of_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alert about it would stay for ever; its releases are still counted."""
    monkeypatch.setattr(server_metrics, "_KEPT_SECONDS", -1.0)
    with computing_here(), serving(tmp_path) as server:
        furnish(server)
        budgets = ("wattveil_budget_spent_ratio", "wattveil_epsilon_left")
        before = scraped_as_owner(server)
        assert {labels["dataset"] for name in budgets for labels, _ in before[name]} == {"homes"}
        closed = server.send("POST", "/v1/admin/datasets/homes/close", {"reason": "x"})
        assert closed.status == 200
        after = scraped_as_owner(server)
        for name in (*budgets, "wattveil_datasets_without_file"):
            assert name not in after
        assert {labels["dataset"] for labels, _ in after["wattveil_releases"]} == {"homes"}


def test_requests_refusals_and_events_are_counted(server: Running) -> None:
    """One request adds one, with the template of its route."""
    before = scraped(server)
    refused(server.order("too-much", {**QUICK, "epsilon": 3.9}), Code.BUDGET_REFUSED)
    refused(server.send("GET", "/v1/releases/9-9", as_="ann"), Code.NOT_FOUND)
    bad = {"Authorization": "Bearer wattveil_no"}
    refused(server.send("GET", "/v1/me", as_=None, headers=bad), Code.UNAUTHORIZED)
    server.send("GET", "/no/such/path", as_=None)
    total, refusals = "wattveil_requests_total", "wattveil_refusals_total"
    expected: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {
        (total, (("route", "/v1/releases/{release}"), ("method", "GET"), ("status", "404"))): 1,
        (total, (("route", "-"), ("status", "404"))): 1,
        ("wattveil_request_seconds_count", (("route", "/v1/releases/{release}"),)): 1,
        (refusals, (("code", "budget_refused"),)): 1,
        (refusals, (("code", "not_found"),)): 2,
        ("wattveil_security_events_total", (("event", "token_refused"),)): 1,
    }

    def added() -> dict[tuple[str, tuple[tuple[str, str], ...]], int]:
        after = scraped(server)
        return {
            (name, labels): int(
                value_of(after, name, **dict(labels)) - value_of(before, name, **dict(labels))
            )
            for name, labels in expected
        }

    # Requests are counted after their response.
    await_records(lambda: sum(added().values()) >= sum(expected.values()))
    assert added() == expected


def test_no_label_and_no_figure_depends_on_rows(server: Running) -> None:
    """Labels are of a closed list, values of closed lists or names of data sets and operators.

    Registrations, during which rows are read, have no duration.
    """
    samples = scraped(server)
    labels = {name for own in samples.values() for one, _ in own for name in one}
    assert labels <= LABELS
    values = {value for own in samples.values() for one, _ in own for value in one.values()}
    assert not values & {"ann", "bob", "127.0.0.1"}
    named = {name for name, own in samples.items() if any("principal" in one for one, _ in own)}
    assert named == {"wattveil_token_expiry_seconds"}
    timed = {one["route"] for one, _ in samples["wattveil_request_seconds_count"]}
    counted = {one["route"] for one, _ in samples["wattveil_requests_total"]}
    registering = {"/v1/admin/datasets", "/admin/{action}"}
    assert registering & counted == {"/v1/admin/datasets"}
    assert not timed & registering


def test_a_request_has_one_identifier_in_log_and_response(server: Running) -> None:
    """One that was sent is kept if it is harmless, and replaced otherwise."""
    with logged() as lines:
        ours = server.send("GET", "/v1/me", headers={"X-Request-Id": "abc-123.DEF_4"})
        forged = server.send("GET", "/v1/me", headers={"X-Request-Id": 'a" level="x forged'})
        short = server.send("GET", "/v1/me", headers={"X-Request-Id": "x"})
        # A line is written after its response was sent.
        await_records(lambda: sum(line.get("route") == "/v1/me" for line in lines()) == 3)
    assert ours.headers["x-request-id"] == "abc-123.DEF_4"
    for other in (forged, short):
        assert re.fullmatch("[0-9a-f]{32}", other.headers["x-request-id"])
    found = [line for line in lines() if line.get("route") == "/v1/me"]
    sent = [one.headers["x-request-id"] for one in (ours, forged, short)]
    assert [line["request_id"] for line in found] == sent
    assert all(line["status"] == 200 and line["seconds"] > 0 for line in found)


@contextmanager
def logged() -> Iterator["Lines"]:
    """Collect the log as the server writes it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield Lines(stream)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def await_records(ready: Callable[[], bool]) -> None:
    """Wait until log or metrics are as expected, for ten minutes at most."""
    for _ in range(6000):
        if ready():
            return
        time.sleep(0.1)
    pytest.fail("what is expected has not appeared")


class Lines:
    """Lines of a log, each parsed."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    def __call__(self) -> list[dict[str, Any]]:
        """Return all lines so far."""
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


def test_security_events_name_principal_address_and_request(server: Running) -> None:
    """Who signed in, who was refused, who changed what; never a token or a word of a form."""
    secret = "wattveil_secretsecretsecret"  # noqa: S105 - refused
    with logged() as lines:
        browser = Browser(server, "owner")
        browser.post("/sign-out")
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        server.send("POST", "/sign-in", f"token={secret}".encode(), as_=None, headers=form)
        refused(server.send("GET", "/v1/admin/principals", as_="bob"), Code.FORBIDDEN)
        server.send("POST", "/v1/admin/principals", {"name": "carol"})
        server.send("POST", "/v1/admin/principals/carol/revoke", {})
        last = server.send("POST", "/v1/admin/principals/carol/disable", {})
        number = last.headers["x-request-id"]
        await_records(
            lambda: any(
                (line["logger"], line["request_id"]) == ("wattveil.server", number)
                for line in lines()
                if "request_id" in line
            )
        )
    found = [line for line in lines() if line["logger"] == "wattveil.security"]
    seen = [(line["event"], line["principal"], line.get("about")) for line in found]
    assert seen == [
        (SecurityEvent.SIGNED_IN, "owner", None),
        (SecurityEvent.SIGNED_OUT, "owner", None),
        (SecurityEvent.TOKEN_REFUSED, None, None),
        (SecurityEvent.SIGN_IN_REFUSED, None, None),
        (SecurityEvent.ROLE_REFUSED, "bob", None),
        (SecurityEvent.PRINCIPAL_CREATED, "owner", "carol"),
        (SecurityEvent.TOKENS_REVOKED, "owner", "carol"),
        (SecurityEvent.PRINCIPAL_DISABLED, "owner", "carol"),
    ]
    assert {line["address"] for line in found} == {"127.0.0.1"}
    requests = {line["request_id"] for line in lines() if line["logger"] == "wattveil.server"}
    assert {line["request_id"] for line in found} <= requests
    assert not any(secret in json.dumps(line) for line in lines())


def test_a_log_line_never_has_the_text_of_an_error() -> None:
    """It may quote a row: only its type is written, and a line break cannot forge a line."""
    with logged() as lines:
        try:
            float("customer 17 uses 3.2 kW")
        except ValueError:
            logging.getLogger("x").exception("failed\n{}")
    assert len(lines()) == 1
    assert lines()[0]["error"] == "ValueError"
    assert "customer 17" not in json.dumps(lines())


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans, as a collector of OpenTelemetry does."""

    taken: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        """Take a request."""
        length = int(self.headers["Content-Length"])
        self.taken.append((self.path, self.rfile.read(length)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def test_spans_are_sent_when_the_variables_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One span per request, with the parent that was sent; none of a registration."""
    assert RequestTracer.from_environment() is None
    taken: list[tuple[str, bytes]] = []
    handler = type("Own", (Collector,), {"taken": taken})
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{collector.server_address[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert RequestTracer.from_environment() is None
    monkeypatch.delenv("OTEL_SDK_DISABLED")
    tracer = RequestTracer.from_environment()
    assert tracer is not None
    trace = "0af7651916cd43dd8448eb211c80319c"
    with tracer, computing_here(), serving(tmp_path, tracer=tracer) as server:
        parent = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        answer = server.send("GET", "/v1/me", headers=parent)
        furnish(server)
    collector.shutdown()
    collector.server_close()
    assert {path for path, _ in taken} == {"/v1/traces"}
    spans = [
        span
        for _, body in taken
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    names = [span.name for span in spans]
    assert "POST /v1/admin/principals" in names
    assert "POST /v1/admin/datasets" not in names
    (me,) = (span for span in spans if span.name == "GET /v1/me")
    assert me.trace_id.hex() == trace
    attributes = {one.key: one.value for one in me.attributes}
    assert attributes["http.response.status_code"].int_value == 200
    assert attributes["wattveil.request_id"].string_value == answer.headers["x-request-id"]
    assert me.end_time_unix_nano > me.start_time_unix_nano

"""Figures of a real server for alerts and the dashboard: tokens, waiting orders, backups."""

import json
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from tests.integration.test_server_observed import LABELS, scraped_as_owner, value_of
from tests.live_server import QUICK, ComputeHere, computing_here, furnish, serving
from wattveil.server.auth import principals
from wattveil.server.backup.write_backup import write_backup
from wattveil.server.http.problems import Code
from wattveil.server.ledger import administration
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.database import writing
from wattveil.server.ledger.ledger_tables import entry, planned
from wattveil.server.ledger.ledger_tables import token as tokens
from wattveil.server.observe import server_metrics
from wattveil.server.observe.request_record import SecurityEvent

_DEPLOY = Path(__file__).parents[2] / "deploy"
_DASHBOARD = _DEPLOY / "grafana" / "wattveil.json"
_ALERTS = _DEPLOY / "prometheus" / "alerts.yaml"
_WITH_TLS = "wattveil_tls_certificate_expiry_seconds"
_NOT_SHOWN = {
    "wattveil_request_seconds_count": "of the histogram whose buckets are shown",
    "wattveil_request_seconds_sum": "of the histogram whose buckets are shown",
    "process_cpu_seconds_total": "the load of the server is shown by requests and their durations",
    "process_start_time_seconds": "of the alert WattveilRestarts; as a curve it says nothing",
    "process_virtual_memory_bytes": "resident memory is shown, which is what limits apply to",
}
"""Exported metrics without a panel, with the reason."""


def test_the_expiry_of_the_last_token_of_each_operator_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of administrators and monitors, until a token is issued: also after the last one expired."""
    monkeypatch.setattr(server_metrics, "_KEPT_SECONDS", -1.0)
    day = 86400.0
    with computing_here(), serving(tmp_path) as server:
        furnish(server)

        def days(role: str) -> dict[str, int]:
            found = scraped_as_owner(server).get("wattveil_token_expiry_seconds", [])
            return {
                own["principal"]: round((at - time.time()) / day)
                for own, at in found
                if own["role"] == role
            }

        def expire(name: str) -> None:
            with server.state.ledger.reading() as connection:
                owner = administration.principal_id(connection, name)
            past = (datetime.now(UTC) - timedelta(days=2)).isoformat(timespec="microseconds")
            with writing(server.state.ledger.engine).begin() as connection:
                mine = tokens.c.principal_id == owner
                connection.execute(tokens.update().where(mine).values(expires_at=past))

        def token(name: str, kind: str, valid: int) -> None:
            role = PrincipalKind(kind)
            principals.issue_token_locally(tmp_path, None, name, role=role, days=valid)

        assert (days("admin"), days("monitor"), days("analyst")) == ({"owner": 90}, {}, {})
        token("prometheus", "monitor", 365)
        token("prometheus", "monitor", 7)  # it has a longer one
        token("deputy", "admin", 30)
        assert (days("admin"), days("monitor")) == (
            {"owner": 90, "deputy": 30},
            {"prometheus": 365},
        )
        server.send("POST", "/v1/admin/principals/deputy/disable", {})
        assert days("admin") == {"owner": 90}
        expire("prometheus")
        assert days("monitor") == {"prometheus": -2}, "nobody would be informed"
        token("prometheus", "monitor", 365)
        assert days("monitor") == {"prometheus": 365}


def test_waiting_orders_are_counted_and_the_oldest_has_an_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest queue of anybody, and the first order of all; 0 when none waits."""
    monkeypatch.setattr(server_metrics, "_KEPT_SECONDS", -1.0)
    names = ("wattveil_queue_length", "wattveil_queue_longest", "wattveil_queue_oldest_seconds")
    go_on, run_task = threading.Event(), ComputeHere.run_task

    def wait(*given: Any, **choices: Any) -> dict[str, Any]:  # noqa: ANN401 - as it takes them
        go_on.wait()
        return run_task(*given, **choices)

    with computing_here(), serving(tmp_path) as server:
        furnish(server)

        def waiting() -> list[float]:
            samples = scraped_as_owner(server)
            return [value_of(samples, name) for name in names]

        assert waiting() == [0, 0, 0]
        monkeypatch.setattr(ComputeHere, "run_task", wait)
        orders = [("ann", f"a{number}", 0.1 + number / 100) for number in range(3)]
        made = [
            (name, server.order(key, {**QUICK, "epsilon": epsilon}, as_=name).json["id"])
            for name, key, epsilon in (*orders, ("bob", "b", 0.2))
        ]
        with server.state.ledger.reading() as connection:
            place = (entry.c.journal_id == planned.c.journal_id) & (entry.c.seq == planned.c.seq)
            times = connection.execute(select(entry.c.at).join_from(planned, entry, place))
            first = min(map(datetime.fromisoformat, times.scalars()))
        before = datetime.now(UTC)
        length, longest, age = waiting()
        after = datetime.now(UTC)
        go_on.set()
        assert (length, longest) == (4, 3)
        assert (before - first).total_seconds() <= age <= (after - first).total_seconds()
        for name, release in made:
            assert server.finished(release, as_=name)["state"] == "ok"
        assert waiting() == [0, 0, 0]


def test_what_the_last_backup_lacks_is_counted(tmp_path: Path) -> None:
    """Bundles that are missing or damaged; a whole backup sets it back."""
    data = tmp_path / "data"
    data.mkdir()
    with computing_here(), serving(data) as server:

        def lacking() -> float:
            return value_of(scraped_as_owner(server), "wattveil_last_backup_lacking")

        furnish(server)
        assert server.finished(server.order("first", QUICK).json["id"])["state"] == "ok"
        assert lacking() == 0
        [bundle] = (one for one in (data / "releases").iterdir() if one.is_dir())
        away = bundle.rename(tmp_path / "away")
        write_backup(data, None, tmp_path / "damaged")
        assert lacking() == 1
        away.rename(bundle)
        write_backup(data, None, tmp_path / "whole")
        assert lacking() == 0
        assert value_of(scraped_as_owner(server), "wattveil_last_backup_timestamp_seconds") > 0


def queries_of_dashboard() -> list[str]:
    """Return the queries of all panels."""
    panels = json.loads(_DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def metrics_in(queries: list[str]) -> set[str]:
    """Return the names of the metrics that queries use."""
    return {name for query in queries for name in re.findall(r"\b(?:wattveil|process)_\w+", query)}


def test_every_metric_is_on_the_dashboard_or_has_a_reason(tmp_path: Path) -> None:
    """One that nobody sees is forgotten; the list of the others has no name that is not needed."""
    with computing_here(), serving(tmp_path) as server:
        furnish(server)
        exported = {*scraped_as_owner(server), _WITH_TLS}
    shown = metrics_in(queries_of_dashboard())
    assert exported - shown == set(_NOT_SHOWN)
    places = [panel["gridPos"] for panel in json.loads(_DASHBOARD.read_text())["panels"]]
    assert len({(one["x"], one["y"]) for one in places}) == len(places), "none covers another"


def test_dashboard_and_alerts_use_exported_names_and_labels(tmp_path: Path) -> None:
    """A panel whose metric does not exist would stay empty, and an alert silent."""
    with computing_here(), serving(tmp_path) as server:
        furnish(server)
        samples = scraped_as_owner(server)
    # They begin at 0, so that an alert sees the first increase.
    codes = {own["code"] for own, _ in samples["wattveil_refusals_total"]}
    assert codes == {code.name.lower() for code in Code}
    events = {own["event"] for own, _ in samples["wattveil_security_events_total"]}
    assert events == {*SecurityEvent}
    assert not any(name.endswith("_created") for name in samples)
    alerts = re.findall(r"^ +expr: (.+)$", _ALERTS.read_text(), flags=re.MULTILINE)
    assert len(alerts) > 15
    queries = queries_of_dashboard() + alerts
    assert metrics_in(queries) <= {*samples, _WITH_TLS}
    for query in queries:
        braces = "".join(re.findall(r"\{([^}]*)\}", query))
        named = set(re.findall(r"(\w+)\s*(?:=|!=|=~)\s*\"", braces))
        for group in re.findall(r"by \(([^)]*)\)", query):
            named |= set(re.split(r", ?", group))
        assert named <= LABELS | {"instance", "job"}, query  # the last two are of Prometheus

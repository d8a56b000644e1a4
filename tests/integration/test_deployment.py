"""Files for deployment: parsed, compared with the server, and run step by step where possible.

No container is built and no chart is installed here. What the files state is executed in a plain
folder: the package is built from exactly what the Containerfile copies, and started as it says.
"""

import ipaddress
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import tomllib
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from sqlalchemy import QueuePool, make_url

from tests.certificates import self_signed
from tests.doc_pages import parse
from tests.process_guard import guarded
from wattveil.cli.serve import VARIABLES, serve
from wattveil.server.http.middleware import MAX_LARGE_BYTES
from wattveil.server.jobs import planner
from wattveil.server.ledger.database import connect
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.server_state import ServerState, prepared_folder

REPOSITORY = Path(__file__).parents[2]
DEPLOY = REPOSITORY / "deploy"
_ANALYZE = shutil.which("systemd-analyze") or ""
_SITE = Path(yaml.__file__).parents[1]


def variables_of_the_server() -> set[str]:
    """Return every variable that `wattveil serve` reads its options from."""
    alone = typer.Typer()
    alone.command()(serve)
    command = typer.main.get_command(alone)
    prefix = VARIABLES["serve"]
    return {f"{prefix}_{one.name.upper()}" for one in command.params if one.name}


def declared_version() -> str:
    """Return the version of the package, as `pyproject.toml` declares it."""
    declared: str = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    return declared


def test_every_file_states_the_version_of_the_package() -> None:
    """Image, tags, chart, citation; a chart has that of SemVer, in which a `.dev0` is `-dev.0`."""
    version = declared_version()
    container = (DEPLOY / "container" / "Containerfile").read_text()
    assert f'org.opencontainers.image.version="{version}"' in container
    assert f"--tag wattveil:{version} ." in container
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    assert compose["services"]["server"]["image"] == f"wattveil:{version}"
    chart = yaml.safe_load((DEPLOY / "helm/wattveil/Chart.yaml").read_text())
    assert chart["appVersion"] == version
    assert chart["version"] == re.sub(r"\.dev(\d+)$", r"-dev.\1", version)
    values = yaml.safe_load((DEPLOY / "helm/wattveil/values.yaml").read_text())
    assert values["image"]["tag"] == version
    assert yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["version"] == version


# --- Containerfile --------------------------------------------------------------------------------

Instruction = tuple[str, str]


def instructions() -> list[Instruction]:
    """Return the instructions of the Containerfile, in order."""
    lines = (DEPLOY / "container" / "Containerfile").read_text().splitlines()
    found = [line for line in lines if line and not line.startswith("#")]
    assert not any(line.endswith("\\") for line in found)
    pairs = [line.split(" ", 1) for line in found]
    return [(name, rest) for name, rest in pairs]


def stages() -> list[list[Instruction]]:
    """Return the instructions of each stage."""
    found: list[list[Instruction]] = []
    for one in instructions():
        if one[0] == "FROM":
            found.append([])
        found[-1].append(one)
    return found


def values(stage: list[Instruction], name: str) -> list[str]:
    """Return what follows an instruction, each time."""
    return [rest for own, rest in stage if own == name]


def test_containerfile_is_safe() -> None:
    """Two stages, pinned images, no root, a health check, no secrets, forms without a shell."""
    known = {
        *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE"),
        *("STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD", "LABEL"),
    }
    assert {name for name, _ in instructions()} == known
    build, final = stages()
    for stage in (build, final):
        image = values(stage, "FROM")[0].split()[0]
        assert re.fullmatch(r"docker\.io/library/python:3\.\d+-slim-\w+", image), image
    assert values(build, "FROM")[0].endswith(" AS build")
    assert values(final, "COPY") == ["--from=build /opt/wattveil /opt/wattveil"]
    assert values(final, "USER") == ["10001:10001"]
    names = [name for name, _ in final]
    assert names.index("USER") > max(place for place, one in enumerate(names) if one == "RUN")
    assert json.loads(values(final, "ENTRYPOINT")[0]) == ["wattveil"]
    assert json.loads(values(final, "CMD")[0]) == ["serve"]
    text = " ".join(rest for _, rest in instructions()).lower()
    assert not re.search(r"password|secret|token|curl|wget|sudo|latest", text)


def test_sources_of_the_image_exist_and_are_enough(tmp_path: Path) -> None:
    """The server is built from what is copied, and runs as the file says until it is stopped."""
    build, final = stages()
    work = tmp_path / "build"
    work.mkdir()
    for line in values(build, "COPY"):
        *sources, target = line.split()
        for name in sources:
            source = REPOSITORY / name
            assert source.exists(), name
            if source.is_dir():
                shutil.copytree(source, work / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, work / target)
    install = shlex.split(values(build, "RUN")[-1])
    assert install[:2] == ["/opt/wattveil/bin/pip", "install"]
    assert (work / install[install.index("--constraint") + 1]).is_file()
    extras = re.fullmatch(r"\.\[([a-z,]+)\]", install[-1])
    assert extras is not None
    assert {*extras[1].split(",")} == {"serve", "postgres", "oidc", "otel"}
    # The dependencies are those of this environment: fetching them takes minutes.
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    opt = tmp_path / "opt"
    subprocess.run([*pip, "--target", str(opt), "."], cwd=work, check=True, capture_output=True)
    variables = dict(line.split("=", 1) for line in values(final, "ENV"))
    assert {name for name in variables if name.startswith("WATTVEIL_")} <= variables_of_the_server()
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    changed = {"WATTVEIL_SERVE_DATA": str(data), "WATTVEIL_SERVE_PORT": "0"}
    environment = {
        **{name: value for name, value in os.environ.items() if "WATTVEIL" not in name},
        **{name: value for name, value in variables.items() if name != "PATH"},
        **changed,
        "WATTVEIL_SERVE_BEHIND_PROXY": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(opt), str(_SITE)]),
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
    }
    command = [sys.executable, "-m", "wattveil", *json.loads(values(final, "CMD")[0])]
    with (
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as process,
        guarded(process),
    ):
        assert process.stdout is not None
        printed = [process.stdout.readline(), process.stdout.readline()]
        found = re.search(r":(\d+)$", printed[1].strip())
        assert found is not None, printed
        check = values(final, "HEALTHCHECK")[0].partition("CMD ")[2]
        _, *arguments = json.loads(check.replace("8400", found[1]))
        assert subprocess.run([sys.executable, *arguments], check=False).returncode == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 0
        wrong = check.replace("8400", "9")
        failed = subprocess.run(
            [sys.executable, *json.loads(wrong)[1:]], check=False, capture_output=True
        )
        assert failed.returncode != 0


# --- Compose --------------------------------------------------------------------------------------


def test_compose_file_states_what_the_server_needs() -> None:
    """Read-only, without rights, not published; variables are options, and mounts exist."""
    folder = DEPLOY / "compose"
    compose: dict[str, Any] = yaml.safe_load((folder / "compose.yaml").read_text())
    services = compose["services"]
    server, proxy, database = (services[name] for name in ("server", "proxy", "database"))
    assert (folder / server["build"]["context"]).resolve() == REPOSITORY
    assert (REPOSITORY / server["build"]["dockerfile"]).is_file()
    ours = {name for name in server["environment"] if name.startswith("WATTVEIL_")}
    assert ours <= variables_of_the_server()
    for one in (server, proxy):
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
    for one in services.values():
        assert "no-new-privileges:true" in one["security_opt"]
        assert not one["image"].endswith(":latest")
        assert one["logging"]["options"]["max-size"]
    assert "ports" not in server
    assert "ports" not in database
    assert compose["networks"]["inside"]["internal"] is True
    assert database["networks"] == ["inside"]
    address = server["environment"]["WATTVEIL_SERVE_BEHIND_PROXY"]
    assert proxy["networks"]["front"]["ipv4_address"] == address
    # A second container of the server, for `admin backup`, could not have the same fixed address.
    assert server["networks"] == ["inside", "front"]
    (pool,) = compose["networks"]["front"]["ipam"]["config"]
    assert ipaddress.ip_address(address) in ipaddress.ip_network(pool["subnet"])
    assert ipaddress.ip_address(address) not in ipaddress.ip_network(pool["ip_range"])
    assert ipaddress.IPv4Network(pool["ip_range"]).subnet_of(ipaddress.IPv4Network(pool["subnet"]))
    volumes = set(compose["volumes"])
    for one in services.values():
        for mount in one["volumes"]:
            source = mount.split(":")[0]
            assert source in volumes or source == "./profiles" or (folder / source).is_file()
        assert set(one.get("secrets", [])) <= set(compose["secrets"])
    assert "reverse_proxy server:8400" in (folder / "Caddyfile").read_text()


def test_prometheus_scrapes_the_server_in_the_network_of_compose() -> None:
    """By the name of its service: the proxy does not forward metrics, and no name is public."""
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    service = compose["services"]["prometheus"]
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    (job,) = settings["scrape_configs"]
    assert job.get("scheme", "http") == "http"
    (target,) = job["static_configs"][0]["targets"]
    host, _, port = target.partition(":")
    assert set(compose["services"][host]["networks"]) & set(service["networks"])
    assert values(stages()[1], "EXPOSE") == [port]
    secret = Path(job["authorization"]["credentials_file"])
    assert secret.parent == Path("/run/secrets")
    assert secret.name in service["secrets"]
    mounted = {one.split(":")[1]: one.split(":")[0] for one in service["volumes"]}
    started = service["command"][0].partition("=")[2]
    assert (DEPLOY / "compose" / mounted[started]).is_file()
    for name in settings["rule_files"]:
        rules = mounted[str(Path(started).with_name(name))]
        assert (DEPLOY / "compose" / rules).is_file()
    assert all(one.startswith("127.0.0.1:") for one in service["ports"])
    assert service["profiles"], "not started unless it is asked for"


def test_every_alert_has_a_runbook() -> None:
    """A section of the page of alerts: meaning, first look, remedy."""
    page = (REPOSITORY / "docs" / "guides" / "alerts.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    alerts = [rule for group in groups for rule in group["rules"]]
    assert {one["alert"] for one in alerts} == {one for one in sections if "Wattveil" in one}
    for one in alerts:
        name = one["alert"]
        url = one["annotations"]["runbook_url"]
        assert url == f"https://docs.town.example/guides/alerts/#{name.lower()}"
        assert one["labels"]["severity"] in {"page", "ticket"}
        for part in ("**Meaning.**", "**First look.**", "**Remedy.**"):
            assert part in sections[name], (name, part)


def test_every_alert_is_tested() -> None:
    """In the unit tests of Prometheus, each is raised once, with its own words and link."""
    folder = DEPLOY / "prometheus"
    groups = yaml.safe_load((folder / "alerts.yaml").read_text())["groups"]
    alerts = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    cases = yaml.safe_load((folder / "alerts_test.yaml").read_text())["tests"]
    raised = {
        one["alertname"]: alert
        for case in cases
        for one in case["alert_rule_test"]
        for alert in one["exp_alerts"]
    }
    assert set(raised) == set(alerts)
    for name, alert in raised.items():
        stated = alerts[name]
        assert alert["exp_annotations"]["runbook_url"] == stated["annotations"]["runbook_url"]
        assert alert["exp_labels"]["severity"] == stated["labels"]["severity"]
        words = re.split(r"\{\{.*?\}\}", stated["annotations"]["summary"])
        assert all(one in alert["exp_annotations"]["summary"] for one in words), name


def test_server_errors_are_a_ratio_with_a_floor() -> None:
    """One error at night wakes nobody, and neither do probes of a server that is not ready."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    (expression,) = [
        one["expr"]
        for group in groups
        for one in group["rules"]
        if one["alert"] == "WattveilServerErrors"
    ]
    ratio, floor = expression.split(" and ")
    assert re.fullmatch(r"sum by .* / sum by .* > 0\.\d+", ratio)
    assert re.fullmatch(r"sum by .*increase\(.* > \d+", floor)
    for probe in ("/livez", "/readyz", "/healthz", "/metrics"):
        assert expression.count(probe) == 3


_PLACES = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
_PROMTOOL, _NGINX = (shutil.which(name, path=_PLACES) or "" for name in ("promtool", "nginx"))


@pytest.mark.skipif(not _PROMTOOL, reason="the deployment tool promtool is not installed")
def test_prometheus_accepts_the_alerts_and_their_tests() -> None:
    """Their own unit tests, in `alerts_test.yaml`."""
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        checked = subprocess.run(
            [_PROMTOOL, *command],
            cwd=DEPLOY / "prometheus",
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


# --- nginx ----------------------------------------------------------------------------------------


def of_nginx(name: str) -> str:
    """Return the value of a directive that is given once."""
    (found,) = re.findall(
        rf"^ *{name} +([^;]+);", (DEPLOY / "nginx" / "wattveil.conf").read_text(), re.MULTILINE
    )
    return str(found)


def test_proxies_fit_the_limits_of_the_server() -> None:
    """They forward the largest body, and wait as long as the server may plan or verify."""
    assert of_nginx("client_max_body_size") == "17m"
    assert MAX_LARGE_BYTES + 2**16 <= 17 * 2**20, "and the rest of a form"
    assert of_nginx("proxy_read_timeout") == "15m"
    assert planner._MAX_SECONDS < 15 * 60
    assert of_nginx("proxy_set_header X-Forwarded-For") == "$remote_addr"
    assert "location = /metrics" in (DEPLOY / "nginx" / "wattveil.conf").read_text()
    assert "max_size 17MB" in (DEPLOY / "compose" / "Caddyfile").read_text()
    assert MAX_LARGE_BYTES + 2**16 <= 17 * 10**6


@pytest.mark.skipif(not _NGINX, reason="the deployment tool nginx is not installed")
def test_nginx_accepts_its_file(tmp_path: Path) -> None:
    """With a certificate of the test, in a folder of its own."""
    certificate, key = self_signed(tmp_path)
    text = (DEPLOY / "nginx" / "wattveil.conf").read_text()
    text = text.replace("/etc/ssl/town.pem", str(certificate))
    text = text.replace("/etc/ssl/town.key", str(key))
    (tmp_path / "wattveil.conf").write_text(text)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {tmp_path}/{kind};" for kind in kinds)
    main = tmp_path / "nginx.conf"
    main.write_text(
        f"pid {tmp_path}/pid; error_log stderr; events {{}}"
        f" http {{ access_log off; {temporary} include {tmp_path}/wattveil.conf; }}"
    )
    checked = subprocess.run(
        [_NGINX, "-t", "-c", str(main), "-e", "stderr"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_a_service_file_of_postgresql_is_enough(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address names the database alone; host, user and password are in the file of a secret,
    which others may read: PostgreSQL refuses that of a password file.
    """
    file, address = service_file(database, tmp_path)
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    monkeypatch.setenv("PGSERVICE", "wattveil")
    data = tmp_path / "data"
    data.mkdir()
    with Ledger.open(data, address) as ledger:
        assert ledger.pending() == []


def of_service(setting: str, **chosen: str) -> str:
    """Return a value of the Compose file with its variables, or their defaults, put in."""
    return re.sub(
        r"\$\{(\w+):-([^}]*)\}", lambda found: chosen.get(found[1], found[2]), str(setting)
    )


def test_two_processes_run_as_compose_states(database: str, tmp_path: Path) -> None:
    """The command and variables of the image and of the service, in a plain folder.

    The address of the proxy, the data folder, the port and the database are those of this machine.
    """
    server = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["services"]["server"]
    _, final = stages()
    stated = {
        **dict(line.split("=", 1) for line in values(final, "ENV")),
        **{name: of_service(one, PROCESSES="2") for name, one in server["environment"].items()},
    }
    assert of_service(server["environment"]["WATTVEIL_SERVE_PROCESSES"]) == "1"
    assert stated["WATTVEIL_SERVE_PROCESSES"] == "2"
    (tmp_path / "data").mkdir(mode=0o700)
    service, address = service_file(database, tmp_path)
    here = {
        "WATTVEIL_SERVE_DATA": str(tmp_path / "data"),
        "WATTVEIL_SERVE_PORT": "0",
        "WATTVEIL_SERVE_DATABASE": address,
        "WATTVEIL_SERVE_BEHIND_PROXY": "127.0.0.1",
        "PGSERVICEFILE": str(service),
        "NUMBA_CACHE_DIR": str(tmp_path / "numba"),
        "PATH": os.environ["PATH"],
    }
    assert here.keys() <= {*stated, "PATH"}
    command = [sys.executable, "-m", "wattveil", *json.loads(values(final, "CMD")[0])]
    with (
        subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, **stated, **here},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as process,
        guarded(process),
    ):
        assert process.stdout is not None
        printed = [process.stdout.readline(), process.stdout.readline()]
        port = re.search(r":(\d+)$", printed[1].strip())
        assert port is not None, printed
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/readyz", timeout=600) as ready:
            assert ready.status == 200
        check = values(final, "HEALTHCHECK")[0].partition("CMD ")[2].replace("8400", port[1])
        _, *arguments = json.loads(check)
        assert subprocess.run([sys.executable, *arguments], check=False).returncode == 0
        tasks = tasks_of(process.pid)
        assert len(tasks) >= 4  # supervisor, two API processes, worker
        assert sum(tasks.values()) <= server["pids_limit"]
        process.send_signal(getattr(signal, values(final, "STOPSIGNAL")[0]))
        assert process.wait(timeout=600) == 0
        while tasks_of(process.pid):  # those that start and track the others end a moment later
            time.sleep(0.05)


def tasks_of(session: int) -> dict[int, int]:
    """Return the processes of a session that run, with their numbers of threads."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found[int(path.parent.name)] = int(fields[17])
    return found


def service_file(database: str, folder: Path) -> tuple[Path, str]:
    """Create a database; return a service file that names it, and the address of Compose for it."""
    import psycopg  # noqa: PLC0415 - the fixture of the server skips where it is missing

    name = f"wattveil_{uuid.uuid4().hex}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    host = database.partition("host=")[2]
    file = folder / "pg_service.conf"
    file.write_text(f"[wattveil]\nhost={host}\nuser=tester\ndbname={name}\npassword=x\n")
    file.chmod(0o444)
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    address: str = compose["services"]["server"]["environment"]["WATTVEIL_SERVE_DATABASE"]
    return file, address.replace("/wattveil", f"/{name}")


# --- systemd --------------------------------------------------------------------------------------


def unit(name: str = "wattveil.service") -> str:
    """Return a unit file."""
    return (DEPLOY / "systemd" / name).read_text()


def test_settings_of_the_unit_are_options() -> None:
    """Those of the file of variables too, also where they are commented out."""
    text = unit() + (DEPLOY / "systemd" / "wattveil.env").read_text()
    named = set(re.findall(r"WATTVEIL_[A-Z_]+", text))
    assert named
    assert named <= variables_of_the_server()
    assert re.search(r"^ExecStart=/opt/wattveil/bin/wattveil serve$", unit(), re.MULTILINE)
    # systemd would else give up while a database is down.
    assert re.search(r"^StartLimitIntervalSec=0$", unit().partition("[Service]")[0], re.MULTILINE)


def test_the_backup_of_the_unit_runs(tmp_path: Path) -> None:
    """Its command as systemd runs it, in a plain folder, with the database of the service."""
    text = unit("wattveil-backup.service")
    (line,) = re.findall("^ExecStart=(.*)$", text, re.MULTILINE)
    data, backups = tmp_path / "data", tmp_path / "backups"
    for folder in (data, backups):
        folder.mkdir()
    line = line.replace("$$", "$").replace("%%", "%")
    line = line.replace("/opt/wattveil/bin/wattveil", f"{sys.executable} -m wattveil")
    line = line.replace("/var/lib/wattveil", str(data)).replace("/var/backups/wattveil", "$OUT")
    with prepared_folder(data, None):
        pass
    given = {**os.environ, "OUT": str(backups)}
    subprocess.run(shlex.split(line), env=given, check=True, capture_output=True)
    (made,) = backups.iterdir()
    assert (made / "backup.json").is_file()
    database = {**given, "WATTVEIL_SERVE_DATABASE": "postgresql:///town"}
    refusal = subprocess.run(
        shlex.split(line), env=database, check=False, capture_output=True, text=True
    )
    assert (refusal.returncode, "--database" in refusal.stderr) == (2, True)
    same = "ProtectSystem|NoNewPrivileges|SystemCallFilter|RestrictAddressFamilies|UMask"
    for setting in re.findall(rf"^(?:{same})=.*$", unit(), re.MULTILINE):
        assert f"\n{setting}\n" in text, setting


def test_the_stated_resources_suffice_for_three_processes() -> None:
    """By the arithmetic of the operator's guide: PostgreSQL's default, and tasks of the unit."""
    processes = 3
    pool = connect(make_url("postgresql+psycopg://nobody@/none")).pool
    assert isinstance(pool, QueuePool)
    assert pool.size() + pool._max_overflow == 20
    assert 20 * (processes + 1) + 5 + 10 <= 97  # of 100, 3 are for superusers
    tasks = re.search(r"^TasksMax=(\d+)$", unit(), re.MULTILINE)
    assert tasks is not None
    libraries = 2 * 31 * (3 + processes)  # on 32 cores
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    for limit in (int(tasks[1]), compose["services"]["server"]["pids_limit"]):
        assert limit >= 60 * processes + 30 + libraries


@pytest.mark.skipif(not _ANALYZE, reason="looks at processes as Linux does: no systemd")
def test_systemd_accepts_the_units_and_finds_them_hardened(tmp_path: Path) -> None:
    """An unknown or misspelt setting is a warning; exposure is 1.5 of 10 with version 252."""
    names = ("wattveil.service", "wattveil-backup.service", "wattveil-backup.timer")
    for name in names:
        text = unit(name).replace("/opt/wattveil/bin/wattveil", "/bin/true")
        (tmp_path / name).write_text(text)
    checked = subprocess.run(
        [_ANALYZE, "verify", *(str(tmp_path / name) for name in names)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")
    for name in names[:2]:
        exposure = subprocess.run(
            [_ANALYZE, "security", "--offline=true", "--threshold=20", str(tmp_path / name)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert exposure.returncode == 0, exposure.stdout[-200:]
    file = tmp_path / names[0]
    file.write_text(unit().replace("NoNewPrivileges", "NoNewPrivilege"))
    checked = subprocess.run(
        [_ANALYZE, "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert "NoNewPrivilege" in checked.stderr, "a mistake is found"


# --- Helm -----------------------------------------------------------------------------------------

_TAG = re.compile(r"\{\{-? *(.*?) *-?\}\}")


def rendered(name: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Render a template of the chart, and parse it."""
    return [one for one in yaml.safe_load_all(rendered_text(name, given)) if one is not None]


def rendered_text(name: str, given: dict[str, Any]) -> str:
    """Render a template: values, `if`, `else`, one `range`, `required` values and files of the
    chart; any other tag is an error.
    """
    lines: list[str] = []
    showing, looping = [True], False
    loop: list[str] = []
    pairs: list[tuple[str, str]] = []
    for line in (DEPLOY / "helm/wattveil/templates" / name).read_text().splitlines():
        tag = _TAG.fullmatch(line.strip())
        words = tag[1].split() if tag else [""]
        if words[0] == "if":
            showing.append(bool(looked_up(words[1], given)))
        elif words[0] == "else":
            showing[-1] = not showing[-1]
        elif words[0] == "range":
            looping, loop = True, []
            pairs = list(looked_up(words[-1], given).items())
        elif words[0] == "end" and looping:
            looping = False
            lines += [filled(one, *pair) for pair in pairs for one in loop]
        elif words[0] == "end":
            showing.pop()
        elif looping:
            loop.append(line)
        elif all(showing):
            lines.append(_TAG.sub(lambda found: str(looked_up(found[1], given)), line))
    assert (showing, looping) == ([True], False)
    return "\n".join(lines)


def filled(line: str, key: str, value: object) -> str:
    """Return a line of a loop, for a pair."""
    named = line.replace("{{ $name }}", key)
    found = named.replace("{{ $value | toString | quote }}", json.dumps(str(value)))
    assert "{{" not in found
    return found


def looked_up(path: str, given: dict[str, Any]) -> Any:  # noqa: ANN401 - any value
    """Return a value by its path, such as `.Values.image.tag`, perhaps quoted; or a file."""
    if path.startswith("$_ := required"):
        assert looked_up(path.rsplit(maxsplit=1)[-1], given), "required"
        return ""
    if file := re.fullmatch(r'\.Files\.Get "(.+)" \| indent (\d)', path):
        return textwrap.indent((DEPLOY / "helm/wattveil" / file[1]).read_text(), " " * int(file[2]))
    path, is_json, _ = path.partition(" | toJson")
    if is_json:
        return json.dumps(looked_up(path, given))
    path, is_quoted, _ = path.partition(" | quote")
    if is_quoted:
        return json.dumps(str(looked_up(path, given)))
    assert re.fullmatch(r"(\.\w+)+", path), path
    found: Any = given
    for part in path.split(".")[1:]:
        found = found[part]
    return found


def of_chart(**changed: object) -> dict[str, Any]:
    """Return what the templates of the chart are rendered with."""
    values = yaml.safe_load((DEPLOY / "helm/wattveil/values.yaml").read_text())
    assert changed.keys() <= values.keys()
    with pytest.raises(AssertionError, match="required"):  # no example is taken for a setting
        rendered("deployment.yaml", {"Values": values, "Release": {"Name": "x"}})
    values["settings"]["WATTVEIL_SERVE_BEHIND_PROXY"] = "10.42.0.0/16"
    values["image"]["repository"] = "registry.town.example/wattveil"
    return {"Values": {**values, **changed}, "Release": {"Name": "town", "Namespace": "energy"}}


_BACKUP = {"enabled": True, "schedule": "15 2 * * *", "claim": "town-backup", "keep": 30}


def test_a_backup_of_the_chart_is_run_beside_its_server(database: str, tmp_path: Path) -> None:
    """Same node, rights and volumes; its command is run here, in a plain folder."""
    assert rendered("backup.yaml", of_chart()) == []
    (job,) = rendered("backup.yaml", of_chart(backup=_BACKUP))
    (deployment,) = rendered("deployment.yaml", of_chart())
    served = deployment["spec"]["template"]
    assert (job["kind"], job["spec"]["concurrencyPolicy"]) == ("CronJob", "Forbid")
    assert job["spec"]["schedule"] == "15 2 * * *"
    template = job["spec"]["jobTemplate"]["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    near = term["labelSelector"]["matchLabels"]
    assert near.items() <= served["metadata"]["labels"].items()
    selected = deployment["spec"]["selector"]["matchLabels"]
    for selector in (near, selected):  # a backup is no server, and gets no requests
        assert not selector.items() <= template["metadata"]["labels"].items()
    (own,) = served["spec"]["containers"]
    assert (container["image"], container["securityContext"]) == (
        *(own["image"], own["securityContext"]),
    )
    assert pod["securityContext"].items() >= served["spec"]["securityContext"].items()
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert set(mounts) == {one["name"] for one in pod["volumes"]}
    data, backups = tmp_path / "data", tmp_path / "backup"
    data.mkdir()
    backups.mkdir()
    service, address = service_file(database, tmp_path)
    stated = {one["name"]: one["value"] for one in container["env"]}
    here = {"DATABASE": address, "PGSERVICEFILE": str(service)}
    assert here.keys() <= stated.keys()
    environment = {**os.environ, **stated, **here}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("PGSERVICEFILE", "PGSERVICE"):
            patch.setenv(name, environment[name])
        ServerState.open(data, address).close()
    shell, option, script = container["command"]
    script = script.replace(mounts["data"] + " ", f"{data} ").replace("/backup/", f"{backups}/")
    script = script.replace("exec wattveil", f"exec {sys.executable} -m wattveil")
    subprocess.run([shell, option, script], env=environment, check=True, capture_output=True)
    (made,) = backups.iterdir()
    assert (made / "backup.json").is_file()


def test_maintenance_runs_no_server_and_keeps_its_volumes() -> None:
    """For commands that need the folder alone."""
    (usual,) = rendered("deployment.yaml", of_chart())
    (paused,) = rendered("deployment.yaml", of_chart(maintenance=True))
    (server,), (shell,) = (one["spec"]["template"]["spec"]["containers"] for one in (usual, paused))
    assert shell["command"] == ["sleep", "infinity"]
    assert not {one for one in shell if "Probe" in one}
    for name in ("env", "volumeMounts", "securityContext", "image"):
        assert shell[name] == server[name]
    assert {one for one in server if "Probe" in one}
    assert "command" not in server
    for is_paused in (True, False):  # a restore reads the backups; a server has no access to them
        (one,) = rendered("deployment.yaml", of_chart(maintenance=is_paused, backup=_BACKUP))
        pod = one["spec"]["template"]["spec"]
        mounts = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert ("backup" in mounts) == is_paused
        assert mounts == {volume["name"] for volume in pod["volumes"]}


def stated_commands(text: str) -> list[list[str]]:
    """Return the `wattveil admin` commands of a text, from the first word after the program."""
    lines = re.findall(r"(?:wattveil|server) (admin .*)", re.sub(r"\$\([^)]*\)", "now", text))
    return [shlex.split(line, comments=True) for line in lines if "--data" in line]


def test_stated_commands_are_read_by_the_program() -> None:
    """Every command for a container or pod, in the notes of the chart and in the guide."""
    states = [
        {"maintenance": one, "backup": {**_BACKUP, "enabled": two}}
        for one in (True, False)
        for two in (True, False)
    ]
    notes = [rendered_text("NOTES.txt", of_chart(**one)) for one in states]
    guide = (REPOSITORY / "docs" / "guides" / "deploy.md").read_text()
    found = {" ".join(one[1:3]): one for text in (*notes, guide) for one in stated_commands(text)}
    kinds = {words.removeprefix("ledger ").split()[0] for words in found}
    assert kinds == {"token", "backup", "restore", "audit", "accept"}
    for text in (*notes, guide):
        for arguments in stated_commands(text):
            parse(arguments)
    first, *_ = notes
    assert "admin token" in first
    assert ["NO BACKUPS" in one for one in notes] == [False, False, False, True]


@pytest.mark.parametrize("oidc", ["", "wattveil-oidc"])
def test_chart_states_what_the_server_needs(oidc: str) -> None:
    """One pod without rights, replaced as a whole; probes, variables and mounts are right."""
    chart = DEPLOY / "helm" / "wattveil"
    given = of_chart(oidcSecret=oidc)
    assert yaml.safe_load((chart / "Chart.yaml").read_text())["apiVersion"] == "v2"
    (deployment,) = rendered("deployment.yaml", given)
    service, claim = rendered("service.yaml", given)
    ingress, closed = rendered("ingress.yaml", given)
    spec = deployment["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    probes = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")]
    assert probes == ["/livez", "/readyz"]
    variables = {one["name"] for one in container["env"]}
    assert {one for one in variables if one.startswith("WATTVEIL_")} <= variables_of_the_server()
    mounts = {one["name"] for one in container["volumeMounts"]}
    assert mounts == {one["name"] for one in pod["volumes"]}
    assert ("oidc" in mounts) == bool(oidc)
    labels = spec["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    metrics, everything = ingress["spec"]["rules"][0]["http"]["paths"]
    assert everything["backend"]["service"]["name"] == service["metadata"]["name"]
    assert (metrics["path"], metrics["pathType"]) == ("/metrics", "Exact")
    assert metrics["backend"]["service"]["name"] == closed["metadata"]["name"]
    assert "selector" not in closed["spec"], "no pod answers"


def test_metrics_of_the_chart_are_scraped_inside() -> None:
    """By the Prometheus operator, if it is asked for: the service, its token, the alerts' job."""
    assert rendered("servicemonitor.yaml", of_chart()) == []
    labels = {"release": "prometheus"}
    chosen = {"serviceMonitor": True, "tokenSecret": "town-monitor", "labels": labels}
    wanted = of_chart(metrics={**chosen, "rules": True})
    assert rendered("prometheusrule.yaml", of_chart()) == []
    (rule,) = rendered("prometheusrule.yaml", wanted)
    alerts = (DEPLOY / "prometheus" / "alerts.yaml").read_text()
    assert rule["spec"] == yaml.safe_load(alerts), "cp deploy/prometheus/alerts.yaml to the chart"
    assert (DEPLOY / "helm/wattveil/files/alerts.yaml").read_text() == alerts
    (monitor,) = rendered("servicemonitor.yaml", wanted)
    assert monitor["metadata"]["labels"] == rule["metadata"]["labels"] == labels
    service, _ = rendered("service.yaml", wanted)
    _, closed = rendered("ingress.yaml", wanted)
    own, selected = service["metadata"]["labels"], monitor["spec"]["selector"]["matchLabels"]
    assert selected.items() <= own.items()
    assert "labels" not in closed["metadata"]
    assert own[monitor["spec"]["jobLabel"]] == "wattveil"  # as the alerts expect
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {one["name"] for one in service["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"
    assert endpoint["authorization"]["credentials"] == {"name": "town-monitor", "key": "token"}


def test_pods_of_the_chart_are_placed_and_reached_as_chosen() -> None:
    """Server and backup alike; with the policy, only the controller and Prometheus connect."""
    place = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "energy"}]}
    given = of_chart(**place, backup=_BACKUP)
    given["Values"]["image"]["pullSecrets"] = [{"name": "registry"}]
    (deployment,), (job,) = rendered("deployment.yaml", given), rendered("backup.yaml", given)
    templates = [deployment["spec"]["template"], job["spec"]["jobTemplate"]["spec"]["template"]]
    expected = {**place, "imagePullSecrets": [{"name": "registry"}]}
    for template in templates:
        assert expected.items() <= template["spec"].items()
    assert rendered("networkpolicy.yaml", given) == []
    names = {"ingressNamespace": "edge", "monitoringNamespace": "watch"}
    (policy,) = rendered("networkpolicy.yaml", of_chart(networkPolicy={"enabled": True, **names}))
    selected = policy["spec"]["podSelector"]["matchLabels"]
    assert all(selected.items() <= one["metadata"]["labels"].items() for one in templates)
    (rule,) = policy["spec"]["ingress"]
    sources = [one["namespaceSelector"]["matchLabels"].popitem()[1] for one in rule["from"]]
    assert sources == ["edge", "watch"]
    (port,) = rule["ports"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert port["port"] == container["ports"][0]["containerPort"]

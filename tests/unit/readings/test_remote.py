"""Remote sources: copies of https and fsspec addresses, with a real server on this machine."""

import http.server
import logging
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import self_signed
from wattveil.errors import InvalidFileError, InvalidParameterError, MissingExtraError
from wattveil.readings import read_readings, remote

_CSV = b"customer_id,timestamp,kwh\n" + b"".join(
    b"a,2024-03-04 %02d:00:00,0.%d\n" % (hour, hour + 1) for hour in range(24)
)

_HOME = b"\n".join(line.partition(b",")[2] for line in _CSV.splitlines())
_SHORTER_HOME = _HOME.rpartition(b"\n")[0]


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/readings.csv")
            self.end_headers()
            return
        self.send_response(200 if path.startswith("/readings") else 404)
        home = _SHORTER_HOME if self.path.endswith("home=s2") else _HOME
        content = home if path == "/readings_home.csv" else _CSV
        stated = len(content) + (path == "/readings_cut.csv")
        self.send_header("Content-Length", str(stated))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- of the base class
        """Keep the output of the tests clean."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve readings over TLS, with a certificate that httpx is told to trust."""
    certificate, key = self_signed(tmp_path_factory.mktemp("tls"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(certificate))
        yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_https_is_copied_and_read(address: str, tmp_path: Path) -> None:
    """An address is read as the file behind it, also beside a local file."""
    (tmp_path / "local.csv").write_bytes(_CSV.replace(b"\na,", b"\nb,"))
    readings = read_readings(
        [f"{address}/readings.csv?signature=secret", tmp_path / "local.csv"], timezone="UTC"
    )
    assert readings.customer_ids() == ["a", "b"]
    assert readings.to_arrow().num_rows == 48
    assert readings.report.files == ("readings.csv", "local.csv")


@pytest.mark.parametrize(
    ("path", "rule"),
    [("/nothing.csv", "status 404"), ("/readings_cut.csv", "bytes|peer|incomplete|connection")],
)
def test_broken_answers(address: str, path: str, rule: str) -> None:
    """A missing or cut file is refused, and the secret of the address is not shown."""
    with pytest.raises(InvalidFileError, match=rule) as refusal:
        read_readings(f"{address}{path}?signature=secret")
    assert "secret" not in str(refusal.value)


def test_clear_text_is_refused(address: str) -> None:
    """Neither an address nor a redirection sends meter data over http."""
    with pytest.raises(InvalidParameterError, match="https"):
        read_readings("http://user:secret@127.0.0.1/readings.csv")
    with pytest.raises(InvalidParameterError, match="https"):
        read_readings(f"{address}/elsewhere")


def test_untrusted_certificate(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot prove its name is not read."""
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(InvalidFileError, match="connection"):
        read_readings(f"{address}/readings.csv")


def test_copy_is_bounded(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is never filled."""
    monkeypatch.setattr(remote, "_MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(InvalidFileError, match="free space"):
        read_readings(f"{address}/readings.csv")


def test_addresses_of_fsspec() -> None:
    """A file, a folder and a pattern; the file system in memory stands for any."""
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name, customer in {"one": b"a", "two": b"b"}.items():
        memory.pipe(f"/meters/{name}.csv", _CSV.replace(b"\na,", b"\n%s," % customer))
    for source, customers in {
        "memory://meters/one.csv": ["a"],
        "memory://meters": ["a", "b"],
        "memory://meters/t*.csv": ["b"],
    }.items():
        assert read_readings(source, timezone="UTC").customer_ids() == customers
    with pytest.raises(InvalidFileError, match="files"):
        read_readings("memory://nothing")
    with pytest.raises(InvalidParameterError, match="fsspec"):
        read_readings("unknown://nothing")


def test_homes_at_several_addresses_stay_apart(address: str) -> None:
    """Equal names in two folders, and addresses that differ in their queries alone."""
    fsspec = pytest.importorskip("fsspec")
    for folder, home in {"north": _HOME, "south": _SHORTER_HOME}.items():
        fsspec.filesystem("memory").pipe(f"/homes/{folder}/home.csv", home)
    readings = read_readings("memory://homes", timezone="UTC")
    assert readings.customer_ids() == ["north/home", "south/home"]
    sources = [f"{address}/readings_home.csv?home={secret}" for secret in ("s1", "s2")]
    names = read_readings(sources, timezone="UTC").customer_ids()
    assert len(names) == 2
    assert not any("s1" in name or "s2" in name for name in names)


def test_signatures_are_not_logged(address: str, caplog: pytest.LogCaptureFixture) -> None:
    """A query may grant access, and logs are kept for long."""
    caplog.set_level(logging.DEBUG)
    read_readings(f"{address}/readings.csv?signature=secret", timezone="UTC")
    assert "secret" not in caplog.text
    assert logging.getLogger("httpx").level == logging.NOTSET


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"\[remote\]"):
        read_readings("s3://bucket/readings.csv")


def test_database_without_query() -> None:
    """A database address needs its query; its password is not shown."""
    with pytest.raises(InvalidParameterError, match="sql=") as refusal:
        read_readings("postgresql://user:secret@host/db")
    assert "secret" not in str(refusal.value)

"""A real Spark cluster on this machine: a master and workers of the pip package, by loopback.

`python -m tests.spark_cluster` starts one and keeps it until Ctrl-C.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.process_guard import guard, unguard
from wattveil.engines.spark.spark_session import check_java

_HOST = "127.0.0.1"
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_PATIENCE_SECONDS = 600.0


@dataclass(frozen=True)
class Cluster:
    """A master's address, and a folder for each worker, which identifies its executors."""

    master: str
    workers: dict[Path, int]  # process group of a worker and its executors

    def kill(self, folder: Path) -> None:
        """Kill a worker and its executors at once, as when a machine is lost."""
        os.killpg(self.workers[folder], signal.SIGKILL)


@contextmanager
def spark_cluster(workers: int = 2) -> Iterator[Cluster]:
    """Start a master and workers of one core each; stop all of them."""
    check_java()
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="wattveil-spark-") as name:
        folder = Path(name)

        def start(role: str, host: str, *words: str) -> int:
            with (folder / "log").open("ab") as log:
                process = subprocess.Popen(
                    [_SPARK_CLASS, f"org.apache.spark.deploy.{role}", "--host", host, *words],
                    env={**os.environ, "SPARK_DAEMON_JAVA_OPTS": _QUICK_START},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            guard(process.pid)
            started.append(process)
            return process.pid

        try:
            port = _free_port()
            start("master.Master", _HOST, "--port", str(port), "--webui-port", "0")
            _wait_for(port)
            master = f"spark://{_HOST}:{port}"
            groups = {}
            for place in range(workers):
                work = folder / f"worker-{place}"
                size = ("--cores", "1", "--memory", "1g", "--webui-port", "0")
                # Spark runs no two attempts at a task on one host, so each worker has its own.
                host = f"127.0.0.{place + 1}"
                groups[work] = start("worker.Worker", host, *size, "--work-dir", str(work), master)
            yield Cluster(master, groups)
        finally:
            for process in started:
                _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection((_HOST, port)).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop a process and all it started."""
    with suppress(ProcessLookupError):  # killed before
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    unguard(process.pid)


if __name__ == "__main__":
    with spark_cluster() as running, suppress(KeyboardInterrupt):
        sys.stdout.write(f"--master {running.master}  (Ctrl-C stops it)\n")
        sys.stdout.flush()
        signal.pause()

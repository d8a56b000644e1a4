"""Response times of the server beside a bare FastAPI route, and under attacks, in one run.

    PYTHONPATH=. python benchmarks/bench_server.py            # all parts, about five minutes
    PYTHONPATH=. python benchmarks/bench_server.py --part routes --rounds 4

Both servers are processes of this machine, and the client is a third: the same requests go to one
and to the other in turn, a batch at a time, so that other work of the machine slows both. Times
are of one request on a connection that is kept open, CPU times those of the server's process.

* ``routes``: ``/healthz`` and ``/v1/me`` at 1, 16 and 200 connections, as multiples of the bare
  route; 10,000 requests at 200 connections, and how many of them failed.
* ``attacks``: an analyst reads her budget ten times per second while somebody else misuses the
  server; the 99th percentile as a multiple of that of quiet batches in between, and the share of a
  processor that the server's process used meanwhile. All limits of the server are in force.
* ``scaling``: ``/v1/releases`` of a server with one and with two API processes on PostgreSQL, in
  turn: requests per second, their ratio, and the CPU time of all processes of the server per
  request. The client and the database need processors too: with two cores the ratio is below 2,
  and the CPU time per request, which must not grow, is what other machines can rely on.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np

BARE = """
import socket, sys, uvicorn
from fastapi import FastAPI
app = FastAPI()

@app.get("/bare")
async def bare() -> dict[str, str]:
    return {"status": "ok"}

# With its protocol named, so that asyncio turns Nagle's algorithm off.
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen(2048)
print(listener.getsockname()[1], flush=True)
config = uvicorn.Config(app, http="h11", loop="asyncio", access_log=False, log_level="error")
uvicorn.Server(config).run(sockets=[listener])
"""
SERVE = """
import sys
from wattveil.server.auth import access
access._REQUEST_RATE = access.Rate(1e9, 1e9)
access.Limits.__dataclass_fields__["requests"].default = access._REQUEST_RATE
access.Limits.__init__.__kwdefaults__["requests"] = access._REQUEST_RATE
from wattveil.cli import app
app()
"""
"""`wattveil serve` without the limit of requests per second, which would be what is measured."""
LIMITED = "from wattveil.cli import app; app()"
"""`wattveil serve`."""


@dataclass(frozen=True)
class Server:
    """A server process."""

    process: subprocess.Popen[str]
    port: int
    token: str = ""

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process, without its children."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python code as a process, until the block ends."""
    process = subprocess.Popen(  # noqa: S603 - code of this file
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def served(code: str) -> Iterator[Server]:
    """Run the server on a new folder with profiles."""
    from tests.live_server import owner_token, put_profiles  # noqa: PLC0415 - slow: an attack needs none of it

    with tempfile.TemporaryDirectory() as folder:
        put_profiles(Path(folder))
        with running(code, "serve", "--data", folder, "--port", "0") as process:
            line_of(process)  # no token is printed to a pipe
            address = re.search(r":([0-9]+)$", line_of(process).strip())
            assert address is not None
            yield Server(process, int(address[1]), owner_token(Path(folder)))


def line_of(process: subprocess.Popen[str]) -> str:
    """Return the next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def head(
    path: str, token: str = "", method: str = "GET", body: bytes = b"", more: str = ""
) -> bytes:
    """Return a request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: here"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body:
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return ("\r\n".join(lines) + "\r\n" + more + "\r\n").encode() + body


async def answer(reader: asyncio.StreamReader) -> int:
    """Read one response, and return its status."""
    start_of = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: ([0-9]+)", start_of, re.IGNORECASE)
    if length is not None:
        await reader.readexactly(int(length[1]))
    return int(start_of[9:12])


async def batch(
    port: int, request: bytes, *, connections: int, requests: int, pause: float = 0.0
) -> tuple[np.ndarray, int]:
    """Send requests on connections that stay open; return their times, and how many failed.

    Each connection pauses between two requests.
    """
    times: list[float] = []
    failed = 0
    left = requests

    async def client() -> None:
        nonlocal failed, left
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while left > 0:
                left -= 1
                began = time.perf_counter()
                writer.write(request)
                try:
                    status = await answer(reader)
                except (OSError, asyncio.IncompleteReadError):
                    failed += 1
                    return
                times.append(time.perf_counter() - began)
                failed += status != HTTPStatus.OK
                await asyncio.sleep(pause)
        finally:
            writer.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    return np.array(times), failed


async def compare_routes(bare: Server, ours: Server, *, rounds: int) -> list[dict[str, Any]]:
    """Return the times of both routes as multiples of the bare one."""
    found = []
    routes = {"/healthz": head("/healthz"), "/v1/me": head("/v1/me", ours.token)}
    for connections, requests in ((1, 300), (16, 800), (200, 1600)):
        times: dict[str, list[np.ndarray]] = {"bare": [], **{name: [] for name in routes}}
        cpu = dict.fromkeys(times, 0.0)
        failed = 0
        for number in range(rounds + 1):
            for name, measured in times.items():
                server = bare if name == "bare" else ours
                request = routes.get(name, head("/bare"))
                before = server.cpu_seconds()
                got, wrong = await batch(
                    server.port, request, connections=connections, requests=requests
                )
                if number:  # the first round warms up
                    measured.append(got)
                    cpu[name] += server.cpu_seconds() - before
                    failed += wrong
        base = np.concatenate(times["bare"])
        for name in routes:
            own = np.concatenate(times[name])
            row = {"route": name, "connections": connections, "requests": len(own)}
            for share in (50, 99):
                ratio = np.percentile(own, share) / np.percentile(base, share)
                row[f"p{share}_ms"] = round(1e3 * float(np.percentile(own, share)), 2)
                row[f"p{share}_ratio"] = round(float(ratio), 2)
            row["cpu_ratio"] = round(cpu[name] / cpu["bare"], 2)
            row["failed"] = failed
            found.append(row)
            show(row)
    return found


async def many_requests(ours: Server) -> dict[str, Any]:
    """Return how many of 10,000 requests at 200 connections failed."""
    request = head("/v1/me", ours.token)
    times, failed = await batch(ours.port, request, connections=200, requests=10_000)
    row = {"part": "10,000 requests at 200 connections", "answered": len(times), "failed": failed}
    show(row)
    return row


# --- attacks --------------------------------------------------------------------------------------

ATTACKS = {
    "1,100 idle connections": ("idle", 1100),
    "60 downloads at a time": ("downloads", 60),
    "orders without end": ("orders", 8),
    "new keys of a paid request": ("keys", 8),
    "new quotes": ("quotes", 8),
    "large JSON bodies": ("bodies", 8),
    "large tables in JSON": ("tables", 8),
    "lists of releases": ("lists", 8),
    "invalid tokens": ("tokens", 16),
}
"""What one analyst, or a stranger, can do: its name in `attack`, and the number of clients."""
LARGE = b"[" + b",".join([b"{}"] * 87_000) + b"]"
"""A body of nearly 256 KiB that takes long to parse."""
ELSEWHERE = ("127.0.0.2", 0)
"""Address of the attacker: another one than that of the analyst."""


@contextmanager
def going_on(server: Server, token: str, release: str, name: str) -> Iterator[None]:
    """Run an attack in a process of its own."""
    command = [sys.executable, __file__, "--attack", name, str(server.port), token, release]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ourselves
    line_of(process)  # it has begun
    try:
        yield
    finally:
        process.kill()
        process.wait()


async def elsewhere(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect from the address of the attacker, as often as it takes."""
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port, local_addr=ELSEWHERE)
        except OSError:
            await asyncio.sleep(0.01)


async def repeat(port: int, make: Callable[[], bytes] | None) -> None:
    """Send requests without end; without any, hold connections open."""
    while True:
        reader, writer = await elsewhere(port)
        with suppress(OSError, asyncio.IncompleteReadError):
            if make is None:
                await reader.read(1)
            while make is not None:
                writer.write(make())
                await answer(reader)
        writer.close()


async def attack(name: str, port: int, token: str, release: str) -> None:
    """Run the clients of an attack until this process is killed."""
    kind, clients = ATTACKS[name]
    numbers = iter(range(int(time.time() * 1e6), 10**18))

    def ordered(epsilon: float, number: int) -> bytes:
        body = json.dumps({"epsilon": epsilon, "products": ["load"]}).encode()
        key = f"Idempotency-Key: key-{number}\r\n"
        return head("/v1/datasets/homes/releases", token, "POST", body, key)

    def new_order() -> bytes:
        number = next(numbers)
        return ordered(0.002 + number % 10**6 * 1e-9, number)

    def new_quote() -> bytes:
        choices = {"epsilon": 0.5 + next(numbers) % 10**6 * 1e-9}
        return head("/v1/datasets/homes/quotes", token, "POST", json.dumps(choices).encode())

    requests: dict[str, Callable[[], bytes]] = {
        "downloads": lambda: head(f"/v1/releases/{release}/bundle.zip", token),
        "orders": new_order,
        "keys": lambda: ordered(0.05, next(numbers)),
        "quotes": new_quote,
        "bodies": lambda: head("/v1/datasets/homes/quotes", token, "POST", LARGE),
        "tables": lambda: head(f"/v1/releases/{release}/payload/synthetic.json", token),
        "lists": lambda: head("/v1/releases?limit=100", token),
        "tokens": lambda: head("/v1/me", "x"),
    }
    running = asyncio.gather(*(repeat(port, requests.get(kind)) for _ in range(clients)))
    await asyncio.sleep(1.0)
    show({"attack": name})
    await running


async def compare_attacks(ours: Server, tokens: dict[str, str], small: str, *, rounds: int) -> None:
    """Print how much slower another analyst is while an attack goes on."""
    large = released(ours, tokens["eve"], {"epsilon": 0.5})
    request = head("/v1/datasets/homes/budget", tokens["bob"])
    paced = {"connections": 4, "requests": 60, "pause": 0.4}  # ten per second, of twenty permitted
    for name, (kind, clients) in ATTACKS.items():
        release = large if kind == "tables" else small
        quiet, busy = [], []
        failed, cpu, seconds = 0, 0.0, 0.0
        for _ in range(rounds):
            got, _wrong = await batch(ours.port, request, **paced)
            quiet.append(got)
            with going_on(ours, tokens["eve"], release, name):
                before_cpu, began = ours.cpu_seconds(), time.perf_counter()
                got, wrong = await batch(ours.port, request, **paced)
                busy.append(got)
                failed += wrong
                cpu += ours.cpu_seconds() - before_cpu
                seconds += time.perf_counter() - began
        before, after = np.concatenate(quiet), np.concatenate(busy)
        row: dict[str, Any] = {"attack": name, "clients": clients, "failed": failed}
        for share in (50, 99):
            row[f"p{share}_quiet_ms"] = round(1e3 * float(np.percentile(before, share)), 1)
            row[f"p{share}_ms"] = round(1e3 * float(np.percentile(after, share)), 1)
        row["p99_ratio"] = round(row["p99_ms"] / row["p99_quiet_ms"], 2)
        row["cpu_share"] = round(cpu / seconds, 2)
        show(row)


# --- scaling --------------------------------------------------------------------------------------

NO_LIMIT = SERVE.partition("from wattveil.cli")[0]
"""As `sitecustomize`, it applies to the processes that a server starts as well."""


class ProcessGroup(Server):
    """A server of several processes, in a session of their own."""

    def cpu_seconds(self) -> float:
        """Return the CPU time of all processes of the session."""
        ticks = 0
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = status.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def served_by(processes: int, database: str) -> Iterator[Server]:
    """Run a server with a number of API processes on a new PostgreSQL database."""
    from tests.live_server import owner_token, put_profiles  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "sitecustomize.py").write_text(NO_LIMIT)
        data = Path(place) / "data"
        data.mkdir()
        put_profiles(data)
        paths = os.pathsep.join(filter(None, [place, os.environ.get("PYTHONPATH")]))
        options = ["--data", str(data), "--port", "0", "--database", database]
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", "wattveil", "serve", *options, "--processes", str(processes)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
            start_new_session=True,
        )
        try:
            said = line_of(process) + line_of(process)
            port = re.search(r"127.0.0.1:(\d+)", said)
            assert port is not None
            yield ProcessGroup(process, int(port[1]), owner_token(data, database))
        finally:
            process.terminate()
            process.wait()


async def compare_processes(servers: dict[int, Server], *, rounds: int) -> None:
    """Print requests per second by number of API processes, and their CPU time per request."""
    tokens = {number: furnish(own)[0]["eve"] for number, own in servers.items()}
    rates: dict[int, list[float]] = {number: [] for number in servers}
    cpu = dict.fromkeys(servers, 0.0)
    size = {"connections": 16, "requests": 1000}
    failed = 0
    for turn in range(rounds + 1):
        for number, server in servers.items():
            before, began = server.cpu_seconds(), time.perf_counter()
            _, wrong = await batch(server.port, head("/v1/releases", tokens[number]), **size)
            seconds = time.perf_counter() - began
            failed += wrong
            if turn:  # the first one warms up
                rates[number].append(size["requests"] / seconds)
                cpu[number] += server.cpu_seconds() - before
    for number in servers:
        per_request = cpu[number] / rounds / size["requests"]
        show(
            {
                "processes": number,
                "requests_per_second": round(float(np.median(rates[number]))),
                "ratio": round(float(np.median(np.divide(rates[number], rates[1]))), 2),
                "server_cpu_ms_per_request": round(1e3 * per_request, 2),
                "failed": failed,
            }
        )


def compare_scaling(*, rounds: int) -> None:
    """Start a database and two servers, and compare them."""
    import psycopg  # noqa: PLC0415 - for this part alone

    from tests.postgres import postgres_server  # noqa: PLC0415

    with postgres_server(durable=True) as database, ExitStack() as stack:
        servers = {}
        for number in (1, 2):
            with psycopg.connect(database.address, autocommit=True) as connection:
                connection.execute(f"CREATE SCHEMA of_{number}")
            address = f"{database.address}&options=-csearch_path%3Dof_{number}"
            servers[number] = stack.enter_context(served_by(number, address))
        asyncio.run(compare_processes(servers, rounds=rounds))


def show(row: dict[str, Any]) -> None:
    """Print a row as it is found."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def furnish(server: Server) -> tuple[dict[str, str], str]:
    """Register data, admit two analysts, and make one release of one of them."""
    from tests.live_server import registration  # noqa: PLC0415 - slow: an attack needs none of it
    from wattveil.server.client_transport import Transport  # noqa: PLC0415

    owner = Transport(f"http://127.0.0.1:{server.port}", server.token)
    owner.post("/v1/admin/datasets", registration("homes.parquet"))
    tokens = {}
    for name in ("bob", "eve"):
        tokens[name] = owner.post("/v1/admin/principals", {"name": name})["token"]
        budget = {"allowance": {"epsilon": 3.0, "delta": 1e-6}, "reason": "r", "principal": name}
        owner.post("/v1/admin/datasets/homes/budgets", budget)
    return tokens, released(server, tokens["eve"], {"epsilon": 0.05, "products": ["load"]})


def released(server: Server, token: str, body: dict[str, Any]) -> str:
    """Order a release, and wait for it."""
    from wattveil.server.client_transport import Transport  # noqa: PLC0415 - as above

    analyst = Transport(f"http://127.0.0.1:{server.port}", token)
    key = {"Idempotency-Key": f"of-{body['epsilon']}"}
    release = analyst.post("/v1/datasets/homes/releases", body, key)["id"]
    while analyst.get(f"/v1/releases/{release}")["state"] == "computing":
        time.sleep(0.1)
    return str(release)


def main() -> None:
    """Start the servers, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["routes", "attacks", "scaling"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--attack", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.attack:
        name, port, token, release = chosen.attack
        asyncio.run(attack(name, int(port), token, release))
        return
    show({"load_average": os.getloadavg()[0]})
    if chosen.part in (None, "routes"):
        with served(SERVE) as ours, running(BARE) as process:
            bare = Server(process, int(line_of(process)))
            asyncio.run(compare_routes(bare, ours, rounds=chosen.rounds))
            asyncio.run(many_requests(ours))
    if chosen.part in (None, "attacks"):
        with served(LIMITED) as ours:
            tokens, release = furnish(ours)
            asyncio.run(compare_attacks(ours, tokens, release, rounds=chosen.rounds))
    if chosen.part in (None, "scaling"):
        compare_scaling(rounds=chosen.rounds)
    show({"load_average": os.getloadavg()[0]})


if __name__ == "__main__":
    main()

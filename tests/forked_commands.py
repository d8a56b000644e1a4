"""`wattveil` for scripts of the tests: a process that forks a command for each connection.

A start loads modules for more than a second, and the script of a job starts a command per step. The
program as it is installed has its own tests (`tests/integration/test_console.py`).

    {"socket": ...}       -> {"listening": true}

`PROGRAM` connects. The command receives its arguments, folder, environment, mode mask and standard
streams, and it ends with the command's status.
"""

import json
import os
import select
import signal
import socket
import sys
from importlib import import_module
from typing import Any

from wattveil.cli import app

PROGRAM = """#!{python} -IS
import json, os, socket, sys
mask = os.umask(0)
task = {{"words": sys.argv[1:], "folder": os.getcwd(), "mask": mask}}
task["environment"] = {{**os.environ}}
with socket.socket(socket.AF_UNIX) as server:
    server.connect({socket!r})
    socket.send_fds(server, [b"{{"], [0, 1, 2])
    server.sendall(json.dumps(task)[1:].encode())
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.recv(16)))
"""
"""A program: the path of Python and that of the socket are filled in."""

_LOADED = ("admin", "bundles", "data", "series")
"""Modules of the command line whose commands are forked, with all that they import."""


def run(task: dict[str, Any], streams: list[int]) -> int:
    """Run a command in this process, which does nothing else; return its status."""
    for stream, number in zip(streams, range(3), strict=True):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(task["folder"])
    os.umask(task["mask"])
    os.environ.clear()
    os.environ.update(task["environment"])
    try:
        app(task["words"], prog_name="wattveil")
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
            return 1
        return end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def answer(connection: socket.socket) -> None:
    """Fork a command, and have a second fork tell its status."""
    if os.fork():
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    start, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("rb") as rest:
        task = json.loads(start + rest.read())
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(str(status).encode())
        os._exit(0)
    connection.close()
    status = 1
    try:
        status = run(task, streams)
    finally:
        os._exit(status)  # nothing of the parent's is cleaned up twice


def main() -> None:
    """Answer connections until standard input ends."""
    for name in _LOADED:
        import_module(f"wattveil.cli.{name}")
    task = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are not waited for
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(task["socket"])
        listener.listen()
        sys.stdout.write(json.dumps({"listening": True}) + "\n")
        sys.stdout.flush()
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            connection, _ = listener.accept()
            with connection:
                answer(connection)


if __name__ == "__main__":
    main()

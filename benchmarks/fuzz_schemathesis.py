"""Requests that Schemathesis makes from the server's own OpenAPI description.

    pip install schemathesis
    python benchmarks/fuzz_schemathesis.py --examples 1000

Schemathesis is not a dependency: `tests/request_fuzzer.py` reaches further, as it generates valid
requests. This is an independent check. Each operation is called as an administrator and as an
analyst, in this process. No response may be a server error, and every refusal must be a problem of
the closed list.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests/

from hypothesis import HealthCheck, given, settings

from tests.live_server import put_profiles
from tests.neighbouring_servers import CODES, InProcessServer, computing_in_process, furnish, opened
from wattveil.server.http.problems import MEDIA_TYPE

try:
    import schemathesis
except ImportError:
    sys.exit("Schemathesis is not installed: this check is skipped. pip install schemathesis")

schemathesis.serializer.alias("application/zip", "application/octet-stream")

DONE = (200, 201, 202)
SKIPPED = ("revoke", "disable", "close")
"""Paths that are skipped: after these no further request would be authorised."""


def call_every_operation(server: InProcessServer, who: str, examples: int) -> Counter[int]:
    """Call each operation of the description; count the responses by status."""
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", server.app)
    headers = {"Authorization": f"Bearer {server.secrets[f'<token-{who}>']}"}
    statuses: Counter[int] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith(SKIPPED):
            continue

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=[*HealthCheck],
        )
        @given(case=operation.as_strategy())
        def call(case: schemathesis.Case) -> None:
            answer = case.call(headers=headers)
            statuses[answer.status_code] += 1
            if answer.status_code not in DONE:
                assert answer.headers["content-type"] == [MEDIA_TYPE], (case, answer.content)
                assert (answer.status_code, answer.json()["code"]) in CODES, (case, answer.content)

        call()
    return statuses


def main() -> int:
    """Call every operation as an administrator and as an analyst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1_000, help="of each operation")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, computing_in_process():
        put_profiles(Path(name))
        with opened(Path(name)) as server:
            asyncio.run(furnish([server], datasets=("homes",)))
            for who in ("owner", "ann"):
                statuses = call_every_operation(server, who, options.examples)
                sys.stdout.write(
                    f"as {who}: {sum(statuses.values()):,} requests, {dict(statuses)}\n"
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())

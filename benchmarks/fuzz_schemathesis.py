"""Requests that Schemathesis makes from the server's own OpenAPI description.

    pip install schemathesis
    python benchmarks/fuzz_schemathesis.py --examples 1000

Schemathesis is no dependency of ours: `tests/odd_requests.py` reaches further, as it knows what a
right request is. This is a second opinion, by people who do not know our code. Each operation is
asked as an administrator and as an analyst, in this process. No answer may be an error of the
server, and every refusal must be a problem of the closed list.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for tests/

from hypothesis import HealthCheck, given, settings

from tests.servers import put_profiles
from tests.twins import CODES, Twin, furnish, indoors, opened
from wattveil.serve.problems import MEDIA_TYPE

try:
    import schemathesis
except ImportError:
    sys.exit("Schemathesis is not installed: this check is skipped. pip install schemathesis")

schemathesis.serializer.alias("application/zip", "application/octet-stream")

DONE = (200, 201, 202)
ENDS_IT = ("revoke", "disable", "close")
"""After these there would be nobody left to ask, and nothing to ask for."""


def ask_everything(server: Twin, who: str, examples: int) -> Counter[int]:
    """Ask each operation of the description; return how often which status was answered."""
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", server.app)
    door = {"Authorization": f"Bearer {server.secrets[f'<token-{who}>']}"}
    said: Counter[int] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith(ENDS_IT):
            continue

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=[*HealthCheck],
        )
        @given(case=operation.as_strategy())
        def ask(case: schemathesis.Case) -> None:
            answer = case.call(headers=door)
            said[answer.status_code] += 1
            if answer.status_code not in DONE:
                assert answer.headers["content-type"] == [MEDIA_TYPE], (case, answer.content)
                assert (answer.status_code, answer.json()["code"]) in CODES, (case, answer.content)

        ask()
    return said


def main() -> int:
    """Ask as an administrator and as an analyst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1_000, help="of each operation")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, indoors():
        put_profiles(Path(name))
        with opened(Path(name)) as server:
            asyncio.run(furnish([server], datasets=("homes",)))
            for who in ("owner", "ann"):
                said = ask_everything(server, who, options.examples)
                sys.stdout.write(f"as {who}: {sum(said.values()):,} requests, {dict(said)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Odd requests: no error of the server, nothing private, and the same bytes on neighbouring data.

A few hundred in `make test`; `make soak` sets WATTVEIL_REQUESTS and WATTVEIL_SEEDS.
"""

import os
from pathlib import Path

import pytest

from tests.neighbouring_servers import CANARY, compare

REQUESTS = int(os.environ.get("WATTVEIL_REQUESTS", "300"))
SEEDS = int(os.environ.get("WATTVEIL_SEEDS", "1"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_responses_to_fuzzed_requests_are_equal_on_neighbouring_data(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of them go to each server; one of the two lacks a customer."""
    caplog.set_level("INFO")
    said = compare(tmp_path, (None, None), seed=seed, requests=REQUESTS // 2)
    assert {"200", "401", "403", "404", "422"} <= set(said)
    assert CANARY not in caplog.text
    print(f"seed {seed}: {REQUESTS:,} requests, {dict(said)}")  # noqa: T201 - `make soak` shows it

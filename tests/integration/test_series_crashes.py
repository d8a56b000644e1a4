"""A period of a series killed with SIGKILL at steps of its commit: state and bundle agree."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.series_bundles import quarter, some_series
from wattveil.bundle.published_series import LoadSeries
from wattveil.errors import SeriesStateError

WORKER = """
import os, signal, sys
from pathlib import Path

folder, last = sys.argv[1], int(sys.argv[2])
steps = []

def guarded(function):
    def call(*arguments, **options):
        if len(steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        steps.append(function)
        return function(*arguments, **options)
    return call

from tests.series_bundles import quarter
from wattveil.bundle.published_series import LoadSeries

series, customers = LoadSeries(folder), quarter(1)
os.fsync, Path.replace = guarded(os.fsync), guarded(Path.replace)
series.add(customers)
print(len(steps))
"""


def add_in_process(series: LoadSeries, last: int) -> subprocess.CompletedProcess[str]:
    """Add a period in a process that kills itself at a step."""
    root = Path(__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-c", WORKER, str(series.folder), str(last)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


@pytest.mark.parametrize("before_end", [1, pytest.param(3, marks=pytest.mark.long), 8])
def test_a_killed_period_is_released_whole_or_not_at_all(tmp_path: Path, before_end: int) -> None:
    """After SIGKILL at one of the last steps the series continues, and its chain verifies."""
    series = some_series(tmp_path, 0)
    steps = 35  # that force a file or folder to disk, or move one
    died = add_in_process(series, steps - before_end)
    assert died.returncode == -signal.SIGKILL, (died.stdout, died.stderr)
    if before_end == 8:  # before the mark was replaced: the noise may have been drawn
        with pytest.raises(SeriesStateError, match="period 2 was begun and did not end"):
            series.add(quarter(2))
    series.add(quarter(2), again=before_end == 8)
    assert len(series.bundles) == (2 if before_end == 8 else 3)
    assert series.verify().accepted

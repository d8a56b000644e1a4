"""Run the fuzzer of the meter-file readers on 10,000 mutated files per format.

::

    PYTHONPATH=. python benchmarks/fuzz_readers.py [mutants] [seed]

The fuzzer is that of the test suite. It stops at the first mutant that is neither rejected clearly
nor has all of its readings accounted for. The CPU time of every mutant is bounded, and so is the
growth of memory over all of them.
"""

import sys
import tempfile
from pathlib import Path

from tests.property.readings.test_fuzz_readers import SUBJECTS, fuzz

MAX_SECONDS = 5.0
MAX_GROWTH_MB = 50


def main(mutants: int = 10_000, seed: int = 1) -> None:
    """Fuzz each reader and print the outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        for name in SUBJECTS:
            fuzz(name, Path(folder), mutants=100, seed=seed)  # imports and caches
            before = _resident_mb()
            tally = fuzz(name, Path(folder), mutants=mutants, seed=seed)
            growth = _resident_mb() - before
            outcomes = ", ".join(f"{n} {what}" for what, n in sorted(tally.outcomes.items()))
            sys.stdout.write(
                f"{name}: {outcomes}; {tally.readings} readings accounted for; slowest "
                f"{tally.slowest_seconds:.2f} s; peak memory grew by {growth:.0f} MB\n"
            )
            if tally.slowest_seconds > MAX_SECONDS:
                sys.exit(f"{name}: expected at most {MAX_SECONDS} CPU s per file")
            if growth > MAX_GROWTH_MB:
                sys.exit(f"{name}: expected at most {MAX_GROWTH_MB} MB")


def _resident_mb() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))

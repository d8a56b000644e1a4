"""Give the readers 10,000 broken files each.

::

    python benchmarks/fuzz_readers.py [mutants] [seed]

The fuzzer is the one of the test suite. It stops at the first mutant that ends otherwise than in a
clear error or in a full account of its readings. Memory is compared before and after: what a mutant
leaves behind would add up.
"""

import runpy
import sys
import tempfile
from pathlib import Path

FUZZER = Path(__file__).parents[1] / "tests" / "property" / "ingest" / "test_fuzz_readers.py"
MOST_GROWTH_MB = 50


def main(mutants: int = 10_000, seed: int = 1) -> None:
    """Fuzz both readers and print what became of the mutants."""
    fuzzer = runpy.run_path(str(FUZZER))
    with tempfile.TemporaryDirectory() as folder:
        for name in fuzzer["SUBJECTS"]:
            fuzzer["fuzz"](name, Path(folder), mutants=100, seed=seed)  # loads what is loaded once
            before = _resident_mb()
            tally = fuzzer["fuzz"](name, Path(folder), mutants=mutants, seed=seed)
            growth = _resident_mb() - before
            outcomes = ", ".join(f"{n} {what}" for what, n in sorted(tally.outcomes.items()))
            sys.stdout.write(
                f"{name}: {outcomes}; {tally.readings} readings accounted for; slowest "
                f"{tally.slowest_seconds:.2f} s; peak memory grew by {growth:.0f} MB\n"
            )
            if growth > MOST_GROWTH_MB:
                sys.exit(f"{name}: expected at most {MOST_GROWTH_MB} MB")


def _resident_mb() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))

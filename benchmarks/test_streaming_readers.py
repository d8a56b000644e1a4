"""Memory of the streaming readers: a large file must not need its size.

``pytest benchmarks/test_streaming_readers.py -s`` prints the figures. ``WATTVEIL_BENCH_MB`` sets
the size of the files. Each file is read in a process of its own, whose peak is that of the reader
and of what it imports.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

FILE_MB = int(os.environ.get("WATTVEIL_BENCH_MB", "200"))
MAX_RESIDENT_MB = 150

MEASURE = """
import sys, time
from pathlib import Path
from wattveil.readings.formats.{module} import {module}_batches

class Silence:
    def count(self, reason, where, row=None):
        pass

began = time.process_time()
rows = sum(b.num_rows for b in {module}_batches(Path(sys.argv[1]), problems=Silence()))
seconds = time.process_time() - began
status = Path("/proc/self/status").read_text()
peak_kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
print(rows, seconds, int(peak_kb) / 1024)
"""


def _green_button() -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
    yield """<entry><link rel="self" href="ReadingType/1"/><content>
    <ReadingType xmlns="http://naesb.org/espi"><flowDirection>1</flowDirection>
    <powerOfTenMultiplier>0</powerOfTenMultiplier><uom>72</uom></ReadingType></content></entry>\n"""
    customer = 0
    while True:
        customer += 1
        point = f"RetailCustomer/{customer}/UsagePoint/1"
        yield f"""<entry><link rel="self" href="{point}"/><content>
        <UsagePoint xmlns="http://naesb.org/espi"/></content></entry>
        <entry><link rel="self" href="{point}/MeterReading/1"/>
        <link rel="up" href="{point}/MeterReading"/><link rel="related" href="ReadingType/1"/>
        <content><MeterReading xmlns="http://naesb.org/espi"/></content></entry>\n"""
        for day in range(365):
            start = 1_300_000_000 + 86_400 * day
            readings = "".join(
                f"""<IntervalReading>
                <timePeriod>
                    <duration>900</duration>
                    <start>{start + 900 * i}</start>
                </timePeriod>
                <value>{(i * 37 + day) % 900}</value>
            </IntervalReading>\n"""
                for i in range(96)
            )
            yield f"""<entry><link rel="up" href="{point}/MeterReading/1/IntervalBlock"/>
            <content><IntervalBlock xmlns="http://naesb.org/espi">{readings}</IntervalBlock>
            </content></entry>\n"""


def _nem12() -> Iterator[str]:
    yield "100,NEM12,202001010000,MDA1,Ret1\n"
    values = ",".join(f"{i / 1000:.3f}" for i in range(288))
    customer = 6_000_000_000
    while True:
        customer += 1
        for suffix in ("E1", "E2", "B1"):
            yield f"200,{customer},E1E2B1,1,{suffix},N1,METER1,kWh,5,20210101\n"
            for day in range(365):
                when = date(2020, 1, 1) + timedelta(days=day)
                yield f"300,{when:%Y%m%d},{values},A,,,20210101120000,\n"


@pytest.mark.parametrize(
    ("module", "parts", "end"),
    [("green_button", _green_button(), "</feed>"), ("nem12", _nem12(), "900\n")],
)
def test_memory_of_a_large_file(
    tmp_path: Path, module: str, parts: Iterator[str], end: str
) -> None:
    """A file of 200 MB is read with a peak of at most 150 MB resident, imports included."""
    path = tmp_path / module
    with path.open("w", encoding="utf-8") as file:
        written = 0
        while written < FILE_MB << 20:
            written += file.write(next(parts))
        file.write(end)
    command = [sys.executable, "-c", MEASURE.format(module=module), str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 -- our own
    rows, seconds, peak_mb = (float(figure) for figure in result.stdout.split())
    speed = FILE_MB / seconds
    sys.stdout.write(
        f"\n{module}: {FILE_MB} MB, {rows:,.0f} rows, {seconds:.1f} s of CPU ({speed:.1f} MB/s), "
        f"peak {peak_mb:.0f} MB resident\n"
    )
    assert peak_mb < MAX_RESIDENT_MB

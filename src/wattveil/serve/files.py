"""Files of a release as they are sent: from its bundle, and nothing that its manifest lacks."""

import io
import json
import math
import re
import zipfile
from pathlib import Path

from wattveil.publish.bundle import MANIFEST, read_manifest, read_table, table_path
from wattveil.serve.problems import Code, Problem

_TABLE = re.compile(r"([a-z_]{1,60})\.(csv|json|parquet)")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "parquet": "application/vnd.apache.parquet",
}


def payload(bundle: Path, name: str) -> tuple[bytes, str]:
    """Return a table of a release, and its media type."""
    found = _TABLE.fullmatch(name)
    if found is None or table_path(found[1], "parquet") not in _listed(bundle):
        raise Problem(Code.NOT_FOUND)
    table, kind = found[1], found[2]
    if kind == "json":
        columns = read_table(bundle, table).to_pydict()
        plain = {name: [_plain(value) for value in values] for name, values in columns.items()}
        return json.dumps(plain, allow_nan=False).encode(), MEDIA_TYPES[kind]
    return (bundle / table_path(table, kind)).read_bytes(), MEDIA_TYPES[kind]


def tables(bundle: Path) -> list[str]:
    """Return the names of the tables of a release."""
    return sorted(Path(path).stem for path in _listed(bundle) if path.endswith(".parquet"))


def zipped(bundle: Path) -> bytes:
    """Return all of a release as one file; the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in (MANIFEST, *_listed(bundle)):
            entry = zipfile.ZipInfo(path, _LONG_AGO)
            archive.writestr(entry, (bundle / path).read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _listed(bundle: Path) -> list[str]:
    return sorted(entry["path"] for entry in read_manifest(bundle)["payload"])


def _plain(value: object) -> object:
    """JSON has no word for what is no number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

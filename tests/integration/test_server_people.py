"""Releases of several principals: shared, verified, repeated; and the administrators' view."""

import hashlib
import io
import json
import select
import socket
import zipfile
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.live_server import QUICK, Answer, Browser, ComputeHere, Running, refused
from wattveil import connect
from wattveil.bundle.cumulative import OTHER_TIER
from wattveil.bundle.verify.verify_bundle import verify_bundle
from wattveil.server.http.middleware import MAX_LARGE_BYTES
from wattveil.server.http.problems import Code
from wattveil.server.ledger.amounts import STEPS
from wattveil.server.ledger.ledger_audit import audit_export
from wattveil.server.ordered_releases import ANY_PRINCIPAL


def released(server: Running, key: str, epsilon: float) -> str:
    """Return the id of a release of ann's that is there."""
    ordered = server.order(key, {**QUICK, "epsilon": epsilon})
    server.finished(ordered.json["id"])
    return str(ordered.json["id"])


def zipped(server: Running, release: str) -> bytes:
    """Return a bundle of ann's as it is downloaded."""
    return server.send("GET", f"/v1/releases/{release}/bundle.zip", as_="ann").body


def checked(server: Running, content: bytes) -> Answer:
    """Verify bytes as another principal."""
    headers = {"Content-Type": "application/zip"}
    return server.send("POST", "/v1/verify", content, as_="bob", headers=headers)


def test_a_statement_has_the_sum_of_the_ledger(server: Running) -> None:
    """The manifest agrees with the entries up to its charge, added up by hand."""
    release = released(server, "counted", 0.11)
    manifest = server.send("GET", f"/v1/releases/{release}/manifest", as_="ann").json
    stated, seq = manifest["cumulative"], int(release.partition("-")[2])
    entries = server.send("GET", "/v1/admin/ledger?journal=1").json["entries"][:seq]
    assert (stated["ledger_seq"], stated["chain_head"]) == (seq, entries[-1]["row_sha256"])
    whole = entries[1]["account_id"]  # its first cap follows the opening
    paid = [one for one in entries if one["kind"] == "charge" and one["account_id"] == whole]
    assert stated["releases"] == len(paid)
    rho = sum(one["rho"] for one in paid)
    assert int(stated["spent"]["rho_units"]) * STEPS["rho"] == rho * 10**18
    assert stated["other_tier"] in OTHER_TIER.values()
    assert "counted in cumulative" in manifest["other_releases_on_same_people"]
    assert "Interactive" in manifest["deployment"]


def test_a_release_is_shared_and_nothing_is_paid(server: Running) -> None:
    """With one or with all; never by others, never twice; what is not shared stays hidden."""
    release = released(server, "to-share", 0.12)
    address, hidden = f"/v1/releases/{release}", server.send("GET", "/v1/releases/9-9", as_="bob")
    assert server.send("GET", address, as_="bob").body == hidden.body
    shares = f"{address}/shares"
    assert server.send("POST", shares, {"reader": "bob"}, as_="bob").body == hidden.body
    budget = server.send("GET", "/v1/datasets/homes/budget", as_="bob").body
    connect(server.url, server.tokens["ann"]).release(release).share("bob")
    assert server.send("GET", f"{address}/manifest", as_="bob").status == 200
    assert release in [
        one["id"] for one in server.send("GET", "/v1/releases", as_="bob").json["releases"]
    ]
    assert server.send("GET", "/v1/datasets/homes/budget", as_="bob").body == budget
    refused(server.send("POST", shares, {"reader": ANY_PRINCIPAL}, as_="bob"), Code.FORBIDDEN)
    said = server.send("POST", shares, {"reader": "not a name"}, as_="ann")
    assert refused(said, Code.INVALID_REQUEST).json["errors"][0]["field"] == "reader"
    server.admit("gil", epsilon=0.1)
    assert server.send("GET", address, as_="gil").body == hidden.body
    ann = Browser(server, "ann")
    assert ann.post(f"/releases/{release}/shares", reader=ANY_PRINCIPAL).status == 303
    assert ann.post(f"/releases/{release}/shares", reader=ANY_PRINCIPAL).status == 303
    assert ann.post(f"/releases/{release}/shares", reader="not a name").status == 422
    assert b"all accounts" in ann.get(f"/releases/{release}").body
    assert server.send("GET", address, as_="gil").status == 200
    page = Browser(server, "gil").get(f"/releases/{release}").body
    assert b"Share it" not in page


def test_a_quote_shows_what_is_paid_already(server: Running) -> None:
    """Free for a principal who paid; others pay from their own account only; shown on the page."""
    body = {**QUICK, "epsilon": 0.13}

    def quoted(name: str) -> object:
        said = server.send("POST", "/v1/datasets/homes/quotes", body, as_=name)
        return said.json["already_paid"]

    assert quoted("ann") == {"dataset": False, "own": False}
    released(server, "known", 0.13)
    assert quoted("ann") == {"dataset": True, "own": True}
    assert quoted("bob") == {"dataset": True, "own": False}
    fields = {"epsilon": "0.13", "n_clusters": "6", "products": "load"}
    assert (
        b"repeating the request is free"
        in Browser(server, "ann").post("/datasets/homes/quote", **fields).body
    )
    assert (
        b"This release already exists"
        in Browser(server, "bob").post("/datasets/homes/quote", **fields).body
    )


def test_a_bundle_is_checked(
    server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A true one of this server, one without signature, one whose numbers were changed.

    The server says what `wattveil verify --json` says, and whether the bundle is its own. Each
    check has a process of its own, which the next test needs and this one does not.
    """
    monkeypatch.setattr(server.state.planner, "_checks", ComputeHere())
    bundle = zipped(server, released(server, "to-check", 0.14))
    verdict = checked(server, bundle).json
    assert (verdict["accepted"], verdict["of_this_server"]) == (True, True)
    assert any(one["check"] == "total with other releases" for one in verdict["findings"])
    assert verdict["not_run"] == []
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(files["manifest.json"])
    del manifest["signature"]
    unsigned = packed({**files, "manifest.json": json.dumps(manifest).encode()})
    with zipfile.ZipFile(io.BytesIO(unsigned)) as archive:
        archive.extractall(tmp_path)
    seen = checked(server, unsigned).json
    assert seen == {**verify_bundle(tmp_path).to_json(), "of_this_server": False}
    assert [one["check"] for one in seen["not_run"]] == ["the signature"]
    assert len(seen["findings"]) == len(verdict["findings"]) - 1
    verdict = checked(server, packed({**files, "tables/groups.csv": b"other\n"})).json
    assert (verdict["accepted"], verdict["of_this_server"]) == (False, False)
    owner = Browser(server, "ann")
    assert b"Zipped bundle" in owner.get("/verify").body


def packed(files: dict[str, bytes]) -> bytes:
    """Return files as an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def test_a_bundle_that_would_fill_the_memory_is_refused(server: Running) -> None:
    """As many rows as stated, in a kilobyte or so; each has 64 MiB: its process has a limit."""
    bundle = zipped(server, released(server, "to-burst", 0.15))
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = "tables/load_shapes.parquet"
    data = pq.read_table(io.BytesIO(files[name]))
    long = pa.DictionaryArray.from_arrays([0] * data.num_rows, ["x" * 2**26])
    bomb, place = io.BytesIO(), data.column_names.index("group")
    pq.write_table(
        data.set_column(place, "group", long),
        bomb,
        compression="zstd",
        dictionary_pagesize_limit=2**30,
        store_schema=False,  # of the dictionary nothing is said
    )
    assert pq.read_schema(bomb).field("group").type == pa.string()
    files[name] = bomb.getvalue()
    assert len(files[name]) < 2**16
    manifest = json.loads(files["manifest.json"])
    for entry in manifest["payload"]:
        content = files[entry["path"]]
        entry["bytes"], entry["sha256"] = len(content), hashlib.sha256(content).hexdigest()
    del manifest["signature"]
    files["manifest.json"] = json.dumps(manifest).encode()
    verdict = checked(server, packed(files)).json
    broken = {one["check"]: one["seen"] for one in verdict["findings"] if not one["holds"]}
    assert broken == {"table load_shapes": "cannot be read: content"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 no archive",
        packed({"manifest.json": b"{}"})[:-9],
        packed({"../manifest.json": b"{}"}),
        packed({"/etc/manifest.json": b"{}"}),
        packed({"a/b/manifest.json": b"{}"}),
        packed({f"file_{number}": b"" for number in range(65)}),
        packed({"bomb": bytes(2**20 + 1)}),
        packed({"manifest.json": b"no json"}),
        packed({"tables": b"", "tables/groups.csv": b""}),
    ],
    ids=["empty", "cut", "truncated", "up", "root", "deep", "many", "bomb", "statement", "both"],
)
def test_what_is_no_bundle_is_refused(
    server: Running, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written outside the folder, and nothing large is unpacked."""
    monkeypatch.setattr("wattveil.server.bundle_archives._MAX_UNPACKED_BYTES", 2**20)
    headers = {"Content-Type": "application/zip"}
    said = server.send("POST", "/v1/verify", content, as_="bob", headers=headers)
    refused(said, Code.INVALID_REQUEST)


def test_uploads_of_others_leave_room(server: Running) -> None:
    """Strangers take none: they are refused before they send; one person takes two places."""
    with ExitStack() as held:

        def upload(*headers: str) -> socket.socket:
            """Begin to send a bundle, and do not end."""
            sent = ["POST /v1/verify HTTP/1.1", "Host: here", "Content-Length: 16000000", *headers]
            begun = socket.create_connection(("127.0.0.1", server.port), timeout=600)
            begun.sendall("\r\n".join([*sent, "", "PK"]).encode())
            return held.enter_context(begun)

        for _ in range(8):
            assert upload("Authorization: Bearer no").recv(12) == b"HTTP/1.1 401"
        begun = [upload(f"Authorization: Bearer {server.tokens['ann']}") for _ in range(3)]
        (refused_one,), *_ = select.select(begun, [], [], 60)
        assert refused_one.recv(12) == b"HTTP/1.1 429"
        headers = {"Content-Type": "application/zip"}
        said = server.send("POST", "/v1/verify", b"no bundle", as_="bob", headers=headers)
        refused(said, Code.INVALID_REQUEST)


def test_a_bundle_may_be_large_and_nothing_else(server: Running) -> None:
    """Up to a separate limit, also without a token."""
    headers = {"Content-Type": "application/zip"}
    large = bytes(MAX_LARGE_BYTES + 1)
    refused(server.send("POST", "/v1/verify", large, as_=None, headers=headers), Code.TOO_LARGE)
    refused(server.send("POST", "/v1/verify", b"x", as_=None, headers=headers), Code.UNAUTHORIZED)
    ann = Browser(server, "ann")
    sent = {"Cookie": ann.cookie, "X-CSRF-Token": "another"}
    assert server.send("POST", "/verify", b"x", as_=None, headers=sent).status == 403
    sent["X-CSRF-Token"] = ann.word
    assert (
        b"Choose the zip file that was downloaded"
        in server.send("POST", "/verify", b"x", as_=None, headers=sent).body
    )


def test_owners_take_the_ledger_home(server: Running, tmp_path: Path) -> None:
    """As a file that passes its audit; with what was refused, and what was done about people."""
    refused(server.order("much", {**QUICK, "epsilon": 2.9}, as_="bob"), Code.BUDGET_REFUSED)
    owner = Browser(server, "owner")
    out = tmp_path / "ledger.jsonl"
    export = owner.get("/ledger.jsonl")
    assert not {"last-modified", "etag"} & {name.lower() for name in export.headers}
    out.write_bytes(export.body)
    assert all(finding.holds for finding in audit_export(out))
    page = owner.get("/ledger").body.decode()
    assert "budget does not cover the price" in page
    assert "token issued" in page
    older = owner.get("/ledger?journal=1&before=3").body.decode()
    assert [f"<td>1-{seq}</td>" in older for seq in (1, 2, 3)] == [True, True, False]
    assert "Older entries" not in older
    events = server.send("GET", "/v1/admin/events").json["events"]
    assert {"by": "owner", "action": "created", "name": "ann"}.items() <= next(
        one for one in events if one["name"] == "ann" and one["action"] == "created"
    ).items()
    assert server.tokens["ann"] not in json.dumps(events)
    ann = Browser(server, "ann")
    assert ann.get("/ledger.jsonl").status == 403

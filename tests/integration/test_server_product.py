"""A registered product on a real server: quote, order and bundle, through its compute processes."""

import io
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.live_server import put_profiles, registration, serving
from tests.toy_product import Toy
from wattveil.products.registry import register, unregister
from wattveil.server.http.problems import Code

_REGISTER = """
from tests.toy_product import Toy
from wattveil.products.registry import register

register(Toy())
"""


def test_a_server_quotes_and_releases_a_registered_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No list of the server names it; without its registration it is refused, uncharged.

    Also if the server has registered it and its compute processes have not.
    """
    folder = tmp_path / "server"
    folder.mkdir()
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_REGISTER, encoding="utf-8")  # for compute processes
    paths = [str(site), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    body = {"epsilon": 0.5, "products": ["toy"], "options": {"toy": {"multiple": 1000}}}
    toy = Toy()
    register(toy)
    try:
        with serving(folder) as server:
            sent = registration(put_profiles(folder), products=["load", "toy"])
            made = server.send("POST", "/v1/admin/datasets", sent)
            assert made.status == 201, made.body
            server.admit("ann", epsilon=3.0)
            quote = server.send("POST", "/v1/datasets/homes/quotes", body, as_="ann")
            assert quote.status == 200, quote.body
            assert [one["name"] for one in quote.json["plan"]["products"]] == ["toy"]
            wrong = {**body, "options": {"toy": {"multiple": -1}}}
            refused = server.send("POST", "/v1/datasets/homes/quotes", wrong, as_="ann")
            assert refused.status == Code.INVALID_REQUEST.status, refused.body
            ordered = server.order("first", body)
            assert ordered.status in {200, 202}, ordered.body
            found = server.finished(ordered.json["id"])
            assert found["state"] == "ok", found
            assert found["request"]["options"] == {"toy": {"multiple": 1000}}
            where = f"/v1/releases/{ordered.json['id']}/payload/toy_customers.parquet"
            table = pq.read_table(io.BytesIO(server.send("GET", where, as_="ann").body))
            assert table.column("count").to_pylist()[0] % 1000.0 == 0.0
        monkeypatch.delenv("PYTHONPATH")  # compute processes do not register it any more
        with serving(folder, tokens=server.tokens) as later:
            before = later.send("GET", "/v1/datasets/homes/budget", as_="ann").json
            answer = later.order("third", {**body, "epsilon": 0.25})
            assert answer.status == Code.INVALID_REQUEST.status, answer.body
            (said,) = answer.json["errors"]
            assert said["field"] == "products"
            assert "registered in the process that computes" in said["rule"]
            after = later.send("GET", "/v1/datasets/homes/budget", as_="ann").json
            assert after == before
            assert later.order("first", body).json["id"] == ordered.json["id"]  # paid before
    finally:
        unregister(toy)
    with serving(folder, tokens=server.tokens) as later:
        answer = later.order("second", body)
        assert answer.status == Code.INVALID_REQUEST.status, answer.body

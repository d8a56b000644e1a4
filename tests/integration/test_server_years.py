"""Synthetic years on a real server: registered, quoted, ordered, and drawn from the bundle."""

import datetime as dt
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.live_server import put_profiles, registration, serving
from tests.sample_bundles import some_profiles
from wattveil import read_bundle
from wattveil.profiles import TimeGrid
from wattveil.server.http.problems import Code
from wattveil.simulate import simulate_kwh

DAYS = 14
BODY = {
    "epsilon": 2.0,
    "products": ["years"],
    "n_clusters": 2,
    "options": {"years": {"split": "weekday-weekend"}},
}


@pytest.mark.usefixtures("computing_here")
def test_a_server_releases_years_of_profiles_that_keep_days(tmp_path: Path) -> None:
    """Profiles without days cannot be registered with years; others are ordered and verified."""
    first = dt.date(2025, 3, 3)
    plain = some_profiles()
    days_kw = simulate_kwh(
        customers=len(plain), days=DAYS, start=first, timezone="UTC", minutes=60, seed=1
    )
    grid = TimeGrid(first_day=first, n_days=DAYS)
    kept = replace(plain, grid=grid, days_kw=np.array(days_kw))
    with serving(tmp_path) as server:
        offered = ["load", "years"]
        bare = registration(put_profiles(tmp_path, "bare.parquet"), "bare", products=offered)
        refused = server.send("POST", "/v1/admin/datasets", bare)
        assert refused.status == Code.INVALID_REQUEST.status, refused.body
        assert "every day kept" in refused.body.decode()
        file = put_profiles(tmp_path, profiles=kept)
        made = server.send("POST", "/v1/admin/datasets", registration(file, products=offered))
        assert made.status == 201, made.body
        server.admit("ann", epsilon=3.0)
        quote = server.send("POST", "/v1/datasets/homes/quotes", BODY, as_="ann")
        assert quote.status == 200, quote.body
        (planned,) = quote.json["plan"]["products"]
        assert planned["name"] == "years"
        assert planned["expected"][0]["quantity"].startswith("synthetic minus real coincident peak")
        winter = {**BODY, "options": {}}  # no winter in a fortnight of March
        assert server.send("POST", "/v1/datasets/homes/quotes", winter, as_="ann").status == (
            Code.INVALID_REQUEST.status
        )
        found = server.finished(server.order("first", BODY).json["id"])
        assert found["state"] == "ok", found
        archive = server.send("GET", f"/v1/releases/{found['id']}/bundle.zip", as_="ann")
        assert archive.status == 200, archive.body
    with zipfile.ZipFile(io.BytesIO(archive.body)) as files:
        files.extractall(tmp_path / "bundle")
    (manifest,) = (tmp_path / "bundle").rglob("manifest.json")
    bundle = read_bundle(manifest.parent)
    assert bundle.verify().accepted
    assert bundle.year_model.sample(3, random_state=1)[0].shape == (3, 24 * DAYS)

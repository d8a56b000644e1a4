# %% [markdown]
# # An analyst's day
#
# You study how three areas of a city use power. You never see a customer. You have what the
# utility published, a folder, and a token for its server, where you may request more within a
# budget.
#
# The customers are simulated. The first part is the utility's side, so that the example runs on one
# machine; skip it at first reading.

# %%
import atexit
import json
import re
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import wattveil
from wattveil import Profiles
from wattveil.bundle import About, ReleaseRequest, keys, plan_release, release_bundle
from wattveil.errors import ServerRefusalError
from wattveil.profiles import TimeGrid
from wattveil.simulate import simulate_attributes, simulate_kwh

# A new folder for every run: nothing is ever written over.
out = Path(tempfile.mkdtemp(prefix="analyst-day-", dir="."))

# %% [markdown]
# ## Setup: the utility
#
# Two areas have the same mix of homes; in the third, 60 % of the roofs have panels. The utility
# publishes a signed folder, and starts a server with the same profiles. You see none of the exact
# numbers that this part holds. Area and roof are public: they stand in registers, and were not read
# off the load. The folder costs these people epsilon 2 and the server may spend 3 more: the ledger
# counts what the server releases, and the utility adds what it published by other means.

# %%
AREAS = {
    "harbour": {"couple": 0.6, "family": 0.4},
    "old town": {"couple": 0.6, "family": 0.4},
    "hillside": {"family": 0.4, "pv": 0.6},
}
HOMES = 200  # of each area
PUBLIC_ESTIMATE = 500  # customers, in round numbers and from a public source: never a count of rows


def simulated_profiles() -> Profiles:
    """Return the mean day of the homes of all areas, with area and roof of each."""
    kwh, areas, roofs = [], [], []
    for seed, (area, mix) in enumerate(AREAS.items()):
        weeks = simulate_kwh(
            customers=HOMES,
            days=14,
            start=date(2025, 5, 5),
            timezone="Europe/London",
            minutes=60,
            mix=mix,
            seed=seed,
        )
        kwh.append(weeks.reshape(HOMES, 14, 24).mean(axis=1))
        areas += [area] * HOMES
        known = simulate_attributes(customers=HOMES, mix=mix, seed=seed)
        roofs += ["panels" if has_pv else "plain" for has_pv in known["has_pv"].to_pylist()]
    return Profiles(
        customer_ids=tuple(f"home {number}" for number in range(len(areas))),
        load_kw=np.concatenate(kwh),  # kWh in an hour are kW
        grid=TimeGrid(),
        timezone="Europe/London",
        attributes={"area": tuple(areas), "roof": tuple(roofs)},
    )


private = simulated_profiles()
request = ReleaseRequest(
    epsilon=2.0,
    delta=1e-6,
    n_clusters=3,
    clip_kw=5.0,
    by="area",
    levels=tuple(AREAS),
    weights={"load": 3.0, "shares": 0.0},  # as much for the areas as for the customer segments
    customers=PUBLIC_ESTIMATE,
    about=About(title="Homes by area, May 2025", curator="Example Power", region="Example City"),
)
signing_key = keys.new_key()
bundle = out / "published"
release_bundle(private, plan_release(request, private.grid), bundle, key=signing_key)
utility_key = signing_key.public_key()  # the utility has it on its web site

data = out / "server"
(data / "profiles").mkdir(parents=True)
private.write_parquet(data / "profiles" / "homes.parquet")
with (out / "server.log").open("w") as log:
    server = subprocess.Popen(
        [sys.executable, "-m", "wattveil", "serve", "--data", str(data), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
atexit.register(server.terminate)


def address() -> str:
    """Return the address that the server prints when it is ready."""
    for line in server.stdout or ():
        if found := re.search(r"http://\S+", line):
            return found[0]
    raise RuntimeError("the server did not start")


url = address()
issue = ["admin", "token", "--data", str(data), "--name", "owner", "--role", "admin", "--json"]
issued = subprocess.run(
    [sys.executable, "-m", "wattveil", *issue], stdout=subprocess.PIPE, check=True
)
owner_token = json.loads(issued.stdout)["token"]
owner = wattveil.connect(url, owner_token).transport
owner.post(
    "/v1/admin/datasets",
    {
        "name": "homes",
        "file": "homes.parquet",
        "clip_kw": 5.0,
        "groups": {"roof": ["plain", "panels"]},
        "customers": PUBLIC_ESTIMATE,
        "allowance": {"epsilon": 3.0, "delta": 1e-6},
    },
)
my_token = owner.post("/v1/admin/principals", {"name": "ann"})["token"]
owner.post(
    "/v1/admin/datasets/homes/budgets",
    {"principal": "ann", "allowance": {"epsilon": 1.0, "delta": 1e-6}, "reason": "a study"},
)

# %% [markdown]
# ## Morning: verify the bundle
#
# `verify` recomputes the privacy guarantee from the stated noise scales, and checks the signature
# of the publisher.

# %%
published = wattveil.read_bundle(bundle)
verdict = published.verify(utility_key)
assert verdict.accepted
print(f"All {len(verdict.findings)} checks passed.")
print(published.manifest["guarantee_text"])

# %% tags=["active-ipynb"]
# published

# %% [markdown]
# ## Customer segments, with error bars
#
# Every number comes with its standard error, which is computed from the known noise. Twice that is
# the usual error bar.

# %%
centroids = published.to_pandas("centroids")
for (_, cluster), size in published.to_pandas("cluster_sizes").iterrows():
    curve = centroids.xs(cluster, level="cluster")
    peak = curve.loc[curve["load_kw"].idxmax()]
    print(
        f"segment {cluster}: {size['customers']:.0f}"
        f" ± {2 * size['customers_std']:.0f} homes,"
        f" peak {peak['load_kw']:.2f} ± {2 * peak['std_kw']:.2f} kW at {peak['time']}"
    )

# %% [markdown]
# ## Do the areas differ?
#
# The noise of each group is independent, so the standard error of a difference is
# √(a² + b²). For 24 hours at once, 95 % intervals (Bonferroni) have ± 3.1 standard errors.

# %%
shapes = published.to_pandas("load_shapes")
load_kw, std_kw = (shapes[name].unstack("group") for name in ("load_kw", "std_kw"))
for one, other in (("harbour", "old town"), ("harbour", "hillside")):
    difference = load_kw[other] - load_kw[one]
    distance = difference / np.hypot(std_kw[one], std_kw[other])
    hour = int(distance.abs().idxmax())
    verdict_text = "differ" if abs(distance[hour]) > 3.1 else "are not distinguishable"
    print(
        f"{one} and {other} {verdict_text}: at {hour}:00 {difference[hour]:+.2f} kW,"
        f" {abs(distance[hour]):.1f} standard errors"
    )

# %% [markdown]
# `compare` computes the difference of two groups for every hour and for the mean of the day, with
# 95 % intervals of the noise. Judge by the picture of the difference: where its band excludes 0,
# the hour alone differs. Bands of two curves may overlap where their difference is clear. `compare`
# with `other=` compares groups of two releases, such as those of two years.

# %%
areas = published.compare("hillside", "harbour")
print(areas)
slots = areas.to_pandas()
apart = slots[(slots["difference_low_kw"] > 0) | (slots["difference_high_kw"] < 0)]
print("hours whose interval excludes 0:", ", ".join(apart["time"]) or "none")
difference_figure = areas.plot("difference")
difference_figure.write_html(out / "difference.html")
whole = published.mean_load()
print("all areas together:", whole)

# %% tags=["active-ipynb"]
# difference_figure

# %% [markdown]
# ## Any number of synthetic customers
#
# Synthetic customers are drawn from the published model. Drawing is post-processing of the release
# and has no privacy cost. Use them for questions beyond mean curves, such as the distribution of
# peaks.

# %%
synthetic_kw = published.model.sample(10_000, random_state=1).load_kw
peaks = synthetic_kw.max(axis=1)
print(f"Half of the homes peak above {np.median(peaks):.2f} kW, one in ten above", end=" ")
print(
    f"{np.percentile(peaks, 90):.2f} kW; {(synthetic_kw.min(axis=1) < 0).mean():.0%} export energy."
)

# %% [markdown]
# ## Afternoon: a release of your own
#
# The bundle has no statistics by roof. Query the server: a quote is free, and states the expected
# error. The release is charged to your budget, once. A repeated request returns the same release.

# %%
homes = wattveil.connect(url, my_token).dataset("homes")
own_request: dict[str, Any] = {"products": ["load"], "by": "roof", "epsilon": 0.8}
expected = homes.quote(**own_request).to_pandas().reset_index().iloc[0]
print(f"expect an {expected['quantity']} of about {expected['value']:.2f} {expected['unit']}")


def spent() -> str:
    """Describe how much of the analyst's budget is spent."""
    own = homes.budget().to_pandas().loc["own"]
    return f"epsilon {own['epsilon_spent']:.2f} of {own['epsilon_cap']:.2f}"


release = homes.release(**own_request)
print("released:", spent())
assert homes.release(**own_request).id == release.id
print("repeated, the same release:", spent())
noon = release.to_pandas("load_shapes").xs(12, level="slot")
for roof, row in noon.iterrows():
    print(f"{roof} at noon: {row['load_kw']:+.2f} ± {2 * row['std_kw']:.2f} kW")

# %% [markdown]
# A request beyond the remaining budget is refused; the message does not depend on any customer.

# %%
try:
    homes.release(products=["load"], by="roof", epsilon=0.9)
except ServerRefusalError as refusal:
    print(refusal)
server.terminate()
server.communicate()

# %% [markdown]
# ## The picture for the report

# %%
figure = published.plot("load_shapes")
figure.write_html(out / "areas.html")
print(f"Pages: {out}/areas.html and {bundle}/report.html")

# %% tags=["active-ipynb"]
# figure

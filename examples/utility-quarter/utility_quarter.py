# %% [markdown]
# # A utility's quarter
#
# You work in the data team of a utility. Every quarter you publish how your customers use power.
# This example covers every step: an export with typical faults, profiles with an
# account of every reading, a plan before anything is spent, a signed release by group, a check that
# recipients can repeat, and a ledger that refuses charges beyond the year's budget.
#
# The customers are simulated. Sixteen days stand for a quarter, so that it runs in seconds.

# %%
import hashlib
import hmac
import os
import tempfile
from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from plotly.graph_objects import Figure

from wattveil import Profiles, read_bundle, read_readings
from wattveil.bundle import (
    About,
    ReleaseRequest,
    keys,
    plan_release,
    release_bundle,
    verify_bundle,
)
from wattveil.errors import ChargeRefusedError
from wattveil.privacy.guarantee import Neighbours, Tier, Unit
from wattveil.profiles import build_profiles
from wattveil.profiles.quality import write_quality_page
from wattveil.server.ledger.accounts import Charge
from wattveil.server.ledger.administration import PrincipalKind
from wattveil.server.ledger.amounts import Allowance
from wattveil.server.ledger.fulfilment import BundleStore, answer
from wattveil.server.ledger.ledger import Ledger
from wattveil.server.ledger.pricing import order_release
from wattveil.simulate import simulate_attributes, simulate_readings

HOMES, ZONE, SEED = 500, "Europe/London", 1
PUBLIC_ESTIMATE = 500  # customers, in round numbers and from a public source: never a count of rows
MIX = {"couple": 0.40, "family": 0.35, "pv": 0.25}

# A new folder for every run: nothing is ever written over.
out = Path(tempfile.mkdtemp(prefix="utility-quarter-", dir="."))

# %% [markdown]
# ## The export
#
# Meter systems send stamps twice, unreadable values, and a register that ran away. Some
# customers have just moved in. Here is one of each, planted in a clean simulation.


# %%
def export(path: Path, first_day: date) -> None:
    """Write a quarter as the meter system would: a CSV with faults."""
    batches = simulate_readings(
        customers=HOMES,
        days=16,
        start=first_day,
        timezone=ZONE,
        minutes=60,
        mix=MIX,
        seed=SEED,  # the same seed: the same people in every quarter
    )
    table = pa.Table.from_batches(batches).select(["customer_id", "start_utc", "kwh"])
    pc.write_csv(table.slice(5 * 24), path)  # the first customer moved in on the sixth day
    customer, stamp, kwh = (table[name][-1].as_py() for name in table.column_names)
    other_day = stamp + timedelta(days=1)
    with path.open("a") as file:
        file.write(f"{customer},{stamp:%F %T}Z,{kwh}\n")  # the same reading twice
        file.write(f"{customer},{other_day:%F} 25:61:00Z,0.4\n")  # no such time
        file.write(f"{customer},{other_day:%F} 10:00:00Z,9999999999\n")  # a register ran away
        file.write(f"{customer},{other_day:%F} 11:00:00Z,n/a\n")  # no number


export(out / "winter.csv", date(2025, 1, 13))
pq.write_table(simulate_attributes(customers=HOMES, mix=MIX, seed=SEED), out / "attributes.parquet")

# %% [markdown]
# ## Profiles, and the account of every reading
#
# Everything here is exact and internal: the page `quality.html` has a red banner.
# The rules (minimum number of days, treatment of duplicates) are fixed before inspecting the data.


# %%
def profiles_of(quarter: str) -> Profiles:
    """Read an export, account for every row of it, and average each customer's days."""
    readings = read_readings(out / f"{quarter}.csv", timezone=ZONE, minutes=60)
    build = build_profiles(readings, min_days=14, attributes=out / "attributes.parquet")
    write_quality_page(build, out / f"{quarter}-quality.html")
    print(f"{quarter}:")
    for label, rows in build.account.readings.lines():
        print(f"  {rows:>9,} readings {label}")
    for reason, customers in build.account.customers_dropped.items():
        print(f"  {customers:>9,} customers dropped: {reason}")
    return build.profiles


profiles = {"winter": profiles_of("winter")}

# %% [markdown]
# ## The plan: expected accuracy, before any budget is spent
#
# A plan uses public numbers only: estimates of the number and the size of customers.
# So one plan serves every quarter.

# %%
request = ReleaseRequest(
    epsilon=1.0,
    delta=1e-6,
    n_clusters=3,
    clip_kw=5.0,
    by="class",
    levels=tuple(MIX),  # a public list: one taken from the data would reveal who is in them
    weights={"clusters": 1, "load": 2, "shares": 1, "synthesis": 0},  # no synthetic customers
    customers=PUBLIC_ESTIMATE,
    about=About(title="Homes by quarter", curator="Example Power", region="Example City"),
)
plan = plan_release(request, profiles["winter"].grid)
for part in plan.products:
    for expected in plan.expected[part.name]:
        print(f"{part.name:10} {expected.quantity}: about {expected}")

# %% [markdown]
# ## The year's budget
#
# All quarters are about the same people, so their privacy losses add up. The ledger keeps one
# journal for these people, with a privacy guarantee for the whole year: epsilon 1.5. A release is
# charged first and computed afterwards. Losses of Gaussian noise add up slower than epsilons do:
# two releases of epsilon 1 fit into a year of epsilon 1.5.

# %%
YEAR = Allowance(epsilon=1.5, delta=1e-6)
TEAM = "data-team"
signing_key, fingerprint_key = keys.new_key(), os.urandom(32)
private = out / "private"  # private: the ledger, and releases before they are published
private.mkdir()
bundle_store = BundleStore(private / "releases")


def register(ledger: Ledger, quarter: str, linked_to: str | None = None) -> None:
    """Register a quarter in the journal of its customers; the first quarter opens it."""
    content = profiles[quarter].load_kw.tobytes()
    ledger.open_dataset(
        quarter,
        by=TEAM,
        fingerprint=hmac.new(fingerprint_key, content, hashlib.sha256).hexdigest(),
        unit=Unit.CUSTOMER,
        neighbours=Neighbours.ZERO_OUT,
        allowance=YEAR if linked_to is None else None,
        linked_to=linked_to,
    )


def publish(ledger: Ledger, quarter: str) -> Path:
    """Charge, compute, store; return the folder that may be published."""

    def compute(_: Charge, place: Path) -> None:
        release_bundle(profiles[quarter], plan, place, key=signing_key)

    order = order_release(request, dataset=quarter, principal=TEAM, key=quarter)
    bundle = bundle_store.find(answer(ledger, bundle_store, order, compute))
    if bundle is None:
        raise RuntimeError(f"the release of {quarter} failed; it stays paid")
    return bundle


def spent(ledger: Ledger) -> str:
    """Describe how much of the year's budget is spent."""
    year, _ = ledger.accounts("winter", TEAM, Tier.GLOBAL)
    if year is None:
        raise RuntimeError("the year has no account")
    return f"epsilon {year.epsilon(YEAR.delta):.3f} of {YEAR.epsilon}"


with Ledger.open(private) as ledger:
    ledger.add_principal(TEAM, PrincipalKind.ADMIN)
    register(ledger, "winter")
    ledger.set_budget("winter", YEAR, by=TEAM, reason="the year 2025", principal=TEAM)
    bundles = {"winter": publish(ledger, "winter")}
    print("winter released:", spent(ledger))
    assert publish(ledger, "winter") == bundles["winter"]
    print("winter repeated, same folder:", spent(ledger))

# %% [markdown]
# ## Verification by a recipient
#
# `verify` needs the folder and the public half of the key, not the data. It recomputes every
# epsilon with two independent accountants, and every number that follows from others.

# %%
verdict = verify_bundle(bundles["winter"], trusted=signing_key.public_key())
assert verdict.accepted
print(f"All {len(verdict.findings)} checks passed. What no check can prove:")
for sentence in verdict.not_proved:
    print("-", sentence)

# %% [markdown]
# ## The next quarter, and the release that is refused
#
# Spring fits into the year. Then the regulator requests six clusters instead of three:
# a new release. The ledger refuses it before anything is computed, with a message that does
# not depend on the data.

# %%
export(out / "spring.csv", date(2025, 4, 14))
profiles["spring"] = profiles_of("spring")
finer = request.replace(n_clusters=6)
with Ledger.open(private) as ledger:
    register(ledger, "spring", linked_to="winter")
    bundles["spring"] = publish(ledger, "spring")
    print("spring released:", spent(ledger))
    try:
        ledger.charge(order_release(finer, dataset="spring", principal=TEAM, key="regulator"))
    except ChargeRefusedError as refusal:
        print("six clusters:", refusal)
    print("after the refusal:", spent(ledger))

# %% [markdown]
# ## What the public sees
#
# Mean load by class in both quarters, with 95 % bands of 1.96 standard errors. Homes with panels
# export more in spring; no individual home had to be inspected.

# %%
figure = Figure()
for quarter, dash in {"winter": "solid", "spring": "dot"}.items():
    published = read_bundle(bundles[quarter])
    for trace in published.plot("load_shapes").data:
        figure.add_trace(trace.update(name=f"{trace.name}, {quarter}", line_dash=dash))
    noon = published.to_pandas("load_shapes").xs(12, level="slot")
    for group, row in noon.loc[["couple", "pv"]].iterrows():
        print(f"{quarter}, {group}: {row['load_kw']:+.2f} kW at noon, +/- {2 * row['std_kw']:.2f}")
figure.update_layout(xaxis_title="hour of the day", yaxis_title="kW per customer")
figure.write_html(out / "quarters.html")
print(f"Pages: {out}/quarters.html and {bundles['spring']}/report.html")

# %% tags=["active-ipynb"]
# figure

# %% [markdown]
# # A planner's feeder
#
# You plan a feeder for 4,500 homes. The utility may not give you their load. You have two ways:
# assume the worst case, or draw synthetic homes from what the utility published. How large is
# the error of either?
#
# The homes are simulated, so the ground truth is available here. The feeder is the balanced
# equivalent of the IEEE 123-node test feeder, which is part of Wattveil.

# %%
import tempfile
from pathlib import Path

import numpy as np
from plotly.graph_objects import Figure

from wattveil import LoadSynthesizer
from wattveil.arrays import Floats
from wattveil.grid import PAPER_POWER_FACTOR, Flow, power_flow, read_feeder
from wattveil.simulate import simulate_load_kw

HOMES, WORST_CASE_KW, LOWEST_ALLOWED_PU = 4500, 1.5, 0.95
feeder = read_feeder("ieee123")

# A new folder for every run: nothing is ever written over.
out = Path(tempfile.mkdtemp(prefix="planner-feeder-", dir="."))

# %% [markdown]
# ## Homes on the feeder
#
# Every bus gets homes in proportion to the load it was built for. Homes are assigned
# to buses at random, so every figure below is a range over 10 assignments.

# %%
ASSIGNMENTS = 10
share = feeder.nominal_kw / feeder.nominal_kw.sum()
reactive = float(np.tan(np.arccos(PAPER_POWER_FACTOR)))  # kvar for each kW


def on_feeder(homes_kw: Floats, seed: int) -> Flow:
    """Put as many homes as are planned for on the feeder, drawn from these, hour by hour."""
    rng = np.random.default_rng(seed)
    bus = rng.choice(feeder.buses, size=HOMES, p=share)
    load_kw = np.zeros((feeder.buses, homes_kw.shape[1]))
    np.add.at(load_kw, bus, rng.choice(homes_kw, size=HOMES))
    return power_flow(feeder, load_kw=load_kw.T, load_kvar=reactive * load_kw.T)


def figures(homes_kw: Floats) -> Floats:
    """Return peak (kW), lowest voltage (per unit) and losses (%), one row per assignment."""
    flows = [on_feeder(homes_kw, seed) for seed in range(ASSIGNMENTS)]
    return np.array(
        [
            (
                flow.source_kw.max(),
                flow.voltage_pu.min(),
                100.0 * flow.loss_kw.sum() / flow.source_kw.sum(),
            )
            for flow in flows
        ]
    )


def shown(name: str, rows: Floats) -> None:
    """Print the median of each figure, and its range over the assignments."""
    (peak, low, loss), ranges = np.median(rows, axis=0), np.ptp(rows, axis=0)
    print(
        f"{name:22} peak {peak:6,.0f} kW ({ranges[0]:3.0f})  lowest {low:.4f} pu"
        f" ({ranges[1]:.4f})  losses {loss:.2f} % ({ranges[2]:.2f})"
    )


# %% [markdown]
# ## Ground truth, and worst-case assumption
#
# The ground truth is known to the utility only: mean weekdays of 1,000 homes stand for those that
# the feeder will have. The assumption is a rule of thumb: every home draws 1.5 kW at the same time.

# %%
real_kw = simulate_load_kw(customers=1000)
assumed_kw = np.full((1, 24), WORST_CASE_KW)
truth = figures(real_kw)
assumption = figures(assumed_kw)
print(f"median of {ASSIGNMENTS} random assignments (range)")
shown("real homes", truth)
shown("worst-case assumption", assumption)

# %% [markdown]
# ## Synthetic homes, and what error to expect of them
#
# A release has noise, and the next one would have other noise. To see how far a planner may be off
# the utility would have to release several times, and pay each time. These homes are
# simulated, so the example makes five releases at each budget.

# %%
RELEASES = 5
expected = np.median(truth, axis=0)
synthetic_kw, synthetic = {}, {}
for epsilon in (1.0, 10.0):
    models = [LoadSynthesizer(epsilon=epsilon, delta=1e-6).fit(real_kw) for _ in range(RELEASES)]
    synthetic_kw[epsilon] = [model.sample(5000, random_state=1)[0] for model in models]
    synthetic[epsilon] = [figures(homes_kw) for homes_kw in synthetic_kw[epsilon]]
    shown(f"synthetic, ε = {epsilon:g}", synthetic[epsilon][0])


def off_by(releases: list[Floats]) -> str:
    """Describe the largest error of these releases."""
    peak, low, loss = np.abs([np.median(rows, axis=0) - expected for rows in releases]).max(axis=0)
    return (
        f"off by {peak / expected[0]:.1%} of the peak, {low:.4f} pu,"
        f" {loss:.2f} percentage points of losses"
    )


for epsilon, releases in synthetic.items():
    print(f"worst of {RELEASES} releases at ε = {epsilon:g}:", off_by(releases))
print("worst-case assumption:", off_by([assumption]))

# %% [markdown]
# ## The planning decision
#
# The planner's question: does any bus fall below 0.95 pu?
#
# Two warnings. These are mean days: peaks of a mean day are lower than the peaks of a cold evening,
# for real homes as for synthetic ones, so compare like with like. And what passes here are sums of
# many homes. The ups and downs of a single home, and of the few homes on one service transformer,
# come out worse (docs/grid.md has the tables).

# %%
answers = {
    "real homes": truth,
    "worst-case assumption": assumption,
    **{f"synthetic, ε = {epsilon:g}": np.concatenate(rows) for epsilon, rows in synthetic.items()},
}
for name, rows in answers.items():
    below = (rows[:, 1] < LOWEST_ALLOWED_PU).mean()
    print(f"{name:22} below {LOWEST_ALLOWED_PU} pu in {below:.0%} of the assignments")

# %% [markdown]
# ## The picture: lowest voltage of the day, bus by bus
#
# From the substation outwards, for one assignment.

# %%
LINES = {
    "real homes": (real_kw, "#111827"),
    "worst-case assumption": (assumed_kw, "#b91c1c"),
    "synthetic, ε = 1": (synthetic_kw[1.0][0], "#2563a8"),
}
order = np.argsort(feeder.distance_ohm)
figure = Figure(
    layout={
        "title": {"text": "Lowest voltage of the day along the feeder"},
        "template": "none",
        "xaxis": {"title": {"text": "impedance from the substation, ohm"}},
        "yaxis": {"title": {"text": "per unit"}},
    }
)
for name, (homes_kw, colour) in LINES.items():
    figure.add_scatter(
        x=feeder.distance_ohm[order],
        y=on_feeder(homes_kw, seed=0).voltage_pu.min(axis=0)[order],
        mode="markers",
        name=name,
        marker={"color": colour},
    )
figure.add_hline(y=LOWEST_ALLOWED_PU, line={"dash": "dot", "color": "#6b7280"})
figure.write_html(out / "feeder.html")
print(f"Page: {out}/feeder.html")

# %% tags=["active-ipynb"]
# figure

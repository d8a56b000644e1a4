"""Peak factors of London, power flow against its peers, and the table of synthetic customers.

Run: ``python benchmarks/bench_grid.py``. pandapower is measured if it is installed; it is no
dependency. London homes need the data folder (see `measured_homes`). All figures are private.

The table compares with redraws of real customers: the default synthesis at two budgets and
without noise; the paper's Algorithm 2 (one multivariate log-normal per cluster, alpha = 15 kW,
centred) without noise; unseen homes; and, as in every comparison, the centroids alone.
"""

import time
from collections.abc import Callable, Iterator

import measured_homes
import numpy as np

from wattveil.arrays import Floats
from wattveil.grid import Feeder, compare_on_feeder, power_flow, read_feeder
from wattveil.grid import flow_solver as grid_solver
from wattveil.numerics.kmeans.lloyd import k_means
from wattveil.profiles import Profiles, TimeGrid
from wattveil.release.synthetic import LoadSynthesizer
from wattveil.simulate import simulate_load_kw

SNAPSHOTS, SAMPLE = 10_000, 100
ALPHA_KW = 15.0
CLUSTERS = 6
CUSTOMERS = 20_000
RELEASES = 15
GROUPS, MIN_DAYS = 400, 350
NO_NOISE = 1e6  # an epsilon without a useful guarantee
GENERATOR = np.random.default_rng(0)


def main() -> None:
    """Print factors, speed and the table."""
    for line in peak_factors():
        print(line, flush=True)  # noqa: T201
    for line in speed():
        print(line, flush=True)  # noqa: T201
    for line in table():
        print(line, flush=True)  # noqa: T201


def peak_factors() -> Iterator[str]:
    """Yield what average days and hourly means leave out of a peak, by the size of a group."""
    if not measured_homes.LONDON.exists():
        return
    days = measured_homes.london_year().reshape(-1, 365, measured_homes.N_HOURS)
    days = days[np.isfinite(days[:, :, 0]).sum(axis=1) >= MIN_DAYS]
    mean_day = np.nanmean(days, axis=1, keepdims=True)
    days = np.where(np.isnan(days), mean_day, days)
    yield f"{len(days)} homes of 2013: highest hour over peak of the average day"
    for homes in (4, 16, 60):
        own = [GENERATOR.choice(len(days), homes, replace=False) for _ in range(GROUPS)]
        yield factors(homes, [days[each].sum(axis=0) for each in own], axis=0)
    halves = measured_homes.london_half_hours()
    halves = halves[halves.max(axis=1) > 0.0]
    yield f"{len(halves)} homes, 28 winter days: highest half-hour over highest hour"
    for homes in (1, 4, 16, 60):
        own = [GENERATOR.choice(len(halves), homes, replace=False) for _ in range(GROUPS)]
        yield factors(homes, [halves[each].sum(axis=0).reshape(-1, 2) for each in own], axis=1)


def factors(homes: int, load_kw: list[Floats], *, axis: int) -> str:
    """Return the highest load of groups over the highest mean of an axis, in words."""
    found = [each.max() / each.mean(axis=axis).max() for each in load_kw]
    low, high = np.quantile(found, (0.05, 0.95))
    return (
        f"  {homes} homes: mean {np.mean(found):.2f}, 5 to 95 % of groups {low:.2f} to {high:.2f}"
    )


def speed() -> list[str]:
    """Return CPU seconds of 10,000 snapshots of case141."""
    feeder = read_feeder("case141")
    load_kw = feeder.nominal_kw * GENERATOR.uniform(0.2, 1.2, (SNAPSHOTS, feeder.buses))
    load_kvar = 0.1 * load_kw
    ours = cpu(lambda: power_flow(feeder, load_kw=load_kw, load_kvar=load_kvar))
    bare = cpu(bare_call(feeder, load_kw, load_kvar))
    lines = [f"{SNAPSHOTS:,} snapshots, CPU s: ours {ours:.2f}, power-grid-model bare {bare:.2f}"]
    lines.append(f"  ours / bare = {ours / bare:.2f}")
    try:
        loop = pandapower_loop(feeder, load_kw[:SAMPLE], load_kvar[:SAMPLE])
    except ImportError:
        return [*lines, "  pandapower is not installed"]
    one = cpu(loop) * SNAPSHOTS / SAMPLE
    return [*lines, f"  pandapower loop {one:.0f} (from {SAMPLE}); it / ours = {one / ours:.0f}"]


def bare_call(feeder: Feeder, load_kw: Floats, load_kvar: Floats) -> Callable[[], object]:
    """Return a call of the solver as its own manual shows it, with all its outputs."""
    model = grid_solver._model(feeder)  # noqa: SLF001 -- the same network
    update = {"sym_load": {"p_specified": 1e3 * load_kw, "q_specified": 1e3 * load_kvar}}
    return lambda: model.calculate_power_flow(update_data=update)


def pandapower_loop(feeder: Feeder, load_kw: Floats, load_kvar: Floats) -> Callable[[], object]:
    """Return a loop over snapshots, as its tutorials write it."""
    import pandapower  # noqa: PLC0415 -- measured if it is there

    net = pandapower.create_empty_network()
    for _ in range(feeder.buses):
        pandapower.create_bus(net, vn_kv=feeder.base_kv)
    pandapower.create_ext_grid(net, feeder.slack, vm_pu=feeder.slack_pu)
    for branch in range(feeder.from_bus.size):
        pandapower.create_line_from_parameters(
            net,
            int(feeder.from_bus[branch]),
            int(feeder.to_bus[branch]),
            length_km=1.0,
            r_ohm_per_km=feeder.r_ohm[branch],
            x_ohm_per_km=feeder.x_ohm[branch],
            c_nf_per_km=0.0,
            max_i_ka=1.0,
        )
    for bus in range(feeder.buses):
        pandapower.create_load(net, bus, p_mw=0.0)

    def loop() -> None:
        for active, reactive in zip(load_kw, load_kvar, strict=True):
            net.load["p_mw"], net.load["q_mvar"] = active / 1e3, reactive / 1e3
            pandapower.runpp(net)

    return loop


def cpu(run: Callable[[], object]) -> float:
    """Return the CPU seconds of the best of three runs."""
    times = []
    for _ in range(3):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def table() -> list[str]:
    """Return the ratio of every metric, one column per population; bold is detectable.

    Of several releases the median is shown.
    """
    columns: dict[str, dict[str, str]] = {}
    for name, real_kw, releases in cases():
        seconds = time.process_time()
        found = [compare_on_feeder(profiles(real_kw, "r"), profiles(kw, "s")) for kw in releases]
        seconds = (time.process_time() - seconds) / len(found)
        houses = found[0].setting.placement.houses
        print(f"{name}: {houses:,} houses, {seconds:.0f} CPU s each", flush=True)  # noqa: T201
        ratios = np.median([[row.ratio for row in each.rows] for each in found], axis=0)
        metrics = [row.metric for row in found[0].rows]
        columns[name] = dict(zip(metrics, map(cell, ratios), strict=True))
        control = {row.metric: cell(row.control_ratio) for row in found[0].rows}
        columns.setdefault(f"{name.split(':')[0]}: centroids", control)
    lines = ["| metric | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
    for metric in next(iter(columns.values())):
        cells = " | ".join(column[metric] for column in columns.values())
        lines.append(f"| {metric} | {cells} |")
    return lines


def cell(ratio: float) -> str:
    """Return a ratio as the table shows it."""
    text = "∞" if np.isinf(ratio) else f"{ratio:.2f}"
    return f"**{text}**" if ratio > 1.0 else text


def cases() -> Iterator[tuple[str, Floats, list[Floats]]]:
    """Yield the column of the table, the real customers and releases of synthetic ones."""
    homes_kw = simulate_load_kw(customers=2818)
    yield from synthetic_of("simulated", homes_kw[:1409])
    yield "simulated: other homes", homes_kw[:1409], [homes_kw[1409:]]
    if measured_homes.LONDON.exists():
        london = GENERATOR.permutation(measured_homes.london_homes())
        yield from synthetic_of("London", london)
        half = len(london) // 2
        yield "London: other homes", london[:half], [london[half:]]


def synthetic_of(name: str, real_kw: Floats) -> Iterator[tuple[str, Floats, list[Floats]]]:
    """Yield synthetic customers of the default synthesis, and of the paper's."""
    for epsilon, said, times in (
        (1.0, "ε = 1", RELEASES),
        (10.0, "ε = 10", RELEASES),
        (NO_NOISE, "no noise", 1),
    ):
        synthesizer = LoadSynthesizer(epsilon=epsilon, delta=1e-6)
        releases = [
            synthesizer.fit(real_kw).sample(CUSTOMERS, random_state=1)[0] for _ in range(times)
        ]
        yield f"{name}: {said}", real_kw, releases
    yield f"{name}: Algorithm 2", real_kw, [log_normal(real_kw)]


def log_normal(load_kw: Floats) -> Floats:
    """Return customers from the paper's Algorithm 2 without its noise."""
    clusters = k_means(load_kw, CLUSTERS, seed=0)
    drawn = []
    for cluster in range(CLUSTERS):
        log_kw = np.log(load_kw[clusters.labels == cluster] + ALPHA_KW)
        mean, covariance = log_kw.mean(axis=0), np.cov(log_kw.T, bias=True)
        size = round(CUSTOMERS * len(log_kw) / len(load_kw))
        drawn.append(GENERATOR.multivariate_normal(mean, covariance, size, method="eigh"))
    return np.exp(np.concatenate(drawn)) - ALPHA_KW


def profiles(load_kw: Floats, prefix: str) -> Profiles:
    """Return rows as profiles."""
    return Profiles(
        customer_ids=tuple(f"{prefix}{row}" for row in range(len(load_kw))),
        load_kw=np.array(load_kw),
        grid=TimeGrid(),
        timezone="Europe/London",
    )


if __name__ == "__main__":
    main()

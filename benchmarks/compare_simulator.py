"""Compare the simulator with measured customers, relative to sampling variability.

    python benchmarks/compare_simulator.py

Reads the open data sets below the folder WATTVEIL_DATA, by default ../shared/data beside the
repository. For the London households the column "simulated" compares half of the measured homes
with as many simulated ones, and the column "halves" with the other half of the measured homes: a
distance of that size is sampling noise. Both are means over several ways to halve.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy import stats

from wattveil.arrays import Floats
from wattveil.simulate import LONDON_MIX, SUNNY, simulate_kwh

REPOSITORY = Path(__file__).parents[1]
DATA = Path(os.environ.get("WATTVEIL_DATA", REPOSITORY.parent / "shared" / "data"))
HOURS = 24
MIN_DAYS = 350
GROUPS = (1, 5, 10, 25, 50, 100)
DRAWS = 100
SPLITS = 3
SEED = 2013  # not used while the parameters were chosen
NOTHING_KWH = 5e-4
FIVE = (0.05, 0.25, 0.5, 0.75, 0.95)


def main() -> None:
    """Print one table per data set."""
    console = Console(width=130)
    measured = read_london()
    begin = time.process_time()
    simulated = simulate_kwh(
        customers=len(measured),
        days=365,
        start=date(2013, 1, 1),
        timezone="Europe/London",
        minutes=60,
        mix=LONDON_MIX,
        seed=SEED,
    ).reshape(len(measured), 365, HOURS)
    seconds = time.process_time() - begin
    console.print(london_table(measured, simulated))
    console.print(hour_table(measured, simulated))
    console.print(panels_table())
    console.print(business_table())
    console.print(f"{simulated.size / seconds:,.0f} hourly readings a second of one core")


# --- figures of one population: homes x days x hours, kWh -----------------------------------------


def autocorrelation(kwh: Floats, lag: int) -> Floats:
    """Return the autocorrelation of every home at a lag in hours."""
    flat = kwh.reshape(len(kwh), -1)
    ahead, behind = flat[:, lag:], flat[:, :-lag]
    ahead = ahead - ahead.mean(axis=1, keepdims=True)
    behind = behind - behind.mean(axis=1, keepdims=True)
    scale = np.sqrt((ahead**2).sum(axis=1) * (behind**2).sum(axis=1))
    found: Floats = (ahead * behind).sum(axis=1)[scale > 0] / scale[scale > 0]
    return found


def load_factor(kwh: Floats) -> Floats:
    """Return mean over peak of every home-day with some load."""
    peak = kwh.max(axis=2)
    factor: Floats = kwh.mean(axis=2)[peak > 0] / peak[peak > 0]
    return factor


def admd(kwh: Floats) -> Floats:
    """Return the mean yearly peak per home of random groups of homes, for each group size."""
    rng = np.random.default_rng(0)
    flat = kwh.reshape(len(kwh), -1)
    peaks = [flat.max(axis=1).mean()]  # groups of one: all of them
    for size in GROUPS[1:]:
        groups = (rng.choice(len(flat), size, replace=False) for _ in range(DRAWS))
        peaks.append(np.mean([flat[group].mean(axis=0).max() for group in groups]))
    return np.array(peaks)


def coincidence(kwh: Floats) -> Floats:
    """Return ADMD over that of a single home."""
    peaks = admd(kwh)
    shares: Floats = peaks / peaks[0]
    return shares


def spectrum(kwh: Floats) -> Floats:
    """Return the eigenvalues of the covariance of the homes' mean days, largest first."""
    values: Floats = np.linalg.eigvalsh(np.cov(kwh.mean(axis=1).T))[::-1]
    return values


def spectrum_shares(kwh: Floats) -> Floats:
    """Return the same, as shares of the trace."""
    values = spectrum(kwh)
    shares: Floats = values / values.sum()
    return shares


def peak_hours(kwh: Floats) -> Floats:
    """Return the share of home-days that peak in each hour."""
    some = kwh.max(axis=2) > 0
    shares: Floats = np.bincount(kwh.argmax(axis=2)[some], minlength=HOURS) / some.sum()
    return shares


def ramps(kwh: Floats) -> Floats:
    """Return every change from one hour to the next."""
    return np.diff(kwh.reshape(len(kwh), -1), axis=1)


def yearly(kwh: Floats) -> Floats:
    """Return kWh per year of every home."""
    energy: Floats = kwh.mean(axis=(1, 2)) * 8760
    return energy


def zeros(kwh: Floats) -> float:
    """Return the share of readings that are 0."""
    return float((np.abs(kwh) < NOTHING_KWH).mean())


# --- distances between two ------------------------------------------------------------------------


def wasserstein(left: Floats, right: Floats) -> float:
    """Return W1 by 2,000 quantiles, which is quick and close enough for a table."""
    at = (np.arange(2000) + 0.5) / 2000
    return float(np.abs(np.quantile(left, at) - np.quantile(right, at)).mean())


def hour_distances(left: Floats, right: Floats) -> Floats:
    """Return W1 / sd of the readings in each hour of the day."""
    hours = [(left[:, :, hour], right[:, :, hour]) for hour in range(HOURS)]
    return np.array([wasserstein(a, b) / a.std() for a, b in hours])


def quantile_error(quantile: float) -> Callable[[Floats, Floats], float]:
    """Return a distance: RMSE over the hours of one quantile, over the mean load."""

    def distance(left: Floats, right: Floats) -> float:
        gap = np.quantile(left, quantile, axis=(0, 1)) - np.quantile(right, quantile, axis=(0, 1))
        return float(np.sqrt((gap**2).mean()) / left.mean())

    return distance


def circular_hours(left: Floats, right: Floats) -> float:
    """Return the earth mover's distance between peak hours around the clock, in hours."""
    gap = np.cumsum(peak_hours(left) - peak_hours(right))
    return float(np.abs(gap - np.median(gap)).sum())


def w1_over_mean(values: Callable[[Floats], Floats]) -> Callable[[Floats, Floats], float]:
    """Return a distance: W1 of some values over their mean."""
    return lambda a, b: wasserstein(values(a), values(b)) / float(values(a).mean())


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """One line of the table: a figure as text, and a distance between two populations."""

    name: str
    figure: Callable[[Floats], str]
    distance: Callable[[Floats, Floats], float]


def show(values: Floats, digits: int = 2) -> str:
    """Show some numbers."""
    return " ".join(f"{value:.{digits}f}" for value in values)


def quantiles(values: Floats, digits: int = 2) -> str:
    """Show five quantiles."""
    return show(np.quantile(values, FIVE), digits)


def silent(_: Floats) -> str:
    """Show nothing: the line above has the figure."""
    return ""


def acf_line(lag: int) -> Line:
    """Return the line of one lag: quantiles over homes, and KS."""

    def distance(left: Floats, right: Floats) -> float:
        return float(
            stats.ks_2samp(autocorrelation(left, lag), autocorrelation(right, lag)).statistic
        )

    return Line(
        f"autocorrelation {lag} h (KS)", lambda x: quantiles(autocorrelation(x, lag)), distance
    )


LINES = (
    Line("mean kW (gap)", lambda x: f"{x.mean():.3f}", lambda a, b: abs(b.mean() / a.mean() - 1)),
    Line(
        "hourly kWh (W1 per hour / sd)",
        lambda x: quantiles(x, 3),
        lambda a, b: float(hour_distances(a, b).mean()),
    ),
    Line("  worst hour", silent, lambda a, b: float(hour_distances(a, b).max())),
    Line("  5 % by hour (RMSE / mean)", silent, quantile_error(0.05)),
    Line("  median by hour (RMSE / mean)", silent, quantile_error(0.5)),
    Line("  95 % by hour (RMSE / mean)", silent, quantile_error(0.95)),
    Line(
        "share of zeros (gap)", lambda x: f"{zeros(x):.4f}", lambda a, b: abs(zeros(a) - zeros(b))
    ),
    acf_line(1),
    acf_line(24),
    acf_line(168),
    Line(
        "load factor of a day (W1)",
        lambda x: quantiles(load_factor(x)),
        lambda a, b: wasserstein(load_factor(a), load_factor(b)),
    ),
    Line(
        "ADMD kW, N = 1 5 10 25 50 100 (largest)",
        lambda x: show(admd(x)),
        lambda a, b: float(np.abs(admd(b) / admd(a) - 1).max()),
    ),
    Line(
        "coincidence (largest)",
        lambda x: show(coincidence(x)),
        lambda a, b: float(np.abs(coincidence(b) - coincidence(a)).max()),
    ),
    Line(
        "kWh per day (W1 / mean)",
        lambda x: quantiles(x.sum(axis=2), 1),
        w1_over_mean(lambda x: x.sum(axis=2)),
    ),
    Line("kWh per year (W1 / mean)", lambda x: quantiles(yearly(x), 0), w1_over_mean(yearly)),
    Line(
        "spectrum of mean days, first 5 (gap / trace)",
        lambda x: show(spectrum(x)[:5]),
        lambda a, b: float(np.abs(spectrum(a) - spectrum(b)).sum() / spectrum(a).sum()),
    ),
    Line(
        "  as shares",
        lambda x: show(spectrum_shares(x)[:5]),
        lambda a, b: float(np.abs(spectrum_shares(a) - spectrum_shares(b)).sum()),
    ),
    Line(
        "peak hour (circular EMD, h)",
        lambda x: f"mode {peak_hours(x).argmax()}, before 6: {peak_hours(x)[:6].sum():.2f}",
        circular_hours,
    ),
    Line(
        "ramps |kWh| (W1 / sd)",
        lambda x: quantiles(np.abs(ramps(x)), 3),
        lambda a, b: wasserstein(ramps(a), ramps(b)) / float(ramps(a).std()),
    ),
)


def london_table(measured: Floats, simulated: Floats) -> Table:
    """Return the table of all figures and distances."""
    table = Table("figure (5 25 50 75 95 %)", "measured", "simulated")
    table.add_column("distance\nsimulated", justify="right")
    table.add_column("distance\nhalves", justify="right")
    table.title = f"{len(measured)} London households, 2013, by UTC hour"
    for line in LINES:
        apart, noise = [], []
        for split in range(SPLITS):
            order = np.random.default_rng(split).permutation(len(measured))
            left, right = measured[order[::2]], measured[order[1::2]]
            apart.append(line.distance(left, simulated[order[1::2]]))
            noise.append(line.distance(left, right))
        figures = line.figure(measured), line.figure(simulated)
        table.add_row(line.name, *figures, f"{np.mean(apart):.3f}", f"{np.mean(noise):.3f}")
    return table


def hour_table(measured: Floats, simulated: Floats) -> Table:
    """Return the quantiles of both in every third hour, and the distance."""
    table = Table("UTC hour", "measured 5 25 50 75 95 %", "simulated", "W1 / sd")
    distances = hour_distances(measured, simulated)
    for hour in range(0, HOURS, 3):
        both = quantiles(measured[:, :, hour], 3), quantiles(simulated[:, :, hour], 3)
        table.add_row(str(hour), *both, f"{distances[hour]:.3f}")
    return table


def panels_table() -> Table:
    """Compare homes with panels: net load in kWh an hour."""
    table = Table("homes with panels", "homes", "hours < 0", "by home", "net kWh at 3 12 19 h")
    table.add_column("autocorrelation\n1, 24 h")
    table.title = "Net load"
    spring: dict[str, Any] = {
        "customers": 128,
        "days": 92,
        "start": date(2013, 3, 1),
        "minutes": 60,
        "seed": SEED,
    }
    year = spring | {"days": 364, "start": date(2016, 8, 1), "customers": 64}
    roofs = {"pv": 1.0}
    sets = {
        "London loads, simulated Scottish roofs, spring": read_semisynthetic(),
        "  simulator, temperate": simulate_kwh(**spring, timezone="UTC", mix=roofs),
        "Californian homes, measured, year": read_california(),
        "  simulator, sunny": simulate_kwh(
            **year, timezone="America/Phoenix", mix=roofs, climate=SUNNY
        ),
    }
    for name, values in sets.items():
        kwh = values.reshape(len(values), -1, HOURS)
        below = kwh < 0
        table.add_row(
            name,
            str(len(kwh)),
            f"{below.mean():.3f}",
            quantiles(below.mean(axis=(1, 2))),
            show(kwh.mean(axis=(0, 1))[[3, 12, 19]]),
            show(np.array([np.median(autocorrelation(kwh, lag)) for lag in (1, 24)])),
        )
    return table


def business_table() -> Table:
    """Compare clients of a Portuguese utility with simulated business."""
    table = Table("clients", "mean kW", "load factor of a day", "autocorrelation 24 h", "168 h")
    table.title = "Business"
    january: dict[str, Any] = {
        "customers": 203,
        "days": 41,
        "start": date(2012, 1, 1),
        "minutes": 60,
        "seed": SEED,
    }
    sets = {"203 Portuguese clients, mixed": read_portugal()}
    for kind in ("industrial", "office", "shop", "restaurant"):
        sets[f"  simulator, {kind}"] = simulate_kwh(**january, timezone="UTC", mix={kind: 1.0})
    for name, values in sets.items():
        kwh = values.reshape(len(values), -1, HOURS)
        lags = (quantiles(autocorrelation(kwh, lag)) for lag in (24, 168))
        table.add_row(name, quantiles(kwh.mean(axis=(1, 2)), 1), quantiles(load_factor(kwh)), *lags)
    return table


# --- data -----------------------------------------------------------------------------------------


def read_london() -> Floats:
    """Return homes x days x hours in kWh of the homes with nearly the whole year.

    What is missing (below 1 % of those homes' hours) is filled with the home's own mean day.
    """
    columns = read("lcl1014/lcl1014_hourly_2013_wide.csv.gz")
    kwh = widened(columns, date(2013, 1, 1), 365)
    kwh = kwh[(~np.isnan(kwh).any(axis=2)).sum(axis=1) >= MIN_DAYS]
    filled: Floats = np.where(np.isnan(kwh), np.nanmean(kwh, axis=1, keepdims=True), kwh)
    return filled


def read_semisynthetic() -> Floats:
    """Return net load of the 90 London homes from which simulated roofs were subtracted."""
    meters = read("lcl300_pv_semisynthetic/lcl300_pv_meters.csv")
    roofs = meters["meter_id"][meters["has_pv"] == 1].astype(str)
    columns = read("lcl300_pv_semisynthetic/lcl300_net_hourly_2013MarMay_wide.csv.gz")
    names = np.unique(columns["meter_id"].astype(str))
    kwh = widened(columns, date(2013, 3, 1), 92)[np.isin(names, roofs)]
    return np.where(np.isnan(kwh), np.nanmean(kwh, axis=1, keepdims=True), kwh)


def read_california() -> Floats:
    """Return net load of the 15 Californian homes whose panels worked, from a midnight on."""
    columns = read("citylearn17_pv/citylearn17_hourly_long.csv.gz")
    names = columns["meter_id"].astype(str)
    weak = {
        "Building_14",
        "Building_15",
    }  # panels failed, according to the data set's documentation
    homes = [columns["net_kwh"][names == name] for name in np.unique(names) if name not in weak]
    return np.array([home.astype(float)[1 : 1 + 364 * HOURS] for home in homes])


def read_portugal() -> Floats:
    """Return the load of 203 clients over 41 days."""
    columns = read("uci203/uci203_hourly_wide.csv.gz")
    clients = [column for name, column in columns.items() if name != "timestamp"]
    return np.array([client.astype(float)[: 41 * HOURS] for client in clients])


def read(name: str) -> dict[str, NDArray[np.generic]]:
    """Return the columns of a CSV file, in the order of the file."""
    return duckdb.read_csv(str(DATA / name)).fetchnumpy()


def widened(columns: dict[str, NDArray[np.generic]], start: date, days: int) -> Floats:
    """Return homes x days x hours, homes by name, NaN where nothing was read."""
    meters, row = np.unique(columns["meter_id"].astype(str), return_inverse=True)
    day = (columns["date"].astype("datetime64[D]") - np.datetime64(start)).astype(int)
    kwh = np.full((meters.size, days, HOURS), np.nan)
    for hour in range(HOURS):
        kwh[row, day, hour] = np.ma.filled(columns[f"h{hour:02d}"].astype(float), np.nan)
    return kwh


if __name__ == "__main__":
    main()

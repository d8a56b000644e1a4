"""Real export formats: Wattveil's reading of every sample against an independent one.

A sample with interval readings of electricity is read with the time zone alone: the same
customers, the same intervals in UTC, the same net energy as `tests.export_oracle` finds with
pandas. Where readings need a word from the user, or are none of electricity by intervals, the
reading is right or the refusal is one sentence that names what the file holds.
"""

import math
import re

import pytest

from tests.export_oracle import LOADERS, SAMPLES, expected, oracle_reading
from wattveil.errors import WattveilError
from wattveil.readings import read_readings

pytestmark = pytest.mark.untraced  # the tests of each format cover its lines

_STATED = expected()
_ROUNDING_KWH = 6e-4  # `expected.json` holds three decimals
_COUNTED_OTHERWISE = {  # the statement counts the net flow too, which is the sum of the others
    "greenbutton_nisc_net_metering_daily.xml": 6 - 4,
    "greenbutton_nisc_net_metering_daily.zip": 6 - 4,
}
_MAX_SENTENCE = 500

_HOLDS_NO_INTERVALS = {  # what the refusal has to name
    "fluvius_gas_en_hourly.csv": "gas|m³",
    "fluvius_gas_nl_hourly.csv": "gas|m³",
    "greenbutton_gas_empty_kind.xml": "kind.*gas",
    "greenbutton_gas_enbridge_m3.xml": "gas|m³",
    "greenbutton_gas_opower_therms.xml": "gas|therm",
    "nem13_register_reads.csv": "NEM13",
    "pge_letterhead_gas_daily.csv": "gas|therm",
    "sma_tripower_daily_register_wh.csv": "SMA|register|daily",
    "xcel_monthly_bills.csv": "bill|month",
}
_MAY_BE_REFUSED = {  # read right, or refused with the evidence and the option that accepts it
    "grafana_register_hourly.csv": "register|cumulative",
    "greenbutton_ameren_15min.xml": "time|clock|zone|offset",
    "greenbutton_hydroone_daily.xml": "dail|day|1440|24 h",
    "greenbutton_nisc_net_metering_daily.xml": "dail|day|1440|24 h",
    "greenbutton_nisc_net_metering_daily.zip": "dail|day|1440|24 h",
    "greenbutton_sdge_hourly.xml": "time|clock|zone|offset",
    "home_assistant_history_register.csv": "register|cumulative",
    "homewizard_p1_register_15min.csv": "register|cumulative",
    "influxdb_chronograf_register_hourly.csv": "register|cumulative",
    "liander_daily_register.csv": "dail|day|1440|24 h",
    "refit_8s_w.csv": "second|minutes apart",
    "sdge_plain_mixed_resolution.csv": "60|minutes",
}
_PLACED_ON_A_GRID = {  # reads at uneven times: the energy is that of the file
    "home_assistant_history_register.csv",
    "influxdb_chronograf_register_hourly.csv",
    "refit_8s_w.csv",
}


@pytest.mark.parametrize("name", sorted(LOADERS))
def test_oracle_agrees_with_the_statement(name: str) -> None:
    """The oracle finds what the collector of the samples states, computed by other code."""
    stated, found = _STATED[name], oracle_reading(name)
    assert sorted(found.totals.values()) == pytest.approx(
        sorted(stated["total_kwh"].values()), abs=_ROUNDING_KWH
    )
    assert len(found.totals) == stated["customers"]
    assert found.counted + _COUNTED_OTHERWISE.get(name, 0) == stated["readings"]
    lengths = stated["interval_minutes"]
    if lengths is not None:  # power samples at uneven seconds have no interval length
        assert set(lengths if isinstance(lengths, list) else [lengths]) <= set(found.minutes)
    if not next(iter(stated["total_kwh"])).startswith("("):
        assert set(found.totals) == set(stated["total_kwh"])


def test_every_sample_has_an_expectation() -> None:
    """Every file of the folder is read by the oracle or refused for a stated reason."""
    files = {path.name for path in SAMPLES.iterdir()} - {"PROVENANCE.md", "expected.json"}
    assert files == set(_STATED) == set(LOADERS) | set(_HOLDS_NO_INTERVALS)
    assert {name for name, one in _STATED.items() if one["action"] == "refuse"} == set(
        _HOLDS_NO_INTERVALS
    )
    assert set(_MAY_BE_REFUSED) <= set(LOADERS)


@pytest.mark.parametrize("name", sorted(set(LOADERS) - set(_MAY_BE_REFUSED)))
def test_sample_is_read(name: str) -> None:
    """The time zone is enough for the same customers, intervals and energies."""
    _assert_read_right(name)


@pytest.mark.parametrize("name", sorted(_MAY_BE_REFUSED))
def test_sample_is_read_or_refused(name: str) -> None:
    """A reading is right; a refusal names the evidence."""
    try:
        read_readings(SAMPLES / name, timezone=_STATED[name]["timezone"]).to_arrow()
    except WattveilError as refusal:
        _assert_sentence(str(refusal), _MAY_BE_REFUSED[name])
    else:
        _assert_read_right(name)


@pytest.mark.parametrize("name", sorted(_HOLDS_NO_INTERVALS))
def test_sample_is_refused(name: str) -> None:
    """Gas, bills and register reads are refused by what they are."""
    with pytest.raises(WattveilError) as refusal:
        read_readings(SAMPLES / name, timezone=_STATED[name]["timezone"]).to_arrow()
    _assert_sentence(str(refusal.value), _HOLDS_NO_INTERVALS[name])


def _assert_read_right(name: str) -> None:
    stated, oracle = _STATED[name], oracle_reading(name)
    readings = read_readings(SAMPLES / name, timezone=stated["timezone"])
    table = readings.to_arrow().to_pandas()
    readings.close()
    found = table.groupby(["customer_id", "start_utc"]).kwh.sum()
    right = oracle.intervals.set_index(["customer", "start"]).kwh
    customers = set(table.customer_id)
    if set(oracle.totals) == {""}:  # the file names no customer: whatever its name, it is one
        assert len(customers) == 1
        right = right.rename(index={"": customers.pop()}, level="customer")
    else:
        assert customers == set(oracle.totals)
    if name in _PLACED_ON_A_GRID:
        assert found.groupby("customer_id").sum().to_list() == pytest.approx(
            list(oracle.totals.values()), rel=1e-9
        )
        return
    # A clock time that was skipped has no place; what it holds must be in the account.
    skipped = right[right.index.get_level_values("start").isna()]
    placed = right.drop(skipped.index)
    assert set(found.index) == set(placed.index)
    for at, kwh in placed.items():
        assert math.isclose(found[at], kwh, rel_tol=1e-9, abs_tol=1e-9), at
    assert bool(skipped.any()) <= bool(readings.report.dropped)


def _assert_sentence(text: str, names: str) -> None:
    """Check that a refusal is one sentence of bounded length that names what was found."""
    said = text.removeprefix(str(SAMPLES))
    assert "\n" not in said
    assert len(said) <= _MAX_SENTENCE
    without_name = re.sub(r"^/?[\w.]+", "", said)  # the name of the file proves nothing
    assert re.search(names, without_name, re.IGNORECASE), said

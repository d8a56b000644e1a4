"""Parameters of the simulator, each with its source or reason.

Sources, by the letters used below:

L   Summary figures of about 900 London households in 2013 (Low Carbon London trial, UK Power
    Networks), computed from that data set: by hour of the day the mean and the 5, 50, 95 and 99 %
    quantiles, the same mean by season, month and kind of day; quantiles over homes of the yearly
    energy, load factor, lowest readings, day-to-day spread and autocorrelation; the peak hours,
    the peak of groups, the share of zeros, ramps, and the eigenvalues of the mean days. Numbers
    marked L were moved by hand, over a dozen rounds, until the simulator's own figures lay close.
    All of them are averages or quantiles over hundreds of homes; no home was copied or fitted.
U   Quantiles of the mean load of 203 Portuguese clients (UCI ElectricityLoadDiagrams): 17, 58, 133,
    356 and 1,793 kW at 5, 25, 50, 75 and 95 %.
E   General engineering knowledge: name-plate powers, usual cycle lengths, common habits. No
    particular study stands behind such a number.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

# --- Climate --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Climate:
    """Climate of the place where the customers live."""

    latitude_deg: float
    mean_c: float  # yearly mean temperature
    yearly_swing_c: float  # half the difference between July and January
    daily_swing_c: float  # half the difference between afternoon and night on an average day
    spell_sd_c: float  # warm and cold spells of some days
    cloud_bias: float  # above 0: more often overcast than clear


TEMPERATE: Final = Climate(  # E: a maritime city such as London
    latitude_deg=51.5,
    mean_c=11.0,
    yearly_swing_c=6.5,
    daily_swing_c=3.0,
    spell_sd_c=2.8,
    cloud_bias=0.8,
)
SUNNY: Final = Climate(  # E: inland southern California
    latitude_deg=34.1,
    mean_c=18.5,
    yearly_swing_c=7.0,
    daily_swing_c=6.5,
    spell_sd_c=3.0,
    cloud_bias=-1.6,
)

# --- People ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """A person's day as the hours around which the occupancy chain changes state.

    Common hours (E), then moved by up to an hour, and the trips by half, towards L.
    """

    wake: float
    bed: float
    leave: float | None = None  # for work or school; None: no fixed absence
    back: float = 0.0
    trips_per_hour: float = 0.08  # rate of going out while at home, between 9 and 21
    trip_hours: float = 2.0  # mean time away on such a trip


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Daily schedule of a person on working days and on free days."""

    work: Day
    free: Day
    works: float = 1.0  # share of weekdays that are working days


_FREE = Day(wake=8.4, bed=23.4, trips_per_hour=0.15, trip_hours=3.6)
ROLES: Final = MappingProxyType(
    {
        "worker": Role(
            work=Day(wake=7.1, leave=8.2, back=17.2, bed=23.2, trips_per_hour=0.05),
            free=_FREE,
            works=0.86,  # the rest are holidays, sick days and days of work at home
        ),
        "part_timer": Role(
            work=Day(wake=7.3, leave=8.8, back=14.2, bed=22.8),
            free=_FREE,
            works=0.65,
        ),
        "child": Role(
            work=Day(wake=7.4, leave=8.4, back=15.8, bed=21.5, trips_per_hour=0.06),
            free=Day(wake=8.0, bed=22.0, trips_per_hour=0.10, trip_hours=2.5),
            works=0.75,  # 39 school weeks per year
        ),
        "at_home": Role(
            work=Day(wake=7.8, bed=23.1, trips_per_hour=0.08),
            free=Day(wake=8.2, bed=23.2, trips_per_hour=0.10),
        ),
        "night_worker": Role(
            work=Day(wake=15.0, leave=21.0, back=6.5, bed=8.0, trips_per_hour=0.10),
            free=Day(wake=11.0, bed=3.0, trips_per_hour=0.10),
            works=0.75,
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Household:
    """One kind of household: who lives there and how much they have."""

    people: tuple[str, ...]  # roles
    size: float  # L: scales everything that people switch on
    base_w: float  # L: median of what is never switched off, without refrigeration


HOUSEHOLDS: Final = MappingProxyType(
    {
        "single": Household(people=("worker",), size=0.68, base_w=53.0),
        "couple": Household(people=("worker", "worker"), size=1.05, base_w=84.0),
        "family": Household(people=("worker", "part_timer", "child"), size=1.28, base_w=112.0),
        "retired": Household(people=("at_home", "at_home"), size=0.9, base_w=78.0),
        "night_shift": Household(people=("night_worker", "worker"), size=0.9, base_w=45.0),
    }
)

# Between-home standard deviations within a kind, of logarithms, and in hours.
SIZE_SD: Final = 0.42  # L: spread of the yearly energy
BASE_SD: Final = 0.85  # L: spread of the lowest readings
HABIT_SHARE: Final = 0.5  # L: spread of how often a home uses one appliance (gamma, 1/shape)
RHYTHM_SD_HOURS: Final = 1.0  # L: early and late households
# L: how busy a home is, day by day: sd of the logarithm, and what is left of it a day later.
MOODS: Final = ((0.12, 0.3), (0.17, 0.97))
WEEKLY_SD: Final = 0.10  # L: a home's own weekly pattern
BUSY_SD: Final = 0.45  # L: spread of the load factor between homes
TASTE_SD: Final = 0.5  # L: same, for screens and lamps
SUMMER_LESS: Final = 0.18  # L: how much less is used indoors on a mild day than on one of 5 C
SWAPPED_DAYS: Final = 0.06  # E
BASE_CHANGES_PER_YEAR: Final = 4.0  # E: something bought, unplugged or forgotten
BASE_CHANGE_SD: Final = 0.12  # L
BASE_DAY_SD: Final = 0.13  # L
AT_HOME_SHARE: Final = 0.33  # L: of those of working age who do not leave for work
WIDOWED_SHARE: Final = 0.4  # E: retired households of one
FRUGAL_SHARE: Final = 0.08  # L: homes with hardly anything on standby
EMPTY_SHARE: Final = 0.018  # L: homes that draw nothing at all while nothing is in use
ABSENCES_PER_YEAR: Final = 5.0  # L: holidays and weekends away
ABSENCE_DAYS: Final = 3.0  # L: mean length of one
RARELY_HOME_SHARE: Final = 0.06  # L: homes mostly standing empty (between tenants, second homes)
RARELY_HOME_DAYS: Final = 25.0  # E: mean length of their absences

# --- Appliances -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Appliance:
    """Appliance used for a limited time. Watts and minutes are medians, their sd is of the log."""

    owned: float  # share of homes
    uses: float  # per day at ``hour``, or per waking hour at home when ``hour`` is None
    watts: float
    minutes: float
    watts_sd: float = 0.2  # between homes
    minutes_sd: float = 0.3  # from use to use
    hour: float | None = None
    hour_sd: float = 1.0  # between homes
    hour_jitter: float = 0.5  # from day to day
    free_day: float = 1.0  # how much more on free days
    cold: float = 0.0  # share of its use that grows with the cold
    daytime: bool = False  # rather done by day than in the evening
    unattended: bool = False  # runs on a timer, independent of occupancy
    tail_watts: float = 0.0  # what follows the first phase: the drum after the heating
    tail_minutes: float = 0.0


APPLIANCES: Final = MappingProxyType(
    {
        # E for powers and minutes, a few of them moved towards L; L for who owns one, how often
        # and when.
        "kettle": Appliance(owned=0.97, uses=0.2, watts=2400, minutes=2.6),
        "microwave": Appliance(owned=0.85, uses=0.10, watts=1200, minutes=4.0),
        "toaster": Appliance(
            owned=0.8, uses=0.6, watts=1000, minutes=4.0, hour=7.6, hour_jitter=0.6
        ),
        "hob": Appliance(
            owned=0.45, uses=0.58, watts=1100, minutes=28.0, hour=17.7, hour_sd=0.6, free_day=1.1
        ),
        "lunch": Appliance(owned=0.6, uses=0.7, watts=1000, minutes=14.0, hour=12.8, free_day=1.3),
        "oven": Appliance(
            owned=0.65, uses=0.3, watts=1250, minutes=42.0, hour=17.6, hour_jitter=0.8, free_day=1.3
        ),
        "washing": Appliance(
            owned=0.95,
            uses=0.052,
            watts=1900,
            minutes=18.0,
            daytime=True,
            free_day=1.3,
            tail_watts=220.0,
            tail_minutes=60.0,
        ),
        "dryer": Appliance(
            owned=0.35, uses=0.035, watts=1900, minutes=50.0, daytime=True, free_day=1.3, cold=0.5
        ),
        "dishwasher": Appliance(
            owned=0.42,
            uses=0.4,
            watts=1800,
            minutes=22.0,
            hour=18.6,
            hour_sd=2.2,
            hour_jitter=1.2,
            tail_watts=500.0,
            tail_minutes=45.0,
        ),
        "vacuum_iron": Appliance(
            owned=0.95, uses=0.046, watts=1300, minutes=20.0, daytime=True, free_day=1.4
        ),
        "shower": Appliance(
            owned=0.2, uses=0.7, watts=8300, minutes=6.0, watts_sd=0.12, hour=7.4, hour_jitter=0.7
        ),
        "hairdryer": Appliance(owned=0.6, uses=0.5, watts=1400, minutes=6.0, hour=7.5),
        "heater": Appliance(owned=0.30, uses=0.045, watts=1500, minutes=110.0, cold=1.0),
        # Hot-water tanks: an immersion heater, on cheap night units or before the day begins.
        "tank_night": Appliance(
            owned=0.010,
            uses=0.95,
            watts=2800,
            minutes=100.0,
            hour=0.7,
            hour_sd=0.5,
            hour_jitter=0.05,
            unattended=True,
        ),
        "tank_day": Appliance(
            owned=0.025,
            uses=0.9,
            watts=2800,
            minutes=60.0,
            hour=6.6,
            hour_sd=1.2,
            hour_jitter=0.1,
            unattended=True,
        ),
    }
)

MEDIA_W: Final = 77.0  # L: television, computers, chargers per active person, mean level
LIGHTING_W: Final = 158.0  # L: lamps of a household of size 1 on a dark evening
PUMP_W: Final = 95.0  # E: pump, fan and controls of a gas boiler
GAS_SHARE: Final = 0.9  # E: of homes without electric heating
FRIDGE_W: Final = 78.0  # L: compressor
FRIDGE_DUTY: Final = 0.38  # E
FRIDGE_MINUTES: Final = 75.0  # L: from start to start
FREEZER_SHARE: Final = 0.45  # E: homes with a second cold appliance

# --- Electric heating, cars and panels ------------------------------------------------------------

STORAGE_SHARE: Final = 0.27  # L: electric homes with night storage; the others heat directly
HEAT_W_PER_K: Final = 55.0  # L: small flats; detached houses rarely heat with electricity alone
HEAT_SD: Final = 0.4
COMFORT_C: Final = 18.5  # E: outdoor temperature below which heat is needed, after free gains
COOL_SHARE: Final = 0.7  # E: homes with air conditioning, where summers are hot
COOL_ABOVE_C: Final = 24.0
COOL_W_PER_K: Final = 180.0
CAR_KW: Final = (3.6, 7.2)  # E: 16 A and 32 A single-phase
CAR_KWH_PER_DAY: Final = 6.5  # E: 35 km
CAR_CHARGES_PER_DAY: Final = 0.55  # E: few plug in every day
CAR_TIMER_SHARE: Final = 0.4  # E: of cars wait for the night rate
PANEL_KW: Final = 3.5  # E: median roof
PANEL_SD: Final = 0.35
PANEL_YIELD: Final = 0.82  # E: what wiring, heat, dirt and the inverter leave
PV_HOMES_WITH_CAR: Final = 0.25  # E

# --- Business -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Business:
    """One kind of business."""

    mean_kw: float  # median over the firms of this kind, of the load while open
    sd: float  # of its logarithm
    night: float  # load while closed, as a share
    opens: float
    closes: float
    days: float  # open days a week; Sunday is the first to go, then Saturday
    humps: tuple[tuple[float, float, float], ...] = ()  # hour, width, height over the plateau
    weather_kw_per_k: float = 0.0  # cooling above and heating below a mild day, share per kelvin
    cold_rooms: float = 0.0  # share of the load that cycles like a refrigerator


BUSINESSES: Final = MappingProxyType(
    {
        "shop": Business(  # E
            mean_kw=3.5,
            sd=0.8,
            night=0.28,
            opens=8.8,
            closes=18.5,
            days=6.3,
            weather_kw_per_k=0.010,
            cold_rooms=0.20,
        ),
        "office": Business(  # E
            mean_kw=6.0,
            sd=0.9,
            night=0.25,
            opens=8.0,
            closes=18.0,
            days=5.1,
            humps=((10.5, 2.0, 0.12), (14.5, 2.0, 0.10)),
            weather_kw_per_k=0.015,
        ),
        "restaurant": Business(  # E
            mean_kw=7.0,
            sd=0.6,
            night=0.30,
            opens=10.5,
            closes=23.2,
            days=6.6,
            humps=((12.8, 1.0, 0.45), (19.6, 1.4, 0.60)),
            cold_rooms=0.22,
        ),
        "industrial": Business(  # U
            mean_kw=135.0,
            sd=1.35,
            night=0.35,
            opens=6.5,
            closes=17.0,
            days=5.6,
            humps=((11.0, 3.5, 0.30),),
            weather_kw_per_k=0.003,
        ),
    }
)

# --- Mixes ----------------------------------------------------------------------------------------

# E: an urban distribution area.
DEFAULT_MIX: Final = MappingProxyType(
    {
        "single": 0.22,
        "couple": 0.22,
        "family": 0.22,
        "retired": 0.13,
        "night_shift": 0.02,
        "electric_heating": 0.06,
        "ev": 0.04,
        "pv": 0.05,
        "shop": 0.015,
        "office": 0.012,
        "restaurant": 0.009,
        "industrial": 0.004,
    }
)
# E: the homes of such an area alone; a few businesses would dominate every mean.
HOMES_MIX: Final = MappingProxyType(
    {"single": 0.24, "couple": 0.24, "family": 0.24, "retired": 0.15, "ev": 0.06, "pv": 0.07}
)
# L: households only, as the London trial had them in 2013.
LONDON_MIX: Final = MappingProxyType(
    {
        "single": 0.31,
        "couple": 0.24,
        "family": 0.24,
        "retired": 0.14,
        "night_shift": 0.02,
        "electric_heating": 0.05,
    }
)

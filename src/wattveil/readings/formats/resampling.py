"""Registers and power samples as rows of intervals.

Register reads are put on the grid of their intervals if they are near it, and interpolated at whole
hours otherwise. A power sample is held until the next one.
"""

from collections.abc import Callable

from wattveil.errors import InvalidFileError
from wattveil.readings.schema import ALLOWED_MINUTES
from wattveil.readings.timestamps import MINUTE_US

DAY_MINUTES = 1440
_SNAP_SHARE = 0.2  # a register read within a fifth of an interval from its end is taken as there
_SAMPLED_MINUTES = 5  # of intervals that are made of power samples
_MAX_HELD_US = 2 * MINUTE_US  # a power sample says nothing about a longer gap


class Resampling:
    """Rows at instants, turned into rows of intervals.

    Parameters
    ----------
    query
        Runs a query and returns its rows.
    write
        Writes the rows of a query to a file and returns the table.
    refuse
        Makes an error about the file.
    """

    def __init__(
        self,
        query: Callable[[str], list[tuple[object, ...]]],
        write: Callable[[str, str], str],
        refuse: Callable[[str, str, object], InvalidFileError],
    ) -> None:
        self._rows = query
        self._write = write
        self._refuse = refuse

    def registers(self, rows: str) -> str:
        """Put register reads on the grid of intervals; spread them if they are irregular."""
        rows = f"(SELECT * FROM {rows} WHERE value IS NOT NULL AND stamp_us IS NOT NULL)"
        self._refuse_falling(rows)
        distance = self._rows(f"""
            SELECT median(us) FROM (
                SELECT stamp_us - lag(stamp_us) OVER (
                    PARTITION BY customer, register ORDER BY stamp_us) AS us FROM {rows}
            ) WHERE us > 0
        """)[0][0]
        if distance is None:
            raise self._refuse("time stamps", "at least two register reads", "one")
        usual = float(str(distance)) / MINUTE_US
        if usual >= DAY_MINUTES - 60:
            expected = "register reads at most 60 minutes apart"
            raise self._refuse("time stamps", expected, f"{usual / 60:.0f} hours: daily totals")
        minutes = min(ALLOWED_MINUTES, key=lambda allowed: abs(allowed - usual))
        step = minutes * MINUTE_US
        near = f"(stamp_us + {step // 2}) // {step} * {step}"
        far = self._rows(f"""
            SELECT count(*) FILTER (abs(stamp_us - {near}) > {int(step * _SNAP_SHARE)}), count(*)
            FROM {rows}
        """)[0]
        if int(str(far[0])) * 10 > int(str(far[1])):
            return self._resampled_register(rows)
        return f"""(
            SELECT * REPLACE ({near} AS stamp_us, {minutes} AS minutes) FROM {rows}
            WHERE abs(stamp_us - {near}) <= {int(step * _SNAP_SHARE)}
        )"""

    def _resampled_register(self, rows: str) -> str:
        """Interpolate an irregular register at whole hours."""
        step = 60 * MINUTE_US
        return self._write(
            "hourly",
            f"""
            SELECT any_value(row) AS row, customer, at_us AS stamp_us, 60 AS minutes,
                   any_value(value + (next - value) * (at_us - stamp_us) / (next_us - stamp_us))
                       AS value,
                   NULL::BIGINT AS end_us, NULL::VARCHAR AS unreadable,
                   any_value(factor) AS factor, 'derived' AS quality,
                   channel, register, NULL::VARCHAR AS left_out
            FROM (
                SELECT *, unnest(range(-(-stamp_us // {step}) * {step}, next_us, {step})) AS at_us
                FROM (
                    SELECT *, lead(stamp_us) OVER series AS next_us, lead(value) OVER series AS next
                    FROM {rows}
                    WINDOW series AS (PARTITION BY customer, register, channel ORDER BY stamp_us)
                ) WHERE next_us > stamp_us
            ) GROUP BY customer, register, channel, at_us ORDER BY customer, at_us
        """,
        )

    def _refuse_falling(self, rows: str) -> None:
        """Reject values that are no running total."""
        falls, pairs = self._rows(f"""
            SELECT count(*) FILTER (d < 0), count(d) FROM (
                SELECT value - lag(value) OVER (
                    PARTITION BY customer, register ORDER BY row) AS d FROM {rows})
        """)[0]
        if int(str(falls)) * 100 > int(str(pairs)):
            expected = "registers that never fall; name the columns to read them as energy"
            raise self._refuse("values", expected, f"{falls} falls in {pairs} steps")

    def power_samples(self, rows: str) -> str:
        """Hold each power sample until the next, and add its energy up in intervals."""
        step = _SAMPLED_MINUTES * MINUTE_US
        pieces = f"""
            SELECT *, unnest(range(stamp_us // {step} * {step}, until_us, {step})) AS bin_us
            FROM (
                SELECT *, least(next_us, stamp_us + {_MAX_HELD_US}) AS until_us
                FROM (
                    SELECT *, lead(stamp_us) OVER (PARTITION BY customer ORDER BY stamp_us)
                                  AS next_us
                    FROM {rows} WHERE value IS NOT NULL
                ) WHERE next_us > stamp_us
            )
        """
        held = f"(least(until_us, bin_us + {step}) - greatest(stamp_us, bin_us))"
        return self._write(
            "sampled",
            f"""
            SELECT min(row) AS row, customer, bin_us AS stamp_us, {_SAMPLED_MINUTES} AS minutes,
                   sum(value * {held} ORDER BY stamp_us) / 3.6e12 AS value,
                   NULL::BIGINT AS end_us, NULL::VARCHAR AS unreadable, 1 AS factor,
                   'derived' AS quality,
                   'net' AS channel, '' AS register, NULL::VARCHAR AS left_out
            FROM ({pieces}) GROUP BY customer, bin_us ORDER BY customer, bin_us
        """,
        )

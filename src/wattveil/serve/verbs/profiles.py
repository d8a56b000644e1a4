"""The verb `admin profiles`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from wattveil.serve.ledger.console import AsJson, Data, ledger_refusals

EPILOG = "Example: wattveil admin profiles regions/ --data server --name homes"


def profiles(
    source: Annotated[
        list[str],
        typer.Argument(
            help="Files of `wattveil profiles`, or folders of them; with --sql, one database."
        ),
    ],
    *,
    name: Annotated[str, typer.Option(help="What the file is called, without .parquet.")],
    sql: Annotated[
        str | None,
        typer.Option(
            help="Query for customer_id, kw_1, kw_2, ... and attributes, a row a customer."
        ),
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="With --sql: IANA zone of the profile's hours.")
    ] = None,
    grid_minutes: Annotated[int, typer.Option(help="With --sql: length of a slot.")] = 60,
    split: Annotated[str, typer.Option(help="With --sql: as for `wattveil profiles`.")] = "day",
    data: Data = Path(),
    as_json: AsJson = False,
) -> None:
    """Put profiles from several files or from a query into a server's folder, as one file.

    It is read once: later changes of the source do not reach the server. Readings that are no
    profiles yet are for `wattveil profiles`, which reads queries too.
    """
    with ledger_refusals():
        from wattveil.errors import InvalidParameterError  # noqa: PLC0415 - with the rest
        from wattveil.publish import private_source  # noqa: PLC0415
        from wattveil.serve.datasets import FOLDER  # noqa: PLC0415
        from wattveil.serve.ledger.order import check_name  # noqa: PLC0415

        folder = data / FOLDER
        out = folder / f"{check_name('name', name)}.parquet"
        if not data.is_dir():
            raise InvalidParameterError("data", "a folder that exists", str(data))
        folder.mkdir(mode=0o700, exist_ok=True)
        if sql is None:
            found = private_source.gather_profiles([Path(one) for one in source])
        elif timezone is None or len(source) > 1:
            rule = "one database, with --timezone, when --sql is given"
            raise InvalidParameterError("source, timezone", rule, timezone)
        else:
            found = private_source.query_profiles(
                source[0], sql, timezone=timezone, minutes=grid_minutes, split=split
            )
        private_source.keep_profiles(found, out)
    text = f"{out} is there. Private: exact, not protected. Register it with --file {out.name}."
    typer.echo(json.dumps({"private": True, "out": str(out)}) if as_json else text)

"""Tables of an older version become those of this one, step by step (Alembic)."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Engine, text

from wattveil.errors import InvalidParameterError
from wattveil.serve.ledger.engine import writing

_LOCK = 0x77617474
"""Any fixed number: two servers that start at once upgrade one after the other."""


def migrate(engine: Engine) -> None:
    """Bring a database up to date; a new one gets all tables."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    scripts = ScriptDirectory.from_config(config)
    if version(engine) == scripts.get_current_head():
        return
    with writing(engine).begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK})
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError:
            found = MigrationContext.configure(connection).get_current_revision()
            rule = f"at most of version {scripts.get_current_head()}: it was made by newer software"
            raise InvalidParameterError("database", rule, found) from None


def version(engine: Engine) -> str | None:
    """Return the version of the tables; None for a new database."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()

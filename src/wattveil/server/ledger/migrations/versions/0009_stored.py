"""Number of stored releases of each journal, which triggers keep."""

import sqlalchemy as sa
from alembic import op

revision = "v2_0009"
down_revision = "v2_0008"

_COUNT_ALL = (
    "UPDATE journal SET stored ="
    " (SELECT count(*) FROM release WHERE release.journal_id = journal.id)"
)
_COUNT_ONE = {
    "INSERT": "UPDATE journal SET stored = stored + 1 WHERE id = NEW.journal_id;",
    "DELETE": "UPDATE journal SET stored = stored - 1 WHERE id = OLD.journal_id;",
}


def upgrade() -> None:
    new = sa.Column("stored", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("journal", new)
    op.execute(_COUNT_ALL)
    for change, work in _COUNT_ONE.items():
        _count(change, work)


def _count(change: str, work: str) -> None:
    """Create a trigger for each release that is stored, or deleted against the rules."""
    name = f"release_count_{change.lower()}"
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"CREATE TRIGGER {name} AFTER {change} ON release BEGIN {work} END")
        return
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN {work} RETURN NULL; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} AFTER {change} ON release FOR EACH ROW EXECUTE FUNCTION {name}()"
    )

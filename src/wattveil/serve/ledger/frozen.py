"""Triggers that keep the past as it is, for migrations."""

from alembic import op


def forbid(table: str, change: str, why: str, *, when: str = "", sqlite: bool) -> None:
    """Have the database refuse a change of a table, always or ``when`` a condition holds."""
    name = f"{table}_no_{change.lower()}"
    condition = f"WHEN ({when})" if when else ""
    if sqlite:
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {change} ON {table} {condition}"
            f" BEGIN SELECT RAISE(ABORT, '{why}'); END"
        )
        return
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{why}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {change} ON {table}"
        f" FOR EACH ROW {condition} EXECUTE FUNCTION {name}()"
    )
    if change == "DELETE":
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        )

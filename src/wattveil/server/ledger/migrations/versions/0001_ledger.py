"""Tables of the ledger, and triggers that make the ledger append-only.

Databases of version 0.1 have other names of tables and columns, and are not migrated.
"""

import sqlalchemy as sa
from alembic import op

from wattveil.server.ledger.database import forbid

revision = "v2_0001"
down_revision = None

_MEASURES = ("rho", "epsilon", "delta", "eta")
_MAX_AMOUNT = 4 * 10**18

_DATASET_CHANGED = (
    "NEW.journal_id <> OLD.journal_id OR NEW.name <> OLD.name OR NEW.fingerprint <> OLD.fingerprint"
    " OR OLD.closed_at IS NOT NULL"
)
_APPEND_ONLY = {
    "entry": "entries are never changed",
    "release": "releases are never changed",
}
_RULES = {
    "account": (
        " OR ".join(f"NEW.{measure}_spent < OLD.{measure}_spent" for measure in _MEASURES)
        + " OR NEW.journal_id <> OLD.journal_id OR NEW.tier <> OLD.tier",
        "what is spent never falls",
    ),
    "journal": (
        "NEW.head_seq < OLD.head_seq OR NEW.unit <> OLD.unit OR NEW.neighbours <> OLD.neighbours",
        "a journal never loses entries, its unit and neighbours are fixed",
    ),
    "dataset": (
        _DATASET_CHANGED,
        "a data set stays what it is, and closed",
    ),
}
"""When a change of a row is refused, and why."""


def upgrade() -> None:
    _create_tables()
    sqlite = op.get_bind().dialect.name == "sqlite"
    for table, why in _APPEND_ONLY.items():
        for change in ("UPDATE", "DELETE"):
            forbid(table, change, why, sqlite=sqlite)
    for table, (broken, why) in _RULES.items():
        forbid(table, "UPDATE", why, when=broken, sqlite=sqlite)
        forbid(table, "DELETE", f"no {table} is ever deleted", sqlite=sqlite)


def _create_tables() -> None:
    op.create_table(
        "journal",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("neighbours", sa.Text, nullable=False),
        sa.Column("head_seq", sa.BigInteger, nullable=False),
        sa.Column("head_sha256", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_journal"),
    )
    op.create_table(
        "dataset",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("journal_id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("closed_at", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_dataset"),
        sa.ForeignKeyConstraint(["journal_id"], ["journal.id"], name="fk_dataset_journal_id"),
        sa.UniqueConstraint("name", name="uq_dataset_name"),
        sa.UniqueConstraint("fingerprint", name="uq_dataset_fingerprint"),
    )
    op.create_table(
        "principal",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("disabled_at", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_principal"),
        sa.UniqueConstraint("name", name="uq_principal_name"),
    )
    op.create_table(
        "account",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("journal_id", sa.Integer, nullable=False),
        sa.Column("principal_id", sa.Integer),
        sa.Column("tier", sa.Text, nullable=False),
        *(sa.Column(f"{measure}_cap", sa.BigInteger, nullable=False) for measure in _MEASURES),
        *(sa.Column(f"{measure}_spent", sa.BigInteger, nullable=False) for measure in _MEASURES),
        sa.PrimaryKeyConstraint("id", name="pk_account"),
        sa.ForeignKeyConstraint(["journal_id"], ["journal.id"], name="fk_account_journal_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_account_principal_id"),
        *(
            sa.CheckConstraint(
                f"0 <= {measure}_spent AND {measure}_spent <= {measure}_cap"
                f" AND {measure}_cap <= {_MAX_AMOUNT}",
                name=f"ck_account_{measure}",
            )
            for measure in _MEASURES
        ),
        sa.UniqueConstraint("journal_id", "principal_id", "tier", name="uq_account_journal_id"),
    )
    whole = sa.text("principal_id IS NULL")
    op.create_index(
        "uq_account_whole",
        "account",
        ["journal_id", "tier"],
        unique=True,
        sqlite_where=whole,
        postgresql_where=whole,
    )
    op.create_table(
        "entry",
        sa.Column("journal_id", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("principal_id", sa.Integer, nullable=False),
        sa.Column("dataset_id", sa.Integer),
        sa.Column("account_id", sa.Integer),
        sa.Column("own_account_id", sa.Integer),
        *(sa.Column(measure, sa.BigInteger, nullable=False) for measure in _MEASURES),
        sa.Column("request_key", sa.Text),
        sa.Column("request_sha256", sa.Text),
        sa.Column("source_seq", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("prev_sha256", sa.Text, nullable=False),
        sa.Column("row_sha256", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("journal_id", "seq", name="pk_entry"),
        sa.ForeignKeyConstraint(["journal_id"], ["journal.id"], name="fk_entry_journal_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_entry_principal_id"),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name="fk_entry_dataset_id"),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_entry_account_id"),
        sa.ForeignKeyConstraint(["own_account_id"], ["account.id"], name="fk_entry_own_account_id"),
        sa.UniqueConstraint(
            "journal_id", "request_key", "principal_id", name="uq_entry_journal_id"
        ),
    )
    op.create_index("ix_entry_request", "entry", ["journal_id", "request_sha256"])
    op.create_table(
        "release",
        sa.Column("journal_id", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("payload_ref", sa.Text),
        sa.Column("payload_sha256", sa.Text),
        sa.Column("stored_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("journal_id", "seq", name="pk_release"),
        sa.ForeignKeyConstraint(
            ["journal_id", "seq"], ["entry.journal_id", "entry.seq"], name="fk_release_journal_id"
        ),
    )
    op.create_table(
        "refusal",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("principal_id", sa.Integer, nullable=False),
        sa.Column("dataset_id", sa.Integer, nullable=False),
        sa.Column("request_sha256", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_refusal"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_refusal_principal_id"),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name="fk_refusal_dataset_id"),
    )

"""The first tables, and triggers that keep the past as it is."""

import sqlalchemy as sa
from alembic import op

from wattveil.serve.ledger.frozen import forbid

revision = "0001"
down_revision = None

_MEASURES = ("rho", "epsilon", "delta", "eta")
_MOST = 4 * 10**18

_DATASET_CHANGED = (
    "NEW.book_id <> OLD.book_id OR NEW.name <> OLD.name OR NEW.fingerprint <> OLD.fingerprint"
    " OR OLD.closed_at IS NOT NULL"
)
_FROZEN = {
    "entry": "entries are never changed",
    "release": "releases are never changed",
}
_RULES = {
    "account": (
        " OR ".join(f"NEW.{measure}_spent < OLD.{measure}_spent" for measure in _MEASURES)
        + " OR NEW.book_id <> OLD.book_id OR NEW.tier <> OLD.tier",
        "what is spent never falls",
    ),
    "book": (
        "NEW.head_seq < OLD.head_seq OR NEW.unit <> OLD.unit OR NEW.neighbours <> OLD.neighbours",
        "a book never loses entries, its unit and neighbours are fixed",
    ),
    "dataset": (
        _DATASET_CHANGED,
        "a data set stays what it is, and closed",
    ),
}
"""When a change of a row is refused, and why."""


def upgrade() -> None:
    _make_tables()
    sqlite = op.get_bind().dialect.name == "sqlite"
    for table, why in _FROZEN.items():
        for change in ("UPDATE", "DELETE"):
            forbid(table, change, why, sqlite=sqlite)
    for table, (broken, why) in _RULES.items():
        forbid(table, "UPDATE", why, when=broken, sqlite=sqlite)
        forbid(table, "DELETE", f"no {table} is ever deleted", sqlite=sqlite)


def _make_tables() -> None:
    op.create_table(
        "book",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("neighbours", sa.Text, nullable=False),
        sa.Column("head_seq", sa.BigInteger, nullable=False),
        sa.Column("head_sha256", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_book"),
    )
    op.create_table(
        "dataset",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("book_id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("closed_at", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_dataset"),
        sa.ForeignKeyConstraint(["book_id"], ["book.id"], name="fk_dataset_book_id"),
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
        sa.Column("book_id", sa.Integer, nullable=False),
        sa.Column("principal_id", sa.Integer),
        sa.Column("tier", sa.Text, nullable=False),
        *(sa.Column(f"{measure}_cap", sa.BigInteger, nullable=False) for measure in _MEASURES),
        *(sa.Column(f"{measure}_spent", sa.BigInteger, nullable=False) for measure in _MEASURES),
        sa.PrimaryKeyConstraint("id", name="pk_account"),
        sa.ForeignKeyConstraint(["book_id"], ["book.id"], name="fk_account_book_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_account_principal_id"),
        *(
            sa.CheckConstraint(
                f"0 <= {measure}_spent AND {measure}_spent <= {measure}_cap"
                f" AND {measure}_cap <= {_MOST}",
                name=f"ck_account_{measure}",
            )
            for measure in _MEASURES
        ),
        sa.UniqueConstraint("book_id", "principal_id", "tier", name="uq_account_book_id"),
    )
    whole = sa.text("principal_id IS NULL")
    op.create_index(
        "uq_account_whole",
        "account",
        ["book_id", "tier"],
        unique=True,
        sqlite_where=whole,
        postgresql_where=whole,
    )
    op.create_table(
        "entry",
        sa.Column("book_id", sa.Integer, nullable=False),
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
        sa.PrimaryKeyConstraint("book_id", "seq", name="pk_entry"),
        sa.ForeignKeyConstraint(["book_id"], ["book.id"], name="fk_entry_book_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_entry_principal_id"),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name="fk_entry_dataset_id"),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name="fk_entry_account_id"),
        sa.ForeignKeyConstraint(["own_account_id"], ["account.id"], name="fk_entry_own_account_id"),
        sa.UniqueConstraint("book_id", "request_key", "principal_id", name="uq_entry_book_id"),
    )
    op.create_index("ix_entry_request", "entry", ["book_id", "request_sha256"])
    op.create_table(
        "release",
        sa.Column("book_id", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("payload_ref", sa.Text),
        sa.Column("payload_sha256", sa.Text),
        sa.Column("stored_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("book_id", "seq", name="pk_release"),
        sa.ForeignKeyConstraint(
            ["book_id", "seq"], ["entry.book_id", "entry.seq"], name="fk_release_book_id"
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

"""Tables of the server: tokens, public parameters of data sets, events, shares."""

import sqlalchemy as sa
from alembic import op

from wattveil.server.ledger.database import forbid

revision = "v2_0002"
down_revision = "v2_0001"


def upgrade() -> None:
    op.create_table(
        "token",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("principal_id", sa.Integer, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("made_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
        sa.Column("revoked_at", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_token"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_token_principal_id"),
        sa.UniqueConstraint("sha256", name="uq_token_sha256"),
    )
    op.create_table(
        "registration",
        sa.Column("dataset_id", sa.Integer, nullable=False),
        sa.Column("public", sa.Text, nullable=False),
        sa.Column("profiles_file", sa.Text, nullable=False),
        sa.Column("customer_list_file", sa.Text),
        sa.PrimaryKeyConstraint("dataset_id", name="pk_registration"),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name="fk_registration_dataset_id"),
    )
    op.create_table(
        "principal_event",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("principal_id", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_principal_event"),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principal.id"], name="fk_principal_event_principal_id"
        ),
    )
    op.create_table(
        "share",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("journal_id", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("principal_id", sa.Integer),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_share"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_share_principal_id"),
        sa.ForeignKeyConstraint(
            ["journal_id", "seq"], ["entry.journal_id", "entry.seq"], name="fk_share_journal_id"
        ),
    )
    sqlite = op.get_bind().dialect.name == "sqlite"
    for table in ("principal_event", "share"):
        for change in ("UPDATE", "DELETE"):
            forbid(table, change, f"rows of {table} are never changed", sqlite=sqlite)

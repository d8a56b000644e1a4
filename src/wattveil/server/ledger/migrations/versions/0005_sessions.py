"""Sessions of the pages, the orders that they have reviewed, and plans of charges."""

import sqlalchemy as sa
from alembic import op

revision = "v2_0005"
down_revision = "v2_0004"


def upgrade() -> None:
    op.create_table(
        "session",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("token_id", sa.Integer, nullable=False),
        sa.Column("begun_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_session"),
        sa.ForeignKeyConstraint(["token_id"], ["token.id"], name="fk_session_token_id"),
        sa.UniqueConstraint("sha256", name="uq_session_sha256"),
    )
    op.create_index("ix_session_token_id", "session", ["token_id"])
    op.create_table(
        "reviewed_order",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("session_id", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("release", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_reviewed_order"),
        sa.ForeignKeyConstraint(
            ["session_id"],
            ["session.id"],
            name="fk_reviewed_order_session_id",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("key", name="uq_reviewed_order_key"),
    )
    op.create_index("ix_reviewed_order_session_id", "reviewed_order", ["session_id"])
    op.create_table(
        "planned",
        sa.Column("journal_id", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("journal_id", "seq", name="pk_planned"),
        sa.ForeignKeyConstraint(
            ["journal_id", "seq"], ["entry.journal_id", "entry.seq"], name="fk_planned_journal_id"
        ),
    )

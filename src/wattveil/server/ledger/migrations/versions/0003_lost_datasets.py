"""Data sets whose registration was lost with a database."""

import sqlalchemy as sa
from alembic import op

from wattveil.server.ledger.database import forbid

revision = "v2_0003"
down_revision = "v2_0002"


def upgrade() -> None:
    op.create_table(
        "lost_dataset",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_lost_dataset"),
    )
    sqlite = op.get_bind().dialect.name == "sqlite"
    for change in ("UPDATE", "DELETE"):
        forbid("lost_dataset", change, "rows of lost_dataset are never changed", sqlite=sqlite)

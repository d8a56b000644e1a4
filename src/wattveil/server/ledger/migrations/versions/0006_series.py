"""Series of periods whose whole budget is reserved."""

import sqlalchemy as sa
from alembic import op

revision = "v2_0006"
down_revision = "v2_0005"


def upgrade() -> None:
    op.create_table(
        "series",
        sa.Column("journal_id", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("dataset_id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("journal_id", "seq", name="pk_series"),
        sa.ForeignKeyConstraint(
            ["journal_id", "seq"], ["entry.journal_id", "entry.seq"], name="fk_series_journal_id"
        ),
        sa.ForeignKeyConstraint(["dataset_id"], ["dataset.id"], name="fk_series_dataset_id"),
        sa.UniqueConstraint("dataset_id", "name", name="uq_series_dataset_id"),
    )

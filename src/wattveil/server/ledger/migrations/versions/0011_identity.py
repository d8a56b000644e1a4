"""Identity of a ledger: distinguishes a server from one that was restored from its backup."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "v2_0011"
down_revision = "v2_0010"


def upgrade() -> None:
    made = op.create_table(
        "ledger_identity",
        sa.Column("identity", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("identity", name="pk_ledger_identity"),
    )
    op.bulk_insert(made, [{"identity": uuid.uuid4().hex}])

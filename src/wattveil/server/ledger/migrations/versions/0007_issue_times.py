"""Time of issue of the newest token of each person."""

import sqlalchemy as sa
from alembic import op

revision = "v2_0007"
down_revision = "v2_0006"


def upgrade() -> None:
    op.add_column("identity", sa.Column("issued_at", sa.BigInteger))

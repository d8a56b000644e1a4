"""Number of a release within its journal, and the fingerprint of the profiles of a period."""

import sqlalchemy as sa
from alembic import op

revision = "v2_0010"
down_revision = "v2_0009"


def upgrade() -> None:
    op.add_column("release", sa.Column("number", sa.BigInteger))
    op.add_column("release", sa.Column("fingerprint", sa.Text))
    op.create_index("ix_release_fingerprint", "release", ["fingerprint"])

"""People who sign in at an identity provider."""

import sqlalchemy as sa
from alembic import op

revision = "v2_0004"
down_revision = "v2_0003"


def upgrade() -> None:
    op.create_table(
        "identity",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("issuer", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("principal_id", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_identity"),
        sa.ForeignKeyConstraint(
            ["principal_id"], ["principal.id"], name="fk_identity_principal_id"
        ),
        sa.UniqueConstraint("issuer", "subject", name="uq_identity_issuer"),
    )

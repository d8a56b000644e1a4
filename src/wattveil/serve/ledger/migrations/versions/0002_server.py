"""Tokens, and the public parameters of data sets, which never change."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


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

"""What was done about people, and with whom releases are shared."""

import sqlalchemy as sa
from alembic import op

from wattveil.serve.ledger.frozen import forbid

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "act",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("principal_id", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_act"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_act_principal_id"),
    )
    op.create_table(
        "share",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("book_id", sa.Integer, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("principal_id", sa.Integer),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_share"),
        sa.ForeignKeyConstraint(["principal_id"], ["principal.id"], name="fk_share_principal_id"),
        sa.ForeignKeyConstraint(
            ["book_id", "seq"], ["entry.book_id", "entry.seq"], name="fk_share_book_id"
        ),
    )
    sqlite = op.get_bind().dialect.name == "sqlite"
    for table in ("act", "share"):
        for change in ("UPDATE", "DELETE"):
            forbid(table, change, "what was done stays written", sqlite=sqlite)

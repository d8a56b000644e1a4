"""Indexes for the lists of a principal's releases, whatever the size of the ledger."""

from alembic import op

revision = "v2_0008"
down_revision = "v2_0007"


def upgrade() -> None:
    op.create_index("ix_entry_principal", "entry", ["principal_id", "at", "journal_id", "seq"])
    op.create_index("ix_share_principal", "share", ["principal_id", "journal_id", "seq"])

"""Tables. `entry` is the ledger; `account` and the heads are sums over it, stored for speed.

A *journal* belongs to one group of people, and is one chain of entries. Data sets about the same
people share a journal, hence accounts: otherwise a copy of the data would double the budget.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from wattveil.server.ledger.amounts import MAX_AMOUNT, MEASURES

UNKNOWN_DATASET = "?"
"""Name and fingerprint in `lost_dataset` if any registration may have been lost; no valid name."""

OF_PERIOD = "period:"
"""Begins the fingerprint of a period of a series in the high-water mark and in `lost_dataset`; the
name is that of its data set."""

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

journal = Table(
    "journal",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("unit", Text, nullable=False),
    Column("neighbours", Text, nullable=False),
    Column("head_seq", BigInteger, nullable=False),
    Column("head_sha256", Text, nullable=False),
    # Number of releases; triggers keep it.
    Column("stored", BigInteger, nullable=False, server_default="0"),
)

dataset = Table(
    "dataset",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("journal_id", Integer, ForeignKey("journal.id"), nullable=False),
    Column("name", Text, nullable=False, unique=True),
    # Keyed hash of the content; never an unkeyed one.
    Column("fingerprint", Text, nullable=False, unique=True),
    Column("closed_at", Text),
)

principal = Table(
    "principal",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("disabled_at", Text),
)

account = Table(
    "account",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("journal_id", Integer, ForeignKey("journal.id"), nullable=False),
    # NULL: the account of the data sets of the journal.
    Column("principal_id", Integer, ForeignKey("principal.id")),
    Column("tier", Text, nullable=False),
    *(Column(f"{measure}_cap", BigInteger, nullable=False) for measure in MEASURES),
    *(Column(f"{measure}_spent", BigInteger, nullable=False) for measure in MEASURES),
    *(
        CheckConstraint(
            f"0 <= {measure}_spent AND {measure}_spent <= {measure}_cap"
            f" AND {measure}_cap <= {MAX_AMOUNT}",
            name=measure,
        )
        for measure in MEASURES
    ),
    UniqueConstraint("journal_id", "principal_id", "tier"),
)
# The constraint above treats NULLs as distinct.
Index(
    "uq_account_whole",
    account.c.journal_id,
    account.c.tier,
    unique=True,
    sqlite_where=account.c.principal_id.is_(None),
    postgresql_where=account.c.principal_id.is_(None),
)

entry = Table(
    "entry",
    metadata,
    Column("journal_id", Integer, ForeignKey("journal.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("principal_id", Integer, ForeignKey("principal.id"), nullable=False),
    Column("dataset_id", Integer, ForeignKey("dataset.id")),
    # Of a charge: the payers. Of a cap: its account, in account_id.
    Column("account_id", Integer, ForeignKey("account.id")),
    Column("own_account_id", Integer, ForeignKey("account.id")),
    *(Column(measure, BigInteger, nullable=False) for measure in MEASURES),
    Column("request_key", Text),
    Column("request_sha256", Text),
    # Earlier charge of the same request, whose release is returned.
    Column("source_seq", BigInteger),
    Column("detail", Text, nullable=False),
    Column("prev_sha256", Text, nullable=False),
    Column("row_sha256", Text, nullable=False),
    UniqueConstraint("journal_id", "request_key", "principal_id"),
    Index("ix_entry_request", "journal_id", "request_sha256"),
    Index("ix_entry_principal", "principal_id", "at", "journal_id", "seq"),
)

release = Table(
    "release",
    metadata,
    Column("journal_id", Integer, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("payload_ref", Text),
    Column("payload_sha256", Text),
    Column("stored_at", Text, nullable=False),
    # Which of the releases of its journal it is: the high-water mark has the first so many.
    Column("number", BigInteger),
    # Of a period of a series: keyed fingerprint of its profiles, as that of a data set.
    Column("fingerprint", Text),
    Index("ix_release_fingerprint", "fingerprint"),
    ForeignKeyConstraint(["journal_id", "seq"], ["entry.journal_id", "entry.seq"]),
)

planned = Table(
    "planned",
    metadata,
    Column("journal_id", Integer, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    # Split of the price, and expected errors of the quote, as JSON; null if there is none. Each
    # charge that pays for noise has a row until its release is stored, so they are counted here.
    Column("content", Text, nullable=False),
    ForeignKeyConstraint(["journal_id", "seq"], ["entry.journal_id", "entry.seq"]),
)

series = Table(
    "series",
    metadata,
    # The entry that reserved its budget: finds it without reading all entries.
    Column("journal_id", Integer, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("dataset_id", Integer, ForeignKey("dataset.id"), nullable=False),
    Column("name", Text, nullable=False),
    ForeignKeyConstraint(["journal_id", "seq"], ["entry.journal_id", "entry.seq"]),
    UniqueConstraint("dataset_id", "name"),
)

lost_dataset = Table(
    "lost_dataset",
    metadata,
    Column("id", Integer, primary_key=True),
    # Registrations that the high-water mark knew and a restored database did not.
    Column("name", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
)

refusal = Table(
    "refusal",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("principal_id", Integer, ForeignKey("principal.id"), nullable=False),
    Column("dataset_id", Integer, ForeignKey("dataset.id"), nullable=False),
    Column("request_sha256", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("at", Text, nullable=False),
)

# --- tables of the server: tokens, public parameters, events, shares ------------------------------

token = Table(
    "token",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("principal_id", Integer, ForeignKey("principal.id"), nullable=False),
    # Of a random 256-bit token, which is not stored.
    Column("sha256", Text, nullable=False, unique=True),
    Column("made_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("revoked_at", Text),
)

identity = Table(
    "identity",
    metadata,
    Column("id", Integer, primary_key=True),
    # Of an OpenID Connect provider: together they name a person, and are never given to another.
    Column("issuer", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("principal_id", Integer, ForeignKey("principal.id"), nullable=False),
    # Time of issue of the newest token, in seconds of Unix time: older ones change no role.
    Column("issued_at", BigInteger),
    UniqueConstraint("issuer", "subject"),
)

registration = Table(
    "registration",
    metadata,
    Column("dataset_id", Integer, ForeignKey("dataset.id"), primary_key=True),
    # Public parameters, as JSON; never changed, since they are part of every request.
    Column("public", Text, nullable=False),
    # Names of files in the data folder.
    Column("profiles_file", Text, nullable=False),
    Column("customer_list_file", Text),
)

principal_event = Table(
    "principal_event",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    # An administrator, or the local operator.
    Column("by", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("principal_id", Integer, ForeignKey("principal.id"), nullable=False),
)

share = Table(
    "share",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("journal_id", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    # Reader; NULL: all principals.
    Column("principal_id", Integer, ForeignKey("principal.id")),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
    ForeignKeyConstraint(["journal_id", "seq"], ["entry.journal_id", "entry.seq"]),
    Index("ix_share_principal", "principal_id", "journal_id", "seq"),
)

# --- in no backup: identity, and sessions of the pages --------------------------------------------

NOT_COPIED = "not copied"
"""Mark of tables whose rows belong to one server, and are left out of backups."""

# One row, written by the migration: a restored ledger has another identity.
ledger_identity = Table(
    "ledger_identity",
    metadata,
    Column("identity", Text, primary_key=True),
    info={NOT_COPIED: True},
)

session = Table(
    "session",
    metadata,
    Column("id", Integer, primary_key=True),
    # Of a random 256-bit cookie, which is not stored.
    Column("sha256", Text, nullable=False, unique=True),
    Column("token_id", Integer, ForeignKey("token.id"), nullable=False),
    Column("begun_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("address", Text, nullable=False),
    Index("ix_session_token_id", "token_id"),
    info={NOT_COPIED: True},
)

reviewed_order = Table(
    "reviewed_order",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session_id", Integer, ForeignKey("session.id", ondelete="CASCADE"), nullable=False),
    # Becomes the idempotency key of the order.
    Column("key", Text, nullable=False, unique=True),
    Column("dataset", Text, nullable=False),
    # Request, payers and fields of the form, as JSON.
    Column("content", Text, nullable=False),
    # The release, once it is ordered.
    Column("release", Text),
    Index("ix_reviewed_order_session_id", "session_id"),
    info={NOT_COPIED: True},
)

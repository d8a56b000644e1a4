"""What is kept. `entry` is the ledger; `account` and the heads are sums over it, kept for speed.

A *book* is one group of people. Data sets about the same people share a book, hence accounts:
otherwise a budget would double by copying the data. A book has one chain of entries.
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

from wattveil.serve.ledger.amounts import MEASURES, MOST

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

book = Table(
    "book",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("unit", Text, nullable=False),
    Column("neighbours", Text, nullable=False),
    Column("head_seq", BigInteger, nullable=False),
    Column("head_sha256", Text, nullable=False),
)

dataset = Table(
    "dataset",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("book_id", Integer, ForeignKey("book.id"), nullable=False),
    Column("name", Text, nullable=False, unique=True),
    # A keyed hash of the content, made by whoever registers it; never a bare one.
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
    Column("book_id", Integer, ForeignKey("book.id"), nullable=False),
    # Whose own limit it is; none: the account of the whole book.
    Column("principal_id", Integer, ForeignKey("principal.id")),
    Column("tier", Text, nullable=False),
    *(Column(f"{measure}_cap", BigInteger, nullable=False) for measure in MEASURES),
    *(Column(f"{measure}_spent", BigInteger, nullable=False) for measure in MEASURES),
    *(
        CheckConstraint(
            f"0 <= {measure}_spent AND {measure}_spent <= {measure}_cap"
            f" AND {measure}_cap <= {MOST}",
            name=measure,
        )
        for measure in MEASURES
    ),
    UniqueConstraint("book_id", "principal_id", "tier"),
)
# NULLs are all different to the constraint above.
Index(
    "uq_account_whole",
    account.c.book_id,
    account.c.tier,
    unique=True,
    sqlite_where=account.c.principal_id.is_(None),
    postgresql_where=account.c.principal_id.is_(None),
)

entry = Table(
    "entry",
    metadata,
    Column("book_id", Integer, ForeignKey("book.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("principal_id", Integer, ForeignKey("principal.id"), nullable=False),
    Column("dataset_id", Integer, ForeignKey("dataset.id")),
    # Of a charge: who pays. Of a cap: whose cap it is, in account_id.
    Column("account_id", Integer, ForeignKey("account.id")),
    Column("own_account_id", Integer, ForeignKey("account.id")),
    *(Column(measure, BigInteger, nullable=False) for measure in MEASURES),
    Column("request_key", Text),
    Column("request_sha256", Text),
    # The charge whose release answers this one, too.
    Column("source_seq", BigInteger),
    Column("detail", Text, nullable=False),
    Column("prev_sha256", Text, nullable=False),
    Column("row_sha256", Text, nullable=False),
    UniqueConstraint("book_id", "request_key", "principal_id"),
    Index("ix_entry_request", "book_id", "request_sha256"),
)

release = Table(
    "release",
    metadata,
    Column("book_id", Integer, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("payload_ref", Text),
    Column("payload_sha256", Text),
    Column("stored_at", Text, nullable=False),
    ForeignKeyConstraint(["book_id", "seq"], ["entry.book_id", "entry.seq"]),
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

# --- the server's own: who may come in, and what is public of a data set --------------------------

token = Table(
    "token",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("principal_id", Integer, ForeignKey("principal.id"), nullable=False),
    # Of a random 256-bit token, which nobody keeps but its holder.
    Column("sha256", Text, nullable=False, unique=True),
    Column("made_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("revoked_at", Text),
)

registration = Table(
    "registration",
    metadata,
    Column("dataset_id", Integer, ForeignKey("dataset.id"), primary_key=True),
    # All public parameters, as JSON; never changed, as they are part of every request.
    Column("public", Text, nullable=False),
    # Names of files in the data folder.
    Column("profiles_file", Text, nullable=False),
    Column("customer_list_file", Text),
)

act = Table(
    "act",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    # An administrator, or whoever sits at the machine itself.
    Column("by", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("principal_id", Integer, ForeignKey("principal.id"), nullable=False),
)

share = Table(
    "share",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("book_id", Integer, nullable=False),
    Column("seq", BigInteger, nullable=False),
    # With whom; none: with everybody who has a token.
    Column("principal_id", Integer, ForeignKey("principal.id")),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
    ForeignKeyConstraint(["book_id", "seq"], ["entry.book_id", "entry.seq"]),
)

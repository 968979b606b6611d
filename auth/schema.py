"""The tables, as the newest revision under `migrations/` leaves them.

Times are whole seconds since 1970, UTC: the same in every database, and what the API shows.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

metadata = MetaData()


def _limits() -> list[Column[int] | Column[float]]:
    """The fields of `Limits`. Made anew for each table: a column belongs to one."""
    return [
        Column("rpm", Integer),
        Column("tpm", BigInteger),
        Column("max_concurrency", Integer),
        Column("burst_s", Float),
        Column("daily_tokens", BigInteger),
        Column("monthly_tokens", BigInteger),
    ]


# One row, raised in the transaction of every write that gateways must see. `last_used_at` is not
# such a write: it would make every gateway read every key again.
key_revision = Table(
    "key_revision",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
)

peppers = Table(
    "peppers",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

projects = Table(
    "projects",
    metadata,
    Column("name", String, primary_key=True),
    *_limits(),
    Column("created_at", BigInteger, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("kid", String(12), primary_key=True),
    Column("digest", LargeBinary, nullable=False),
    Column("pv", Integer, ForeignKey("peppers.version"), nullable=False),
    Column("name", String, nullable=False),
    Column("owner", String),
    Column("project", String, ForeignKey("projects.name")),
    Column("env", String(16), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("models", JSON(none_as_null=True)),
    Column("lane", String(16)),
    *_limits(),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),
    Column("replaces", String(12)),  # the key this one was rotated from
    # Of the store, when this row last changed: gateways read again only what is new. A row is
    # never deleted, for they could not see it go.
    Column("revision", BigInteger, nullable=False, index=True),
)

# What was served, a row for each day (20261129, UTC), caller, model and kind. Each gateway adds
# what it counted, so that rows grow and are never written back from a copy.
usage = Table(
    "usage",
    metadata,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("kid", String(12), primary_key=True),  # '': anonymous
    Column("project", String, primary_key=True),  # '': none
    Column("model", String, primary_key=True),
    Column("kind", String(16), primary_key=True),  # embed | rerank
    Column("requests", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
)

# The last flush of each gateway process: one whose commit was not answered is not added twice.
usage_flushes = Table(
    "usage_flushes",
    metadata,
    Column("gateway", String(32), primary_key=True),  # a UUID in hex, new at each start
    Column("sequence", BigInteger, nullable=False),
    Column("flushed_at", BigInteger, nullable=False),
)

# Who changed a key or a project, in the transaction of the change. Never a key or its digest.
audit = Table(
    "audit",
    metadata,
    # Only an INTEGER counts up by itself in SQLite.
    Column(
        "id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True
    ),
    Column("at", BigInteger, nullable=False),
    Column("actor", String, nullable=False),  # the key id of an administrator, or "cli"
    Column("action", String(32), nullable=False),  # create | rotate | revoke | limits
    Column("target", String, nullable=False),  # a key id, or "project:NAME"
    Column("detail", JSON, nullable=False),
)

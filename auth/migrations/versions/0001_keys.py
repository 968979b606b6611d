"""Keys, their projects, and the peppers they were made with."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    key_revision = op.create_table(
        "key_revision",
        sa.Column(
            "id", sa.Integer(), sa.CheckConstraint("id = 1"), primary_key=True, autoincrement=False
        ),
        sa.Column("revision", sa.BigInteger(), nullable=False),
    )
    op.bulk_insert(key_revision, [{"id": 1, "revision": 0}])
    op.create_table(
        "peppers",
        sa.Column("version", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "projects",
        sa.Column("name", sa.String(), primary_key=True),
        *_limits(),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "keys",
        sa.Column("kid", sa.String(12), primary_key=True),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("pv", sa.Integer(), sa.ForeignKey("peppers.version"), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String()),
        sa.Column("project", sa.String(), sa.ForeignKey("projects.name")),
        sa.Column("env", sa.String(16), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("models", sa.JSON()),
        sa.Column("lane", sa.String(16)),
        *_limits(),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger()),
        sa.Column("revoked_at", sa.BigInteger()),
        sa.Column("last_used_at", sa.BigInteger()),
        sa.Column("revision", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_keys_revision", "keys", ["revision"])


def _limits() -> list[sa.Column[int] | sa.Column[float]]:
    return [
        sa.Column("rpm", sa.Integer()),
        sa.Column("tpm", sa.BigInteger()),
        sa.Column("max_concurrency", sa.Integer()),
        sa.Column("burst_s", sa.Float()),
        sa.Column("daily_tokens", sa.BigInteger()),
        sa.Column("monthly_tokens", sa.BigInteger()),
    ]

"""Usage by day, the audit log, and which key a key was rotated from."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("keys", sa.Column("replaces", sa.String(12)))
    op.create_table(
        "usage",
        sa.Column("day", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("kid", sa.String(12), primary_key=True),
        sa.Column("project", sa.String(), primary_key=True),
        sa.Column("model", sa.String(), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "usage_flushes",
        sa.Column("gateway", sa.String(32), primary_key=True),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("flushed_at", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
    )

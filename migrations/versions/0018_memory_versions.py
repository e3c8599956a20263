"""Add memory_versions: earlier values of the keys of a memory."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

MILLIS = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "memory_versions",
        sa.Column("scope_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("author_id", sa.Text(), nullable=True),
        sa.Column("set_at", MILLIS, nullable=False),
        sa.Column("replaced_by", sa.Text(), nullable=True),
        sa.Column("replaced_at", MILLIS, nullable=False),
        sa.Column("is_deleted", sa.Integer(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["scope_id"], ["things.id"], name=op.f("fk_memory_versions_scope_id")
        ),
        sa.PrimaryKeyConstraint("scope_id", "key", "version", name=op.f("pk_memory_versions")),
    )

"""Create bearer tokens of agents, for doors without ssh keys."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

MILLIS = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("token_sha256", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False, server_default=""),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.Column("expires_at", MILLIS, nullable=True),
        sa.Column("deleted_at", MILLIS, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["things.id"], name=op.f("fk_tokens_agent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("token_sha256", name=op.f("uq_tokens_token_sha256")),
    )

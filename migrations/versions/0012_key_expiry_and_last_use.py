"""Add to keys when they expire, and to keys and tokens when they were last used."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agent_keys", sa.Column("expires_at", sa.Integer(), nullable=True))
    op.add_column("agent_keys", sa.Column("last_used_at", sa.Integer(), nullable=True))
    op.add_column("tokens", sa.Column("last_used_at", sa.Integer(), nullable=True))

"""Add to turns their question's first turn, and the answering provider's kind."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("turns", sa.Column("root_turn_id", sa.Text(), nullable=True))
    op.add_column("turns", sa.Column("provider_kind", sa.Text(), nullable=True))

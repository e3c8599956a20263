"""What a turn answers, so that it is whole with its request; what an answer of a provider cost."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("turns", sa.Column("request_row_id", sa.Text(), nullable=True))
    op.add_column("usage", sa.Column("cost", sa.Float(), nullable=True))

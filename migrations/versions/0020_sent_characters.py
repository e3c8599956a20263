"""Store how much of its results a turn was sent, so that KEEP can keep as much."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("turns", sa.Column("sent_characters", sa.Text(), nullable=True))

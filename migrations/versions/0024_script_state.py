"""Store what scripts keep between their runs."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "script_state",
        sa.Column("script_id", sa.Text, nullable=False),
        sa.Column("owner_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("updated_at", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("script_id", "owner_id", "key", name="pk_script_state"),
    )

"""Store hooks of rooms, and how their deliveries went."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hooks",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("room_id", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("direction", sa.Text, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("cursor", sa.Text),
        sa.Column("failing_since", sa.Integer),
        sa.Column("off_reason", sa.Text),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.UniqueConstraint("room_id", "name", name="uq_hooks_room_id_name"),
    )
    op.create_index("ix_hooks_secret", "hooks", ["secret"])
    op.create_table(
        "hook_deliveries",
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("hook_id", sa.Text, nullable=False),
        sa.Column("at", sa.Integer, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("ms", sa.Integer, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
    )
    op.create_index("ix_hook_deliveries_hook_id_n", "hook_deliveries", ["hook_id", "n"])

"""Store the keys with which programs send a request again without running it twice."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "request_keys",
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.Text),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.UniqueConstraint("agent_id", "key", name="uq_request_keys_agent_id_key"),
    )
    op.create_index("ix_request_keys_created_at", "request_keys", ["created_at"])
    op.create_index("ix_request_keys_agent_id_n", "request_keys", ["agent_id", "n"])

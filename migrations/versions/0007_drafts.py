"""Add drafts, the text of answers not yet rows, and an index of following turns."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drafts",
        sa.Column("turn_id", sa.Text(), sa.ForeignKey("turns.id"), primary_key=True),
        sa.Column("part", sa.Integer(), primary_key=True),
        sa.Column("text", sa.Text(), nullable=False),
    )
    op.create_index("ix_turns_parent", "turns", ["parent_turn_id"])

"""Add attachments: binary results of tools."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

MILLIS = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "attachments",
        sa.Column("id", MILLIS, nullable=False),
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("room_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.ForeignKeyConstraint(
            ["call_id"], ["tool_calls.id"], name=op.f("fk_attachments_call_id")
        ),
        sa.ForeignKeyConstraint(["room_id"], ["things.id"], name=op.f("fk_attachments_room_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachments")),
        sa.UniqueConstraint("call_id", "number", name=op.f("uq_attachments_call_id_number")),
    )
    op.create_index("ix_attachments_room", "attachments", ["room_id", "id"])

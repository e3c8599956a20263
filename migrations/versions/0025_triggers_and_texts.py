"""Store triggers and their runs, and keep earlier texts of all things."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


MILLIS = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    create_triggers()
    op.create_table(
        "text_versions",
        sa.Column("scope_id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("author_id", sa.Text(), nullable=True),
        sa.Column("set_at", MILLIS, nullable=False),
        sa.Column("replaced_by", sa.Text(), nullable=True),
        sa.Column("replaced_at", MILLIS, nullable=False),
        sa.Column("is_deleted", sa.Integer(), server_default="0", nullable=False),
        sa.ForeignKeyConstraint(
            ["scope_id"], ["things.id"], name=op.f("fk_text_versions_scope_id")
        ),
        sa.PrimaryKeyConstraint("scope_id", "key", "version", name=op.f("pk_text_versions")),
    )
    op.execute("INSERT INTO text_versions SELECT * FROM memory_versions")
    op.drop_table("memory_versions")
    op.create_index(
        "ix_text_versions_size", "text_versions", ["scope_id", "key", "version", "size"]
    )


def create_triggers() -> None:
    op.create_table(
        "triggers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("room_id", sa.Text, nullable=False),
        sa.Column("thing_id", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("cursor", sa.Text, nullable=False),
        sa.Column("last_time", sa.Integer, nullable=False),
        sa.Column("states", sa.Text, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("off_reason", sa.Text),
        sa.Column("created_at", sa.Integer, nullable=False),
        sa.UniqueConstraint("thing_id", name="uq_triggers_thing_id"),
    )
    op.create_index("ix_triggers_room_id", "triggers", ["room_id"])
    op.create_table(
        "trigger_runs",
        sa.Column("n", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("trigger_id", sa.Text, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("started_at", sa.Integer, nullable=False),
        sa.Column("ms", sa.Integer),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.UniqueConstraint("trigger_id", "event", name="uq_trigger_runs_trigger_id_event"),
    )

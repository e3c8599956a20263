"""Create the tables of the world."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

MILLIS = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("n", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at", MILLIS, nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("room_id", sa.Text(), nullable=True),
        sa.Column("door", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("n", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"], unique=False)
    op.create_table(
        "things",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("qualified_name", sa.Text(), nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("content", sa.Text(), nullable=True),
        sa.Column("uri", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("available", sa.Integer(), server_default="1", nullable=False),
        sa.Column("enabled", sa.Integer(), server_default="1", nullable=False),
        sa.Column("auto_load", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.Column("updated_at", MILLIS, nullable=False),
        sa.Column("deleted_at", MILLIS, nullable=True),
        sa.ForeignKeyConstraint(["parent_id"], ["things.id"], name=op.f("fk_things_parent_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_things")),
    )
    op.create_index(
        "ix_things_auto_load",
        "things",
        ["auto_load"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL AND auto_load = 1"),
        postgresql_where=sa.text("deleted_at IS NULL AND auto_load = 1"),
    )
    op.create_index(
        "ix_things_kind",
        "things",
        ["kind"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_things_parent",
        "things",
        ["parent_id"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "uq_things_place",
        "things",
        ["parent_id", "kind", "name"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "uq_things_qualified",
        "things",
        ["qualified_name"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL AND qualified_name IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NULL AND qualified_name IS NOT NULL"),
    )
    op.create_table(
        "tool_overrides",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("toolset_id", sa.Text(), nullable=False),
        sa.Column("tool_id", sa.Text(), nullable=False),
        sa.Column("renderer", sa.Text(), nullable=True),
        sa.Column("renderer_config", sa.Text(), nullable=True),
        sa.Column("name_override", sa.Text(), nullable=True),
        sa.Column("description_override", sa.Text(), nullable=True),
        sa.Column("requires_confirmation", sa.Integer(), nullable=True),
        sa.Column("enabled", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_overrides")),
        sa.UniqueConstraint(
            "toolset_id", "tool_id", name=op.f("uq_tool_overrides_toolset_id_tool_id")
        ),
    )
    op.create_table(
        "toolset_files",
        sa.Column("toolset_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("stored_path", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("toolset_id", "path", name=op.f("pk_toolset_files")),
    )
    op.create_table(
        "agent_keys",
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("comment", sa.Text(), server_default="", nullable=False),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.Column("deleted_at", MILLIS, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["things.id"], name=op.f("fk_agent_keys_agent_id")),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_agent_keys")),
    )
    op.create_index(
        "ix_agent_keys_agent",
        "agent_keys",
        ["agent_id"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "equipped",
        sa.Column("context_id", sa.Text(), nullable=False),
        sa.Column("thing_id", sa.Text(), nullable=False),
        sa.Column("priority", sa.Float(), server_default="0.0", nullable=False),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.Column("deleted_at", MILLIS, nullable=True),
        sa.ForeignKeyConstraint(["context_id"], ["things.id"], name=op.f("fk_equipped_context_id")),
        sa.ForeignKeyConstraint(["thing_id"], ["things.id"], name=op.f("fk_equipped_thing_id")),
        sa.PrimaryKeyConstraint("context_id", "thing_id", name=op.f("pk_equipped")),
    )
    op.create_index(
        "ix_equipped_context",
        "equipped",
        ["context_id"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_equipped_thing",
        "equipped",
        ["thing_id"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "exits",
        sa.Column("from_room_id", sa.Text(), nullable=False),
        sa.Column("direction", sa.Text(), nullable=False),
        sa.Column("to_room_id", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.Column("deleted_at", MILLIS, nullable=True),
        sa.ForeignKeyConstraint(
            ["from_room_id"], ["things.id"], name=op.f("fk_exits_from_room_id")
        ),
        sa.ForeignKeyConstraint(["to_room_id"], ["things.id"], name=op.f("fk_exits_to_room_id")),
        sa.PrimaryKeyConstraint("from_room_id", "direction", name=op.f("pk_exits")),
    )
    op.create_index(
        "ix_exits_from",
        "exits",
        ["from_room_id"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_exits_to",
        "exits",
        ["to_room_id"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "input_lines",
        sa.Column("n", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("line", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["things.id"], name=op.f("fk_input_lines_agent_id")),
        sa.PrimaryKeyConstraint("n", name=op.f("pk_input_lines")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_input_lines_agent", "input_lines", ["agent_id", "n"], unique=False)
    op.create_table(
        "invites",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("code_sha256", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.Column("expires_at", MILLIS, nullable=False),
        sa.Column("used_by", sa.Text(), nullable=True),
        sa.Column("used_at", MILLIS, nullable=True),
        sa.Column("deleted_at", MILLIS, nullable=True),
        sa.ForeignKeyConstraint(["created_by"], ["things.id"], name=op.f("fk_invites_created_by")),
        sa.ForeignKeyConstraint(["used_by"], ["things.id"], name=op.f("fk_invites_used_by")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invites")),
        sa.UniqueConstraint("code_sha256", name=op.f("uq_invites_code_sha256")),
    )
    op.create_table(
        "room_members",
        sa.Column("room_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("muted_until", MILLIS, nullable=True),
        sa.Column("banned_until", MILLIS, nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.Column("deleted_at", MILLIS, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["things.id"], name=op.f("fk_room_members_agent_id")),
        sa.ForeignKeyConstraint(["room_id"], ["things.id"], name=op.f("fk_room_members_room_id")),
        sa.PrimaryKeyConstraint("room_id", "agent_id", name=op.f("pk_room_members")),
    )
    op.create_index(
        "ix_room_members_agent",
        "room_members",
        ["agent_id"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "tool_calls",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("tool_id", sa.Text(), nullable=False),
        sa.Column("args", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("render_plan", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.Text(), nullable=True),
        sa.Column("pre_manifest_id", sa.Text(), nullable=True),
        sa.Column("post_manifest_id", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["chat_id"], ["things.id"], name=op.f("fk_tool_calls_chat_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tool_calls")),
    )
    op.create_index("ix_tool_calls_chat", "tool_calls", ["chat_id", "started_at"], unique=False)
    op.create_index("ix_tool_calls_tool", "tool_calls", ["tool_id", "started_at"], unique=False)
    op.create_table(
        "turns",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("room_id", sa.Text(), nullable=False),
        sa.Column("parent_turn_id", sa.Text(), nullable=True),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("opened_by", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), server_default="open", nullable=False),
        sa.Column("pre_manifest_id", sa.Text(), nullable=True),
        sa.Column("post_manifest_id", sa.Text(), nullable=True),
        sa.Column("state_before", sa.Text(), nullable=True),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.Column("closed_at", MILLIS, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["things.id"], name=op.f("fk_turns_agent_id")),
        sa.ForeignKeyConstraint(["opened_by"], ["things.id"], name=op.f("fk_turns_opened_by")),
        sa.ForeignKeyConstraint(
            ["parent_turn_id"], ["turns.id"], name=op.f("fk_turns_parent_turn_id")
        ),
        sa.ForeignKeyConstraint(["room_id"], ["things.id"], name=op.f("fk_turns_room_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_turns")),
    )
    op.create_index("ix_turns_room", "turns", ["room_id", "created_at"], unique=False)
    op.create_table(
        "workspace_manifests",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_ref", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["chat_id"], ["things.id"], name=op.f("fk_workspace_manifests_chat_id")
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["workspace_manifests.id"], name=op.f("fk_workspace_manifests_parent_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workspace_manifests")),
    )
    op.create_index("ix_workspace_manifests_chat", "workspace_manifests", ["chat_id"], unique=False)
    op.create_table(
        "rows",
        sa.Column("n", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("room_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Text(), nullable=True),
        sa.Column("parent_row_id", sa.Text(), nullable=True),
        sa.Column("author_id", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), server_default="completed", nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("meta", sa.Text(), nullable=True),
        sa.Column("created_at", MILLIS, nullable=False),
        sa.ForeignKeyConstraint(["author_id"], ["things.id"], name=op.f("fk_rows_author_id")),
        sa.ForeignKeyConstraint(["parent_row_id"], ["rows.id"], name=op.f("fk_rows_parent_row_id")),
        sa.ForeignKeyConstraint(["room_id"], ["things.id"], name=op.f("fk_rows_room_id")),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_rows_turn_id")),
        sa.PrimaryKeyConstraint("n", name=op.f("pk_rows")),
        sa.UniqueConstraint("id", name=op.f("uq_rows_id")),
        sa.UniqueConstraint("room_id", "seq", name=op.f("uq_rows_room_id_seq")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_rows_kind",
        "rows",
        ["room_id", "kind", "seq"],
        unique=False,
        sqlite_where=sa.text("kind NOT IN ('chat', 'emote', 'presence')"),
        postgresql_where=sa.text("kind NOT IN ('chat', 'emote', 'presence')"),
    )
    op.create_index(
        "ix_rows_parent",
        "rows",
        ["parent_row_id"],
        unique=False,
        sqlite_where=sa.text("parent_row_id IS NOT NULL"),
        postgresql_where=sa.text("parent_row_id IS NOT NULL"),
    )
    op.create_index(
        "ix_rows_turn",
        "rows",
        ["turn_id"],
        unique=False,
        sqlite_where=sa.text("turn_id IS NOT NULL"),
        postgresql_where=sa.text("turn_id IS NOT NULL"),
    )
    op.create_table(
        "usage",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=True),
        sa.Column("turn_id", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column(
            "total_tokens",
            sa.Integer(),
            sa.Computed(
                "prompt_tokens + completion_tokens",
            ),
            nullable=True,
        ),
        sa.Column("estimated", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["things.id"], name=op.f("fk_usage_agent_id")),
        sa.ForeignKeyConstraint(["session_id"], ["things.id"], name=op.f("fk_usage_session_id")),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_usage_turn_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_usage")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_usage_session", "usage", ["session_id"], unique=False)
    op.create_table(
        "row_tags",
        sa.Column("row_id", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["row_id"], ["rows.id"], name=op.f("fk_row_tags_row_id")),
        sa.PrimaryKeyConstraint("row_id", "tag", name=op.f("pk_row_tags")),
    )
    op.create_index("ix_row_tags_tag", "row_tags", ["tag"], unique=False)

"""The tables. Migrations create them; queries are written against these objects.

Times are milliseconds since the Unix epoch in INTEGER columns; tables whose rows people read in
reports hold ISO text. Only `/gc purge` hard-deletes: everything else sets `deleted_at`, and unique
indexes count live rows only.

A column whose name a seed document gives (`tool_calls.chat_id`) keeps it in the database; in code
its key is the word of the glossary (`tool_calls.c.room_id`).

Longer than 400 lines, because every table is found in one file.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Computed,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Millis = BigInteger().with_variant(Integer(), "sqlite")
"""A Unix time in milliseconds: exceeds 32 bits, the size of PostgreSQL's INTEGER."""

Number = Millis
"""A number that counts up for as long as the world lasts."""

LIVE = text("deleted_at IS NULL")


def _partial_index(
    name: str, *columns: str | Column[Any], where: TextClause, unique: bool = False
) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _live_index(name: str, *columns: str | Column[Any], unique: bool = False) -> Index:
    return _partial_index(name, *columns, where=LIVE, unique=unique)


def _thing_ref(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, Text, ForeignKey("things.id"), nullable=nullable)


things = Table(
    "things",
    metadata,
    Column("id", Text, primary_key=True),
    _thing_ref("parent_id", nullable=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("qualified_name", Text),
    Column("description", Text),
    Column("content", Text),
    Column("uri", Text),
    Column("metadata", Text),
    Column("available", Integer, nullable=False, server_default="1"),
    Column("enabled", Integer, nullable=False, server_default="1"),
    Column("auto_load", Integer, nullable=False, server_default="0"),
    Column("created_by", Text),
    Column("created_at", Millis, nullable=False),
    Column("updated_at", Millis, nullable=False),
    Column("deleted_at", Millis),
    # Of a tool: its names in other lists (`tool_names.py`), two of which cannot be the same.
    Column("name_for_models", Text),
    Column("name_for_mcp", Text),
    _live_index("ix_things_parent", "parent_id"),
    _live_index("ix_things_kind", "kind"),
    _live_index("uq_things_place", "parent_id", "kind", "name", unique=True),
    _partial_index(
        "uq_things_qualified",
        "qualified_name",
        unique=True,
        where=text("deleted_at IS NULL AND qualified_name IS NOT NULL"),
    ),
    _partial_index(
        "ix_things_auto_load",
        "auto_load",
        where=text("deleted_at IS NULL AND auto_load = 1"),
    ),
    *(
        _partial_index(
            f"ix_things_{name}",
            name,
            where=text(f"deleted_at IS NULL AND {name} IS NOT NULL"),
        )
        for name in ("name_for_models", "name_for_mcp")
    ),
)

equipped = Table(
    "equipped",
    metadata,
    _thing_ref("context_id"),
    _thing_ref("thing_id"),
    Column("priority", Float, nullable=False, server_default="0.0"),
    Column("created_at", Millis, nullable=False),
    Column("deleted_at", Millis),
    # Of a deleted row: 1 if it switches the thing off, 0 if the row was only taken back.
    Column("switched_off", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("context_id", "thing_id"),
    _live_index("ix_equipped_context", "context_id"),
    _live_index("ix_equipped_thing", "thing_id"),
)

exits = Table(
    "exits",
    metadata,
    _thing_ref("from_room_id"),
    Column("direction", Text, nullable=False),
    _thing_ref("to_room_id"),
    Column("created_by", Text),
    Column("created_at", Millis, nullable=False),
    Column("deleted_at", Millis),
    PrimaryKeyConstraint("from_room_id", "direction"),
    _live_index("ix_exits_from", "from_room_id"),
    _live_index("ix_exits_to", "to_room_id"),
)

room_members = Table(
    "room_members",
    metadata,
    _thing_ref("room_id"),
    _thing_ref("agent_id"),
    Column("role", Text),  # owner, builder, member; NULL: no role, only a mute or a ban
    Column("muted_until", Millis),
    Column("banned_until", Millis),
    Column("reason", Text),
    Column("created_by", Text),
    Column("created_at", Millis, nullable=False),
    Column("deleted_at", Millis),
    PrimaryKeyConstraint("room_id", "agent_id"),
    _live_index("ix_room_members_agent", "agent_id"),
)

rows = Table(
    "rows",
    metadata,
    Column("n", Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    _thing_ref("room_id"),
    Column("seq", Number, nullable=False),
    Column("turn_id", Text, ForeignKey("turns.id")),
    Column("parent_row_id", Text, ForeignKey("rows.id")),
    _thing_ref("author_id", nullable=True),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="completed"),
    Column("content", Text, nullable=False),
    Column("meta", Text),
    Column("created_at", Millis, nullable=False),
    UniqueConstraint("room_id", "seq"),
    _partial_index(
        "ix_rows_parent",
        "parent_row_id",
        where=text("parent_row_id IS NOT NULL"),
    ),
    _partial_index(
        "ix_rows_turn",
        "turn_id",
        where=text("turn_id IS NOT NULL"),
    ),
    # Journal and tool queries ask for a few kinds in a room; chat, most of the rows, needs no
    # index.
    _partial_index(
        "ix_rows_kind",
        "room_id",
        "kind",
        "seq",
        where=text("kind NOT IN ('chat', 'emote', 'presence')"),
    ),
    sqlite_autoincrement=True,
)

row_tags = Table(
    "row_tags",
    metadata,
    Column("row_id", Text, ForeignKey("rows.id"), nullable=False),
    Column("tag", Text, nullable=False),
    PrimaryKeyConstraint("row_id", "tag"),
    Index("ix_row_tags_tag", "tag"),
)

turns = Table(
    "turns",
    metadata,
    Column("id", Text, primary_key=True),
    _thing_ref("room_id"),
    Column("parent_turn_id", Text, ForeignKey("turns.id")),
    _thing_ref("agent_id"),
    _thing_ref("opened_by", nullable=True),
    Column("status", Text, nullable=False, server_default="open"),
    Column("pre_manifest_id", Text),
    Column("post_manifest_id", Text),
    Column("state_before", Text),
    Column("created_at", Millis, nullable=False),
    Column("closed_at", Millis),
    Column("request_row_id", Text),  # the row it answers; one row may open several turns
    Column("root_turn_id", Text),  # the first turn of the same question; null for that one
    Column("provider_kind", Text),  # of the model that answered: openai, anthropic, ...
    Column("sent_characters", Text),  # JSON: of results never sent whole, by the row's number
    Index("ix_turns_room", "room_id", "created_at"),
    Index("ix_turns_parent", "parent_turn_id"),
    _partial_index(
        "ix_turns_request",
        "request_row_id",
        where=text("request_row_id IS NOT NULL"),
    ),
)

drafts = Table(  # text of an unfinished answer
    "drafts",
    metadata,
    Column("turn_id", Text, ForeignKey("turns.id"), primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("text", Text, nullable=False),
)

agent_keys = Table(
    "agent_keys",
    metadata,
    Column("fingerprint", Text, nullable=False),
    _thing_ref("agent_id"),
    Column("public_key", Text, nullable=False),
    Column("comment", Text, nullable=False, server_default=""),
    Column("created_by", Text),
    Column("created_at", Millis, nullable=False),
    Column("deleted_at", Millis),
    Column("expires_at", Millis),  # NULL: never
    Column("last_used_at", Millis),
    PrimaryKeyConstraint("fingerprint"),
    _live_index("ix_agent_keys_agent", "agent_id"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("token_sha256", Text, nullable=False, unique=True),
    _thing_ref("agent_id"),
    Column("label", Text, nullable=False, server_default=""),
    Column("created_by", Text),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis),
    Column("deleted_at", Millis),
    Column("scope", Text, nullable=False, server_default="build"),
    Column("last_used_at", Millis),
    Column("purpose", Text, nullable=False, server_default="program"),
    Column("fingerprint", Text),  # of the key that a browser was let in with: it ends with that
    Column("address", Text),  # from which a browser was let in
)

invites = Table(
    "invites",
    metadata,
    Column("id", Text, primary_key=True),
    Column("code_sha256", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    _thing_ref("created_by", nullable=True),
    Column("created_at", Millis, nullable=False),
    Column("expires_at", Millis, nullable=False),
    _thing_ref("used_by", nullable=True),
    Column("used_at", Millis),
    Column("deleted_at", Millis),
    Column("os_user", Text),  # of the command line
)

tool_calls = Table(
    "tool_calls",
    metadata,
    Column("id", Text, primary_key=True),  # the id of its tool.call row
    Column("chat_id", Text, ForeignKey("things.id"), key="room_id", nullable=False),
    Column("message_id", Text, key="row_id"),
    Column("tool_id", Text, nullable=False),
    Column("args", Text, nullable=False),
    Column("result", Text),
    Column("render_plan", Text),
    Column("status", Text, nullable=False),
    Column("error", Text),
    Column("started_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("pre_manifest_id", Text),
    Column("post_manifest_id", Text),
    Index("ix_tool_calls_tool", "tool_id", "started_at"),
    Index("ix_tool_calls_chat", "room_id", "started_at"),
)

attachments = Table(
    "attachments",
    metadata,
    Column("id", Millis, primary_key=True),  # in order of arrival
    Column("call_id", Text, ForeignKey("tool_calls.id"), nullable=False),
    Column("number", Integer, nullable=False),  # from 1, in a call
    Column("room_id", Text, ForeignKey("things.id"), nullable=False),
    Column("kind", Text, nullable=False),  # a media type
    Column("size", Integer, nullable=False),  # bytes
    Column("data", LargeBinary, nullable=False),
    Column("created_at", Millis, nullable=False),
    UniqueConstraint("call_id", "number"),
    Index("ix_attachments_room", "room_id", "id"),
)

text_versions = Table(
    "text_versions",
    metadata,
    _thing_ref("scope_id"),  # the container of a memory
    Column("key", Text, nullable=False),
    Column("version", Integer, nullable=False),  # from 1, for each key
    Column("content", Text, nullable=False),
    Column("size", Integer, nullable=False),  # bytes
    Column("author_id", Text),
    Column("set_at", Millis, nullable=False),
    Column("replaced_by", Text),
    Column("replaced_at", Millis, nullable=False),
    Column("is_deleted", Integer, nullable=False, server_default="0"),  # not replaced
    PrimaryKeyConstraint("scope_id", "key", "version"),
    # A size is behind a text of up to a megabyte, which a row is read through.
    Index("ix_text_versions_size", "scope_id", "key", "version", "size"),
)

tool_overrides = Table(
    "tool_overrides",
    metadata,
    Column("id", Text, primary_key=True),
    Column("toolset_id", Text, nullable=False),
    Column("tool_id", Text, nullable=False),
    Column("renderer", Text),
    Column("renderer_config", Text),
    Column("name_override", Text),
    Column("description_override", Text),
    Column("requires_confirmation", Integer),
    Column("enabled", Integer),
    Column("leave_out", Text),
    UniqueConstraint("toolset_id", "tool_id"),
)

toolset_files = Table(
    "toolset_files",
    metadata,
    Column("toolset_id", Text, nullable=False),
    Column("path", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("stored_path", Text, nullable=False),
    PrimaryKeyConstraint("toolset_id", "path"),
)

manifests = Table(
    "manifests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("chat_id", Text, ForeignKey("things.id"), key="room_id", nullable=False),
    Column("parent_id", Text, ForeignKey("manifests.id")),
    Column("is_full", Integer, nullable=False),  # 1: it has all entries, not only changed ones
    Column("steps", Integer, nullable=False),  # to the manifest above it that has all
    Column("entry_count", Integer, nullable=False),
    Column("total_bytes", BigInteger, nullable=False),
    _thing_ref("author_id", nullable=True),
    Column("created_at", Text, nullable=False),
    Column("source", Text, nullable=False),  # user_upload, edit, tool_run, branch, git_push
    Column("source_ref", Text),  # its call, turn, commit or restored version
    Column("turn_id", Text, ForeignKey("turns.id")),  # of a tool_run in a turn
    Index("ix_manifests_chat", "room_id", "id"),
    _partial_index("ix_manifests_turn", "turn_id", where=text("turn_id IS NOT NULL")),
)

manifest_entries = Table(
    "manifest_entries",
    metadata,
    Column("manifest_id", Text, ForeignKey("manifests.id"), nullable=False),
    Column("path", Text, nullable=False),
    Column("sha256", Text),  # NULL: nothing is there any more; "": an empty folder
    Column("mode", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),
    PrimaryKeyConstraint("manifest_id", "path"),
)

git_pushes = Table(  # the manifests that `git push` made
    "git_pushes",
    metadata,
    Column("manifest_id", Text, ForeignKey("manifests.id"), primary_key=True),
    Column("head", Text, nullable=False),  # the id of its commit
    Column("pack_sha256", Text, nullable=False),  # of the content with the pushed objects
    Column("pack_size", BigInteger, nullable=False),
)

git_authors = Table(  # the names of agents in commits, which stay when an agent is renamed
    "git_authors",
    metadata,
    _thing_ref("agent_id"),
    Column("since", Text, nullable=False),  # versions made from then on have the name
    Column("name", Text, nullable=False),
    PrimaryKeyConstraint("agent_id", "since"),
)

usage = Table(
    "usage",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=True),
    Column("session_id", Text, ForeignKey("things.id"), key="room_id", nullable=False),
    Column("agent_id", Text, ForeignKey("things.id")),
    Column("turn_id", Text, ForeignKey("turns.id")),
    Column("model", Text, nullable=False),
    Column("prompt_tokens", Integer, nullable=False),
    Column("completion_tokens", Integer, nullable=False),
    Column("total_tokens", Integer, Computed("prompt_tokens + completion_tokens", persisted=True)),
    Column("estimated", Integer, nullable=False, server_default="0"),
    Column("created_at", Text, nullable=False),
    Column("cost", Float),  # US dollars; NULL where the price is not known
    Index("ix_usage_session", "room_id"),
    sqlite_autoincrement=True,
)

audit = Table(
    "audit",
    metadata,
    Column("n", Number, primary_key=True, autoincrement=True),
    Column("at", Millis, nullable=False),
    Column("agent_id", Text),  # NULL: the operator at the command line
    Column("room_id", Text),
    Column("door", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("address", Text),
    Column("fingerprint", Text),
    Column("os_user", Text),  # of the command line
    Index("ix_audit_at", "at"),
    sqlite_autoincrement=True,
)

request_keys = Table(  # of requests of programs that are not to run twice
    "request_keys",
    metadata,
    Column("n", Number, primary_key=True, autoincrement=True),
    Column("agent_id", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("digest", Text, nullable=False),  # hash of what is asked for
    Column("status", Integer),  # of the answer; NULL before there is one
    Column("body", Text),  # of the answer; NULL also if it is too long
    Column("created_at", Millis, nullable=False),
    UniqueConstraint("agent_id", "key"),
    Index("ix_request_keys_created_at", "created_at"),
    Index("ix_request_keys_agent_id_n", "agent_id", "n"),
)

hooks = Table(  # of rooms: events are posted to another server, or others post to the room
    "hooks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("room_id", Text, nullable=False),
    Column("agent_id", Text, nullable=False),  # who made it
    Column("name", Text, nullable=False),
    Column("direction", Text, nullable=False),  # out, in
    Column("secret", LargeBinary, nullable=False),  # out: key of signatures; in: a hash
    Column("settings", Text, nullable=False),  # JSON
    Column("cursor", Text),  # out: up to where it has posted
    Column("failing_since", Millis),
    Column("off_reason", Text),  # NULL while it is on
    Column("created_at", Millis, nullable=False),
    UniqueConstraint("room_id", "name"),
    Index("ix_hooks_secret", "secret"),
)

hook_deliveries = Table(
    "hook_deliveries",
    metadata,
    Column("n", Number, primary_key=True, autoincrement=True),
    Column("hook_id", Text, nullable=False),
    Column("at", Millis, nullable=False),
    Column("event", Text, nullable=False),
    Column("status", Integer),  # of the answer; NULL if there was none
    Column("ms", Integer, nullable=False),
    Column("error", Text, nullable=False),  # "" if it arrived
    Index("ix_hook_deliveries_hook_id_n", "hook_id", "n"),
)

triggers = Table(  # scripts that events of a room start
    "triggers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("room_id", Text, nullable=False),
    Column("thing_id", Text, nullable=False, unique=True),  # the script
    Column("agent_id", Text, nullable=False),  # who turned it on
    Column("digest", Text, nullable=False),  # SHA-256 of the script that they turned on
    Column("cursor", Text, nullable=False),  # up to where it has heard the log
    Column(
        "last_time", Millis, nullable=False
    ),  # the last time of its schedules that was looked at
    Column("states", Text, nullable=False),  # JSON: those of its room that it knows of
    Column("failures", Integer, nullable=False),  # one after another
    Column("off_reason", Text),  # NULL while it is on
    Column("created_at", Millis, nullable=False),
    Index("ix_triggers_room_id", "room_id"),
)

trigger_runs = Table(  # an event of a trigger is here before its script starts
    "trigger_runs",
    metadata,
    Column("n", Number, primary_key=True, autoincrement=True),
    Column("trigger_id", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("cause", Text, nullable=False),  # what of its conditions was met
    Column("started_at", Millis, nullable=False),
    Column("ms", Integer),
    Column("status", Text, nullable=False),  # running, done, failed, cut
    Column("text", Text, nullable=False),  # its result or its error
    UniqueConstraint("trigger_id", "event"),
)

script_state = Table(  # what scripts keep between their runs
    "script_state",
    metadata,
    Column("script_id", Text, nullable=False),
    Column("owner_id", Text, nullable=False),  # the script, or a room or an agent
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),  # JSON
    Column("updated_at", Millis, nullable=False),
    PrimaryKeyConstraint("script_id", "owner_id", "key"),
)

input_lines = Table(
    "input_lines",
    metadata,
    Column("n", Number, primary_key=True, autoincrement=True),
    _thing_ref("agent_id"),
    Column("line", Text, nullable=False),
    Index("ix_input_lines_agent", "agent_id", "n"),
    sqlite_autoincrement=True,
)

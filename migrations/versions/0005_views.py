"""Complete the rules of the reporting views.

A request belongs to the turn it opened. Undone rows are dropped with their turn. Switches and texts
that people set override those of a tool's maker. Every computed column declares its type.
"""

# ruff: noqa: S608 - only constants of this file are put into the SQL

import textwrap

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _moment(column: str) -> str:
    """Return SQL for milliseconds since the epoch as SQLite's time text, in UTC."""
    return f"CAST(strftime('%Y-%m-%d %H:%M:%f', {column} / 1000.0, 'unixepoch') AS TEXT)"


def _iso(column: str) -> str:
    return f"CAST(strftime('%Y-%m-%dT%H:%M:%SZ', {column} / 1000, 'unixepoch') AS TEXT)"


def _meta(of: str, key: str, kind: str = "TEXT") -> str:
    return f"CAST(json_extract({of}.metadata, '$.{key}') AS {kind})"


def _flag(of: str, key: str) -> str:
    return f"CAST(coalesce(json_extract({of}.metadata, '$.{key}'), 0) AS INTEGER)"


VIEWS = {
    # A row that opened several turns belongs to the first that is not undone. `presence` rows
    # record arrivals and departures, so their role is `system`.
    "messages": f"""
        SELECT rows.n AS id,
               rows.room_id AS session_id,
               CAST(CASE
                   WHEN rows.kind IN ('tool.result', 'tool.error', 'tool.timeout') THEN 'tool'
                   WHEN rows.kind IN ('notice', 'presence') THEN 'system'
                   WHEN rows.kind = 'tool.call' THEN 'assistant'
                   WHEN rows.author_id IS NULL THEN 'system'
                   WHEN json_extract(author.metadata, '$.agent_kind') = 'model' THEN 'assistant'
                   ELSE 'user'
               END AS TEXT) AS role,
               rows.content AS content,
               CAST(CASE
                   WHEN rows.kind = 'tool.call'
                       THEN rows.id || '|' || coalesce(json_extract(rows.meta, '$.tool'), '')
                   WHEN rows.kind LIKE 'tool.%'
                       THEN coalesce(json_extract(rows.meta, '$.call_id'), rows.parent_row_id)
                            || '|' || coalesce(json_extract(rows.meta, '$.tool'), '')
               END AS TEXT) AS tool_call_id,
               CAST(CASE
                   WHEN rows.status = 'dropped' OR turns.status = 'dropped' THEN 'dropped'
                   WHEN rows.kind = 'tool.call' THEN 'tool_call'
                   ELSE 'completed'
               END AS TEXT) AS status,
               turns.id AS group_id,
               {_moment("rows.created_at")} AS created_at
        FROM rows
        LEFT JOIN things AS author ON author.id = rows.author_id
        LEFT JOIN turns ON turns.id = coalesce((
            SELECT opened.id FROM turns AS opened WHERE opened.request_row_id = rows.id
            ORDER BY opened.status = 'dropped', opened.id LIMIT 1
        ), rows.turn_id)
    """,
    # A skill keeps the number it got when it was created.
    "skills": f"""
        SELECT {_meta("skill", "number", "INTEGER")} AS id,
               CAST(CASE WHEN skill.name LIKE 'skill:%' THEN substr(skill.name, 7)
                         ELSE skill.name END AS TEXT) AS name,
               skill.description AS description,
               skill.content AS system_prompt_patch
        FROM things AS skill
        WHERE skill.parent_id = 'skills' AND skill.kind = 'data' AND skill.deleted_at IS NULL
          AND json_extract(skill.metadata, '$.role') = 'skill'
    """,
    "sessions": """
        SELECT room.id AS id,
               CAST(coalesce(json_extract(room.metadata, '$.context_size'), 5) AS INTEGER)
                   AS context_size
        FROM things AS room WHERE room.kind = 'room' AND room.deleted_at IS NULL
    """,
    # Each model has its own state in a room, so that two do not overwrite each other: the key is
    # session_id with agent.
    "session_state": f"""
        SELECT room.id AS session_id,
               state.name AS agent,
               state.content AS state_blob,
               {_moment("state.updated_at")} AS last_updated
        FROM things AS state
        JOIN things AS holder ON holder.id = state.parent_id AND holder.name = 'states'
        JOIN things AS room ON room.id = holder.parent_id AND room.kind = 'room'
        WHERE state.kind = 'data' AND state.deleted_at IS NULL
          AND holder.deleted_at IS NULL AND room.deleted_at IS NULL
          AND json_extract(state.metadata, '$.role') = 'state'
    """,
    # The columns of both reports with this name. `tool_id` and `name` are both the canonical
    # name; values in `tool_overrides` override those of the tool's maker.
    "tools": f"""
        SELECT tool.qualified_name AS tool_id,
               CASE WHEN owner.kind = 'toolset' THEN owner.qualified_name
                    WHEN above.kind = 'toolset' THEN above.qualified_name END AS toolset_id,
               tool.qualified_name AS name,
               CAST(coalesce(changed.name_override, {_meta("tool", "display_name")}, tool.name)
                   AS TEXT) AS display_name,
               CAST(coalesce(changed.description_override, tool.description, '') AS TEXT)
                   AS description,
               CAST(json_set(CASE WHEN json_type(tool.metadata, '$.input_schema') = 'object'
                                  THEN json_extract(tool.metadata, '$.input_schema')
                                  ELSE '{{}}' END, '$.type', 'object') AS TEXT) AS input_schema,
               CAST(json_set(CASE WHEN json_type(tool.metadata, '$.input_schema') = 'object'
                                  THEN json_extract(tool.metadata, '$.input_schema')
                                  ELSE '{{}}' END, '$.type', 'object') AS TEXT) AS json_schema,
               CAST(coalesce(changed.requires_confirmation,
                    {_flag("tool", "requires_confirmation")}) AS INTEGER) AS requires_confirmation,
               CAST(coalesce(changed.enabled, tool.enabled) AS INTEGER) AS enabled,
               CAST(coalesce(changed.enabled, tool.enabled) AS INTEGER) AS is_enabled,
               {_meta("tool", "entrypoint")} AS entrypoint
        FROM things AS tool
        LEFT JOIN things AS owner ON owner.id = tool.parent_id
        LEFT JOIN things AS above ON above.id = owner.parent_id
        LEFT JOIN tool_overrides AS changed
            ON changed.tool_id = tool.qualified_name
            AND changed.toolset_id = coalesce(owner.qualified_name, owner.name)
        WHERE tool.kind = 'tool' AND tool.deleted_at IS NULL AND tool.qualified_name IS NOT NULL
    """,
    "toolsets": f"""
        SELECT kit.qualified_name AS id,
               CAST(coalesce({_meta("kit", "display_name")}, kit.name) AS TEXT) AS name,
               {_meta("kit", "version")} AS version,
               kit.description AS description,
               kit.enabled AS enabled,
               {_meta("kit", "installed_at")} AS installed_at,
               {_meta("kit", "source_type")} AS source_type,
               {_meta("kit", "source_ref")} AS source_ref,
               {_meta("kit", "manifest_version")} AS manifest_version
        FROM things AS kit WHERE kit.kind = 'toolset' AND kit.deleted_at IS NULL
    """,
    "toolset_mcp_servers": f"""
        SELECT server.name AS id,
               kit.qualified_name AS toolset_id,
               {_meta("server", "server_type")} AS server_type,
               server.enabled AS enabled,
               {_meta("server", "command")} AS command,
               {_meta("server", "args")} AS args,
               {_meta("server", "cwd")} AS cwd,
               {_meta("server", "url")} AS url,
               {_meta("server", "headers")} AS headers,
               {_meta("server", "env")} AS env,
               {_flag("server", "requires_confirmation")} AS requires_confirmation,
               {_iso("server.created_at")} AS created_at
        FROM things AS server JOIN things AS kit ON kit.id = server.parent_id
        WHERE server.kind = 'mcp' AND kit.kind = 'toolset'
          AND server.deleted_at IS NULL AND kit.deleted_at IS NULL
    """,
    "chats": f"""
        SELECT room.id AS id,
               room.name AS name,
               {_meta("room", "active_leaf")} AS active_leaf_message_id,
               {_meta("room", "active_manifest_id")} AS active_manifest_id,
               {_iso("room.created_at")} AS created_at
        FROM things AS room WHERE room.kind = 'room' AND room.deleted_at IS NULL
    """,
    "projects": f"""
        SELECT project.id AS project_id,
               project.name AS name,
               {_meta("project", "path")} AS path
        FROM things AS project
        WHERE project.parent_id = 'projects' AND project.deleted_at IS NULL
    """,
    "project_memory": f"""
        SELECT CAST(coalesce({_meta("project", "path")}, project.name) AS TEXT) AS project,
               memory.name AS "key",
               memory.content AS value
        FROM things AS memory JOIN things AS project ON project.id = memory.parent_id
        WHERE project.parent_id = 'projects' AND memory.kind = 'data'
          AND memory.deleted_at IS NULL AND project.deleted_at IS NULL
    """,
}


def upgrade() -> None:
    for name, query in VIEWS.items():
        op.execute(f"DROP VIEW IF EXISTS {name}")
        op.execute(f"CREATE VIEW {name} AS\n{textwrap.dedent(query).strip()}")
    op.create_index(
        "ix_turns_request",
        "turns",
        ["request_row_id"],
        unique=False,
        sqlite_where=sa.text("request_row_id IS NOT NULL"),
        postgresql_where=sa.text("request_row_id IS NOT NULL"),
    )

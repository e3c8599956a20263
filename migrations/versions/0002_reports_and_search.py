"""Create the reporting views and the full-text index over rows."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

VIEWS = {
    "messages": """
        SELECT rows.n AS id,
               rows.room_id AS session_id,
               CASE
                   WHEN rows.kind IN ('tool.result', 'tool.error', 'tool.timeout') THEN 'tool'
                   WHEN rows.kind IN ('notice', 'presence') THEN 'system'
                   WHEN rows.kind = 'tool.call' THEN 'assistant'
                   WHEN json_extract(author.metadata, '$.agent_kind') = 'model' THEN 'assistant'
                   ELSE 'user'
               END AS role,
               rows.content AS content,
               CASE
                   WHEN rows.kind = 'tool.call'
                       THEN rows.id || '|' || coalesce(json_extract(rows.meta, '$.tool'), '')
                   WHEN rows.kind LIKE 'tool.%'
                       THEN coalesce(json_extract(rows.meta, '$.call_id'), rows.parent_row_id)
                            || '|' || coalesce(json_extract(rows.meta, '$.tool'), '')
               END AS tool_call_id,
               CASE
                   WHEN rows.status = 'dropped' OR turns.status = 'dropped' THEN 'dropped'
                   WHEN rows.kind = 'tool.call' THEN 'tool_call'
                   ELSE 'completed'
               END AS status,
               rows.turn_id AS group_id,
               strftime('%Y-%m-%d %H:%M:%f', rows.created_at / 1000.0, 'unixepoch') AS created_at
        FROM rows
        LEFT JOIN things AS author ON author.id = rows.author_id
        LEFT JOIN turns ON turns.id = rows.turn_id
    """,
    "skills": """
        SELECT id, name, description, system_prompt_patch FROM (
            SELECT row_number() OVER (ORDER BY created_at, id) AS id,
                   CASE WHEN name LIKE 'skill:%' THEN substr(name, 7) ELSE name END AS name,
                   description,
                   content AS system_prompt_patch,
                   deleted_at
            FROM things WHERE parent_id = 'skills' AND kind = 'data'
        ) WHERE deleted_at IS NULL
    """,
    "sessions": """
        SELECT id, coalesce(json_extract(metadata, '$.context_size'), 5) AS context_size
        FROM things WHERE kind = 'room' AND deleted_at IS NULL
    """,
    "session_state": """
        SELECT parent_id AS session_id,
               content AS state_blob,
               strftime('%Y-%m-%d %H:%M:%f', updated_at / 1000.0, 'unixepoch') AS last_updated
        FROM things
        WHERE kind = 'data' AND deleted_at IS NULL AND json_extract(metadata, '$.role') = 'state'
    """,
    "tools": """
        SELECT tool.qualified_name AS tool_id,
               CASE WHEN owner.kind = 'toolset' THEN owner.id END AS toolset_id,
               tool.qualified_name AS name,
               coalesce(json_extract(tool.metadata, '$.display_name'), tool.name) AS display_name,
               tool.description AS description,
               json_extract(tool.metadata, '$.input_schema') AS input_schema,
               json_extract(tool.metadata, '$.input_schema') AS json_schema,
               coalesce(json_extract(tool.metadata, '$.requires_confirmation'), 0)
                   AS requires_confirmation,
               tool.enabled AS enabled,
               tool.enabled AS is_enabled,
               json_extract(tool.metadata, '$.entrypoint') AS entrypoint
        FROM things AS tool LEFT JOIN things AS owner ON owner.id = tool.parent_id
        WHERE tool.kind = 'tool' AND tool.deleted_at IS NULL
    """,
    "toolsets": """
        SELECT qualified_name AS id,
               coalesce(json_extract(metadata, '$.display_name'), name) AS name,
               json_extract(metadata, '$.version') AS version,
               description,
               enabled,
               json_extract(metadata, '$.installed_at') AS installed_at,
               json_extract(metadata, '$.source_type') AS source_type,
               json_extract(metadata, '$.source_ref') AS source_ref,
               json_extract(metadata, '$.manifest_version') AS manifest_version
        FROM things WHERE kind = 'toolset' AND deleted_at IS NULL
    """,
    "toolset_mcp_servers": """
        SELECT server.name AS id,
               owner.qualified_name AS toolset_id,
               json_extract(server.metadata, '$.server_type') AS server_type,
               server.enabled AS enabled,
               json_extract(server.metadata, '$.command') AS command,
               json_extract(server.metadata, '$.args') AS args,
               json_extract(server.metadata, '$.cwd') AS cwd,
               json_extract(server.metadata, '$.url') AS url,
               json_extract(server.metadata, '$.headers') AS headers,
               json_extract(server.metadata, '$.env') AS env,
               coalesce(json_extract(server.metadata, '$.requires_confirmation'), 0)
                   AS requires_confirmation,
               strftime('%Y-%m-%dT%H:%M:%SZ', server.created_at / 1000, 'unixepoch') AS created_at
        FROM things AS server JOIN things AS owner ON owner.id = server.parent_id
        WHERE server.kind = 'mcp' AND owner.kind = 'toolset' AND server.deleted_at IS NULL
    """,
    "chats": """
        SELECT id,
               name,
               json_extract(metadata, '$.active_leaf') AS active_leaf_message_id,
               json_extract(metadata, '$.active_manifest_id') AS active_manifest_id,
               strftime('%Y-%m-%dT%H:%M:%SZ', created_at / 1000, 'unixepoch') AS created_at
        FROM things WHERE kind = 'room' AND deleted_at IS NULL
    """,
    "projects": """
        SELECT id AS project_id, name, json_extract(metadata, '$.path') AS path
        FROM things WHERE parent_id = 'projects' AND deleted_at IS NULL
    """,
    "project_memory": """
        SELECT coalesce(json_extract(project.metadata, '$.path'), project.name) AS project,
               memory.name AS "key",
               memory.content AS value
        FROM things AS memory JOIN things AS project ON project.id = memory.parent_id
        WHERE project.parent_id = 'projects' AND memory.kind = 'data'
          AND memory.deleted_at IS NULL AND project.deleted_at IS NULL
    """,
}


def upgrade() -> None:
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}")
    # The index stores no text: it refers to `rows` by `n`, which VACUUM keeps.
    op.execute(
        "CREATE VIRTUAL TABLE rows_fts USING fts5(content, content='rows', content_rowid='n',"
        " tokenize='unicode61 remove_diacritics 2')"
    )
    op.execute("CREATE TABLE rows_indexed (last_n INTEGER NOT NULL)")
    op.execute("INSERT INTO rows_indexed VALUES (0)")

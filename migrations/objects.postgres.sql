-- What PostgreSQL has besides the tables: the words of a text for searching, and the views, which
-- have the columns of SQLite's.

-- The words that SQLite's tokenizer `unicode61 remove_diacritics 2` finds. A text over 256 Ki
-- characters is found by its beginning: an index entry has a limit of a megabyte.
CREATE FUNCTION search_words(content text) RETURNS tsvector
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN to_tsvector(
    'pg_catalog.simple'::regconfig,
    regexp_replace(
        normalize(
            regexp_replace(
                normalize(left(content, 262144), NFD), U&'[\0300-\036F]', '', 'g'
            ),
            NFC
        ),
        '[^[:alnum:]]+', ' ', 'g'
    )
);

CREATE INDEX ix_rows_words ON rows USING gin (search_words(content)) WHERE kind <> 'presence';

-- A time in milliseconds as text, as reports show it.
CREATE FUNCTION iso_time(ms bigint, pattern text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN to_char(
    timestamp 'epoch' + ms * interval '1 millisecond', pattern
);

CREATE VIEW messages AS
SELECT rows.n AS id,
       rows.room_id AS session_id,
       CASE
           WHEN rows.kind IN ('tool.result', 'tool.error', 'tool.timeout') THEN 'tool'
           WHEN rows.kind IN ('notice', 'presence') THEN 'system'
           WHEN rows.kind = 'tool.call' THEN 'assistant'
           WHEN rows.author_id IS NULL THEN 'system'
           WHEN author.metadata::jsonb ->> 'agent_kind' = 'model' THEN 'assistant'
           ELSE 'user'
       END AS role,
       rows.content AS content,
       CASE
           WHEN rows.kind = 'tool.call'
               THEN rows.id || '|' || coalesce(rows.meta::jsonb ->> 'tool', '')
           WHEN rows.kind LIKE 'tool.%'
               THEN coalesce(rows.meta::jsonb ->> 'call_id', rows.parent_row_id)
                    || '|' || coalesce(rows.meta::jsonb ->> 'tool', '')
       END AS tool_call_id,
       CASE
           WHEN rows.status = 'dropped' OR turns.status = 'dropped' THEN 'dropped'
           WHEN rows.kind = 'tool.call' THEN 'tool_call'
           ELSE 'completed'
       END AS status,
       turns.id AS group_id,
       iso_time(rows.created_at, 'YYYY-MM-DD HH24:MI:SS.MS') AS created_at
FROM rows
LEFT JOIN things AS author ON author.id = rows.author_id
LEFT JOIN turns ON turns.id = coalesce((
    SELECT opened.id FROM turns AS opened WHERE opened.request_row_id = rows.id
    ORDER BY opened.status = 'dropped', opened.id LIMIT 1
), rows.turn_id);

CREATE VIEW skills AS
SELECT (skill.metadata::jsonb ->> 'number')::bigint AS id,
       CASE WHEN skill.name LIKE 'skill:%' THEN substr(skill.name, 7)
            ELSE skill.name END AS name,
       skill.description AS description,
       skill.content AS system_prompt_patch
FROM things AS skill
WHERE skill.parent_id = 'skills' AND skill.kind = 'data' AND skill.deleted_at IS NULL
  AND skill.metadata::jsonb ->> 'role' = 'skill';

CREATE VIEW sessions AS
SELECT room.id AS id,
       coalesce((room.metadata::jsonb ->> 'context_size')::bigint, 5) AS context_size
FROM things AS room WHERE room.kind = 'room' AND room.deleted_at IS NULL;

CREATE VIEW session_state AS
SELECT room.id AS session_id,
       state.name AS agent,
       state.content AS state_blob,
       iso_time(state.updated_at, 'YYYY-MM-DD HH24:MI:SS.MS') AS last_updated
FROM things AS state
JOIN things AS holder ON holder.id = state.parent_id AND holder.name = 'states'
JOIN things AS room ON room.id = holder.parent_id AND room.kind = 'room'
WHERE state.kind = 'data' AND state.deleted_at IS NULL
  AND holder.deleted_at IS NULL AND room.deleted_at IS NULL
  AND state.metadata::jsonb ->> 'role' = 'state';

CREATE VIEW tools AS
SELECT tool.qualified_name AS tool_id,
       CASE WHEN owner.kind = 'toolset' THEN owner.qualified_name
            WHEN above.kind = 'toolset' THEN above.qualified_name END AS toolset_id,
       tool.qualified_name AS name,
       coalesce(changed.name_override, tool.metadata::jsonb ->> 'display_name', tool.name)
           AS display_name,
       coalesce(changed.description_override, tool.description, '') AS description,
       (CASE WHEN jsonb_typeof(tool.metadata::jsonb -> 'input_schema') = 'object'
             THEN tool.metadata::jsonb -> 'input_schema' ELSE '{}' END
        || '{"type": "object"}')::text AS input_schema,
       (CASE WHEN jsonb_typeof(tool.metadata::jsonb -> 'input_schema') = 'object'
             THEN tool.metadata::jsonb -> 'input_schema' ELSE '{}' END
        || '{"type": "object"}')::text AS json_schema,
       coalesce(changed.requires_confirmation,
                CASE tool.metadata::jsonb ->> 'requires_confirmation'
                    WHEN 'true' THEN 1 WHEN '1' THEN 1 ELSE 0 END) AS requires_confirmation,
       coalesce(changed.enabled, tool.enabled) AS enabled,
       coalesce(changed.enabled, tool.enabled) AS is_enabled,
       tool.metadata::jsonb ->> 'entrypoint' AS entrypoint
FROM things AS tool
LEFT JOIN things AS owner ON owner.id = tool.parent_id
LEFT JOIN things AS above ON above.id = owner.parent_id
LEFT JOIN tool_overrides AS changed
    ON changed.tool_id = tool.qualified_name
    AND changed.toolset_id = coalesce(owner.qualified_name, owner.name)
WHERE tool.kind = 'tool' AND tool.deleted_at IS NULL AND tool.qualified_name IS NOT NULL;

CREATE VIEW toolsets AS
SELECT kit.qualified_name AS id,
       coalesce(kit.metadata::jsonb ->> 'display_name', kit.name) AS name,
       kit.metadata::jsonb ->> 'version' AS version,
       kit.description AS description,
       kit.enabled AS enabled,
       kit.metadata::jsonb ->> 'installed_at' AS installed_at,
       kit.metadata::jsonb ->> 'source_type' AS source_type,
       kit.metadata::jsonb ->> 'source_ref' AS source_ref,
       kit.metadata::jsonb ->> 'manifest_version' AS manifest_version
FROM things AS kit WHERE kit.kind = 'toolset' AND kit.deleted_at IS NULL;

CREATE VIEW toolset_mcp_servers AS
SELECT server.name AS id,
       kit.qualified_name AS toolset_id,
       server.metadata::jsonb ->> 'server_type' AS server_type,
       server.enabled AS enabled,
       server.metadata::jsonb ->> 'command' AS command,
       server.metadata::jsonb ->> 'args' AS args,
       server.metadata::jsonb ->> 'cwd' AS cwd,
       server.metadata::jsonb ->> 'url' AS url,
       server.metadata::jsonb ->> 'headers' AS headers,
       server.metadata::jsonb ->> 'env' AS env,
       CASE server.metadata::jsonb ->> 'requires_confirmation'
           WHEN 'true' THEN 1 WHEN '1' THEN 1 ELSE 0 END AS requires_confirmation,
       iso_time(server.created_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS created_at
FROM things AS server JOIN things AS kit ON kit.id = server.parent_id
WHERE server.kind = 'mcp' AND kit.kind = 'toolset'
  AND server.deleted_at IS NULL AND kit.deleted_at IS NULL;

CREATE VIEW projects AS
SELECT project.id AS project_id,
       project.name AS name,
       project.metadata::jsonb ->> 'path' AS path
FROM things AS project
WHERE project.parent_id = 'projects' AND project.deleted_at IS NULL;

CREATE VIEW project_memory AS
SELECT coalesce(project.metadata::jsonb ->> 'path', project.name) AS project,
       memory.name AS "key",
       memory.content AS value
FROM things AS memory JOIN things AS project ON project.id = memory.parent_id
WHERE project.parent_id = 'projects' AND memory.kind = 'data'
  AND memory.deleted_at IS NULL AND project.deleted_at IS NULL;

CREATE VIEW workspace_manifests AS
SELECT manifest.id AS id,
       manifest.chat_id AS chat_id,
       manifest.parent_id AS parent_id,
       (
           WITH RECURSIVE above(id, parent_id, is_full, steps) AS (
               SELECT manifest.id, manifest.parent_id, manifest.is_full, 0
               UNION ALL
               SELECT earlier.id, earlier.parent_id, earlier.is_full, above.steps + 1
               FROM above JOIN manifests AS earlier ON earlier.id = above.parent_id
               WHERE above.is_full = 0
           )
           SELECT coalesce(json_object_agg(path, sha256 ORDER BY path), '{}')::text FROM (
               SELECT DISTINCT ON (entry.path) entry.path AS path, entry.sha256 AS sha256,
                      entry.mode AS mode
               FROM above JOIN manifest_entries AS entry ON entry.manifest_id = above.id
               ORDER BY entry.path, above.steps
           ) AS newest WHERE sha256 IS NOT NULL AND mode IN (33188, 33261)
       ) AS files,
       manifest.created_at AS created_at,
       manifest.source AS source,
       manifest.source_ref AS source_ref
FROM manifests AS manifest;

CREATE VIEW chats AS
SELECT room.id AS id,
       room.name AS name,
       (
           WITH RECURSIVE above(id, parent_id, status, depth) AS (
               SELECT turns.id, turns.parent_turn_id, turns.status, 0 FROM turns
               WHERE turns.id = room.metadata::jsonb ->> 'active_leaf'
               UNION ALL
               SELECT turns.id, turns.parent_turn_id, turns.status, above.depth + 1
               FROM turns JOIN above ON turns.id = above.parent_id
               WHERE above.status = 'dropped'
           )
           SELECT above.id FROM above WHERE above.status <> 'dropped'
           ORDER BY above.depth LIMIT 1
       ) AS active_leaf_message_id,
       room.metadata::jsonb ->> 'active_manifest_id' AS active_manifest_id,
       iso_time(room.created_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS created_at
FROM things AS room WHERE room.kind = 'room' AND room.deleted_at IS NULL;

"""Let the view of chats name the newest turn that is not dropped.

The head of a conversation stays where it is when turns are dropped, so that they can be restored.
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP VIEW chats")
    op.execute("""CREATE VIEW chats AS
SELECT room.id AS id,
       room.name AS name,
       CAST((
           WITH RECURSIVE above(id, parent_id, status, depth) AS (
               SELECT turns.id, turns.parent_turn_id, turns.status, 0 FROM turns
               WHERE turns.id = json_extract(room.metadata, '$.active_leaf')
               UNION ALL
               SELECT turns.id, turns.parent_turn_id, turns.status, above.depth + 1
               FROM turns JOIN above ON turns.id = above.parent_id
               WHERE above.status = 'dropped'
           )
           SELECT above.id FROM above WHERE above.status <> 'dropped'
           ORDER BY above.depth LIMIT 1
       ) AS TEXT) AS active_leaf_message_id,
       CAST(json_extract(room.metadata, '$.active_manifest_id') AS TEXT) AS active_manifest_id,
       CAST(strftime('%Y-%m-%dT%H:%M:%SZ', room.created_at / 1000, 'unixepoch') AS TEXT)
           AS created_at
FROM things AS room WHERE room.kind = 'room' AND room.deleted_at IS NULL""")

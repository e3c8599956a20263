"""Store the manifests of workspaces as changes, with a view of whole ones.

The table of that name had no caller and no row.
"""

import textwrap

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# The files of a manifest are its own entries and those of its predecessors up to one that has all:
# of each path the newest. Links and empty folders are no files (modes 0120000 and 0040000).
WORKSPACE_MANIFESTS = """
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
               SELECT CAST(json_group_object(path, sha256) AS TEXT) FROM (
                   SELECT entry.path AS path, entry.sha256 AS sha256, entry.mode AS mode,
                          min(above.steps) AS steps
                   FROM above JOIN manifest_entries AS entry ON entry.manifest_id = above.id
                   GROUP BY entry.path ORDER BY entry.path
               ) WHERE sha256 IS NOT NULL AND mode IN (33188, 33261)
           ) AS files,
           manifest.created_at AS created_at,
           manifest.source AS source,
           manifest.source_ref AS source_ref
    FROM manifests AS manifest
"""


def upgrade() -> None:
    op.drop_index("ix_workspace_manifests_chat", "workspace_manifests")
    op.drop_table("workspace_manifests")
    op.create_table(
        "manifests",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("chat_id", sa.Text(), nullable=False),
        sa.Column("parent_id", sa.Text(), nullable=True),
        sa.Column("is_full", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("entry_count", sa.Integer(), nullable=False),
        sa.Column("total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("author_id", sa.Text(), nullable=True),
        sa.Column("turn_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_ref", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["chat_id"], ["things.id"], name=op.f("fk_manifests_chat_id")),
        sa.ForeignKeyConstraint(
            ["parent_id"], ["manifests.id"], name=op.f("fk_manifests_parent_id")
        ),
        sa.ForeignKeyConstraint(["author_id"], ["things.id"], name=op.f("fk_manifests_author_id")),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_manifests_turn_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_manifests")),
    )
    op.create_index("ix_manifests_chat", "manifests", ["chat_id", "id"])
    op.create_index(
        "ix_manifests_turn",
        "manifests",
        ["turn_id"],
        sqlite_where=sa.text("turn_id IS NOT NULL"),
        postgresql_where=sa.text("turn_id IS NOT NULL"),
    )
    op.create_table(
        "manifest_entries",
        sa.Column("manifest_id", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("mode", sa.Integer(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["manifest_id"], ["manifests.id"], name=op.f("fk_manifest_entries_manifest_id")
        ),
        sa.PrimaryKeyConstraint("manifest_id", "path", name=op.f("pk_manifest_entries")),
    )
    op.execute(
        f"CREATE VIEW workspace_manifests AS\n{textwrap.dedent(WORKSPACE_MANIFESTS).strip()}"
    )

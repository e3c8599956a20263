"""Add the request row of a turn, so that a turn includes it, and usage costs."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("turns", sa.Column("request_row_id", sa.Text(), nullable=True))
    op.add_column("usage", sa.Column("cost", sa.Float(), nullable=True))
    op.execute(
        "UPDATE turns SET request_row_id ="
        " (SELECT id FROM rows WHERE rows.turn_id = turns.id ORDER BY n LIMIT 1)"
    )
    op.execute(
        "UPDATE things SET metadata = json_set(coalesce(metadata, '{}'), '$.active_leaf',"
        " (SELECT id FROM turns WHERE room_id = things.id AND status != 'dropped'"
        " ORDER BY created_at DESC, id DESC LIMIT 1))"
        " WHERE kind = 'room' AND EXISTS"
        " (SELECT 1 FROM turns WHERE room_id = things.id AND status != 'dropped')"
    )

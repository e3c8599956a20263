"""Add to equipment whether a row switches its thing off, or was only taken back.

A row that was made to switch something off has equal times. The others were equipped and unequipped
again: they switched things off too, which nobody had asked for.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "equipped", sa.Column("switched_off", sa.Integer(), server_default="0", nullable=False)
    )
    op.execute("UPDATE equipped SET switched_off = 1 WHERE deleted_at = created_at")

"""Store browsers that are signed in among the tokens; call the door of the HTTP API `api`."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "tokens", sa.Column("purpose", sa.Text(), server_default="program", nullable=False)
    )
    op.add_column("tokens", sa.Column("fingerprint", sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("address", sa.Text(), nullable=True))
    # `web` is the door of the console now.
    op.execute("UPDATE audit SET door = 'api' WHERE door = 'web'")
    op.execute(
        "UPDATE things SET metadata = json_set(metadata, '$.installed_over', 'api')"
        " WHERE json_extract(metadata, '$.installed_over') = 'web'"
    )

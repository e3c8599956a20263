"""Alembic environment: runs migrations on the connection that the program passes."""

from alembic import context

from sshwarma.world.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()

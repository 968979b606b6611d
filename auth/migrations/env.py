"""Runs the revisions on the connection, and in the transaction, that `auth.migrate` hands over."""

from alembic import context

from auth.schema import metadata

# Batch mode: SQLite alters a table by copying it.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
)
context.run_migrations()

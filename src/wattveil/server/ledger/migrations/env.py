"""How Alembic reaches the database: on the connection that `migrate` hands it."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()

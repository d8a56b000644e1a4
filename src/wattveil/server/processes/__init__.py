"""RELEASED. Several processes of one server: a supervisor, API processes and a worker process."""

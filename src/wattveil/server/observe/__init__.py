"""RELEASED. What operators see of a server: health, metrics, logs, traces; nothing of rows."""

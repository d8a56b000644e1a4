"""RELEASED. Verify a bundle without its data."""

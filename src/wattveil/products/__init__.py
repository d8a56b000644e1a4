"""RELEASED. One module per product: options, plan, release, tables."""

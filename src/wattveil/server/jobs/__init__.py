"""RELEASED. Computation outside the request: plans, releases, bundle checks."""

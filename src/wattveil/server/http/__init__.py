"""RELEASED. HTTP API and pages."""

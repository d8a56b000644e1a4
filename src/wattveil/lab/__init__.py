"""INTERNAL. Figures computed from private rows, never published.

Nothing here is paid for by a budget, so nothing here may be published.
"""

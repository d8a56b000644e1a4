"""INTERNAL. Figures computed from private rows, never published.

No privacy budget is charged, so no result may be published.
"""

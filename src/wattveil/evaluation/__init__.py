"""Figures computed from private rows, for the eyes of the house.

Nothing here is paid for by a budget, so nothing here may be published.
"""

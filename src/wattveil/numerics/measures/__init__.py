"""BLIND. Measures of how alike two sets of customers are, each defined once.

Plain numerics on arrays. What they return is private when a row they saw is.
"""

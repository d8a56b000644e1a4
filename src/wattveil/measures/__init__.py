"""Numbers that say how alike two sets of customers are; each is defined here and nowhere else.

Plain numerics on arrays. What they return is private when a row they saw is.
"""

"""BLIND. Numerics independent of the budget: K-means, groups, labels, series, synthesis, measures.

Plain arrays in, plain arrays out. No function draws noise or spends budget, and no result
may be published as it is: `release` does that. Names are imported from the modules, some of which
bear the name of their main function.
"""

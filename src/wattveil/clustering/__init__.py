"""Privacy-blind numerics: K-means, its leave-one-out runs, the least noise that hides them.

Plain arrays in, plain arrays out. Nothing here draws noise or knows of a budget, and nothing here
may be published as it is: `release` does that. Names are imported from the modules, some of which
bear the name of their main function.
"""

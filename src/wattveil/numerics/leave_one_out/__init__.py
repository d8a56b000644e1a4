"""BLIND. Leave-one-out runs of K-means, and the minimum noise that covers them."""

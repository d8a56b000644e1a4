"""BLIND. Means, sizes and duration curves of groups from noisy sums."""

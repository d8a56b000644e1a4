"""BLIND. K-means: Lloyd, and the stages of the private query between noisy sums."""

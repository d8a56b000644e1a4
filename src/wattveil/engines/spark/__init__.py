"""PRIVATE. Customers in a Spark cluster: reading, profiles and sums in executors."""

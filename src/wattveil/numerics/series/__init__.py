"""BLIND. Series of periods: strategy, filter over periods, trends, warm clusters, planning."""

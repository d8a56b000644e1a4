"""What stands between the data and those who ask: the ledger, and what will be built on it."""

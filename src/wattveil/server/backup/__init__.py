"""RELEASED. Backup and restore of a server: ledger, bundles and keys."""

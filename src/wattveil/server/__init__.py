"""RELEASED. The server: budgets, quotes and releases for analysts, over HTTP.

Reading order: `ledger` (nothing is released without a charge), `auth` (principals, sessions,
access), `datasets`, `ordered_releases`, `jobs` (compute processes, which alone read rows),
`server_state`, `release_service`, `bundle_archives`, `http` (API, pages, middleware), `run`,
`client`.
"""

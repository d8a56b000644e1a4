"""What stands between the data and those who ask.

Read in this order: `ledger` (no answer without a charge), `tokens`, `people`, `bodies`, `datasets`,
`releases`, `shares` (who comes, what they send, what there is), `helper`, `helpers`, `planner`,
`worker`, `house`, `checking` (what computes, and where no row leaves), `problems`, `limits`,
`access`, `counter` (what is said, and to whom), `api_*`, `sessions`, `pages*`, `guard`, `app`,
`run` (HTTP), `transport` and `client` (the other end), `verbs` (the terminal).
"""

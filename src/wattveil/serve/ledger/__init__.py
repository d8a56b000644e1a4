"""The budget ledger: no answer without a charge, no charge twice, no draw twice.

Read in this order: `amounts` (whole numbers of privacy), `order` and `pricing` (what is asked for,
and its price), `tables`, `chain` and `journal` (what is kept), `accounts`, `desk`, `charges` and
`acts` (what may happen), `writer` and `ledger` (how it becomes durable), `answer` (charge, compute,
store), `witness` (what guards against an old backup), `replay` and `audit` (what checks all of it
anew).
"""

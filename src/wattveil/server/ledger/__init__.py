"""RELEASED. The budget ledger: no release without a charge, no charge and no draw twice.

Reading order: `amounts` (privacy loss in whole units), `order` and `pricing` (requests and prices),
`ledger_tables`, `journal` (hash chain of entries), `accounts` (caps, charges, stored releases),
`admission` and `administration` (what may be written), `database`, `writer` and `ledger`
(durability), `fulfilment` (charge, compute, store), `high_water_mark` (detects an old backup),
`ledger_audit` (recomputes and checks everything).
"""

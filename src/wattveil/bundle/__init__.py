"""RELEASED. A release on disk: tables, manifest, report, and how to verify it.

Everything written here was released before: private rows pass through `parts` on their way to an
estimator, and nothing of them stays.

* `request` what is asked for, all of it public; `plan` what it will cost and be worth;
* `parts` the parts of a release, `produce` all of them under one budget;
* `tables`, `manifest`, `report`, `card`, `registry` what a reader gets; `bundle` puts it on disk;
* `keys` and `verify` let anybody check it.
"""

"""INTERNAL. The regulator's dossier: what a standard asks, answered from the files of a release.

A standard is a list of clauses in `standards/`, one TOML file each. `evidence` reads manifest,
ledger export and audit record, `clauses` fills in the answers with file and field, `conflicts`
compares the files with each other, and `dossier_document` writes the document. It may quote the
record of an internal audit: whether a dossier may be published is stated on it.
"""

"""PRIVATE. One module per file format: tables, Green Button, NEM12."""

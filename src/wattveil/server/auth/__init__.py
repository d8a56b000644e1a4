"""RELEASED. Principals, tokens, sessions, and what each may see."""

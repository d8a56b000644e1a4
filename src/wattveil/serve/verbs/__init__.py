"""Verbs of `wattveil admin` for whoever runs a server: at the machine, or by its API."""

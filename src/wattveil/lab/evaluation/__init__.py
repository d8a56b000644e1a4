"""INTERNAL. Fidelity and utility of synthetic customers."""

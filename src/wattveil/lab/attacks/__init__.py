"""INTERNAL. Attacks on rules, synthetic customers and labels."""

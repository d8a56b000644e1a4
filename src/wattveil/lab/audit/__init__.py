"""INTERNAL. Empirical lower bounds on epsilon, and the replay audit."""

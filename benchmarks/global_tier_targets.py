"""Accuracy loss that the global tier has to reach: K = 6, delta = 1e-6, medians of 20 runs.

Measured on the research prototype before the product was written, with floating-point noise, on the
same customers as `global_tier_cases`. The goal is to stay within 10 %.
"""

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)

TARGETS: dict[tuple[str, int], tuple[float, ...]] = {
    ("res", 1_409): (0.511, 0.249, 0.118, 0.034, 0.011),
    ("shape", 1_409): (0.357, 0.117, 0.031, 0.007, 0.002),
    ("mix", 1_409): (1.05, 0.727, 0.410, 0.182, 0.023),
    ("lcl raw", 1_014): (1.17, 0.794, 0.564, 0.352, 0.203),
    ("lcl shape", 1_014): (0.442, 0.259, 0.128, 0.065, 0.019),
    ("pv raw", 4_200): (0.610, 0.525, 0.223, 0.096, 0.050),
    ("pv shape", 4_200): (0.113, 0.041, 0.021, 0.014, 0.012),
    ("res", 10_000): (0.097, 0.049, 0.027, 0.008, 0.004),
    ("shape", 10_000): (0.037, 0.010, 0.001, 0.000, 0.000),
    ("mix", 10_000): (0.295, 0.179, 0.072, 0.037, 0.020),
    ("lcl month raw", 11_627): (0.485, 0.345, 0.198, 0.044, 0.007),
    ("lcl month shape", 11_627): (0.077, 0.040, 0.011, 0.005, 0.003),
    ("res", 100_000): (0.010, 0.005, 0.004, 0.004, 0.004),
    ("shape", 100_000): (0.002, 0.001, 0.000, 0.000, 0.000),
    ("lcl day raw", 100_000): (0.070, 0.019, 0.001, 0.000, 0.000),
    ("lcl day shape", 100_000): (0.007, 0.004, 0.003, 0.003, 0.003),
}

K_SWEEP = {2: 0.031, 3: 0.047, 4: 0.069, 8: 0.162, 12: 0.26, 20: 0.43}
"""res, 1,409 customers, epsilon 1."""

"""LIBERO-Plus: its 10,030 perturbed tasks, its variations, metrics and report.

Of LIBERO's suites, 10 has 2,519 of them, Goal 2,591, Object 2,518, Spatial 2,402: a suite and a manifest each.
"""

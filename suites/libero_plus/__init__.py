"""LIBERO-Plus: its 10,030 perturbed tasks, its variations, metrics and report."""

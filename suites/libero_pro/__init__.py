"""LIBERO-PRO: its variations, metrics and report."""

"""The gate: compare a run with a baseline, and decide whether the policy regressed."""

"""Episodes' records and trajectories, and the store of runs."""

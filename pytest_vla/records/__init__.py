"""What episodes were: records, trajectories, and the store that keeps them."""

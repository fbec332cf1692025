"""A run over several processes: hooks, scheduling, and one policy for all workers."""

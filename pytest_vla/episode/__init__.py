"""One episode: its start, its steps with a policy, and its recording."""

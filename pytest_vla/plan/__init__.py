"""The plan of a run: suites, tasks, cases and their ids, as values; no simulator, no numpy."""

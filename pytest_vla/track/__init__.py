"""Experiment trackers: the numbers and texts that they receive, and the built-in ones."""

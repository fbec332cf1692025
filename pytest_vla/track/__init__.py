"""Trackers of experiments: what they are told of a run, in numbers and texts, and those that come with pytest-vla."""

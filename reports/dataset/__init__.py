"""Recorded episodes as data sets to train on."""

# Light, as --help has to come at once.

LEROBOT = "lerobot"
"""The format."""

VIDEO, IMAGE, NONE = PICTURES = ("video", "image", "none")
"""How pictures are kept: as H.264, which is small and not exact; as PNG in the tables, exact; or not at all."""

SUCCESS, ALL = ONLY = ("success", "all")
"""Which episodes: those that did the task, or those that failed too."""

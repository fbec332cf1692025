"""Recorded episodes as data sets to train on, and the choices for them. Light: the command's help reads them."""

LEROBOT = "lerobot"
"""The format."""

VIDEO, IMAGE, NONE = PICTURES = ("video", "image", "none")
"""How pictures are stored: as H.264 (small, not exact), as PNG in the tables (exact), or not at all."""

SUCCESS, ALL = ONLY = ("success", "all")
"""Which episodes: successes, or also failures."""

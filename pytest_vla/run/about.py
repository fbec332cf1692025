"""Names that pytest has to know of at its start, in every project; nothing here imports anything of ours."""

from pathlib import Path

MODELS_KEY = "vla_models"
"""The ini key of a project's own names for policies."""

LIST = "list"
ALL = "all"
"""In the place of variations: list what there is."""

MARKER = "vla"
"""The marker of tests that run episodes."""

EPISODE_FIXTURES = frozenset(("vla_case", "vla_play", "vla_search"))
"""What tests ask for that need a policy."""

SUITE_FILES = ("suite_items.py",)
"""Modules that are collected for suites without a module of their own."""

SUITES = Path(__file__).parents[1] / "suites"
"""The folder of our own suites."""

KEY_START = "vla"
"""How all of our ini keys begin, those that are misspelt too."""

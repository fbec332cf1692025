"""Settings of a run as they are where nothing is said."""

from pathlib import Path
from typing import Any

from pytest_vla.run.options import OPTIONS
from pytest_vla.run.settings import Settings


def settings_of(**values: Any) -> Settings:
    """The settings where nothing but these is said; the policy is the expert unless one is."""
    said = {option.attribute: option.default for option in OPTIONS} | {"model": "expert"} | values
    rest = {"model_text": said["model"], "model_folder": Path("/here"), "model_names": (), "given": ()}
    return Settings(**said, **rest, typed=frozenset(values))

"""Ini keys and hooks that are named as ours are, and are none: a line each that says what may be meant."""

from collections.abc import Iterable, Iterator

import pytest

from pytest_vla import hook_modules
from pytest_vla.run.about import KEY_START, MODELS_KEY
from pytest_vla.run.ini_keys import unknown_keys
from pytest_vla.run.options import OPTIONS
from pytest_vla.util.text import did_you_mean


def key_notes(config: pytest.Config) -> Iterator[str]:
    """What is to be said of ini keys that nobody declared; pytest itself only warns, and names none that is close."""
    prefix = f"{KEY_START}_"
    known = [MODELS_KEY, *(option.key for option in OPTIONS if option.ini is not None)]
    where = config.inipath.name if config.inipath else "-o"
    for key in unknown_keys(config):
        meant = prefix + key.lower().replace("-", "_").removeprefix(KEY_START).lstrip("_")
        only_typed = next((option.flag for option in OPTIONS if option.key == meant and option.ini is None), None)
        if only_typed is not None:
            yield f"{where}: {key} is no ini key: write {only_typed}=... into addopts"
        else:
            close = did_you_mean(meant, known, prefix) or " `pytest --help` lists them"
            yield f"{where}: {key} is no ini key of pytest-vla, and changes nothing.{close}"


def hook_complaint(config: pytest.Config, names: Iterable[str]) -> str:
    """What is to be said of hooks that are not there: pytest would end with an internal error."""
    lines = []
    for name in names:
        for implementation in getattr(config.hook, name).get_hookimpls():
            origin = getattr(implementation.plugin, "__file__", None) or implementation.plugin_name
            lines.append(f"{origin}: {name} is no hook of pytest-vla.{hook_modules.hooks_meant(name)}")
    return "\n".join(lines)

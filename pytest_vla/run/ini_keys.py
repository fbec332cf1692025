"""The keys of the ini file that look like ours."""

import pytest

from pytest_vla.run.about import KEY_START, MODELS_KEY
from pytest_vla.run.options import OPTIONS


def unknown_keys(config: pytest.Config) -> list[str]:
    """The keys of the ini file that begin as ours do and that nobody declared."""
    # pytest has no public way to list them from pytest 9 on.
    given = config._inicfg if hasattr(config, "_inicfg") else config.inicfg
    declared = {MODELS_KEY, *(each.key for each in OPTIONS if each.ini is not None)}
    return [key for key in given if key.lower().startswith(KEY_START) and key not in declared and not _has(config, key)]


def _has(config: pytest.Config, key: str) -> bool:
    try:
        config.getini(key)
    except ValueError:
        return False
    # Another plugin's.
    return True

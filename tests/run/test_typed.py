"""Command lines that are shown, and what they lack."""

from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vla.run.command_lines import lacking_plugins


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("pytest -p ours --vla-suite=line", " The run was started with -p ours: give it again"),
        ("pytest -pours -p given --vla-policy-timeout=3", " The run was started with -p ours: give it again"),
        ("pytest -p a -p ours -p a", " The run was started with -p a -p ours: give it again"),
        ("pytest -p given", ""),
        ("pytest --vla-model=x", ""),
        ("pytest -p", ""),
        ("pytest 'unended", ""),
    ],
)
def test_what_a_runs_command_named_and_this_one_does_not_is_told(command: str, told: str) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(plugins=["given"]))
    assert lacking_plugins(config, command) == told

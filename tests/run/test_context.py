"""The state of a run is one object, and it is found in one place."""

import dataclasses
import re
from pathlib import Path

import pytest

import pytest_vla
from pytest_vla.run.context import RUN_CONTEXT, RunContext

PACKAGE = Path(pytest_vla.__file__).parent


def test_there_is_one_stash_key() -> None:
    """A second one would be a second place to look for what a run knows: it belongs into a field of `RunContext`."""
    files = [*PACKAGE.rglob("*.py"), *(PACKAGE / "fixtures").rglob("*.py")]
    texts = {file.relative_to(PACKAGE).as_posix(): file.read_text() for file in files}
    keys = {place: len(re.findall(r"\bStashKey\b", text)) for place, text in texts.items()}
    assert {place: number for place, number in keys.items() if number} == {"run/context.py": 1}
    assert isinstance(RUN_CONTEXT, pytest.StashKey)


def test_the_context_of_a_run_does_not_change() -> None:
    context = RunContext(*[None] * len([each for each in dataclasses.fields(RunContext) if _is_required(each)]))  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.folder = Path()  # type: ignore[misc]


def _is_required(field: "dataclasses.Field[object]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING

"""What a run keeps of its invocation, for one that goes on with it: written as JSON, and read as what others wrote."""

import argparse
import json
import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import folder_of
from pytest_vla.run.option import Option
from pytest_vla.run.options import OPTIONS
from pytest_vla.run.settings import Settings
from pytest_vla.util.text import printable

MOST_CHARACTERS = 10_000
"""Of any text that is kept. What is longer no person typed, and it would be shown."""

_SHOWN = 60

# What runs of earlier versions call otherwise.
_RENAMED = {"suites": "suite", "devices": "device"}


@dataclass(frozen=True)
class Invocation:
    """What a run was started with.

    Attributes:
        values: of the options that a resumed run takes over, by attribute.
        typed: which of them were given, and not by the ini file.
        given, model_text, model_folder: as in `Settings`.
        arguments: the paths and ids that the user gave to pytest, as they were typed.
        folder: what they are relative to.
    """

    values: Mapping[str, Any]
    typed: frozenset[str]
    given: tuple[str, ...]
    model_text: str
    model_folder: Path
    arguments: tuple[str, ...]
    folder: Path


def taken_over() -> tuple[Option[Any], ...]:
    """The options that a resumed run takes over."""
    return tuple(option for option in OPTIONS if option.belongs != "invocation" and option.into is None)


def invocation_of(settings: Settings, arguments: Sequence[str], folder: Path) -> dict[str, Any]:
    """What a later invocation needs to go on with this run; can be written as JSON.

    Args:
        settings: of the invocation.
        arguments: the paths and ids that the user gave to pytest, as they were typed.
        folder: what they are relative to.
    """
    options = taken_over()
    kept = {option.attribute: _plain(getattr(settings, option.attribute)) for option in options}
    kept |= {"typed": sorted(settings.typed & {option.attribute for option in options}), "given": list(settings.given)}
    kept |= {"model_text": settings.model_text, "model_folder": str(settings.model_folder)}
    return {"settings": kept, "arguments": list(arguments), "folder": str(folder)}


def read_invocation(run: str, stored: Mapping[str, Any]) -> Invocation:
    """What `invocation_of` wrote for a run, checked as if it had been typed: it may be anybody's.

    An option that is not there is of a later version than the run, and has its default.

    Raises:
        VlaError: it is not as pytest-vla writes it, or says what this version does not know.
    """
    if "imported" in stored:
        raise VlaError(f"--vla-resume: run {run} was imported, and nothing says how to run it")
    try:
        return _read(stored)
    except VlaError as error:
        raise VlaError(
            f"--vla-resume: run {run} cannot be gone on with: {error}. It is damaged, or of another version of "
            "pytest-vla: leave --vla-resume out for a new run"
        ) from error


def _read(stored: Mapping[str, Any]) -> Invocation:
    kept = stored.get("settings")
    if not isinstance(kept, dict):
        raise VlaError("it does not say its settings")
    kept = _of_this_version(kept)
    options = taken_over()
    names = [option.attribute for option in options]
    if unknown := sorted(kept.keys() - {*names, "typed", "given", "model_text", "model_folder"}):
        raise VlaError(f"it has the option {_shown(unknown[0])}, which is not known")
    for needed in "model", "given", "model_text", "model_folder":
        if kept.get(needed) is None:
            raise VlaError(f"it does not say its {needed}")
    values = {o.attribute: _value(o, kept[o.attribute]) if o.attribute in kept else o.default for o in options}
    given = _texts("given", kept["given"])
    for each in given:
        _check_given(each)
    return Invocation(
        values,
        frozenset(_texts("typed", kept.get("typed", []))) & set(names),
        given,
        _text("model_text", kept["model_text"]),
        _folder("model_folder", kept["model_folder"]),
        _texts("arguments", stored.get("arguments")),
        _folder("folder", stored.get("folder")),
    )


def _of_this_version(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are called and written today."""
    found = {_RENAMED.get(name, name): value for name, value in kept.items()}
    lower = found.pop("min_success_lower", False)
    if isinstance(found.get("min_success"), float):
        found["min_success"] = [found["min_success"], lower]
    marks = {name: found.pop(name) for name in ("vary_typed", "min_success_typed") if name in found}
    found.setdefault("typed", [name.removesuffix("_typed") for name, mark in marks.items() if mark is True])
    return found


def _value(option: Option[Any], stored: Any) -> Any:
    """The value of an option, where it can be typed: then it is what comes of the text that it is written as."""
    wrong = VlaError(f"its {option.attribute} is {_shown(stored)}, no value of {option.flag}")
    for each in stored if isinstance(stored, list) else [stored]:
        if not isinstance(each, str | int | float | None):
            raise wrong
        if isinstance(each, str):
            _text(option.attribute, each)
    written = json.dumps(stored)
    if written == json.dumps(_plain(option.default)):
        return option.default
    if option.metavar is None:
        if stored is not True:
            raise wrong
        return True
    try:
        value = option.parse(option.text(stored))
    except (VlaError, argparse.ArgumentTypeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise wrong from error
    if json.dumps(_plain(value)) != written:
        raise wrong
    return value


def _check_given(text: str) -> None:
    """What stands in a command that is shown to be typed has to be one of ours."""
    flag, separator, value = text.partition("=")
    option = next((each for each in OPTIONS if each.flag == flag and each.again), None)
    if option is not None and bool(separator) is (option.metavar is not None):
        try:
            if option.metavar is not None:
                (option.checked or option.parse)(value)
        except (VlaError, argparse.ArgumentTypeError):
            pass
        else:
            return
    raise VlaError(f"its given has {_shown(text)}, no option of an episode")


def _folder(name: str, value: Any) -> Path:
    text = _text(name, value)
    try:
        folder = folder_of(text)
    except argparse.ArgumentTypeError as error:
        raise VlaError(f"its {name} is {_shown(value)}, no path") from error
    if str(folder) != text or not folder.is_absolute():
        raise VlaError(f"its {name} is {_shown(value)}, no absolute path")
    return folder


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise VlaError(f"its {name} is {_shown(value)}, no list")
    return tuple(_text(name, each) for each in value)


def _text(name: str, value: Any) -> str:
    """A text such as a command line can have."""
    if not isinstance(value, str) or "\0" in value or len(value) > MOST_CHARACTERS:
        raise VlaError(f"its {name} is {_shown(value)}, no text that was typed")
    try:
        os.fsencode(value)
    except UnicodeEncodeError as error:
        raise VlaError(f"its {name} is {_shown(value)}, no text that was typed") from error
    return value


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return str(value) if isinstance(value, Path) else value


def _shown(value: Any) -> str:
    # Shortens, and needs no more than a few levels of what is nested.
    text = printable(reprlib.repr(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."

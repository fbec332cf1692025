"""Published evaluators as values: the protocol by which a benchmark's published numbers were measured.

An evaluator is a TOML file: built in, ``suites/libero/evaluators/NAME.toml``, or a user's own, which may extend one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import (
    CONTROLS,
    DRAWN,
    EITHER,
    GRIPPER_RULES,
    OUT_OF_RANGE,
    PRECISIONS,
    STARTS,
    STATES,
    TEXTURES,
    picture_steps,
    scene_draw,
    steps_to_hold,
    success_rule,
)
from pytest_vla.plan.task import INSTRUCTION, OF_OWN_WORLDS, OWN_EVALUATOR, Protocol, Task, with_protocol
from pytest_vla.util.documents import read_toml
from pytest_vla.util.text import did_you_mean, printable, quoted

_FOLDER = Path(__file__).parents[1] / "suites" / "libero" / "evaluators"

PUBLISHED = _FOLDER.parent / "published.toml"
"""The published numbers, with their sources."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")

_FIELDS = ("extends", "about", "source", "commit", "replan", "episodes", "max_steps", "protocol")

SEEDS = 2**32
"""The starts of a task whose objects a reset draws: one for each seed."""


@dataclass(frozen=True)
class Evaluator:
    """A published evaluator: what its episodes share, beside the task.

    Attributes:
        name: for ``--vla-evaluator``, and in records.
        about: for people.
        source: the repository and its files.
        commit: at which they were read.
        max_steps: the step budget by suite.
        protocol: the fields of `Protocol` that differ from the suite's own.
        replan: the executed steps of a chunk, or None for the policy's own number.
        episodes: the episodes of each task, or None for the suite's own.
    """

    name: str
    about: str
    source: str
    commit: str
    max_steps: Mapping[str, int]
    protocol: Mapping[str, Any]
    replan: int | None = None
    episodes: int | None = None

    def knows(self, task: Task) -> bool:
        """Whether the evaluator is for the task's suite: its own protocol is for all."""
        return self.name == OWN_EVALUATOR or self._budget(task) is not None

    def task(self, task: Task) -> Task:
        """Return the task under this evaluator.

        Raises:
            VlaError: it is not for the task's suite.
        """
        if self.name == OWN_EVALUATOR:
            return task
        if (budget := self._budget(task)) is None:
            raise VlaError(
                f"the evaluator {self.name} has no protocol for {task.suite}: it is for {', '.join(self.max_steps)} "
                f"and suites with their tasks. Leave {task.suite} out (if a test is marked for it, name other files), "
                f"or use --vla-evaluator={OWN_EVALUATOR}"
            )
        drawn = {"init_states": SEEDS} if self.protocol.get("starts") == DRAWN else {}
        return with_protocol(task, **{**self.protocol, **drawn, "max_steps": budget, "evaluator": self.name})

    def _budget(self, task: Task) -> int | None:
        return self.max_steps.get(task.suite, self.max_steps.get(task.files))


@cache
def evaluator_names() -> tuple[str, ...]:
    """Return the names of the built-in evaluators, the suites' own first."""
    return (OWN_EVALUATOR, *sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_evaluator(text: str, folder: Path | None = None) -> Evaluator:
    """Return an evaluator by its name, or from a user's own TOML file.

    Args:
        text: one of `evaluator_names()`, or a path that ends with ``.toml``.
        folder: the folder for a relative path.

    Raises:
        VlaError: there is none, or the file cannot be used.
    """
    if text == OWN_EVALUATOR:
        return Evaluator(OWN_EVALUATOR, "each suite's own protocol", "pytest-vla", "", {}, {})
    if text.endswith(".toml"):
        return _read(path := (folder or Path()) / Path(text).expanduser(), path.stem)
    if text not in evaluator_names():
        known = evaluator_names()
        hint = _measured_by(text) or did_you_mean(as_spelt(text), known)
        raise VlaError(
            f"there is no evaluator {quoted(text, 80)}.{hint} Evaluators: {', '.join(known)}, or a TOML file "
            "of your own"
        )
    return _read(_FOLDER / f"{text}.toml", text)


def as_spelt(text: str) -> str:
    """Return a name in the spelling of names here, such as ``groot-n1.6`` for ``GR00T_N1.6``."""
    return text.lower().replace("gr00t", "groot").replace("_", "-").strip()


def _measured_by(text: str) -> str:
    """Return the evaluator of a model whose name stands in the place of an evaluator's, as a hint, or an empty text."""

    def letters(name: str) -> str:
        return re.sub(r"[^a-z0-9]", "", as_spelt(name))

    wanted, models = letters(text), read_toml(PUBLISHED)
    if wanted in map(letters, evaluator_names()):
        return ""
    models.pop("read")
    found = {name: each.get("evaluator", "") for name, each in models.items() if letters(name).startswith(wanted)}
    exact = {name: evaluator for name, evaluator in found.items() if letters(name) == wanted} or found
    names = {*exact.values()} - {""} if wanted else set()
    return f" The published numbers of {next(iter(exact))} were measured by {names.pop()}." if len(names) == 1 else ""


def built_in_evaluators() -> tuple[Evaluator, ...]:
    """Return all published evaluators."""
    return tuple(load_evaluator(name) for name in evaluator_names() if name != OWN_EVALUATOR)


def longest_steps(task: Task) -> int:
    """Return the largest step budget that the built-in evaluators and the suite itself give a task."""
    budgets = [each.task(task).protocol.max_steps for each in built_in_evaluators() if each.knows(task)]
    return max([task.protocol.max_steps, *budgets])


def deviations(task: Task, protocol: Protocol, evaluator: Evaluator) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which a protocol differs from the evaluator's, each with the evaluator's value first.

    A control that the evaluator leaves to the policy is none of them.

    Args:
        task: as its suite has it.
        protocol: by which it runs.
        evaluator: for the task's suite.
    """
    meant = evaluator.task(task).protocol
    pairs = ((field.name, getattr(meant, field.name), getattr(protocol, field.name)) for field in fields(Protocol))
    return {name: (wanted, has) for name, wanted, has in pairs if wanted not in (has, EITHER)}


@cache
def _read(path: Path, name: str, within: tuple[Path, ...] = ()) -> Evaluator:
    if not path.is_relative_to(_FOLDER):
        if not _NAME.fullmatch(name):
            raise VlaError(f"{path}: the file's name is the evaluator's: expected letters, digits, '.', '_' and '-'")
        if name in evaluator_names():
            raise VlaError(f"{path}: {name} is a built-in evaluator; give the file another name")
    table = _table(path)
    if "extends" in table:
        base = _extended(path, _text(path, table, "extends"), (*within, path.resolve()))
        if base.name == OWN_EVALUATOR:
            raise VlaError(f"{path}: extends: expected one of {', '.join(evaluator_names()[1:])}, found 'ours'")
    else:
        base = Evaluator(name, "", "", "", {}, {})
    # A changed script is not the script that it extends.
    said: dict[str, Any] = {"about": f"{base.name} as {path.name} changes it"} if base.name != name else {}
    said |= {key: _text(path, table, key) for key in ("about", "source", "commit") if key in table}
    said |= {key: _count(path, key, table[key], zero) or None for key, zero in _ZERO.items() if key in table}
    found = replace(
        base,
        name=name,
        **said,
        max_steps={**base.max_steps, **_steps(path, table.get("max_steps", {}))},
        protocol={**base.protocol, **_protocol(path, table.get("protocol", {}))},
    )
    if not found.max_steps:
        raise VlaError(f"{path}: no [max_steps]: give the step budget of each suite, such as libero_goal = 300")
    return found


def _extended(path: Path, text: str, within: tuple[Path, ...]) -> Evaluator:
    """Return what a file extends; a path is relative to the file."""
    if not text.endswith(".toml"):
        return load_evaluator(text)
    base = path.parent / Path(text).expanduser()
    if base.resolve() in within:
        raise VlaError(f"{path}: extends: {printable(text)} is this file, or extends it in turn")
    return _read(base, base.stem, within)


def _table(path: Path) -> dict[str, Any]:
    try:
        table = read_toml(path)
    except (OSError, ValueError) as error:
        raise VlaError(f"{path}: cannot be read as TOML: {error}") from error
    if unknown := sorted(set(table) - set(_FIELDS)):
        close = did_you_mean(unknown[0], _FIELDS)
        raise VlaError(f"{path}: unknown {printable(unknown[0])}.{close} Expected some of {', '.join(_FIELDS)}")
    return table


def _text(path: Path, table: Mapping[str, Any], key: str) -> str:
    if not isinstance(table[key], str):
        raise VlaError(f"{path}: {key}: expected a text, found {_shown(table[key])}")
    return str(table[key])


_ZERO = {"replan": "0 for the policy's own number", "episodes": "0 for the suite's own number"}


def _count(path: Path, key: str, value: object, zero: str = "") -> int:
    if type(value) is not int or not (0 if zero else 1) <= value <= 1_000_000:
        expected = f"expected a whole number from 1 to 1,000,000{zero and f', or {zero}'}"
        raise VlaError(f"{path}: {key}: {expected}, found {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return quoted(list(value) if isinstance(value, tuple) else value)


def _steps(path: Path, table: object) -> dict[str, int]:
    if not isinstance(table, Mapping):
        raise VlaError(
            f"{path}: max_steps: expected a table, such as libero_goal = 300 under [max_steps], found {_shown(table)}"
        )
    return {str(suite): _count(path, f"[max_steps] {suite}", steps) for suite, steps in table.items()}


_CHOSEN = {
    "out_of_range": OUT_OF_RANGE,
    "textures": TEXTURES,
    "starts": STARTS,
    "state": STATES,
    "gripper": GRIPPER_RULES,
    "control": CONTROLS,
    "action_precision": PRECISIONS,
}

_NOT_HERE = ("max_steps", "evaluator", "rules", *OF_OWN_WORLDS, "cameras", "init_states", "control_freq")


def _protocol(path: Path, table: object) -> dict[str, Any]:
    known = [field.name for field in fields(Protocol) if field.name not in _NOT_HERE]
    if not isinstance(table, Mapping):
        raise VlaError(f"{path}: protocol: expected a table, found {_shown(table)}")
    if unknown := sorted(set(table) - set(known)):
        close = did_you_mean(unknown[0], known)
        raise VlaError(
            f"{path}: [protocol]: unknown {printable(unknown[0])}.{close} Expected some of {', '.join(known)}"
        )
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
    if wrong := [*protocol_faults(values), *_wrong_numbers(values)]:
        raise VlaError(f"{path}: [protocol]: {'; '.join(wrong)}")
    return values | ({"success": success_rule(str(values["success"]))} if "success" in values else {})


def _wrong_numbers(values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the numbers of an evaluator's protocol."""
    size, action = values.get("image_size", (1, 1)), values.get("settle_action", (0.0,) * 7)
    steps, start = values.get("settle_steps", 0), values.get("init_state", 0)
    wrong = []
    if not (
        isinstance(size, tuple) and len(size) == 2 and all(type(each) is int and 0 < each <= 4096 for each in size)
    ):
        wrong.append(f"image_size is {_shown(size)}, expected [height, width] in pixels, up to 4096")
    if not (isinstance(action, tuple) and len(action) == 7 and all(type(each) in (int, float) for each in action)):
        wrong.append(f"settle_action is {_shown(action)}, expected seven numbers")
    wrong += [
        f"{name} is {_shown(value)}, expected a whole number from 0 to 100,000"
        for name, value in (("settle_steps", steps), ("init_state", start))
        if type(value) is not int or not 0 <= value <= 100_000
    ]
    return wrong


def protocol_faults(values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the texts of a protocol's table; fields that are not there are not looked at."""
    wrong = [
        f"{name} is {_shown(values[name])}, expected one of {', '.join(known)}"
        for name, known in _CHOSEN.items()
        if values.get(name, known[0]) not in known
    ]
    texts = (
        ("image_transform", picture_steps),
        ("wrist_transform", lambda text: picture_steps(text) if text else ()),
        ("scenes", lambda text: scene_draw(text, 0)),
        ("success", steps_to_hold),
    )
    for name, read in texts:
        try:
            if name in values:
                read(str(values[name]))
        except VlaError as error:
            wrong.append(f"{name}: {error}" if name.endswith("transform") else str(error))
    prompt = values.get("prompt", INSTRUCTION)
    if not isinstance(prompt, str) or prompt.count(INSTRUCTION) != 1 or len(prompt) > 10_000:
        wrong.append(f"prompt is {_shown(prompt)}, expected a text with one {INSTRUCTION}")
    return wrong

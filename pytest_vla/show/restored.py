"""The restored task and variation of a record, from the record and its run alone, in the form that a world takes."""

from dataclasses import replace
from pathlib import Path

from pytest_vla.errors import UnfitError, VlaError
from pytest_vla.plan.case import PAPER, UPSTREAM, is_upstreams, parts_of
from pytest_vla.plan.choices import INSTALLED
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task, recorded_protocol, with_protocol
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.scene.variation import INSTRUCTION, Params, Variation, joined
from pytest_vla.vary.registry import check_joint, find_variation, known_kind, labels_of
from pytest_vla.vary.space import LISTED, Parameter, complaints


def data_of(run: Run, data: Path | None) -> Path | None:
    """Return the folder of a run's task files and assets, which a user's own tasks require.

    Args:
        run: the run, whose settings name its folder.
        data: the folder of ``--data``, which overrides the run's, or None.
    """
    said = run.invocation.get("settings", {}).get("data")
    return data or (Path(said) if said else None)


def textures_of(record: Record) -> str:
    """Return how the episode's textures were drawn: as installed, if the record is too old to have the field."""
    return str(record.protocol.get("textures", INSTALLED))


def restored_task(record: Record, data: Path | None) -> Task:
    """Return the record's task with its steps, the rules and evaluator it ran by, and its textures as they were drawn.

    Args:
        record: the episode's record.
        data: the folder from `data_of`.

    Raises:
        VlaError: there is no such suite or task.
    """
    task = load_suite(record.suite, data=data).task(record.task_key)
    return with_protocol(recorded_protocol(task, record.protocol), textures=textures_of(record))


def restored_variation(task: Task, record: Record) -> "Variation | None":
    """Return the variation of a record's world without drawing it anew, or None if only the instruction was varied.

    Args:
        task: the record's task; its cameras and picture size may differ.
        record: the episode's record.

    Raises:
        VlaError: the variation cannot be made, or differs from the record.
    """

    label, parameters = str(record.variation.get("label", "")), record.variation.get("parameters", {})
    # Instructions are not visible, and may be from a missing file; but upstream's language variations move a camera.
    told_only = record.variation.get("dimension") == "language" and parameters.get("protocol") != UPSTREAM
    if not label or told_only:
        return None
    own = load_suite(task.suite, data=task.data).task(task.key)
    return given_back(own, label, parameters, record.instruction)


# Variations by their parameters: made again from a record's, without drawing, and what may be chosen instead.

_OTHER = "the record is from another version of pytest-vla, or from other files"


def given_back(task: Task, label: str, parameters: Params, instruction: str | None = None) -> Variation | None:
    """Return the variation with a record's label and parameters, without drawing; None for the empty label.

    Args:
        task: the record's task.
        label: the variation's label.
        parameters: the variation's parameters.
        instruction: the policy's instruction, or None if it does not matter.

    Raises:
        VlaError: there is no such variation, its parameters are out of bounds, or they give a different variation
            because the record is from another version of pytest-vla or from other files.
    """
    if not label:
        return None
    if task.varied:
        found = find_variation(task, label, 0)
        if found is not None and found.remade is not None:
            found = found.remade(parameters)
        made = found
    else:
        parts = parts_of(label)
        check_joint(label, parts)
        single = tuple(_given_back(task, part, parameters, instruction, len(parts) > 1) for part in parts)
        made = single[0] if len(single) == 1 else joined(label, single)
    told = {} if made is None else made.parameters
    if wrong := [name for name, value in parameters.items() if name not in told or told[name] != value]:
        raise VlaError(f"{label} of {task.id} differs from its record: {wrong[0]}; {_OTHER}")
    return made


def _given_back(task: Task, label: str, parameters: Params, instruction: str | None, is_joint: bool) -> Variation:
    kind = known_kind(label)
    prefix = f"{kind.dimension}.{kind.recorded_name(label)}." if is_joint else ""
    params = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
    try:
        space = kind.space(task)
        known = {each.name for each in space}
        params = {name: value for name, value in kind.implied(label).items() if name in known} | params
        if instruction not in (None, task.language) and INSTRUCTION in known:
            params[INSTRUCTION] = instruction
        if wrong := complaints(space, params):
            raise VlaError(f"{'; '.join(wrong)}; {_OTHER}")
        return kind.given(task, label, params)
    except VlaError as error:
        raise UnfitError(label, f"{task.id}", str(error)) from error


def space_of(task: Task, label: str) -> tuple[Parameter, ...]:
    """Return a variation's parameters that can be chosen; for a suite with its own variations, the label.

    Raises:
        VlaError: there is no such variation, or the task cannot have this kind.
    """
    if task.varied:
        protocol = UPSTREAM if is_upstreams(label) else PAPER
        return (Parameter("label", LISTED, choices=labels_of(task, protocol=protocol)),)
    parts = parts_of(label)
    check_joint(label, parts)
    if len(parts) == 1:
        return known_kind(label).space(task)
    found = []
    for part in parts:
        kind = known_kind(part)
        prefix = f"{kind.dimension}.{kind.recorded_name(part)}"
        found += [
            each if each.name == INSTRUCTION else replace(each, name=f"{prefix}.{each.name}")
            for each in kind.space(task)
        ]
    return tuple(found)

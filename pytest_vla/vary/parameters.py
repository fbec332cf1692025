"""Variations by their parameters: made again from a record's, without drawing, and what may be chosen instead."""

from dataclasses import replace

from pytest_vla.errors import UnfitError, VlaError
from pytest_vla.plan.labels import PAPER, UPSTREAM, is_upstreams, parts_of
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import INSTRUCTION, Params, Variation, joined
from pytest_vla.vary.registry import check_joint, find_variation, known_kind, labels_of
from pytest_vla.vary.space import LISTED, Parameter, complaints

_OTHER = "the record is of another version of pytest-vla, or of other files"


def given_back(task: Task, label: str, parameters: Params, instruction: str | None = None) -> Variation | None:
    """The variation as an episode's record has it, without drawing; None for the empty label.

    Args:
        task, label: of the record.
        parameters: of its variation.
        instruction: what the robot was told; None: it does not matter.

    Raises:
        VlaError: there is no such variation, its parameters are not within bounds, or they make another one: another
            version of pytest-vla recorded them, or other files.
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
        raise VlaError(f"{label} of {task.id} is otherwise than its record says: {wrong[0]}; {_OTHER}")
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
    """What may be chosen of a variation; of a varied suite's, which of them.

    Raises:
        VlaError: there is no such variation, or the task has none of its kind.
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

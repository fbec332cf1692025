"""LIBERO-Plus's 10,030 tasks (arXiv 2510.13626) as variations of LIBERO's, from the user's list and checkout.

What needs files of LIBERO-Plus is unavailable without them: rewritten instructions, lights and textures. All others are
made by its rules. Two protocols: ``paper``, as the paper has it, and ``upstream``, as its code does it, where a changed
arm is put back by the init state while its controller still draws it to the changed pose, and the instruction is the
whole of the task's name.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task, language_of
from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.scene.problem import problem_of
from pytest_vla.scene.variation import ModelEdit, Params, StateEdit, Variation
from pytest_vla.suites.libero_plus.listing import FILE, Given, entries_of, find_list, read_list
from pytest_vla.suites.libero_plus.names import PlusTask, parse_name
from pytest_vla.suites.libero_plus.scenes import CAMERA, camera_pose, robot_qpos
from pytest_vla.vary.kind import VariationListing
from pytest_vla.vary.space import TEXT, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec


__all__ = [
    "PROTOCOLS",
    "Catalogue",
    "PlusTask",
    "available",
    "camera_pose",
    "catalogue",
    "parse_name",
    "read_list",
    "robot_qpos",
    "unavailable",
    "variation_of",
    "variations",
]

PROTOCOLS = ("paper", "upstream")
"""The first is taken where nothing says which."""

_NEEDS_TASKS = "needs LIBERO's BDDL files and assets"
_SEED_BITS = 32
_LONGEST = 300


@dataclass(frozen=True)
class Catalogue:
    """LIBERO-Plus's variations of a task.

    Attributes:
        variations: by label, in its list's order.
        unavailable: number of the list's entries that cannot be made here, by requirement.
    """

    variations: Mapping[str, Variation]
    unavailable: Mapping[str, int]


def variations(task: Task, protocol: str = PROTOCOLS[0]) -> Mapping[str, Variation]:
    """Return a task's variations by label, in the list's order. Raises VlaError as `catalogue` does."""
    return catalogue(task, protocol).variations


def unavailable(tasks: Iterable[Task], protocol: str = PROTOCOLS[0]) -> Mapping[str, int]:
    """Count the list's entries for these tasks that cannot be made, by requirement. Raises VlaError as `catalogue`."""
    counted: Counter[str] = Counter()
    for task in tasks:
        counted.update(catalogue(task, protocol).unavailable)
    return counted


def catalogue(task: Task, protocol: str = PROTOCOLS[0]) -> Catalogue:
    """Return LIBERO-Plus's variations of a task, under a protocol.

    Raises:
        VlaError: the list is missing, cannot be read, or has nothing for this task; a file of the checkout is invalid;
            or there is no such protocol.
    """
    if protocol not in PROTOCOLS:
        raise VlaError(f"LIBERO-Plus has no protocol {protocol!r}; expected {' or '.join(PROTOCOLS)}")
    given = find_list(task.data)
    return _catalogue(task, protocol, given, given.file.stat().st_mtime_ns)


def available(task: Task, entry: PlusTask) -> str:
    """Return the requirement that an entry of the list lacks here, or empty if none. Raises VlaError as `catalogue`."""
    return _needs(task, entry, find_list(task.data))


def variation_of(task: Task, entry: PlusTask, protocol: str = PROTOCOLS[0], given: Given | None = None) -> Variation:
    """Return an entry of the list, or a composite one, as a variation of its task.

    Args:
        task: the task of LIBERO that the entry perturbs.
        entry: from `parse_name` or `read_list`; its difficulty is the variation's level.
        protocol: one of `PROTOCOLS`.
        given: the user's LIBERO-Plus files; searched for if None.

    Raises:
        VlaError: it needs a file that is missing here.
    """
    given = given or find_list(task.data)
    if needs := _needs(task, entry, given):
        raise VlaError(f"{entry.name} {needs}")
    return _made(task, entry, protocol, given)


def _made(
    task: Task, entry: PlusTask, protocol: str, given: Given, time: int = 0, drawn: Params | None = None
) -> Variation:
    """Return the variation of a list entry; `drawn` has parameters drawn before, which are not drawn again."""
    made = Variation(
        entry.label,
        entry.dimension,
        entry.sub_dimension,
        entry.difficulty,
        {**entry.parameters(), "protocol": protocol},
        language_of(entry.name) if protocol == "upstream" else None,
        # Its code gives every task's camera anew, and rounds that.
        model=(_camera(task, entry),) if "camera" in entry.parts or protocol == "upstream" else (),
    )
    if entry.table is not None or entry.tb is not None or entry.light is not None:
        made = _with_scene(made, task, entry, given)
    if entry.add is not None or entry.level is not None:
        made = _with_layout(made, task, entry, given, time, drawn)
        if made.parameters.get("regenerated"):
            made = _with(
                made,
                {},
                redraw=lambda time: _made(task, entry, protocol, given, time),
                remade=lambda drawn: _made(task, entry, protocol, given, drawn=drawn),
            )
    if entry.language is not None:
        made = _with_rewrite(made, entry, given)
    if entry.initstate:
        joints = robot_qpos(entry.initstate)
        # What is set of an init state puts the arm back, whatever the robot's own rest pose is.
        state = () if protocol == "upstream" else (_arm_at(joints),)
        made = _with(made, {"norm": _norm(entry)}, rest_joints=joints, state=(*made.state, *state))
    return _with_noise(made, entry) if entry.noise is not None else made


@cache
def _catalogue(task: Task, protocol: str, given: Given, changed: int) -> Catalogue:
    entries = entries_of(given, task)
    if not entries:
        raise VlaError(f"{given.file} has no entry for {task.files}/{task.name}; expected LIBERO-Plus's {FILE}")
    found: dict[str, Variation] = {}
    missing: Counter[str] = Counter()
    for entry in entries:
        if needs := _needs(task, entry, given):
            missing[needs] += 1
        else:
            found[entry.label] = variation_of(task, entry, protocol, given)
    return Catalogue(found, missing)


def _needs(task: Task, entry: PlusTask, given: Given) -> str:
    from pytest_vla.suites.libero_plus.scenes import NEEDS_BDDL, plus_scene

    if (entry.language is not None) and given.bddl(entry) is None:
        return NEEDS_BDDL
    if entry.table is not None or entry.tb is not None or entry.light is not None:
        scene = plus_scene(given, entry)
        if isinstance(scene, str):
            return scene
    if (entry.add is not None or entry.level is not None) and not _has_problem(task):
        return _NEEDS_TASKS
    return _NEEDS_TASKS if entry.add is not None and not _distractors(task.data) else ""


@cache
def _has_problem(task: Task) -> bool:
    try:
        problem_of(task)
    except VlaError:
        return False
    return True


@cache
def _distractors(data: Path | None) -> tuple[str, ...]:
    """Return the categories that can be added: LIBERO's groceries with available models."""
    from pytest_vla.plan.data_roots import data_roots
    from pytest_vla.scene.catalog import CATEGORIES
    from pytest_vla.suites.libero_plus.layout import DISTRACTORS

    try:
        folders = [root.assets for root in data_roots(data) if root.assets is not None]
    except VlaError:
        return ()
    return tuple(name for name in DISTRACTORS if any((folder / CATEGORIES[name].model).is_file() for folder in folders))


def _camera(task: Task, entry: PlusTask) -> ModelEdit:
    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        import numpy as np

        position, quaternion = camera_pose(problem_of(task).name, entry.h, entry.v, entry.scale, entry.r, entry.e)
        camera = model.camera(CAMERA).id
        model.cam_pos[camera] = position
        # As MuJoCo does where it compiles a camera.
        model.cam_quat[camera] = np.array(quaternion) / np.linalg.norm(quaternion)

    return ModelEdit(("cam_pos", "cam_quat"), apply)


def _arm_at(joints: tuple[float, ...]) -> StateEdit:
    def changed(model: "mujoco.MjModel", scene: "SceneSpec", state: "NDArray[np.float64]") -> None:
        state[1 : 1 + len(joints)] = joints

    return changed


def _norm(entry: PlusTask) -> float:
    """Return the distance (rad) of the arm's pose from its own."""
    return round(0.1 * (1 + (entry.initstate - 1) // 100), 1)


def _with_scene(made: Variation, task: Task, entry: PlusTask, given: Given) -> Variation:
    from pytest_vla.suites.libero_plus.scenes import changed_attributes, plus_scene, scene_edit

    scene = plus_scene(given, entry)
    assert not isinstance(scene, str)
    files = [*([scene.file] if scene.file else []), *scene.pictures.values()]
    edit = scene_edit(scene, task.data)
    drawn = {"scene": ", ".join(file.name for file in files)}
    if entry.light is not None:
        # A file that cannot be read is reported where the scene is made.
        with suppress(VlaError):
            drawn["differs"] = ", ".join(changed_attributes(scene, task.data))
    return _with(made, drawn, model=(*made.model, edit))


def _with_layout(
    made: Variation, task: Task, entry: PlusTask, given: Given, time: int, drawn: Params | None
) -> Variation:
    from pytest_vla.suites.libero_plus.layout import (
        draw_added,
        draw_level,
        given_layout,
        given_start,
        shifted,
        with_objects,
    )

    bddl, start = given.bddl(entry), given.init_states(entry)
    whole = bddl is not None and _is_whole(bddl, task)
    if entry.add is not None and not (whole and start is not None):
        # Its layouts' init states have the arm exactly at rest; those of the task, which serve here, have it near.
        made = _with(made, {}, state=(*made.state, _arm_at(REST_JOINTS)))
    if whole:
        assert bddl is not None
        states = given_start(start) if start is not None else None
        return _with(made, {"file": bddl.name}, problem=(given_layout(bddl),), init_states=states)
    names = ("count", "added") if entry.add is not None else ("radius", "shifts")
    if drawn is not None:
        params = _recorded(entry, names, drawn)
    elif entry.add is not None:
        params = draw_added(task, entry, _distractors(task.data), time)
    else:
        params = draw_level(task, entry, time)
    edit = partial(with_objects, added=params["added"]) if entry.add is not None else shifted(params["shifts"])
    # As published: what its list has counts, wherever its rule puts things.
    return _with(made, {"regenerated": True, **params}, problem=(edit,))


def _recorded(entry: PlusTask, names: tuple[str, str], drawn: Params) -> dict[str, Any]:
    """Return the drawn values as recorded. Raises VlaError if they do not have that form."""
    kind = Parameter("which", TEXT), Parameter("x", unit="m"), Parameter("y", unit="m")
    rows = drawn.get(names[1])
    if not isinstance(rows, list) or any(Parameter(names[1], parts=kind).complaint(row) for row in rows):
        raise VlaError(f"{entry.name}: expected {names[1]}, each with its x and y, found {rows!r}"[:_LONGEST])
    return {name: drawn.get(name) for name in names}


def _is_whole(bddl: Path, task: Task) -> bool:
    """Whether all that stands in a layout's file can be built here."""
    from pytest_vla.suites.libero_plus.layout import unknown_categories

    return not unknown_categories(bddl, _categories(task.data))


@cache
def _categories(data: Path | None) -> frozenset[str]:
    from pytest_vla.plan.data_roots import data_roots
    from pytest_vla.scene.catalog import CATEGORIES, FOLDER
    from pytest_vla.scene.catalog import FILE as CATEGORY_FILE

    folders = [root.assets / FOLDER for root in data_roots(data) if root.assets is not None]
    return frozenset(CATEGORIES) | {path.parent.name for each in folders for path in each.glob(f"*/{CATEGORY_FILE}")}


def _with_rewrite(made: Variation, entry: PlusTask, given: Given) -> Variation:
    from pytest_vla.suites.libero_plus.kinds import is_preamble, read_rewrite

    bddl = given.bddl(entry)
    assert bddl is not None
    text, digest = read_rewrite(bddl)
    # Two files have what a language model said before its list; they were run with that.
    defect = {"defect": "no instruction, but the beginning of a language model's answer"} if is_preamble(text) else {}
    return _with(made, {"file": bddl.name, "digest": digest, **defect}, instruction=text)


def _with_noise(made: Variation, entry: PlusTask) -> Variation:
    from pytest_vla.suites.libero_plus.kinds import plus_noise
    from pytest_vla.suites.libero_plus.names import plus_parts

    assert entry.noise is not None
    effect, severity = plus_parts(entry.noise)
    seed = entry.generator().getrandbits(_SEED_BITS)
    drawn = {"effect": effect, "severity": severity, "noise_seed": seed}
    return _with(made, drawn, pictures=(plus_noise(entry.noise, seed, (CAMERA,)),))


def _with(made: Variation, parameters: Mapping[str, Any], **changes: Any) -> Variation:
    return dataclasses.replace(made, parameters={**made.parameters, **parameters}, **changes)


# LIBERO-Plus's list for the registry of variations; the file is read at the first use.


def _variations(task: Task, protocol: str) -> Mapping[str, Variation]:
    return variations(task, protocol)


def _unavailable(tasks: Sequence[Task]) -> Mapping[str, int]:
    return unavailable(tasks)


LISTING = VariationListing(_variations, two_protocols=True, unavailable=_unavailable, by_lot=True)

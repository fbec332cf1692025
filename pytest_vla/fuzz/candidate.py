"""The scenes of a search: a task with a seed and changes, and its form in a user's test."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case, dimension_of, joint_of, parts_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task, check_unvaried
from pytest_vla.scene.variation import INSTRUCTION, Params
from pytest_vla.util.text import LAST_SEED
from pytest_vla.vary.chosen import Change, change_of, remember
from pytest_vla.vary.registry import check_joint, find_variation, in_order, kind_named, params_fault


@dataclass(frozen=True)
class Candidate:
    """A scene to try.

    Attributes:
        task: without changes.
        seed: of the case.
        changes: of different dimensions; empty for the benign twin.
    """

    task: Task
    seed: int
    changes: tuple[Change, ...] = ()

    @property
    def label(self) -> str:
        """The label of its variation, which this process knows from now on; empty without changes."""
        return joint_of(in_order([remember(change) for change in self.changes]))

    @property
    def case(self) -> Case:
        """The episode."""
        return Case(self.task.suite, self.task.name, self.seed, self.label, self.task.task_level)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions of its changes."""
        return tuple(dimension_of(change.kind) for change in self.changes)

    def having(self, changes: tuple[Change, ...]) -> "Candidate":
        """Return the same task and seed with other changes."""
        return replace(self, changes=changes)


# A scene as a test writes it: a task by name, a seed, what is changed of it; plain data, and its own source text.

WORDS = "language.words"
"""The kind that any text is one of."""


@dataclass(frozen=True)
class Scene:
    """A task with a seed and changes. Its `repr` is Python that makes it again.

    Attributes:
        suite: by name.
        task: of the suite, such as ``turn_on_the_stove``, or with its level, ``L1-pick_the_apple``.
        seed: of the case: selects the init state, and draws the policy's noise.
        changes: parameters by kind, such as ``camera.azimuth``; empty for the benign twin.
    """

    suite: str
    task: str
    seed: int = 0
    changes: Mapping[str, Params] = field(default_factory=dict, hash=False)

    @property
    def id(self) -> str:
        """``SUITE/TASK``."""
        return f"{self.suite}/{self.task}"

    @property
    def twin(self) -> "Scene":
        """The scene with the same task and seed, without changes."""
        return replace(self, changes={})

    @property
    def instruction(self) -> str:
        """The instruction given to the policy. Raises VlaError if there is no such suite or task."""
        told = (str(params[INSTRUCTION]) for params in self.changes.values() if INSTRUCTION in params)
        return next(told, None) or load_suite(self.suite).task(self.task).language

    def told(self, instruction: str) -> "Scene":
        """Return the scene with another instruction; the task's own instruction is no change."""
        others = {kind: params for kind, params in self.changes.items() if INSTRUCTION not in params}
        if instruction == self.twin.instruction:
            return replace(self, changes=others)
        return replace(self, changes={**others, WORDS: {INSTRUCTION: instruction}})

    def __repr__(self) -> str:
        changes = {kind: dict(params) for kind, params in sorted(self.changes.items())}
        return f"Scene({self.suite!r}, {self.task!r}, seed={self.seed}{f', changes={changes}' if changes else ''})"


def scene_of(candidate: Candidate) -> Scene:
    """Return a candidate as a scene."""
    task, changes = candidate.task, {change.kind: change.params for change in candidate.changes}
    return Scene(task.suite, task.key, candidate.seed, changes)


def candidate_of(scene: Scene, data: Path | None = None) -> Candidate:
    """Return a scene as a candidate.

    Args:
        scene: as a test has it.
        data: folder that is searched first for the suite's files.

    Raises:
        VlaError: there is no such suite, task or kind, parameters are not within bounds, or the task cannot have them.
    """
    seed = scene.seed
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= LAST_SEED:
        raise VlaError(f"{scene!r}: expected seed = a whole number from 0 to {LAST_SEED}")
    return checked(scene, load_suite(scene.suite, data=data).task(scene.task))


def checked(scene: Scene, task: Task) -> Candidate:
    """Return a scene as a candidate, as `candidate_of`, for a task that is already loaded."""
    if scene.changes:
        check_unvaried(task)
    for name, params in scene.changes.items():
        if fault := params_fault(kind_named(name), task, params)[0]:
            raise VlaError(f"{task.id}: {fault}")
    changes = tuple(change_of(name, params) for name, params in scene.changes.items())
    candidate = Candidate(task, scene.seed, changes)
    label = candidate.label
    check_joint(label, parts_of(label))
    find_variation(task, label, scene.seed)
    return candidate

"""A task, and what every episode of it has in common, as values."""

import re
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_vla.plan.choices import TRAINED
from pytest_vla.plan.worlds import MakeWorld


@dataclass(frozen=True)
class Protocol:
    """What every episode of a suite has in common.

    Attributes:
        max_steps: control steps after which an episode has failed; settling is not counted.
        settle_steps: control steps after a reset before the policy is asked.
        settle_action: the action (7,) of those steps.
        control_freq: control steps a second, Hz.
        init_states: how many init states a task has; seed s starts from init state s mod n.
        image_size: height and width of a picture, pixels.
        cameras: whose pictures an observation has.
        image_transform: what the pictures' upright form becomes for a policy; one of `IMAGE_TRANSFORMS`.
        out_of_range: what is done about actions outside of [-1, 1]; one of `OUT_OF_RANGE`.
        init_state: the init state that every episode starts from; None: seed s starts from init state s mod n.
        textures: how they are drawn; one of `TEXTURES`.
        action_size: numbers of an action; 7 is LIBERO's robot.
        vectors: what an observation has beside pictures, names and sizes, ``state`` among them; empty: what LIBERO's
            has.
    """

    max_steps: int
    settle_steps: int
    settle_action: tuple[float, ...]
    control_freq: int
    init_states: int
    image_size: tuple[int, int]
    cameras: tuple[str, ...]
    image_transform: str
    out_of_range: str
    init_state: int | None = None
    textures: str = TRAINED
    action_size: int = 7
    vectors: tuple[tuple[str, int], ...] = ()

    def table(self) -> dict[str, Any]:
        """As it stands in a record: what only suites with a world of their own say is there for these."""
        later = {"action_size": Protocol.action_size, "vectors": Protocol.vectors}
        return {name: value for name, value in asdict(self).items() if name not in later or value != later[name]}


@dataclass(frozen=True)
class Task:
    """One task of a suite.

    Attributes:
        suite: the suite's name.
        name: stem of the task's file.
        index: place in upstream's order.
        language: the instruction as the task's file name gives it, which is what policies are trained and measured
            with; the file's own ``:language`` often differs.
        protocol: the suite's.
        data: the folder given by ``--vla-data``; None: the default roots.
        files: the suite whose task files and init states it has; its own, where nothing else is given.
        varied: by what it is varied by itself, the name of a `pytest_vla.entries.ListEntry`; empty: the suite is of
            its tasks as they are.
        world: makes the task's world, where the suite brings its own simulator; None: MuJoCo's, of the task's file.
    """

    suite: str
    name: str
    index: int
    language: str
    protocol: Protocol
    data: Path | None = None
    files: str = ""
    varied: str = ""
    world: MakeWorld | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", self.files or self.suite)


def with_textures(task: Task, textures: str) -> Task:
    """The task with its textures drawn so, one of `TEXTURES`."""
    if textures == task.protocol.textures:
        return task
    return replace(task, protocol=replace(task.protocol, textures=textures))


def language_of(stem: str) -> str:
    """The instruction in a task's file name: words for underscores, without a leading ``KITCHEN_SCENE10_``."""
    return re.sub(r"^[A-Z].*?SCENE\d+_", "", stem).replace("_", " ")

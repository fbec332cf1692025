"""A task, and what every episode of it has in common, as values."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

IMAGE_TRANSFORMS = ("none", "rotate_180")
"""What a suite may do to the pictures of its policies; `pytest_vla.policies.view` does it."""

OUT_OF_RANGE = ("clip", "error")
"""What a suite may do about actions outside of [-1, 1]; `pytest_vla.episode.rollout` does it."""

TRAINED, INSTALLED = TEXTURES = ("trained", "installed")
"""How a suite's textures are drawn: as published checkpoints saw them (by MuJoCo before 3.3.3, which knew no colour
space of textures), or as the installed version draws them, darker from 3.3.3 on. `pytest_vla.World` does it."""


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
        varied: by what `pytest_vla.vary.registry` varies it; empty: the suite is of its tasks as they are.
    """

    suite: str
    name: str
    index: int
    language: str
    protocol: Protocol
    data: Path | None = None
    files: str = ""
    varied: str = ""

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

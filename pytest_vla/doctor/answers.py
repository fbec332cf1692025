"""A policy's answers beside the demonstrated actions: asked along demonstrations, under a wiring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from pytest_vla.doctor.wirings import Wiring
from pytest_vla.errors import EpisodeError
from pytest_vla.plan.choices import ABSOLUTE
from pytest_vla.plan.task import Task, with_protocol
from pytest_vla.policies.base import BatchPolicy, Policy, is_batch_policy, own_number
from pytest_vla.policies.fit import POSE_6D_SIZE, controlled, gives_6d, traits_of
from pytest_vla.policies.trial import Script, asking
from pytest_vla.policies.view import actions_of_6d, converts_gripper, gripper_of

Array = NDArray[np.float64]

BLOCK = 4
"""Questions of a window that are one draw of the bootstrap."""

LEAST_STRIDE = 4
"""The least control steps from one question to the next: neighbouring frames say little more than one."""


@dataclass(frozen=True)
class DemonstrationWindow:
    """A part of a demonstration along which a policy is asked.

    Attributes:
        name: of the demonstration, for messages.
        task: that is demonstrated.
        instruction: that is told.
        rows: (q,) of the demonstration, before whose actions the policy is asked.
        shown: what the suite shows there.
        actions: (n, 7) of the whole demonstration.
    """

    name: str
    task: Task
    instruction: str
    rows: tuple[int, ...]
    shown: tuple[Mapping[str, NDArray[Any]], ...]
    actions: Array


@dataclass(frozen=True)
class WindowAnswers:
    """The chunks that a policy answered with.

    Attributes:
        windows: that it was asked along.
        chunks: (k, d), by window and question; k may differ.
    """

    windows: tuple[DemonstrationWindow, ...]
    chunks: tuple[tuple[Array, ...], ...]

    def pairs(self, steps: int, lag: int = 0, stretch: float = 1.0) -> "Pairs":
        """Return answers beside demonstrated actions, as far as there are both.

        Args:
            steps: at most so many actions of a chunk.
            lag: the demonstrated action is so many rows later than the answer's place.
            stretch: the rows from one action of a chunk to the next.
        """
        answered, shown, block, place, poses = [], [], [], [], []
        number = -1
        for where, chunks in zip(self.windows, self.chunks, strict=True):
            for question, (row, chunk, seen) in enumerate(zip(where.rows, chunks, where.shown, strict=True)):
                number += question % BLOCK == 0
                for step in range(min(steps, len(chunk))):
                    at = row + lag + stretch * step
                    if at != int(at) or not 0 <= at < len(where.actions):
                        continue
                    answered.append(chunk[step])
                    shown.append(where.actions[int(at)])
                    block.append(number)
                    place.append(step)
                    poses.append(np.concatenate([seen["robot0_eef_pos"], seen["robot0_eef_quat"]]))
        return Pairs(
            np.array(answered), np.array(shown), np.array(block), np.array(place), np.array(poses), blocks=number + 1
        )


@dataclass(frozen=True)
class Pairs:
    """Answers beside demonstrated actions.

    Attributes:
        answered: (m, d).
        shown: (m, 7), demonstrated.
        block: (m,) numbers the parts of windows, `BLOCK` questions each, that are drawn again in a bootstrap.
        place: (m,) the place in the chunk.
        poses: (m, 7) of the end effector at the question: position m, quaternion xyzw.
        blocks: how many there are. A shift in time may leave the last ones without a pair.
    """

    answered: Array
    shown: Array
    block: NDArray[np.int64]
    place: NDArray[np.int64]
    poses: Array
    blocks: int

    def with_answers(self, answered: Array) -> "Pairs":
        """Return the pairs with other answers (m, d)."""
        return replace(self, answered=answered)


def ask(
    policy: Policy | BatchPolicy, windows: Sequence[DemonstrationWindow], wiring: Wiring, replan: int | None = None
) -> WindowAnswers:
    """Return a policy's answers along windows, under a wiring, as a rollout would convert them before it clips them.

    A policy that answers in batches is asked along as many windows together as it takes; any other along one after the
    other, as in a run: it may keep what belongs to an episode in one place, or be a server with one connection.
    Absolute poses are made relative, so that they can be compared.

    Args:
        policy: the policy.
        windows: where it is asked.
        wiring: between the suite and it.
        replan: the steps of a chunk that it is told are executed, or None for its own number.

    Raises:
        EpisodeError: the policy raises, or answers with something else than actions.
    """
    traits = traits_of(policy)
    # Those with the most questions first: the others end before them.
    order = sorted(range(len(windows)), key=lambda number: -len(windows[number].rows))
    scripts = []
    for each in order:
        task = replace(windows[each].task, language=wiring.tell(windows[each].instruction))
        task = with_protocol(task, action_size=POSE_6D_SIZE) if gives_6d(traits, task.protocol) else task
        scripts.append(Script(task, each, ()))
    chunks: list[list[Array]] = [[] for _ in windows]
    together = asked_together(policy)
    for begin in range(0, len(order), together):
        some = order[begin : begin + together]
        # What a wrong wiring shows may well overflow.
        with np.errstate(all="ignore"), asking(policy, scripts[begin : begin + together], replan=replan) as asked:
            for step in range(len(windows[some[0]].rows)):
                now = [each for each in some if step < len(windows[each].rows)]
                try:
                    found = asked(step, [wiring.see(dict(windows[each].shown[step])) for each in now])
                except EpisodeError as error:
                    places = ", ".join(f"{windows[each].name} row {windows[each].rows[step]}" for each in now[:3])
                    raise EpisodeError(error.reason, f"{error.message} (asked at {places})") from error
                for each, chunk in zip(now, found, strict=True):
                    chunks[each].append(_converted(chunk, policy, windows[each], step))
    return WindowAnswers(tuple(windows), tuple(map(tuple, chunks)))


def asked_together(policy: Policy | BatchPolicy) -> int:
    """Return along how many windows `ask` asks a policy at once."""
    return (own_number(policy, "max_batch") or 1) if is_batch_policy(policy) else 1


def _converted(chunk: Array, policy: Policy | BatchPolicy, window: DemonstrationWindow, step: int) -> Array:
    traits, protocol = traits_of(policy), window.task.protocol
    chunk = actions_of_6d(chunk) if gives_6d(traits, protocol) else chunk
    if converts_gripper(policy, protocol):
        chunk = np.array([[*row[:-1], gripper_of(row[-1], protocol.gripper)] for row in chunk])
    if controlled(protocol, traits).control == ABSOLUTE:
        seen = window.shown[step]
        chunk = made_relative(chunk, seen["robot0_eef_pos"], seen["robot0_eef_quat"])
    return chunk


MOST_METRES, MOST_RADIANS = 0.05, 0.5
"""What a relative action of 1 is: robosuite's OSC_POSE."""


def made_relative(chunk: Array, position: Array, quaternion: Array) -> Array:
    """Return a chunk of poses (k, 7) as relative actions, each from the one before it, the first from a pose.

    Args:
        chunk: positions m, axis-angles rad, and grippers, which stay.
        position: (3,) of the end effector, m.
        quaternion: (4,) xyzw.
    """
    places = np.vstack([position, chunk[:, :3]])
    turns = Rotation.concatenate([Rotation.from_quat(quaternion[None]), Rotation.from_rotvec(chunk[:, 3:6])])
    moved = np.diff(places, axis=0) / MOST_METRES
    turned = (turns[1:] * turns[:-1].inv()).as_rotvec() / MOST_RADIANS
    return np.hstack([moved, turned, chunk[:, 6:]])

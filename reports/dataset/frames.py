"""The episodes of a data set, and the policy's observations and actions in each of their control steps."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_vla.episode.resimulate import resimulate
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.task import Task
from pytest_vla.policies.fit import ACTION_SIZE, STATE_SIZE
from pytest_vla.policies.view import policy_view
from pytest_vla.records.record import Record, parse_record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import Store
from pytest_vla.records.trajectory import digest_of, load_trajectory, trajectory_file
from pytest_vla.reports.dataset.held_out import Keys, keys_of
from pytest_vla.reports.export import SUCCESS
from pytest_vla.reports.loaded import counted_episodes
from pytest_vla.show.restored import data_of, restored_task, restored_variation
from pytest_vla.util.text import counted

Picture = NDArray[np.uint8]

HELD_OUT = "held out"
"""Why an episode is left out whose case is on the list of held-out ones."""

_STANDS = ("control_freq", "cameras")
# What feature names and paths may have.
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True)
class Layout:
    """The control frequency, image size and cameras that all episodes of a data set share.

    Attributes:
        control_freq: control steps a second.
        image_size: height and width of pictures, pixels.
        cameras: whose pictures a policy was shown.
    """

    control_freq: int
    image_size: tuple[int, int]
    cameras: tuple[str, ...]

    @property
    def text(self) -> str:
        height, width = self.image_size
        return f"{', '.join(self.cameras)} in {height}x{width} pixels at {self.control_freq} Hz"


@dataclass(frozen=True)
class Recorded:
    """An episode that is to be in a data set: its record, where its trajectory lies, and its task as it was."""

    record: Record
    file: Path
    task: Task


@dataclass(frozen=True)
class Chosen:
    """The episodes of a data set, in an order that does not depend on workers, and how many are left out, by why."""

    episodes: tuple[Recorded, ...]
    layout: Layout
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class Frame:
    """A control step.

    Attributes:
        state: (8,) what the policy was shown: end effector m, axis-angle rad, two finger positions m.
        action: (7,) what it did, in [-1, 1].
        pictures: (H, W, 3) what it was shown, by camera.
        drift: how far (m, rad) the state is from the record's.
    """

    state: NDArray[np.float32]
    action: NDArray[np.float32]
    pictures: Mapping[str, Picture]
    drift: float


def choose(store: Store, runs: Sequence[Run], only: str, data: Path | None, held_out: Keys = frozenset()) -> Chosen:
    """Choose the episodes of runs that count and came to their end.

    Args:
        store: of the runs.
        runs: one or more.
        only: one of `pytest_vla.reports.export.ONLY`.
        data: the folder of task files, in place of the folder that the runs name.
        held_out: of cases that are left out, from `pytest_vla.reports.dataset.held_out`.

    Raises:
        VlaError: there is no such episode, one has no stored states, its suite has changed, or they do not go together.
    """
    by_name = {run.name: run for run in runs}
    counts = counted_episodes(store, [*by_name])
    left_out: Counter[str] = Counter()
    tasks: dict[tuple[str, ...], Task] = {}
    found: list[Recorded] = []
    stateless: list[Record] = []
    for record, is_counted in zip(map(parse_record, store.lines([*counts])), counts.values(), strict=True):
        if why := _left_out(record, is_counted, only):
            left_out[why] += 1
            continue
        place = data_of(by_name[record.run], data)
        key = (record.suite, record.task_key, str(place), json.dumps(dict(record.protocol), sort_keys=True))
        if key not in tasks:
            tasks[key] = _task_of(record, place)
        if held_out and not held_out.isdisjoint(keys_of(record, tasks[key])):
            left_out[HELD_OUT] += 1
        elif tasks[key].world is not None:
            left_out["of a simulator of its own"] += 1
        elif record.arrays is None:
            stateless.append(record)
        else:
            file = trajectory_file(store.results / record.run, record.arrays)
            found.append(Recorded(record, file, tasks[key]))
    if stateless:
        first = stateless[0]
        raise VlaError(
            f"{counted(len(stateless), 'episode')} left no states to take again, such as {first.case} of run "
            f"{first.run}: imported logs have none. pytest --vla-suite={first.suite} runs episodes and keeps their "
            "states; export such a run"
        )
    if not found:
        told = ", ".join(f"{number} {why}" for why, number in left_out.items()) or "no episode at all"
        raise VlaError(f"no episode for a data set in run {', '.join(by_name)}: {told}")
    layout = _layout(found)
    found.sort(key=_order)
    return Chosen(tuple(found), layout, dict(left_out))


def frames_of(pool: WorldPool, episode: Recorded, *, pictures: bool) -> Iterator[Frame]:
    """Yield the control steps of an episode, each with the observation before it and the action.

    Args:
        pool: of worlds.
        episode: of `choose`.
        pictures: whether they are drawn.

    Raises:
        VlaError: its trajectory cannot be read, does not match the record's digest, or belongs to another scene,
            its variation cannot be made, or physics broke.
    """
    try:
        yield from _frames(pool, episode, pictures)
    except EpisodeError as error:
        raise VlaError(f"{episode.record.case} broke where it was taken again: {error}") from error


def _frames(pool: WorldPool, episode: Recorded, pictures: bool) -> Iterator[Frame]:
    record, task = episode.record, episode.task
    trajectory = load_trajectory(episode.file)
    expected = (record.steps, ACTION_SIZE)
    if trajectory.actions.shape != expected:
        raise VlaError(f"{episode.file}: actions of shape {trajectory.actions.shape}, and its record says {expected}")
    if digest_of(record.outcome, record.steps, record.literals, trajectory) != record.digest:
        raise VlaError(
            f"{episode.file}: this is not what was recorded of {record.case} in run {record.run}: its states and "
            "actions do not give the digest of its record; put the file back as it was, or run the episode again"
        )
    variation = restored_variation(task, record)
    world = pool(task, variation if variation is not None and variation.changes_world else None)
    moments = resimulate(world, record, trajectory, variation)
    # What is seen after the last action is asked of nobody.
    for action, moment in zip(trajectory.actions, moments, strict=False):
        view = policy_view(moment.observation, task.protocol)
        state = np.asarray(view["state"], dtype=np.float32)
        if state.shape != (STATE_SIZE,):
            raise VlaError(f"{record.case}: a state of {state.shape}, expected ({STATE_SIZE},)")
        seen = {camera: view[f"{camera}_image"] for camera in task.protocol.cameras} if pictures else {}
        yield Frame(state, np.asarray(action, dtype=np.float32), seen, moment.drift)


def _left_out(record: Record, is_counted: bool, only: str) -> str:
    """Return why a record is no episode of a data set, or an empty text if it is one."""
    if record.outcome not in ("success", "failure"):
        return record.outcome
    if not is_counted:
        return "repeated"
    if record.is_probe:
        return "only asking what the policy does"
    if only == SUCCESS and record.outcome != "success":
        return "failed"
    return "" if record.steps else "without a step"


def _task_of(record: Record, data: Path | None) -> Task:
    task = restored_task(record, data)
    now = task.protocol.table()
    for name in _STANDS:
        if name in record.protocol and json.dumps(record.protocol[name]) != json.dumps(now[name]):
            raise VlaError(
                f"{record.case}: {name} of {record.suite} was {json.dumps(record.protocol[name])[:200]} then and is "
                f"{json.dumps(now[name])[:200]} now: its pictures and states cannot be had again from another suite; "
                "give the suite as it was, such as with --data"
            )
    return task


def _layout(found: Sequence[Recorded]) -> Layout:
    layouts: dict[Layout, str] = {}
    for each in found:
        protocol = each.task.protocol
        layouts.setdefault(Layout(protocol.control_freq, protocol.image_size, protocol.cameras), each.task.suite)
    if len(layouts) > 1:
        told = "; ".join(f"{suite} has {layout.text}" for layout, suite in layouts.items())
        raise VlaError(
            f"these episodes cannot be in one data set: {told}. Name a run of suites that have the same, and export "
            "the others to folders of their own"
        )
    (layout,) = layouts
    if wrong := [camera for camera in layout.cameras if not camera or not _PLAIN.issuperset(camera)]:
        raise VlaError(f"a camera called {wrong[0]!r} cannot be in a data set: its name is that of a folder")
    return layout


def _order(episode: Recorded) -> tuple[object, ...]:
    record = episode.record
    label = str(record.variation.get("label", ""))
    return record.suite, episode.task.index, record.task_key, label, record.seed, record.run, record.case, record.node

"""From how many distinct starts a run's episodes begin, before any of them runs. What a start is, counting says."""

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case, init_state_of
from pytest_vla.plan.data_roots import find_init_states, task_roots
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.run.settings import Settings
from pytest_vla.util.ranges import ranges_text
from pytest_vla.util.text import counted
from pytest_vla.vary.registry import find_variation


class Repeated(NamedTuple):
    """Seeds of a suite that begin as others of a task do.

    Attributes:
        suite: its name.
        starts: how many starts a task has.
        seeds: those of a larger number.
    """

    suite: str
    starts: int
    seeds: tuple[int, ...]

    @property
    def text(self) -> str:
        """``tabletop has 200 starts a task; seeds 200-249 are the same ones``."""
        seeds = ranges_text(self.seeds)
        told = f"seed {seeds} is one of them again" if len(self.seeds) == 1 else f"seeds {seeds} are the same ones"
        return f"{self.suite} has {counted(self.starts, 'start')} a task; {told}"


def distinct_starts(cases: Sequence[Case], settings: Settings) -> int:
    """Return from how many distinct starts cases begin; each counts where that is not known."""
    return len(_by_start(cases, settings))


def repeated_seeds(cases: Mapping[str, Sequence[Case]], settings: Settings) -> tuple[Repeated, ...]:
    """Return the seeds that repeat the starts of others, by suite; benign twins of varied episodes may repeat one.

    Args:
        cases: by suite, those that are to run.
        settings: of the invocation.
    """
    found = []
    for suite, some in cases.items():
        twins = {case.twin for case in some if case.variation}
        repeating = [case for alike in _by_start(some, settings).values() for case in alike[1:] if case not in twins]
        if repeating:
            tasks = {load_suite(suite, data=settings.data).task(case.task_key) for case in repeating}
            # Where a variation draws alike nothing need be known of the task.
            starts = min((number for task in tasks if (number := starts_of(task)) is not None), default=1)
            found.append(Repeated(suite, starts, tuple(sorted({case.seed for case in repeating}))))
    return tuple(found)


def distinct_seeds(task: Task, seeds: Iterable[int]) -> tuple[int, ...]:
    """Return the seeds of a task that begin from different starts, in their order, the first of each."""
    found: dict[Hashable, int] = {}
    for seed in seeds:
        found.setdefault(_start(task, seed), seed)
    return tuple(found.values())


def starts_of(task: Task) -> int | None:
    """Return from how many starts a task's seeds begin; None: from one each, or it is not known."""
    if task.world is not None or _is_placed(task):
        return None
    return 1 if task.protocol.init_state is not None else _init_states(task)


def _by_start(cases: Iterable[Case], settings: Settings) -> dict[Hashable, list[Case]]:
    """The cases of each start, by seed."""
    tasks: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        tasks.setdefault((case.suite, case.task_key, case.variation), []).append(case)
    found: dict[Hashable, list[Case]] = {}
    for (suite, key, label), some in tasks.items():
        # Of one seed nothing has to be read.
        task = None if len(some) == 1 else load_suite(suite, data=settings.data).task(key)
        for case in sorted(some, key=lambda case: case.seed):
            start = case.seed if task is None else _start(task, case.seed)
            found.setdefault((suite, key, label, start), []).append(case)
    told: dict[Hashable, list[Case]] = {}
    for began, alike in found.items():
        for case in alike:
            drawn = _drawn(case, settings) if case.variation and len(alike) > 1 else ""
            told.setdefault((began, drawn), []).append(case)
    return told


def _start(task: Task, seed: int) -> Hashable:
    """What a seed of a task begins from where nothing is varied."""
    count = starts_of(task)
    # Else the scene seed, which is the seed, decides too.
    return seed if count is None else init_state_of(seed, count)


@cache
def _init_states(task: Task) -> int:
    """How many init states a task has: as many as its file, or the suite's number if that cannot be read."""
    from pytest_vla.scene.init_states import read_init_states

    with suppress(VlaError):
        path, member = find_init_states(task_roots(task), task)
        return len(read_init_states(path, member))
    return task.protocol.init_states


@cache
def _is_placed(task: Task) -> bool:
    """Whether the scene seed decides how an episode of a task begins, beside its init state; so where nobody knows."""
    from pytest_vla.scene.task_files import problem_of

    try:
        problem = problem_of(task)
    except VlaError:
        return True
    # As coded, a mover begins where the scene seed draws it.
    moved = {fixture.name for fixture in problem.fixtures} | {mover.name for mover in problem.movers}
    regions = {region.key: region for region in problem.regions}
    for literal in problem.init:
        region = regions.get(str(literal.arguments[-1]))
        if str(literal.arguments[0]) in moved and region is not None:
            points = {place for x0, y0, x1, y1 in region.ranges for place in ((x0, y0), (x1, y1))}
            if len(points) > 1 or region.yaw_rotation[0] != region.yaw_rotation[1]:
                return True
    return problem.random_color or problem.noise is not None


def _drawn(case: Case, settings: Settings) -> str:
    """The parameters that a variation draws for a case, as text; its seed if they cannot be had."""
    task = load_suite(case.suite, data=settings.data).task(case.task_key)
    with suppress(VlaError):
        variation = find_variation(task, case.variation, case.seed)
        if variation is not None:
            return json.dumps(variation.table()["parameters"], sort_keys=True)
    return f"seed {case.seed}"

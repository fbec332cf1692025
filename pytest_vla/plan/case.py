"""What is to be run: cases, their ids, and which of them are selected. Pure: no simulator, no pytest.

A seed means one thing everywhere: seed s starts from init state s mod n, places the scene's fixtures with scene seed
s, and draws the policy's noise from (run seed, case, step).
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import Suite, Task, did_you_mean
from pytest_vla.scene.variation import LABEL, parts_of

TEST_NAME = "test_episode"
"""The function that every suite's module has, and so the middle of every node id."""

MAX_SEEDS = 1_000_000
LAST_SEED = 2**32 - 1
"""Scene seeds are numpy's, which have 32 bits."""

DEFAULT_SEEDS = (0,)
"""Which seeds are run where nothing says which."""


@dataclass(frozen=True)
class Case:
    """One episode to run: a task, a variation of it by its label (empty: none), and a seed."""

    suite: str
    task: str
    seed: int
    variation: str = ""

    @property
    def id(self) -> str:
        """The name in records: ``libero_goal/turn_on_the_stove[seed0]``, ``...[VARIATION-seed0]``."""
        return f"{self.suite}/{self.task}[{self._ending}]"

    @property
    def parameter_id(self) -> str:
        """What stands in the brackets of the node id: ``turn_on_the_stove-seed0``, ``...-VARIATION-seed0``."""
        return f"{self.task}-{self._ending}"

    @property
    def node_id(self) -> str:
        """The pytest item: ``libero_goal::test_episode[turn_on_the_stove-seed0]``."""
        return f"{self.suite}::{TEST_NAME}[{self.parameter_id}]"

    @property
    def twin(self) -> "Case":
        """The same task and seed without the variation."""
        return replace(self, variation="")

    @property
    def _ending(self) -> str:
        return f"{self.variation}-seed{self.seed}" if self.variation else f"seed{self.seed}"


def parse_node_id(node_id: str) -> Case | None:
    """The case of a node id as `Case.node_id` writes it; None for any other text."""
    match = re.fullmatch(rf"(\w+)::{TEST_NAME}\[(\w+)(?:-({LABEL}))?-seed(\d{{1,10}})\]", node_id)
    return Case(match[1], match[2], int(match[4]), match[3] or "") if match and int(match[4]) <= LAST_SEED else None


def init_state_of(seed: int, count: int, pinned: int | None = None) -> int:
    """The init state that a seed starts from, of `count`; a suite's protocol may pin it."""
    return seed % count if pinned is None else pinned


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds from ``0-9``, ``0,3,7`` or ``0-4,10``: in the order written, each once. Raises VlaError."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,20})\s*(?:-\s*(\d{1,20})\s*)?", part, re.ASCII)
        if match is None:
            raise VlaError(f"seeds {text!r}: {part.strip()!r} is no seed and no range; write 0-9, 0,3,7 or 0-4,10")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise VlaError(f"seeds {text!r}: {part.strip()} runs backwards; write {last}-{first}")
        if last > LAST_SEED:
            raise VlaError(f"seeds {text!r}: {last} is beyond {LAST_SEED}, the last seed of a scene")
        if len(seeds) + last - first >= MAX_SEEDS:
            raise VlaError(f"seeds {text!r}: more than {MAX_SEEDS} seeds")
        seeds.update(dict.fromkeys(range(first, last + 1)))
    return tuple(seeds)


def select_tasks(suites: Sequence[Suite], patterns: Sequence[str]) -> tuple[Task, ...]:
    """The tasks that a comma list selects, in the suites' order; all of them where the list is empty.

    A pattern is a task's name, a wildcard pattern (``*``, ``?``, ``[]``) or a part of a name; a full name selects that
    name only. Case does not matter.

    Raises:
        VlaError: a pattern selects nothing in any of the suites; names the close matches.
    """
    tasks = [task for suite in suites for task in suite.tasks]
    if not patterns:
        return tuple(tasks)
    names = {task.name for task in tasks}
    chosen: set[str] = set()
    for pattern in patterns:
        matched = _matching(pattern, names)
        if not matched and suites:
            where = ", ".join(suite.name for suite in suites)
            known = [*sorted(names), *sorted({word for name in names for word in name.split("_")})]
            raise VlaError(f"no task of {where} is {pattern!r} or contains it.{did_you_mean(pattern, known)}")
        chosen |= matched
    return tuple(task for task in tasks if task.name in chosen)


def plan(
    suites: Sequence[Suite],
    patterns: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    labels: Callable[[Task], Sequence[str]] = lambda task: ("",),
) -> tuple[Case, ...]:
    """All cases, suite by suite, task by task, variation by variation, a variation's seeds next to each other.

    Args:
        suites: whose tasks.
        patterns: as for `select_tasks`.
        seeds: None: each suite's own.
        labels: of each task's variations; the empty one: the task as it is.

    Raises:
        VlaError: as `select_tasks`.
    """
    own = {suite.name: suite.seeds or DEFAULT_SEEDS for suite in suites}
    return tuple(
        Case(task.suite, task.name, seed, label)
        for task in select_tasks(suites, patterns)
        for label in labels(task)
        for seed in seeds or own[task.suite]
    )


def with_twins(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases, and before them, once, what each is compared with: its benign twin, and of a joint one its parts."""
    joint = [(case, parts) for case in cases if len(parts := parts_of(case.variation)) > 1]
    singles = [replace(case, variation=part) for case, parts in joint for part in parts]
    return tuple(dict.fromkeys([*(case.twin for case in cases), *singles, *cases]))


def narrow(cases: Sequence[Case], patterns: Sequence[str]) -> tuple[Case, ...]:
    """Those of the cases whose tasks the patterns of `select_tasks` select; all of them where there is no pattern."""
    names = {case.task for case in cases}
    chosen = {name for pattern in patterns for name in _matching(pattern, names)} if patterns else names
    return tuple(case for case in cases if case.task in chosen)


def _matching(pattern: str, names: Iterable[str]) -> set[str]:
    lowered = pattern.lower()
    exact = {name for name in names if name.lower() == lowered}
    if exact:
        return exact
    if any(sign in pattern for sign in "*?["):
        return {name for name in names if fnmatch.fnmatchcase(name.lower(), lowered)}
    return {name for name in names if lowered in name.lower()}

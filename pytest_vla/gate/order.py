"""The order in which a sequential gate runs its episodes and looks at them, drawn in advance from a seed.

A unit is a task and a seed, with all pairs that a group has of it. A round has one unit of every task of a group: each
task's units come in an order that is drawn, the same for all groups, and the first round of a group has the first unit
of each of its tasks. Rounds end when a task of the group has no unit left; the remaining units of its other tasks are
in no round and are not judged.

Cases in which the baseline had nothing to measure (invalid) are in no round either, which is known beforehand.
"""

import hashlib
import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pytest_vla.gate.baseline import SHORT
from pytest_vla.gate.comparable import Pair, labels_of
from pytest_vla.gate.verdicts import (
    group_name,
)
from pytest_vla.metrics.success import unit_of

Unit = tuple[str, ...]
"""Its cases (`CaseResult.case`)."""


Round = tuple[Unit, ...]
"""A unit of every task of a group, by task."""


Value = TypeVar("Value")


class PlannedCase(NamedTuple):
    """A case that is to run and that the baseline has.

    Attributes:
        group: in which it is judged.
        task: ``SUITE/TASK``.
        seed: tells the units of a task from each other; mostly its seed.
        case: its id.
        is_measured: whether the baseline had something to measure in it.
    """

    group: str
    task: str
    seed: Hashable
    case: str
    is_measured: bool = True


@dataclass(frozen=True)
class Order:
    """The order in which episodes run and are judged.

    Attributes:
        rounds: by group.
        rest: by group, its cases that are in no round.
        sequence: the cases in the order in which they run: first all groups' first rounds, then their second ones, and
            in the end those in no round.
    """

    rounds: Mapping[str, tuple[Round, ...]]
    rest: Mapping[str, tuple[str, ...]]
    sequence: tuple[tuple[str, ...], ...]

    def pairs(self, group: str, rounds: int | None = None) -> int:
        """Return the number of pairs in the first `rounds` rounds of a group, or in all of them."""
        return sum(len(unit) for round_ in self.rounds[group][:rounds] for unit in round_)

    def cases(self, group: str, rounds: int | None = None) -> tuple[str, ...]:
        """Return the case ids of the first `rounds` rounds of a group, or of all of them."""
        return tuple(case for round_ in self.rounds[group][:rounds] for unit in round_ for case in unit)

    def all_cases(self, group: str) -> tuple[str, ...]:
        """Return a group's cases, in rounds or not."""
        return (*self.cases(group), *self.rest[group])


def planned_of(pairs: Iterable[Pair], by: Sequence[str]) -> list[PlannedCase]:
    """Return the planned cases of pairs before the run, without probes and given cases."""
    found = []
    for known in (pair.baseline for pair in pairs if not pair.baseline.in_no_rate):
        group, (task, seed) = group_name(labels_of(known), by), unit_of(known)
        found.append(PlannedCase(group, task, seed, known.case, known.outcome != "invalid"))
    return found


def generator_of(seed: int, cases: Iterable[str]) -> random.Random:
    """Return the generator that draws an order: from the run's seed and the cases' names, the same in every process."""
    text = "\n".join([str(seed), *sorted(cases)])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode(errors="surrogateescape")).digest()))


def draw_order(planned: Iterable[PlannedCase], generator: random.Random) -> Order:
    """Draw the order; it depends on the generator and on what is planned, and not on the order of that."""
    units: dict[str, dict[Hashable, dict[str, list[str]]]] = {}
    unmeasured: dict[str, list[str]] = {}
    for each in sorted(planned, key=lambda each: (*each[:2], str(each.seed), each.case)):
        if each.is_measured:
            units.setdefault(each.task, {}).setdefault(each.seed, {}).setdefault(each.group, []).append(each.case)
            unmeasured.setdefault(each.group, [])
        else:
            unmeasured.setdefault(each.group, []).append(each.case)
    by_group: dict[str, dict[str, list[Unit]]] = {}
    for task, seeds in sorted(units.items()):
        for of_groups in _shuffled([seeds[seed] for seed in sorted(seeds, key=str)], generator):
            for group, some in of_groups.items():
                by_group.setdefault(group, {}).setdefault(task, []).append(tuple(some))
    rounds, rest = {}, {}
    for group in sorted(unmeasured):
        tasks = by_group.setdefault(group, {})
        number = min(map(len, tasks.values()), default=0)
        rounds[group] = tuple(tuple(some[place] for some in tasks.values()) for place in range(number))
        left = [case for some in tasks.values() for unit in some[number:] for case in unit]
        rest[group] = (*left, *unmeasured[group])
    return Order(rounds, rest, _sequence(by_group, rounds, rest, generator))


def order_digest(order: Order) -> str:
    """Return the digest of an order: the judged cases by group, and the sequence."""
    told = [f"{group}\n{case}" for group in order.rounds for case in order.cases(group)]
    told += [case for round_ in order.sequence for case in round_]
    return hashlib.sha256("\n".join(told).encode(errors="surrogateescape")).hexdigest()[:SHORT]


def _sequence(
    by_group: Mapping[str, Mapping[str, Sequence[Unit]]],
    rounds: Mapping[str, Sequence[Round]],
    rest: Mapping[str, Sequence[str]],
    generator: random.Random,
) -> tuple[tuple[str, ...], ...]:
    found = []
    for number in range(max(map(len, rounds.values()), default=0)):
        tasks = sorted({task for group, some in by_group.items() if number < len(rounds[group]) for task in some})
        cases = []
        # A task's groups follow on each other: mostly it is one scene.
        for task in _shuffled(tasks, generator):
            groups = [group for group, some in by_group.items() if number < len(rounds[group]) and task in some]
            cases += [case for group in _shuffled(sorted(groups), generator) for case in by_group[group][task][number]]
        found.append(tuple(cases))
    left = tuple(case for group in sorted(rest) for case in rest[group])
    return (*found, left) if left else tuple(found)


def _shuffled(values: Iterable[Value], generator: random.Random) -> list[Value]:
    # Python promises the numbers of `random` for all versions, and of nothing else.
    return [value for _, value in sorted([(generator.random(), value) for value in values], key=lambda each: each[0])]

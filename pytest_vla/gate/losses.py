"""The successes lost against a baseline, by task and case by case."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_vla.gate.comparable import ComparedStratum, Pair
from pytest_vla.plan.case import node_id


@dataclass(frozen=True)
class TaskChange:
    """A task of a group, over its episodes that are counted on both sides.

    Attributes:
        group: its name.
        task: ``SUITE/TASK``.
        baseline: the baseline's successes, and of how many episodes.
        new: the run's.
    """

    group: str
    task: str
    baseline: tuple[int, int]
    new: tuple[int, int]

    @property
    def lost(self) -> float:
        """The run's successes that are missing against the baseline's rate; for pairs, those lost less those gained."""
        return self.baseline[0] / self.baseline[1] * self.new[1] - self.new[0]


@dataclass(frozen=True)
class Flip:
    """A case that only one of the two did.

    Attributes:
        group: its name.
        case: its id.
        node: id of the pytest item that ran it in the run.
        run_seed: of ``--vla-run-seed``.
        is_lost: whether the baseline did it; else the run.
    """

    group: str
    case: str
    node: str
    run_seed: int
    is_lost: bool


def task_changes(sources: Mapping[str, Sequence[Pair | ComparedStratum]]) -> tuple[TaskChange, ...]:
    """Return the tasks of groups (pairs and strata by the group's name), those that lost most first."""
    found: dict[tuple[str, str], list[int]] = {}
    for group, some in sources.items():
        for source in some:
            counts = found.setdefault((group, source.task), [0, 0, 0, 0])
            for place, side in enumerate(_counted(source)):
                counts[2 * place] += sum(side)
                counts[2 * place + 1] += len(side)
    changes = [TaskChange(*key, (n[0], n[1]), (n[2], n[3])) for key, n in found.items() if n[1] and n[3]]
    return tuple(sorted(changes, key=lambda change: (-change.lost, change.baseline[1], change.group, change.task)))


def flips_of(
    sources: Mapping[str, Sequence[Pair | ComparedStratum]], changes: Iterable[TaskChange]
) -> tuple[Flip, ...]:
    """Return the pairs with different outcomes: lost ones first, those of the tasks that lost most first.

    Args:
        sources: by the group's name; strata have no pairs.
        changes: as `task_changes` orders them.
    """
    order = {(change.group, change.task): place for place, change in enumerate(changes)}
    found = []
    for group, some in sources.items():
        for pair in some:
            if isinstance(pair, Pair) and len({*_counted(pair)}) == 2 and all(_counted(pair)):
                is_lost = pair.baseline.outcome == "success"
                node = pair.new.test or node_id(pair.new.parts)
                flip = Flip(group, pair.case, node, pair.new.run_seed, is_lost)
                found.append((not is_lost, order[group, pair.task], pair.new.key, flip))
    return tuple(flip for *_, flip in sorted(found, key=lambda each: each[:3]))


def _counted(source: Pair | ComparedStratum) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Success of what is counted, the baseline's and the run's; of a pair, of both or of neither."""
    if isinstance(source, ComparedStratum):
        baseline, new = source.baseline, source.new
    elif source.baseline.is_counted and source.new.is_counted:
        baseline, new = (source.baseline,), (source.new,)
    else:
        return (), ()
    one, other = (tuple(case.outcome == "success" for case in side if case.is_counted) for side in (baseline, new))
    return one, other

"""A sequential gate during its run: the groups decided after each round, the skipped episodes, and their file."""

import json
import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla.plan.case import parse_node_id
from pytest_vla.run.gate import GateConfig
from pytest_vla.run.nodes import counted_node
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from pytest_vla.gate.order import Order
    from pytest_vla.gate.sequential import GroupStatus


class Deciding:
    """The decided groups of a sequential gate, in the process that keeps the run.

    Args:
        gate: the gate, with its plan.
        nodes: ids of all of the run's items with an episode.

    Raises:
        VlaError: the planned order cannot be drawn any more.
    """

    def __init__(self, gate: GateConfig, nodes: Iterable[str]) -> None:
        from pytest_vla.gate.sequential import agreed_order, cases_of, outcomes_of

        assert gate.agreed is not None, "it was agreed before the first episode"
        cases = cases_of(nodes)
        self.order: Order = agreed_order(gate.agreed, gate.baseline, cases)
        self.skipped: dict[str, str] = {}
        """By node id, why an item that has no episode is not to have one any more."""
        self._gate, self._baseline = gate, outcomes_of(gate.baseline, cases, gate.agreed.run_seed)
        self._nodes = {case.id: case.node_id for case in cases}
        # Of cases that are in rounds, how they ended.
        self._outcomes: dict[str, str] = {}
        self._round_of = {
            case: (group, number)
            for group, rounds in self.order.rounds.items()
            for number, round_ in enumerate(rounds)
            for unit in round_
            for case in unit
        }
        self._waiting: dict[tuple[str, int], set[str]] = {}
        for case, round_ in self._round_of.items():
            self._waiting.setdefault(round_, set()).add(case)
        self._ended: set[str] = set()
        self._decided: set[str] = set()

    def turns(self, nodes: Sequence[str]) -> dict[str, int]:
        """Return the round of each episode by node id; an episode without a baseline case comes after all rounds."""
        found = {self._nodes[case]: turn for turn, cases in enumerate(self.order.sequence) for case in cases}
        return {node: found.get(node, len(self.order.sequence)) for node in nodes}

    def in_order(self, items: Sequence[pytest.Item], names: Mapping[str, str]) -> list[pytest.Item]:
        """Sort items into the planned order; those without an episode come first.

        Args:
            items: in any order.
            names: by node id of items with an episode, the name under which the episode is recorded.
        """
        sequence = [self._nodes[case] for cases in self.order.sequence for case in cases]
        places = {node: place for place, node in enumerate(sequence)}
        last = len(sequence)
        return sorted(items, key=lambda item: places.get(names[item.nodeid], last) if item.nodeid in names else -1)

    def add(self, outcomes: Mapping[str, str]) -> bool:
        """Add the outcomes of episodes. Returns whether they decided another group.

        Args:
            outcomes: by node id, the outcome of the record that counts.
        """
        by_case = {case.id: outcome for node, outcome in outcomes.items() if (case := parse_node_id(node)) is not None}
        self._ended |= set(by_case)
        is_complete = False
        for name, outcome in by_case.items():
            if (round_ := self._round_of.get(name)) is not None:
                self._outcomes[name] = outcome
                self._waiting[round_].discard(name)
                is_complete |= not self._waiting[round_]
        return is_complete and self._look()

    def _look(self) -> bool:
        from pytest_vla.gate.sequential import standings

        gate = self._gate
        found = standings(self.order, self._baseline, self._outcomes, gate.terms, gate.required)
        new = [group for group, place in found.items() if place.is_decided and group not in self._decided]
        for group in new:
            self._decided.add(group)
            text = f"decided: {self._text(group, found[group])}"
            left = [case for case in self.order.all_cases(group) if case not in self._ended]
            self.skipped |= {self._nodes[case]: text for case in left}
        return bool(new)

    def _text(self, group: str, place: "GroupStatus") -> str:
        from pytest_vla.gate.sequential import decided_text

        return decided_text(group, place.verdict, self.order.pairs(group, place.rounds), self.order.pairs(group))


def left_line(deciding: Deciding) -> str:
    """Return the line on groups that a resumed run has already decided, or an empty text if there are none."""
    if not deciding.skipped:
        return ""
    reasons = "; ".join(dict.fromkeys(text.removeprefix("decided: ") for text in deciding.skipped.values()))
    return f"vla: skips {counted(len(deciding.skipped), 'episode')} of these, as the gate has decided: {reasons}"


# The decisions of a sequential gate, on their way from the process that keeps the run to those that run its items.
#
# They are a small file in the run's folder, which is replaced as a whole. Each process reads it before an item
# begins. A worker on another machine, which does not see the file, runs its items: episodes beyond a decision change
# nothing.

FILE = "decided.json"


_WAS_DECIDED = "vla_was_decided"
"""The attribute of a report that says so; it crosses with the report from worker to controller."""


def was_decided(report: pytest.TestReport) -> bool:
    """Whether the report is for an item that was skipped because its group was decided."""
    return getattr(report, _WAS_DECIDED, False) is True


def write_decided(run: Path, reasons: Mapping[str, str]) -> None:
    """Write the file of items that need not run any more.

    Args:
        run: the run's folder.
        reasons: by node id, as the item is recorded, the reason.

    Raises:
        VlaError: it cannot be written.
    """
    run.mkdir(parents=True, exist_ok=True)
    with whole_file(run / FILE) as stream:
        stream.write(json.dumps(reasons).encode())


class SkipDecided:
    """The hooks of a process that runs items: they skip the items of decided groups.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._file = run / FILE
        self._known: tuple[int, ...] = ()
        self._reasons: dict[str, str] = {}
        # An item that another plugin runs again has begun.
        self._begun: set[str] = set()
        self._skipped: set[pytest.Item] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip an item whose group is decided."""
        node = counted_node(item)
        reason = None if node in self._begun else self._now().get(node)
        if reason is not None:
            self._skipped.add(item)
            raise pytest.skip.Exception(reason, _use_item_location=True)
        self._begun.add(node)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Mark the reports of items that were skipped because their group was decided."""
        report = yield
        if item in self._skipped:
            setattr(report, _WAS_DECIDED, True)
        return report

    def _now(self) -> Mapping[str, str]:
        try:
            about = os.stat(self._file)
            known = about.st_ino, about.st_mtime_ns, about.st_size
            if known != self._known:
                self._reasons, self._known = json.loads(self._file.read_bytes()), known
        except OSError:
            # Nothing is decided yet, or it cannot be read: then the item runs.
            return {}
        return self._reasons

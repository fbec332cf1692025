"""What an invocation is to run: its items, and which episodes they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from pytest_vla.plan.case import Case
from pytest_vla.plan.labels import parse_search_id
from pytest_vla.run.nodes import counted_node, episode_node, shared_by


@dataclass(frozen=True)
class Collected:
    """The items of an invocation.

    Attributes:
        nodes: ids of all items.
        cases: by node id, of those that run an episode.
        names: by node id, what those are recorded as that are repetitions of an item.
        shared: by node id of tests that share an episode, what that is recorded as.
    """

    nodes: Sequence[str]
    cases: Mapping[str, Case]
    names: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)

    @property
    def searches(self) -> tuple[str, ...]:
        """Ids of the items that search a task."""
        return tuple(node for node in self.nodes if parse_search_id(node))

    @property
    def alone(self) -> dict[str, Case]:
        """By node id, each episode once: it runs with the first of the tests that share it."""
        first = {self.shared.get(node, node): node for node in reversed(list(self.cases))}
        return {node: case for node, case in self.cases.items() if first[self.shared.get(node, node)] == node}


def collected_of(items: Sequence[pytest.Item]) -> Collected:
    """Of the items that pytest collected."""
    by_node = {item.nodeid: item for item in items}
    found = {item.nodeid: item.callspec.params.get("vla_case") for item in items if hasattr(item, "callspec")}
    cases = {node: case for node, case in found.items() if isinstance(case, Case)}
    return Collected(
        [item.nodeid for item in items],
        cases,
        {node: counted_node(by_node[node]) for node in cases},
        {node: episode_node(by_node[node]) for node in cases if shared_by(by_node[node])},
    )

"""What is to be run: cases and their ids. Pure: no simulator, no pytest.

A seed means one thing everywhere: seed s starts from init state s mod n, places the scene's fixtures with scene seed
s, and draws the policy's noise from (run seed, case, step). So n seeds of a task whose fixtures stand where they are
differ in their start, and further ones do not: `pytest_vla.records.counting` says what is one observation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_vla.plan import labels as names
from pytest_vla.util.ranges import LAST_SEED


@dataclass(frozen=True)
class Case:
    """One episode to run: a task, a variation of it by its label (empty: none), and a seed.

    `task_level` is the task's, in suites whose tasks come in levels; a name may stand in several of them. `given`: a
    file of cases names it, or a case whose twin or part it is, and the suite's own selection does not.
    """

    suite: str
    task: str
    seed: int
    variation: str = ""
    task_level: str = ""
    given: bool = field(default=False, compare=False)

    @property
    def task_key(self) -> str:
        """What tells the task from the others of its suite: its name, with a level before it where it has one."""
        return names.task_key(self.task, self.task_level)

    @property
    def id(self) -> str:
        """The name in records: ``libero_goal/turn_on_the_stove[seed0]``, ``...[VARIATION-seed0]``."""
        return names.case_id(self._parts)

    @property
    def parameter_id(self) -> str:
        """What stands in the brackets of the node id: ``turn_on_the_stove-seed0``, ``...-VARIATION-seed0``."""
        return names.parameter_id(self._parts)

    @property
    def node_id(self) -> str:
        """The pytest item: ``libero_goal::test_episode[turn_on_the_stove-seed0]``."""
        return names.node_id(self._parts)

    @property
    def twin(self) -> "Case":
        """The same task and seed without the variation."""
        return replace(self, variation="")

    @property
    def _parts(self) -> names.CaseParts:
        return names.CaseParts(self.suite, self.task, self.variation, self.seed, self.task_level)


def parse_node_id(node_id: str) -> Case | None:
    """The case of a node id as `Case.node_id` writes it; None for any other text."""
    found = names.parse_node_id(node_id)
    if found is None or found.seed > LAST_SEED:
        return None
    return Case(found.suite, found.task, found.seed, found.variation, found.task_level)


def init_state_of(seed: int, count: int, pinned: int | None = None) -> int:
    """The init state that a seed starts from, of `count`; a suite's protocol may pin it."""
    return seed % count if pinned is None else pinned


def init_state_by(seed: int, protocol: Mapping[str, Any]) -> int | None:
    """Return the init state that a seed starts from by a protocol as records have it; None: it does not say."""
    count, pinned = protocol.get("init_states"), protocol.get("init_state")
    if isinstance(pinned, int):
        return pinned
    return init_state_of(seed, count) if isinstance(count, int) and count > 0 else None

"""What is to be run: cases and their ids. Pure: no simulator, no pytest.

A seed means one thing everywhere: seed s starts from init state s mod n, places the scene's fixtures with scene seed
s, and draws the policy's noise from (run seed, case, step). So n seeds of a task whose fixtures stand where they are
differ in their start, and further ones do not: `pytest_vla.records.counting` says what is one observation.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pytest_vla.errors import VlaError
from pytest_vla.util.text import LAST_SEED

# Labels of variations and ids of cases: composed and taken apart here, and nowhere else.
#
# A label is ``DIMENSION.KIND``, with ``-LEVEL`` where the kind is graded and ``.PART`` where it has parts; where its
# parameters were chosen and not drawn, ``-x`` and a digest of them. Of a joint variation it is those of its parts
# with ``+`` between. Varied suites have labels of their own, which begin with ``upstream.`` where upstream's code,
# and not the paper, says how they are made. A case's id has suite, task level, task, label, seed.

TASK = r"[A-Za-z0-9_]+"
"""What stands in ids, and in the names of files, for a task; a regular expression."""

TASK_LEVEL = r"L[0-9]{1,2}"
"""What stands in ids before a task, of suites whose tasks come in levels; a regular expression."""

LABEL = r"[A-Za-z0-9_.+-]+"
"""What stands in ids for a variation; a regular expression."""

JOINT = "+"
"""Between the parts of a joint variation: in its label, its dimension and its kind."""

PROTOCOLS = OURS, PAPER, UPSTREAM = ("ours", "paper", "upstream")
"""How a benchmark's variations are made where we, its paper and its code differ; the first one by default."""

TEST_NAME = "test_episode"
"""The function that every suite's module has, and so the middle of every node id."""

SEARCH_NAME = "test_fuzz"
"""The function of the items that search a task for scenes that break a policy."""

_LEVEL, _PART = "-L", "."
_CHOSEN = re.compile(r"(.+)-x[0-9a-f]{8}", re.ASCII)
_LEVELLED = re.compile(rf"(.+){_LEVEL}(\d+)", re.ASCII)
_TASK_KEY = re.compile(rf"(?:({TASK_LEVEL})-)?({TASK})")
_CASE_ID = re.compile(rf"(\w+)/(?:({TASK_LEVEL})-)?(\w+)\[(?:({LABEL})-)?seed([0-9]{{1,10}})\]")
_SEARCH_ID = re.compile(rf"(\w+)::{SEARCH_NAME}\[((?:{TASK_LEVEL}-)?{TASK})\]")
_NODE_ID = re.compile(rf"(\w+)::{TEST_NAME}\[(?:({TASK_LEVEL})-)?(\w+)(?:-({LABEL}))?-seed(\d{{1,10}})\]")


def joint_of(parts: Iterable[str]) -> str:
    """The label of a joint variation; also its dimension or its kind, of those of its parts."""
    return JOINT.join(parts)


def parts_of(label: str) -> tuple[str, ...]:
    """The labels of the variations that a joint one is made of; of any other, its own. Also of dimension and kind."""
    return tuple(label.split(JOINT))


def is_joint(label: str) -> bool:
    """Whether a label, a dimension or a kind is a joint variation's."""
    return JOINT in label


def names_of(dimension: str, kind: str) -> str:
    """``camera.wider+light.shadow``, from dimension and kind in a record: ``camera+light`` and ``wider+shadow``."""
    dimensions, kinds = parts_of(dimension), parts_of(kind)
    if len(dimensions) != len(kinds):
        return f"{dimension}.{kind}"
    return joint_of(f"{one}.{other}" for one, other in zip(dimensions, kinds, strict=True))


def dimension_of(name: str) -> str:
    """The dimension of a kind's name."""
    return name.partition(".")[0]


def within(dimension: str, label: str) -> str:
    """A label without its dimension; of a joint one each of its parts: ``wider-L2+shadow-L1``."""
    pairs = zip(parts_of(dimension), parts_of(label), strict=False)
    return joint_of(part.removeprefix(f"{name}.") for name, part in pairs)


def levelled(name: str, level: int) -> str:
    """The label of a kind's level."""
    return f"{name}{_LEVEL}{level}"


def usually_of(label: str) -> tuple[str, str, int | None]:
    """Dimension, kind and level that a label says by itself; varied suites' and parts' own labels mean others.

    ``light``, ``diffuse`` and 2 of ``light.diffuse-L2``; of a joint one those of its parts, as records have them.
    """
    parts = parts_of(label)
    dimensions = [dimension_of(part) for part in parts]
    levels = [level_of(part) for part in parts]
    kinds = [
        (chosen_name(part) or part).removeprefix(f"{dimension}.").removesuffix(f"{_LEVEL}{level}")
        for part, dimension, level in zip(parts, dimensions, levels, strict=True)
    ]
    return joint_of(dimensions), joint_of(kinds), (levels[0] or None) if len({*levels}) == 1 else None


def level_of(label: str) -> int:
    """The level of a graded kind's label; 0: it has none."""
    found = _LEVELLED.fullmatch(label)
    return int(found[2]) if found else 0


def chosen(name: str, digest: str) -> str:
    """The label of a kind whose parameters are chosen; `digest` names them, 8 hexadecimal digits."""
    return f"{name}-x{digest}"


def chosen_name(label: str) -> str:
    """The kind's name of a label as `chosen` writes it; empty: it is another one."""
    found = _CHOSEN.fullmatch(label)
    return found[1] if found else ""


def is_given(label: str) -> bool:
    """Whether a part of a label has parameters that a file of cases gives: its cases were chosen, and are no sample."""
    return any(map(chosen_name, parts_of(label)))


def parted(name: str, part: str) -> str:
    """The label of a part of a kind."""
    return f"{name}{_PART}{part}"


def part_of(label: str, name: str) -> str:
    """The part of a label of the kind of a name; empty: it is the kind's own label, or has a level."""
    return label.removeprefix(f"{name}{_PART}") if label.startswith(f"{name}{_PART}") else ""


def last_part(label: str) -> str:
    """What stands behind a label's last dot."""
    return label.rpartition(_PART)[2]


def but_last_part(label: str) -> str:
    """What stands before a label's last dot: of LIBERO-Para's labels the cell; empty: there is no dot."""
    return label.rpartition(_PART)[0]


def upstreams(label: str) -> str:
    """The label of a varied suite's variation as upstream's code makes it."""
    return f"{UPSTREAM}{_PART}{label}"


def is_upstreams(label: str) -> bool:
    """Whether it is one of `upstreams`."""
    return label.startswith(upstreams(""))


def parse_task_levels(text: str) -> tuple[str, ...]:
    """Levels from ``L0,L2``, ``0-1`` or ``L0-L2``: in the order written, each once. Raises VlaError."""
    levels: dict[str, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*[Ll]?(\d{1,2})\s*(?:-\s*[Ll]?(\d{1,2})\s*)?", part, re.ASCII)
        if match is None:
            raise VlaError(f"levels {text!r}: {part.strip()!r} is no level and no range; write L1, L0,L2 or L0-L2")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise VlaError(f"levels {text!r}: {part.strip()} runs backwards; write L{last}-L{first}")
        levels.update(dict.fromkeys(f"L{level}" for level in range(first, last + 1)))
    return tuple(levels)


def task_key(task: str, task_level: str) -> str:
    """What tells a task from the others of its suite: ``pick_the_apple``, or with its level ``L1-pick_the_apple``."""
    return f"{task_level}-{task}" if task_level else task


def parse_task_key(key: str) -> tuple[str, str] | None:
    """Task and level (empty: it has none) of a `task_key`; None for any other text."""
    match = _TASK_KEY.fullmatch(key)
    return (match[2], match[1] or "") if match else None


class CaseParts(NamedTuple):
    """What a case's id is made of; the empty variation: the task as it is; the empty task level: there are none."""

    suite: str
    task: str
    variation: str
    seed: int
    task_level: str = ""


def case_id(case: CaseParts) -> str:
    """The name in records: ``libero_goal/turn_on_the_stove[seed0]``, ``...[VARIATION-seed0]``, ``.../L1-...``."""
    return f"{case.suite}/{task_key(case.task, case.task_level)}[{_ending(case)}]"


def parse_case_id(text: str) -> CaseParts | None:
    """What an id as `case_id` writes it is made of; None for any other text."""
    match = _CASE_ID.fullmatch(text)
    return CaseParts(match[1], match[3], match[4] or "", int(match[5]), match[2] or "") if match else None


def task_key_of(case_id: str, suite: str) -> str:
    """The `task_key` in the `case_id` of a suite's case."""
    return case_id.removeprefix(f"{suite}/").partition("[")[0]


def parameter_id(case: CaseParts) -> str:
    """What stands in the brackets of the node id: ``turn_on_the_stove-seed0``, ``...-VARIATION-seed0``."""
    return f"{task_key(case.task, case.task_level)}-{_ending(case)}"


def node_id(case: CaseParts) -> str:
    """The pytest item: ``libero_goal::test_episode[turn_on_the_stove-seed0]``."""
    return f"{case.suite}::{TEST_NAME}[{parameter_id(case)}]"


def split_node_id(text: str) -> CaseParts | None:
    """What a node id as `node_id` writes it is made of; None for any other text."""
    match = _NODE_ID.fullmatch(text)
    return CaseParts(match[1], match[3], match[4] or "", int(match[5]), match[2] or "") if match else None


def search_name(key: str) -> str:
    """The name of the item that searches a task, by its `task_key`: ``test_fuzz[turn_on_the_stove]``."""
    return f"{SEARCH_NAME}[{key}]"


def parse_search_id(text: str) -> tuple[str, str] | None:
    """Suite and `task_key` of ``libero_goal::test_fuzz[turn_on_the_stove]``; None for any other text."""
    match = _SEARCH_ID.fullmatch(text)
    return (match[1], match[2]) if match else None


def _ending(case: CaseParts) -> str:
    return f"{case.variation}-seed{case.seed}" if case.variation else f"seed{case.seed}"


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
        return task_key(self.task, self.task_level)

    @property
    def id(self) -> str:
        """The name in records: ``libero_goal/turn_on_the_stove[seed0]``, ``...[VARIATION-seed0]``."""
        return case_id(self._parts)

    @property
    def parameter_id(self) -> str:
        """What stands in the brackets of the node id: ``turn_on_the_stove-seed0``, ``...-VARIATION-seed0``."""
        return parameter_id(self._parts)

    @property
    def node_id(self) -> str:
        """The pytest item: ``libero_goal::test_episode[turn_on_the_stove-seed0]``."""
        return node_id(self._parts)

    @property
    def twin(self) -> "Case":
        """The same task and seed without the variation."""
        return replace(self, variation="")

    @property
    def _parts(self) -> CaseParts:
        return CaseParts(self.suite, self.task, self.variation, self.seed, self.task_level)


def parse_node_id(node_id: str) -> Case | None:
    """The case of a node id as `Case.node_id` writes it; None for any other text."""
    found = split_node_id(node_id)
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

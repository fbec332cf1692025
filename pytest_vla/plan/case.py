"""Cases to run, and their ids. Pure: no simulator, no pytest.

A seed means one thing everywhere: seed s starts from init state s mod n, places the scene's fixtures with scene seed s,
and draws the policy's noise from (run seed, case, step). So n seeds of a task with fixed fixtures differ in their
start, and further seeds do not: `pytest_vla.records.counting` decides what is one observation.
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

LATENCY = "action.latency"
"""The kind of variation that lets answers come late; its actions are the policy's."""

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
    """Return the label of a joint variation, or its dimension or kind, from those of its parts."""
    return JOINT.join(parts)


def parts_of(label: str) -> tuple[str, ...]:
    """Return the parts of a joint label (or dimension, or kind); of any other the label itself."""
    return tuple(label.split(JOINT))


def changes_actions(label: str) -> bool:
    """Whether a variation changes the policy's actions: of the dimension ``action``, where latency changes none."""
    return any(part.startswith("action.") and not part.startswith(LATENCY) for part in parts_of(label))


def is_joint(label: str) -> bool:
    """Whether a label, a dimension or a kind is a joint variation's."""
    return JOINT in label


def names_of(dimension: str, kind: str) -> str:
    """Combine a record's dimension and kind: ``a+b`` and ``x+y`` to ``a.x+b.y``."""
    dimensions, kinds = parts_of(dimension), parts_of(kind)
    if len(dimensions) != len(kinds):
        return f"{dimension}.{kind}"
    return joint_of(f"{one}.{other}" for one, other in zip(dimensions, kinds, strict=True))


def dimension_of(name: str) -> str:
    """Return the dimension from a kind's name."""
    return name.partition(".")[0]


def within(dimension: str, label: str) -> str:
    """Return a label without its dimension, or for a joint one each part without its own: ``wider+shadow``."""
    pairs = zip(parts_of(dimension), parts_of(label), strict=False)
    return joint_of(part.removeprefix(f"{name}.") for name, part in pairs)


def levelled(name: str, level: int) -> str:
    """Return the label of a kind's level."""
    return f"{name}{_LEVEL}{level}"


def usually_of(label: str) -> tuple[str, str, int | None]:
    """Return the dimension, kind and level that a label implies; labels of varied suites and of parts may mean others.

    ``light``, ``diffuse`` and 2 for ``light.diffuse-L2``; for a joint label those of its parts, as records have them.
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
    """Return the level in a graded kind's label, or 0 if it has none."""
    found = _LEVELLED.fullmatch(label)
    return int(found[2]) if found else 0


def chosen(name: str, digest: str) -> str:
    """Return the label of a kind with chosen parameters; `digest` identifies them, 8 hexadecimal digits."""
    return f"{name}-x{digest}"


def chosen_name(label: str) -> str:
    """Return the kind's name in a label as `chosen` writes it, or an empty text for any other label."""
    found = _CHOSEN.fullmatch(label)
    return found[1] if found else ""


def is_given(label: str) -> bool:
    """Whether a part of a label has parameters from a file of cases: its cases were chosen, and are no sample."""
    return any(map(chosen_name, parts_of(label)))


def parted(name: str, part: str) -> str:
    """Return the label of a part of a kind."""
    return f"{name}{_PART}{part}"


def part_of(label: str, name: str) -> str:
    """Return the part in a label of the kind `name`, or an empty text if it is the kind's own label or has a level."""
    return label.removeprefix(f"{name}{_PART}") if label.startswith(f"{name}{_PART}") else ""


def last_part(label: str) -> str:
    """Return the text after a label's last dot."""
    return label.rpartition(_PART)[2]


def but_last_part(label: str) -> str:
    """Return the text before a label's last dot (for LIBERO-Para's labels the cell), or an empty text without a dot."""
    return label.rpartition(_PART)[0]


def upstreams(label: str) -> str:
    """Return the label of a varied suite's variation as made by upstream's code."""
    return f"{UPSTREAM}{_PART}{label}"


def is_upstreams(label: str) -> bool:
    """Whether a label is one that `upstreams` makes."""
    return label.startswith(upstreams(""))


def parse_task_levels(text: str) -> tuple[str, ...]:
    """Parse levels such as ``L0,L2``, ``0-1`` or ``L0-L2``, in the order written, each once. Raises VlaError."""
    levels: dict[str, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*[Ll]?(\d{1,2})\s*(?:-\s*[Ll]?(\d{1,2})\s*)?", part, re.ASCII)
        if match is None:
            raise VlaError(f"levels {text!r}: {part.strip()!r} is not a level or range; write L1, L0,L2 or L0-L2")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise VlaError(f"levels {text!r}: {part.strip()} runs backwards; write L{last}-L{first}")
        levels.update(dict.fromkeys(f"L{level}" for level in range(first, last + 1)))
    return tuple(levels)


def task_key(task: str, task_level: str) -> str:
    """Return a task's key, unique within its suite: ``pick_the_apple``, or with its level ``L1-pick_the_apple``."""
    return f"{task_level}-{task}" if task_level else task


def parse_task_key(key: str) -> tuple[str, str] | None:
    """Split a `task_key` into task and level (empty if it has none), or return None for any other text."""
    match = _TASK_KEY.fullmatch(key)
    return (match[2], match[1] or "") if match else None


class CaseParts(NamedTuple):
    """The parts of a case's id; variation and task level are empty if there is none."""

    suite: str
    task: str
    variation: str
    seed: int
    task_level: str = ""


def case_id(case: CaseParts) -> str:
    """Return the case's id in records: ``libero_goal/turn_on_the_stove[seed0]``, ``...[VARIATION-seed0]``."""
    return f"{case.suite}/{task_key(case.task, case.task_level)}[{_ending(case)}]"


def parse_case_id(text: str) -> CaseParts | None:
    """Split an id that `case_id` wrote into its parts, or return None for any other text."""
    match = _CASE_ID.fullmatch(text)
    return CaseParts(match[1], match[3], match[4] or "", int(match[5]), match[2] or "") if match else None


def task_key_of(case_id: str, suite: str) -> str:
    """Return the `task_key` in a suite's `case_id`."""
    return case_id.removeprefix(f"{suite}/").partition("[")[0]


def parameter_id(case: CaseParts) -> str:
    """Return the text in the brackets of the node id: ``turn_on_the_stove-seed0``, ``...-VARIATION-seed0``."""
    return f"{task_key(case.task, case.task_level)}-{_ending(case)}"


def node_id(case: CaseParts) -> str:
    """Return the id of the pytest item: ``libero_goal::test_episode[turn_on_the_stove-seed0]``."""
    return f"{case.suite}::{TEST_NAME}[{parameter_id(case)}]"


def split_node_id(text: str) -> CaseParts | None:
    """Split an id that `node_id` wrote into its parts, or return None for any other text."""
    match = _NODE_ID.fullmatch(text)
    return CaseParts(match[1], match[3], match[4] or "", int(match[5]), match[2] or "") if match else None


def search_name(key: str) -> str:
    """Return the name of the item that searches a task, from its `task_key`: ``test_fuzz[turn_on_the_stove]``."""
    return f"{SEARCH_NAME}[{key}]"


def parse_search_id(text: str) -> tuple[str, str] | None:
    """Split ``libero_goal::test_fuzz[turn_on_the_stove]`` into suite and `task_key`; None for any other text."""
    match = _SEARCH_ID.fullmatch(text)
    return (match[1], match[2]) if match else None


def _ending(case: CaseParts) -> str:
    return f"{case.variation}-seed{case.seed}" if case.variation else f"seed{case.seed}"


@dataclass(frozen=True)
class Case:
    """One episode to run: a task, a variation of it by its label (empty if not varied), and a seed.

    `task_level` is the task's, in suites whose tasks come in levels; several levels may have a task of the same name.
    `given` is set if a file of cases names the case, or a case whose twin or part it is, and the suite's own selection
    does not.
    """

    suite: str
    task: str
    seed: int
    variation: str = ""
    task_level: str = ""
    given: bool = field(default=False, compare=False)

    @property
    def task_key(self) -> str:
        """The task's key, unique within its suite: its name, with a level before it if it has one."""
        return task_key(self.task, self.task_level)

    @property
    def id(self) -> str:
        """The name in records: ``libero_goal/turn_on_the_stove[seed0]``, ``...[VARIATION-seed0]``."""
        return case_id(self._parts)

    @property
    def parameter_id(self) -> str:
        """The text in the brackets of the node id: ``turn_on_the_stove-seed0``, ``...-VARIATION-seed0``."""
        return parameter_id(self._parts)

    @property
    def node_id(self) -> str:
        """The pytest item: ``libero_goal::test_episode[turn_on_the_stove-seed0]``."""
        return node_id(self._parts)

    @property
    def twin(self) -> "Case":
        """The case with the same task and seed, without the variation."""
        return replace(self, variation="")

    @property
    def _parts(self) -> CaseParts:
        return CaseParts(self.suite, self.task, self.variation, self.seed, self.task_level)


def parse_node_id(node_id: str) -> Case | None:
    """Return the case of a node id that `Case.node_id` wrote, or None for any other text."""
    found = split_node_id(node_id)
    if found is None or found.seed > LAST_SEED:
        return None
    return Case(found.suite, found.task, found.seed, found.variation, found.task_level)


def init_state_of(seed: int, count: int, pinned: int | None = None) -> int:
    """Return the init state (of `count`) that a seed starts from, unless a suite's protocol pins one."""
    return seed % count if pinned is None else pinned


def init_state_by(seed: int, protocol: Mapping[str, Any]) -> int | None:
    """Return the init state that a seed starts from by a record's protocol, or None if the protocol does not tell."""
    count, pinned = protocol.get("init_states"), protocol.get("init_state")
    if isinstance(pinned, int):
        return pinned
    return init_state_of(seed, count) if isinstance(count, int) and count > 0 else None

"""Which records count: of each case the first complete one. Said here and nowhere else; pure functions over records.

A case is a task under a variation from a seed, with the run seed, the protocol, the replan length, the simulator, what
makes an episode invalid, and the policy with the digest of what it is made of; of tests of the user's own it is the
test too, since several may run one episode. Its first complete record (success, failure or invalid) counts. A later one
replaces only an error, which is what ``--vla-resume`` and reruns are for; where there are only errors the last one
stands. Further complete records are repeats: whoever runs again until it succeeds does not change the rate. The first
is the one that began first: of repeats side by side the shortest ends first, and successes are short.

Records of one case under several run seeds count each, as a policy may draw; intervals count them together. Of a policy
that does not draw they are one observation, however often it was made: where all that it has done under other run seeds
is equal bit for bit. Of one that draws all count, those too that happen to be equal: leaving out what is alike would
leave out what it does most of the time.
"""

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from pytest_vla.plan.labels import OURS
from pytest_vla.records.record import Record

COMPLETE = ("success", "failure", "invalid")
"""Outcomes that were measured, or that would be the same whatever the policy did; the other one is ``error``."""

OF_PROVENANCE = ("mujoco", "robosuite", "premises", "feasible")
"""Of a record's provenance: what decides how the world moves, and whether there is anything to measure. How it looks is
in the protocol."""

ALARM = "stop_when"
"""Of a record's provenance: the rule by which episodes were stopped, a condition of the case where there is one."""

OF_WORLD = "world."
"""Begins the names of conditions that a suite's own world says of its simulator (`Record.simulator`)."""

UNKNOWN = ""
"""Stands in the place of a condition that a record does not know."""

_KNOWN, _KNOWN_CASE = "_conditions", "_case_of"
"""In a record's own dictionary, beside what it works out once itself."""

# What an error may not know, as its process may have died before it could tell; the same for all episodes of a run.
_OF_RUN = ("policy_digest", "replan", *OF_PROVENANCE)

How = Literal["counts", "repeat", "superseded", "same"]


def is_complete(outcome: str) -> bool:
    """Whether an episode of this outcome came to its end, so that it is not to be run again."""
    return outcome in COMPLETE


class Attempt(Protocol):
    """The fields of a record by which the rule goes."""

    @property
    def outcome(self) -> str: ...
    @property
    def started(self) -> str: ...


def takes_over(record: Attempt, before: Attempt) -> bool:
    """The rule: whether a record counts instead of one of the same case that was known before it."""
    if not is_complete(before.outcome):
        return True
    return is_complete(record.outcome) and record.started < before.started


class Standing(NamedTuple):
    """What a record is to the others.

    Attributes:
        how: ``counts``; ``repeat`` of one that counts; ``superseded``: an error beside another record; ``same``: equal
            bit for bit to one that counts, under another run seed of a policy that does not draw.
        of: the index of the record that stands for its case: its own, where it counts.
    """

    how: How
    of: int


@dataclass(frozen=True)
class Key:
    """A case, as far as records tell one from another.

    Attributes:
        case: `Record.case`.
        listed: the protocol under which an entry of a benchmark's list is drawn; empty: there is but one.
        test: node id of the user's own test; empty: a suite's own item.
        run_seed: of ``--vla-run-seed``; imported logs say of none, and have 0.
        policy: the ``--vla-model`` text.
        conditions: of `conditions_of`.
    """

    case: str
    listed: str
    test: str
    run_seed: int
    policy: str
    conditions: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """sha256 (hex): equal for equal keys, in any process."""
        parts = (self.case, self.listed, self.test, self.run_seed, self.policy, self.conditions)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Repeats:
    """Complete records beyond those that count.

    Attributes:
        records: how many.
        cases: of how many cases.
        other_outcome: those whose outcome is not that of the record that counts.
        other_digest: those whose digest is not.
    """

    records: int = 0
    cases: int = 0
    other_outcome: int = 0
    other_digest: int = 0


def run_seed_of(record: Record) -> int:
    """Of ``--vla-run-seed``; imported logs say of none, and have 0."""
    return int(record.seeds.get("run") or 0)


def protocol_of(record: Record) -> str:
    """Whether it was drawn as the paper or as upstream's code has it, where a suite has both; else empty.

    Empty, too, where the name of its kind says so, as that of `language.words_paper`: nothing is mixed then.
    """
    name = str((record.variation.get("parameters") or {}).get("protocol") or "")
    said = name == OURS or str(record.variation.get("kind")).endswith(f"_{name}")
    return "" if said else name


def conditions_of(record: Record) -> dict[str, str]:
    """What a record's case was run under, by name: ``policy_digest``, ``replan``, ``mujoco``, ``protocol.max_steps``.

    Of a suite's own world also what that says of its simulator, such as ``world.version``. As text, with `UNKNOWN` for
    what the record does not know.
    """
    return dict(_conditions(record))


def _conditions(record: Record) -> Mapping[str, str]:
    """Likewise. Reports ask for them a few dozen times, and they cost as much as all else of a record."""
    known = vars(record)
    if _KNOWN not in known:
        known[_KNOWN] = _made_conditions(record)
    return known[_KNOWN]  # type: ignore[no-any-return]


def share_conditions(record: Record, known: dict[Any, Any]) -> None:
    """Have a record keep the same `conditions_of` as others whose provenance and protocol are the same objects.

    Args:
        record: of any kind.
        known: what was shared so far; of the caller's, who keeps it as long as there are records to come.
    """
    of = record.provenance, record.protocol
    key = (id(of[0]), id(of[1]), record.policy_digest, record.replan, record.simulator)
    # The objects are kept too: else another one could get the place in memory, and the id, of one that is gone.
    if key not in known:
        known[key] = (of, _made_conditions(record))
    vars(record)[_KNOWN] = known[key][1]


def _made_conditions(record: Record) -> Mapping[str, str]:
    conditions = {
        "policy_digest": record.policy_digest or UNKNOWN,
        "replan": UNKNOWN if record.replan is None else str(record.replan),
    }
    conditions |= {name: str(record.provenance.get(name, UNKNOWN)) for name in OF_PROVENANCE}
    if ALARM in record.provenance:
        # Others are the cases that they were before there were alarms.
        conditions[ALARM] = str(record.provenance[ALARM])
    conditions |= {f"{OF_WORLD}{name}": str(record.provenance.get(name, UNKNOWN)) for name in record.simulator}
    # Tuples and lists are the same text: a record may come from memory or from JSON.
    return conditions | {
        f"protocol.{name}": json.dumps(value, sort_keys=True) for name, value in record.protocol.items()
    }


def key_of(record: Record, conditions: Mapping[str, str] | None = None) -> Key:
    """The case of a record; its `conditions_of`, where none are given."""
    known = conditions_of(record) if conditions is None else conditions
    return Key(*case_of(record), tuple(sorted(known.items())))


def all_conditions(records: Sequence[Record]) -> tuple[dict[str, str], ...]:
    """Of each record `conditions_of`.

    Errors may know less, as their process may have died: what is the same for a whole run, or of an own world for a
    whole task, is of its complete records, and where it has none, of the first one of the same case that agrees with
    what they know.
    """
    found = [conditions_of(record) for record in records]
    of_run: dict[str, dict[str, str]] = {}
    of_task: dict[Hashable, dict[str, str]] = {}
    of_case: dict[Hashable, list[dict[str, str]]] = {}
    for record, conditions in zip(records, found, strict=True):
        if is_complete(record.outcome):
            of_run[record.run] = {name: conditions[name] for name in _OF_RUN}
            if record.simulator:
                task = record.run, record.suite, record.task_key
                # What differs within a task is of the case.
                of_task[task] = dict(of_task.get(task, _of_world(conditions)).items() & conditions.items())
            of_case.setdefault(case_of(record), []).append(conditions)
    for index, record in enumerate(records):
        if is_complete(record.outcome):
            continue
        found[index] |= of_run.get(record.run, {})
        if not record.simulator:
            found[index] |= of_task.get((record.run, record.suite, record.task_key), {})
        known = {name: text for name, text in found[index].items() if text != UNKNOWN}
        same = (each for each in of_case.get(case_of(record), ()) if each.get(ALARM) == known.get(ALARM))
        alike = next((each for each in same if known.items() <= each.items()), found[index])
        found[index] = alike if record.run not in of_run else found[index] | _of_world(alike)
    return tuple(found)


def _of_world(conditions: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in conditions.items() if name.startswith(OF_WORLD)}


def standings(records: Sequence[Record], *, by_test: bool = True) -> tuple[Standing, ...]:
    """What each record is to the others.

    Within a run each item counts once, whatever became of the policy's file meanwhile; over runs each case.

    Args:
        records: of any runs, in the order in which they ended.
        by_test: whether tests of the user's own are apart where they made the same observation.
    """
    keys = [key_of(record, known) for record, known in zip(records, all_conditions(records), strict=True)]
    of_runs = within_runs(records)
    counting = _folded(records, [index for index, each in enumerate(of_runs) if each.how == "counts"], keys)
    standing = [counting.get(index, each) for index, each in enumerate(of_runs)]
    # A log without trajectories has digests of next to nothing: they are equal for other reasons.
    told = [
        index
        for index, record in enumerate(records)
        if standing[index].how == "counts" and is_complete(record.outcome) and record.arrays is not None
    ]
    drawing = _drawing(records, told, keys)
    seen: dict[Hashable, int] = {}
    for index in sorted(told, key=lambda index: (records[index].started, index)):
        record, key = records[index], keys[index]
        observation: Hashable = (*_observed(key), key.test if by_test else "", record.digest)
        if (key.policy, key.conditions) in drawing:
            observation = observation, key.run_seed
        if (first := seen.setdefault(observation, index)) != index:
            standing[index] = Standing("same", first)
    return tuple(_settled(standing, index) for index in range(len(records)))


def _drawing(records: Sequence[Record], indices: Iterable[int], keys: Sequence[Key]) -> set[Hashable]:
    """The policies, with their conditions, that have done otherwise in some case under another run seed."""
    digests: dict[Hashable, str] = {}
    found: set[Hashable] = set()
    for index in indices:
        key, digest = keys[index], records[index].digest
        if digests.setdefault((*_observed(key), key.test), digest) != digest:
            found.add((key.policy, key.conditions))
    return found


def _observed(key: Key) -> tuple[Hashable, ...]:
    """A case whatever the run seed, and the test."""
    return key.case, key.listed, key.policy, key.conditions


def within_runs(records: Sequence[Record]) -> list[Standing]:
    """What each record is to the others of its case in its run, whatever became of the policy's file meanwhile."""
    found = _folded(records, range(len(records)), [(record.run, *case_of(record)) for record in records])
    ordered = [found[index] for index in range(len(records))]
    return [_settled(ordered, index) for index in range(len(records))]


def repeats_of(pairs: Iterable[tuple[Any, Any]]) -> Repeats:
    """Of complete records, each with the one that counts for its case."""
    found = list(pairs)
    return Repeats(
        len(found),
        len({id(counting) for _, counting in found}),
        sum(repeat.outcome != counting.outcome for repeat, counting in found),
        sum(repeat.digest != counting.digest for repeat, counting in found),
    )


def case_of(record: Record) -> tuple[str, str, str, int, str]:
    """A `Key` without its conditions."""
    known = vars(record)
    if _KNOWN_CASE not in known:
        known[_KNOWN_CASE] = _made_case(record)
    return known[_KNOWN_CASE]  # type: ignore[no-any-return]


def _made_case(record: Record) -> tuple[str, str, str, int, str]:
    test = "" if record.of_suite else record.node
    return record.case, protocol_of(record), test, run_seed_of(record), record.policy


def _folded(records: Sequence[Record], indices: Iterable[int], groups: Sequence[Hashable]) -> dict[int, Standing]:
    """What records of these indices, in the order of their ends, are to the others of their group."""
    counting: dict[Hashable, int] = {}
    found: dict[int, Standing] = {}
    for index in indices:
        before = counting.setdefault(groups[index], index)
        if before == index:
            found[index] = Standing("counts", index)
        elif takes_over(records[index], records[before]):
            found[before] = Standing(_beside(records[before]), index)
            found[index] = Standing("counts", index)
            counting[groups[index]] = index
        else:
            found[index] = Standing(_beside(records[index]), before)
    return found


def _beside(record: Record) -> How:
    """What a record is beside one that counts."""
    return "repeat" if is_complete(record.outcome) else "superseded"


def _settled(standing: Sequence[Standing], index: int) -> Standing:
    """A repeat of a repeat is one of what counts; an error may have been superseded several times."""
    how, of = standing[index]
    while standing[of].how in ("repeat", "superseded") and standing[of].of != of:
        of = standing[of].of
    return Standing(how, of)

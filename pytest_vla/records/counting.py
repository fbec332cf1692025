"""The rules that decide which records count, and which are one observation. Pure functions over records, defined once.

A case is a task under a variation from a seed, with the run seed, the protocol, the replan length, the simulator, the
validity rules, and the policy with the digest of its content; for a user's own tests the test is part of the case,
since several tests may run one episode. The case's first complete record (success, failure or invalid) counts. A later
record replaces only an error, as with ``--vla-resume`` and reruns; among errors alone the last one counts. If the error
was the policy's own (`pytest_vla.errors.is_of_policy`), the later record is a retry (`retries`): a policy that raises
where it would fail must not gain by it. Reports say how many there are, and verdicts do not take its success. Further
complete records are repeats: running a case again until it succeeds does not change the rate. The first record is the
one that ended first, by the order of the store: a clock may be set back. Only of parallel repeats, whose runs overlap
by that order, it is the one that began first: the shortest ends first, and successes are short.

An observation is everything that can vary. An episode's start is its task, its variation's drawn parameters, its init
state and the objects' placement (`start_of`, `PLACED`). The seed's number is no part of the start, since a task has a
limited number of init states. Records with equal starts, and those of one case under several run seeds, are compared by
digest:

- A policy without randomness repeats itself bit for bit. Equal records with equal starts are one observation.
- Different records with equal starts show that the policy is random. Then each record counts, including equal ones:
  leaving out equal records would leave out the policy's most frequent behaviour. They are replicates within one start,
  and intervals and tests treat them as one unit (`pytest_vla.metrics.success.unit_of`).
- A published log has no trajectories, so its digests prove nothing: its episodes are replicates within their start.
"""

import hashlib
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from pytest_vla.errors import is_of_policy
from pytest_vla.plan.case import OURS
from pytest_vla.records.record import Record
from pytest_vla.versions import SUPPORTED

COMPLETE = ("success", "failure", "invalid")
"""Outcomes that were measured, or that do not depend on the policy; the remaining outcome is ``error``."""

OF_PROVENANCE = ("mujoco", "robosuite", "premises", "feasible")
"""Of a record's provenance: what decides how the world moves, and whether there is anything to measure. How it looks is
in the protocol."""

OF_SCENE = ("scene", "stand_ins", "compiled")
"""Of a record's provenance: what differs from task to task."""

ALARM = "stop_when"
"""The entry of a record's provenance for the rule that stopped episodes; if present, it is a condition of the case."""

START = "start"
"""The entry of a record's provenance for an episode that began from a recorded one's state and not from an init state
of its task; if present, it is a condition of the case. `pytest_vla.records.record.BEGAN` says where fixtures stood."""

REALTIME = "realtime"
"""The entry of a record's provenance for the latency of the policy's answers; if present, it is a condition of the
case. A latency that a variation adds is in the variation's parameters."""

RECORDED = "a recorded state"
"""The value of `START`."""

_IF_PRESENT = (ALARM, REALTIME)

OF_WORLD = "world."
"""The prefix of conditions from the simulator of a suite's own world (`Record.simulator`)."""

UNKNOWN = ""
"""The value of a condition that a record lacks."""

SAID = "-said"
"""The end of a policy digest made from a server's own description of its policy. If two of these differ, the policies
do; if they are equal, the policies may differ."""

PLACED = "placed"
"""Of a record's seeds: names where everything stood and how it looked when the episode began; equal for equal starts.
Records of suites with a world of their own, and those of earlier versions, do not have it."""

INIT_STATE_DIGEST = "init_state_digest"
"""Of a record's seeds: names the content of the init state in its file, which may have been another's then. Records of
suites with a world of their own, and those of earlier versions, do not have it."""

INIT_STATES = "protocol.init_states"
"""The number of init states, which does not affect an episode: only its own init state does."""

_KNOWN, _KNOWN_CASE = "_conditions", "_case_of"
"""The keys under which these are cached in a record's own dictionary."""

# Conditions shared by a whole run, which an error may lack if its process died early.
# A suite with a world of its own may be made of no simulator of ours.
_OF_SUITE = tuple(SUPPORTED)
_OF_RUN = ("policy_digest", "replan", *(name for name in OF_PROVENANCE if name not in _OF_SUITE))

How = Literal["counts", "repeat", "superseded", "same"]


def is_complete(outcome: str) -> bool:
    """Whether an episode with this outcome is complete, so that it is not run again."""
    return outcome in COMPLETE


class RecordAttempt(Protocol):
    """The fields of a record that the counting rule uses."""

    @property
    def outcome(self) -> str: ...
    @property
    def started(self) -> str: ...
    @property
    def attempt(self) -> int: ...


def takes_over(record: RecordAttempt, before: RecordAttempt) -> bool:
    """Return whether a record counts instead of one of the same case that ended earlier, in a run beside its own."""
    if not is_complete(before.outcome):
        return True
    # A later attempt began after the earlier one had ended, whatever the clock says.
    is_parallel = record.attempt <= before.attempt
    return is_complete(record.outcome) and is_parallel and record.started < before.started


class RecordStatus(NamedTuple):
    """The status of a record among the others.

    Attributes:
        how: ``counts``; ``repeat`` of a record that counts; ``superseded``, an error beside another record; or
            ``same``, the same observation as a record that counts, from an equal start by a policy without randomness.
        of: the index of the record that counts for the case; its own if it counts.
    """

    how: How
    of: int


def digest_number(content: Any) -> int:
    """Return the number of 48 bits for an array's content, as `PLACED` and `INIT_STATE_DIGEST` are."""
    return int.from_bytes(hashlib.sha256(content.tobytes()).digest()[:6])


@dataclass(frozen=True)
class Key:
    """The identity of a case, by the fields that distinguish records.

    Attributes:
        case: `Record.case`; a case that was chosen unvaried has a suffix that says so.
        listed: the protocol under which an entry of a benchmark's list is drawn, or empty if there is only one.
        test: the node id of the user's own test, or empty for a suite's own item.
        run_seed: the value of ``--vla-run-seed``; 0 for imported logs, which have none.
        policy: the ``--vla-model`` text.
        conditions: the result of `conditions_of`, sorted.
    """

    case: str
    listed: str
    test: str
    run_seed: int
    policy: str
    conditions: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The sha256 (hex) of the key, equal for equal keys in any process."""
        parts = (self.case, self.listed, self.test, self.run_seed, self.policy, self.conditions)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Repeats:
    """Complete records beyond those that count.

    Attributes:
        records: the number of such records.
        cases: the number of their cases.
        other_outcome: how many have a different outcome than the record that counts.
        other_digest: how many have a different digest.
    """

    records: int = 0
    cases: int = 0
    other_outcome: int = 0
    other_digest: int = 0


def protocol_of(record: Record) -> str:
    """Return ``paper`` or ``upstream``, the protocol of a variation that a suite has under both, or an empty text.

    The text is also empty if the kind's name includes the protocol, as in `language.words_paper`: these are never
    mixed.
    """
    name = str((record.variation.get("parameters") or {}).get("protocol") or "")
    said = name == OURS or str(record.variation.get("kind")).endswith(f"_{name}")
    return "" if said else name


def conditions_of(record: Record) -> dict[str, str]:
    """Return the conditions of a record's case by name, such as ``replan``, ``mujoco`` and ``protocol.max_steps``.

    For a suite with its own world they include its simulator's values, such as ``world.version``. All values are texts,
    `UNKNOWN` if the record lacks one.
    """
    return dict(_conditions(record))


def _conditions(record: Record) -> Mapping[str, str]:
    """Return `conditions_of(record)`, cached on the record: reports ask for them dozens of times."""
    known = vars(record)
    if _KNOWN not in known:
        known[_KNOWN] = _made_conditions(record)
    return known[_KNOWN]  # type: ignore[no-any-return]


def share_conditions(record: Record, known: dict[Any, Any]) -> None:
    """Cache the same `conditions_of` on records whose provenance and protocol are the same objects.

    Args:
        record: a record.
        known: the cache, owned by the caller and kept as long as records follow.
    """
    of = record.provenance, record.protocol
    key = (id(of[0]), id(of[1]), record.policy_digest, record.replan, record.simulator)
    # The objects are kept alive, because a new object could reuse the id of a deleted one.
    if key not in known:
        known[key] = (of, _made_conditions(record))
    vars(record)[_KNOWN] = known[key][1]


def _made_conditions(record: Record) -> Mapping[str, str]:
    conditions = {
        "policy_digest": record.policy_digest or UNKNOWN,
        "replan": UNKNOWN if record.replan is None else str(record.replan),
    }
    conditions |= {name: str(record.provenance.get(name, UNKNOWN)) for name in OF_PROVENANCE}
    # Only if present, so that cases without them keep their keys.
    conditions |= {name: str(record.provenance[name]) for name in (ALARM, START, REALTIME) if name in record.provenance}
    conditions |= {f"{OF_WORLD}{name}": str(record.provenance.get(name, UNKNOWN)) for name in record.simulator}
    # As JSON, because a record from memory has tuples where one from JSON has lists.
    return conditions | {
        f"protocol.{name}": json.dumps(value, sort_keys=True) for name, value in record.protocol.items()
    }


def key_of(record: Record, conditions: Mapping[str, str] | None = None) -> Key:
    """Return the key of a record's case, from the given conditions or from its `conditions_of`."""
    known = conditions_of(record) if conditions is None else conditions
    return Key(*case_of(record), tuple(sorted(known.items())))


def all_conditions(records: Sequence[Record]) -> tuple[dict[str, str], ...]:
    """Return `conditions_of` for each record, with the gaps of errors filled in.

    Errors may lack conditions, as their process may have died. Values shared by a whole run, its suite, or a task
    with its own world, are taken from complete records. If there are none, all conditions are taken from the first
    record of the same case that agrees with the known ones.
    """
    found = [conditions_of(record) for record in records]
    of_run: dict[str, dict[str, str]] = {}
    of_suite: dict[Hashable, dict[str, str]] = {}
    of_task: dict[Hashable, dict[str, str]] = {}
    of_case: dict[Hashable, list[dict[str, str]]] = {}
    for record, conditions in zip(records, found, strict=True):
        if is_complete(record.outcome):
            of_run[record.run] = {name: conditions[name] for name in _OF_RUN}
            of_suite[record.run, record.suite] = {name: conditions[name] for name in _OF_SUITE}
            if record.simulator:
                task = record.run, record.suite, record.task_key
                # Values that differ within a task belong to the case.
                of_task[task] = dict(of_task.get(task, _of_world(conditions)).items() & conditions.items())
            of_case.setdefault(case_of(record), []).append(conditions)
    for index, record in enumerate(records):
        if is_complete(record.outcome):
            continue
        found[index] |= of_run.get(record.run, {}) | of_suite.get((record.run, record.suite), {})
        if not record.simulator:
            found[index] |= of_task.get((record.run, record.suite, record.task_key), {})
        known = {name: text for name, text in found[index].items() if text != UNKNOWN}
        same = (
            each
            for each in of_case.get(case_of(record), ())
            if all(each.get(name) == known.get(name) for name in _IF_PRESENT)
        )
        alike = next((each for each in same if known.items() <= each.items()), found[index])
        found[index] = alike if record.run not in of_run else found[index] | _of_world(alike)
    return tuple(found)


def _of_world(conditions: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in conditions.items() if name.startswith(OF_WORLD)}


def standings(records: Sequence[Record], *, by_test: bool = True) -> tuple[RecordStatus, ...]:
    """Classify each record: counts, repeat, superseded error, or the same observation as another record.

    Within a run each item counts once, even if the policy's file changed meanwhile; across runs each case counts once.

    Args:
        records: records of any runs, in the order in which they ended.
        by_test: whether the user's own tests are kept apart if they made the same observation.
    """
    keys = _comparable(records)
    of_runs = within_runs(records)
    counting = _folded(records, [index for index, each in enumerate(of_runs) if each.how == "counts"], keys)
    standing = [counting.get(index, each) for index, each in enumerate(of_runs)]
    # Digests without trajectories cover little, and may be equal by accident.
    told = [
        index
        for index, record in enumerate(records)
        if standing[index].how == "counts"
        and is_complete(record.outcome)
        and (record.arrays is not None or PLACED in record.seeds)
    ]
    drawing = _drawing(records, told, keys)
    seen: dict[Hashable, dict[int | None, int]] = {}
    for index in sorted(told, key=lambda index: (records[index].started, index)):
        record, key = records[index], keys[index]
        if (key.policy, key.conditions) in drawing:
            continue
        # A user's test is one test for all of its seeds.
        test = key.test.partition("[")[0] if by_test else ""
        observation: Hashable = (*_observed(record, key), test, record.digest, _charged(record), record.is_given)
        before, placed = seen.setdefault(observation, {}), record.seeds.get(PLACED)
        # If one record lacks the placement, the digest alone decides.
        first = next((of for where, of in before.items() if where == placed or None in (where, placed)), None)
        if first is None:
            before[placed] = index
        else:
            standing[index] = RecordStatus("same", first)
    return tuple(_settled(standing, index) for index in range(len(records)))


def start_of(record: Record) -> tuple[Hashable, ...]:
    """Return the start of an episode, without the seed's number; `PLACED` is compared in addition.

    Suite, task, instruction, variation with its drawn parameters, and init state (the seed, if that is not known).
    """
    variation = record.variation
    drawn = json.dumps(variation.get("parameters") or {}, sort_keys=True) if variation else ""
    init_state: Hashable = ("seed", record.seed) if record.init_state is None else record.init_state
    return record.suite, record.task_key, record.instruction, str(variation.get("label", "")), drawn, init_state


def _charged(record: Record) -> tuple[Hashable, ...]:
    """Return the record's charges, which its digest does not cover."""
    return tuple((charge.account, charge.name, charge.amount) for charge in record.costs)


def _comparable(records: Sequence[Record]) -> list[Key]:
    """Return the case of each record, with its init state: suites have had different numbers of init states.

    Yesterday's seed 60 may have begun from another init state than today's, which makes it another case. So does a
    changed content of the init state.
    """
    began = {case_of(record): record.init_state for record in records if is_complete(record.outcome)}
    # Records of earlier versions do not have it: they are of the case as they were.
    contents: dict[Hashable, set[int]] = {}
    for record in records:
        if (known := record.seeds.get(INIT_STATE_DIGEST)) is not None:
            contents.setdefault(case_of(record), set()).add(known)
    keys = []
    for record, conditions in zip(records, all_conditions(records), strict=True):
        # An error may lack the init state, as its process may have died.
        knows = is_complete(record.outcome) or "init_state" in record.seeds
        init_state = record.init_state if knows else began.get(case_of(record), record.init_state)
        key = key_of(record, {name: text for name, text in conditions.items() if name != INIT_STATES})
        content = record.seeds.get(INIT_STATE_DIGEST)
        swapped = f" {content}" if len(contents.get(case_of(record), ())) > 1 else ""
        keys.append(replace(key, case=f"{key.case} {init_state}{swapped}"))
    return keys


def _drawing(records: Sequence[Record], indices: Iterable[int], keys: Sequence[Key]) -> set[Hashable]:
    """Return the policies, with their conditions, that behaved differently in one case, or from one start.

    A variation's parameters need not describe everything it draws, so varied episodes are compared by equal cases only.
    """
    digests: dict[Hashable, str] = {}
    found: set[Hashable] = set()
    for index in indices:
        record, key = records[index], keys[index]
        alike: list[Hashable] = [("case", key.case, key.listed, key.policy, key.conditions, key.test)]
        if not record.variation and (placed := record.seeds.get(PLACED)) is not None:
            alike.append(("start", placed, *_observed(record, key), key.test))
        for each in alike:
            if digests.setdefault(each, record.digest) != record.digest:
                found.add((key.policy, key.conditions))
    return found


def _observed(record: Record, key: Key) -> tuple[Hashable, ...]:
    """Return the start and the conditions of an observation, without seeds and test."""
    return start_of(record), key.listed, key.policy, key.conditions


def within_runs(records: Sequence[Record]) -> list[RecordStatus]:
    """Classify each record among those of its case in its run, even if the policy's file changed meanwhile."""
    found = _folded(records, range(len(records)), [(record.run, *case_of(record)) for record in records])
    ordered = [found[index] for index in range(len(records))]
    return [_settled(ordered, index) for index in range(len(records))]


def retries(records: Sequence[Record], found: Sequence[RecordStatus]) -> dict[int, Record]:
    """Return the retries among records: by the index of each, the first error of the policy's own before it.

    Args:
        records: in the order in which they ended.
        found: their `standings`, or those `within_runs`.
    """
    first: dict[int, Record] = {}
    for index, (how, of) in enumerate(found):
        if how == "superseded" and is_own_error(records[index]) and is_complete(records[of].outcome):
            first.setdefault(of, records[index])
    for index, record in enumerate(records):
        if record.retried and is_complete(record.outcome):
            first.setdefault(index, _as_it_was(record))
    return first


def is_own_error(record: Record) -> bool:
    """Whether a record is an error of the policy's own."""
    return is_of_policy(record.reason, record.attempt, bool(record.steps or record.timings.get("policy")))


def _as_it_was(record: Record) -> Record:
    """Return the error that an earlier attempt of an episode ended with, and of which its record says the reason."""
    return replace(
        record, outcome="error", reason=record.retried, message="an earlier attempt", success_step=None, retried=""
    )


def repeats_of(pairs: Iterable[tuple[Any, Any]]) -> Repeats:
    """Count repeats, from pairs of a complete record and the record that counts for its case."""
    found = list(pairs)
    return Repeats(
        len(found),
        len({id(counting) for _, counting in found}),
        sum(repeat.outcome != counting.outcome for repeat, counting in found),
        sum(repeat.digest != counting.digest for repeat, counting in found),
    )


def case_of(record: Record) -> tuple[str, str, str, int, str]:
    """Return a `Key` without its conditions."""
    known = vars(record)
    if _KNOWN_CASE not in known:
        known[_KNOWN_CASE] = _made_case(record)
    return known[_KNOWN_CASE]  # type: ignore[no-any-return]


def _made_case(record: Record) -> tuple[str, str, str, int, str]:
    test = "" if record.of_suite else record.node
    # A chosen case is distinct from the same case in a sample. Labels with chosen parameters are distinct anyway.
    case = f"{record.case} given" if record.given and not record.variation else record.case
    return case, protocol_of(record), test, record.run_seed, record.policy


def _folded(records: Sequence[Record], indices: Iterable[int], groups: Sequence[Hashable]) -> dict[int, RecordStatus]:
    """Classify the records at these indices, in the order of their ends, among those of their group."""
    counting: dict[Hashable, int] = {}
    found: dict[int, RecordStatus] = {}
    begun: dict[str, int] = {}
    for index, record in enumerate(records):
        begun.setdefault(record.run, index)
    for index in indices:
        record, before = records[index], counting.setdefault(groups[index], index)
        # A run without a record until then began later, as far as the store knows.
        is_beside = begun[record.run] <= before or not is_complete(records[before].outcome)
        if before == index:
            found[index] = RecordStatus("counts", index)
        elif is_beside and takes_over(record, records[before]):
            found[before] = RecordStatus(_beside(records[before]), index)
            found[index] = RecordStatus("counts", index)
            counting[groups[index]] = index
        else:
            found[index] = RecordStatus(_beside(records[index]), before)
    return found


def _beside(record: Record) -> How:
    """Return the status of a record whose case has another record that counts."""
    return "repeat" if is_complete(record.outcome) else "superseded"


def _settled(standing: Sequence[RecordStatus], index: int) -> RecordStatus:
    """Return a status that points to the record that counts, following chains of repeats and superseded errors."""
    how, of = standing[index]
    while standing[of].how in ("repeat", "superseded") and standing[of].of != of:
        of = standing[of].of
    return RecordStatus(how, of)

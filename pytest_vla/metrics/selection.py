"""Selection of the records that enter one number when several runs, versions and tests are reported together.

`pytest_vla.records.counting` decides which of a case's records counts; this module combines them, and reports those
that are left out.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_vla.errors import STOPPED
from pytest_vla.records.counting import (
    INIT_STATE_DIGEST,
    INIT_STATES,
    OF_WORLD,
    UNKNOWN,
    RecordStatus,
    Repeats,
    all_conditions,
    case_of,
    conditions_of,
    is_complete,
    repeats_of,
    retries,
    standings,
    within_runs,
)
from pytest_vla.records.record import Record
from pytest_vla.util.text import counted, printable

_EVALUATOR = "protocol.evaluator"
_LOG = "run"  # Of an imported log.
_CONTROL = "protocol.control"  # Poses or changes: which of them a policy returns.

_NOT_SAID = {
    _LOG: "own runs",
    _EVALUATOR: "evaluator ours",
    "policy_digest": "policy of unknown content",
    "replan": "whole chunks",
    "premises": "premises checked",
    "feasible": "feasible untried",
    "stop_when": "not stopped",
    "realtime": "no latency",
}

_MOST_TOLD = 4

Same = tuple[tuple[Record, Record], ...]
"""Records that are the observation of one from an equal start, each with that one, which counts."""


@dataclass(frozen=True)
class Selected:
    """The selected records of one model in one suite.

    Attributes:
        records: those that count, by case, run seed and test. Their order does not depend on the order in which
            episodes ended, because intervals from resamples depend on it.
        same: repeats of the same observation. They are in no number, but twins are found among them.
        left_out: notes on records that do not count.
        retried: records that count by a retry, each after the policy's own error that it replaced.
    """

    records: tuple[Record, ...]
    same: Same
    left_out: tuple[str, ...]
    retried: Same = ()


def by_model(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """Group records by policy and suite: policies in order of occurrence, suites by name.

    If a policy ran the same cases under several conditions (versions of its file, replan lengths, simulators), no
    number mixes them: each has a name of its own, such as ``my_policy:policy (policy 1a2b3c4d)``. So has each of
    several imported logs with the same cases, since logs do not say whether their policies are equal.
    """
    found = list(records)
    grouped: dict[str, dict[str, list[Record]]] = {}
    for record, name in zip(found, _names(found), strict=True):
        grouped.setdefault(name, {}).setdefault(record.suite, []).append(record)
    return {(name, suite): suites[suite] for name, suites in grouped.items() for suite in sorted(suites)}


def that_count(records: Sequence[Record]) -> Selected:
    """Select the records that count, for one model in one suite, such as a group from `by_model`.

    The user's tests count if no suite's own item ran under a variation.

    Args:
        records: in the order in which they ended.
    """
    left_out = []
    own = [record for record in records if not record.of_suite]
    if any(record.of_suite and record.variation for record in records):
        if number := len(own):
            left_out.append(f"{counted(number, 'episode')} of your own tests: only the suite's own items count")
        records = [record for record in records if record.of_suite]
    found = standings(records, by_test=False)
    counting = [record for record, (how, _) in zip(records, found, strict=True) if how == "counts"]
    same = tuple((record, records[of]) for record, (how, of) in zip(records, found, strict=True) if how == "same")
    if text := repeats_text(repeats_among(records, found)):
        left_out.append(text)
    if text := copies_text(len(counting) + len(same), len(same)):
        left_out.append(text)
    if len({record.policy_digest for record in counting if is_complete(record.outcome)} - {None}) > 1:
        left_out.append("these records come from more than one version of the policy")
    if text := of_several_simulators(counting):
        left_out.append(text)
    left_out += of_several_files(counting)
    if text := stopped_text(counting):
        left_out.append(text)
    if again := sum(how == "superseded" for how, _ in found):
        left_out.append(f"{counted(again, 'error')} replaced by a later record of the same episode")
    again_of = retries(records, found)
    retried = tuple((error, records[of]) for of, error in again_of.items() if found[of].how == "counts")
    if text := retried_text(counting, retried):
        left_out.append(text)
    ordered = sorted(counting, key=lambda record: (*run_of(record), record.node))
    return Selected(tuple(ordered), same, tuple(left_out), retried)


def retried_text(counting: Sequence[Record], retried: Same) -> str:
    """Format a note on episodes that succeeded by a retry after the policy's own error; empty without any."""
    gained = [error for error, retry in retried if retry.outcome == "success"]
    if not gained:
        return ""
    rated = [record.outcome == "success" for record in counting if is_counted(record)]
    reasons = ", ".join(f"{reason} {number}" for reason, number in sorted(Counter(e.reason for e in gained).items()))
    done, least = sum(rated), sum(rated) - len(gained)
    return (
        f"{counted(len(gained), 'episode')} succeeded by a retry after the policy's own error ({reasons}): the rate is "
        f"{done}/{len(rated)} with them, and {least}/{len(rated)} = {least / len(rated):.1%} if they failed. Gates "
        "take them as errors, --vla-min-success as failures"
    )


def observations(records: Sequence[Record]) -> tuple[Record, ...]:
    """Return the records of a run that are observations of their own, each once, in their order.

    What an equal start of a policy that does not draw has shown already is left out (`standings`); tests of the user's
    are apart.
    """
    found = standings(records)
    return tuple(record for record, (how, _) in zip(records, found, strict=True) if how != "same")


def copies_text(episodes: int, copies: int) -> str:
    """Format ``57 episodes, 19 distinct starts: 38 episodes repeat another ...``; empty without copies."""
    if not copies:
        return ""
    starts = counted(episodes - copies, "distinct start")
    other = "1 episode repeats another and counts" if copies == 1 else f"{copies} episodes repeat another and count"
    return f"{counted(episodes, 'episode')}, {starts}: {other} in no rate (equal starts, equal trajectories)"


def stopped_text(records: Iterable[Record]) -> str:
    """Format a note on numbers that include episodes stopped by a rule; empty without any."""
    number = sum(record.reason == STOPPED for record in records)
    if not number:
        return ""
    what = "1 episode was" if number == 1 else f"{number} episodes were"
    return (
        f"{what} stopped by a rule (--vla-stop-when). Rates and means cover only the rest, so rates have no interval: "
        "the range shown is the rate if all stopped episodes had failed, and if all had succeeded"
    )


def of_several_simulators(records: Iterable[Record]) -> str:
    """Format a note that records come from several simulators, with their versions; empty for a single one.

    For suites with a world of their own, it uses the world's description, if episodes of a task differ in it.
    """
    names = ("mujoco", "robosuite")
    complete = [record for record in records if is_complete(record.outcome)]
    known = [record.provenance for record in complete]
    found = sorted({" ".join(f"{name} {each[name]}" for name in names if name in each) for each in known} - {""})
    found = (found if len(found) > 1 else []) + _own_simulators(complete)
    told = [*found[:_MOST_TOLD], *([f"{len(found) - _MOST_TOLD} more"] if len(found) > _MOST_TOLD else [])]
    return f"these records come from several simulators: {' and '.join(told)}" if told else ""


def unequal_protocols(records: Iterable[Record]) -> Iterator[str]:
    """Yield a note for each suite and value of its protocol that differs between models in equal tasks and variations.

    What belongs to the policy, such as its replan length, is no difference.
    """
    found: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    by_task: dict[tuple[str, str], dict[Hashable, dict[str, dict[str, None]]]] = {}
    for (model, suite), some in by_model(records).items():
        for record in some:
            if not is_complete(record.outcome):
                continue
            task = record.task_key, str(record.variation.get("label", ""))
            for name, value in conditions_of(record).items():
                if (name.startswith("protocol.") and name != _CONTROL) or name == "mujoco":
                    by_task.setdefault((suite, name), {}).setdefault(task, {}).setdefault(value, {})[model] = None
    for key, tasks in by_task.items():
        for values in tasks.values():
            if len(values) > 1:
                for value, models in values.items():
                    found.setdefault(key, {}).setdefault(value, {}).update(models)
    for (suite, name), values in found.items():
        told = [f"{printable(value)[:60] or 'unknown'} ({_models_text([*models])})" for value, models in values.items()]
        rest = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
        yield (
            f"{suite}: {name.removeprefix('protocol.')} differs, so that these rows were not measured in the same way: "
            f"{', '.join(told[:_MOST_TOLD])}{rest}"
        )


def _models_text(models: Sequence[str]) -> str:
    rest = f" and {len(models) - _MOST_TOLD} more" if len(models) > _MOST_TOLD else ""
    return f"{', '.join(models[:_MOST_TOLD])}{rest}"


def of_several_files(records: Iterable[Record]) -> Iterator[str]:
    """Yield a note on scenes that were compiled to different bytes, and one on init states whose file was changed."""
    compiled: dict[str, set[str]] = {}
    contents: dict[Hashable, set[int]] = {}
    for record in records:
        if (model := record.provenance.get("compiled")) is not None:
            compiled.setdefault(record.provenance.get("scene", ""), set()).add(model)
        if (content := record.seeds.get(INIT_STATE_DIGEST)) is not None:
            contents.setdefault(case_of(record), set()).add(content)
    if scenes := sum(len(models) > 1 for models in compiled.values()):
        yield (
            f"{counted(scenes, 'scene')} compiled to different bytes from the same files: machines round differently, "
            "or the cache of scenes was changed (pytest-vla cache --clear)"
        )
    if states := sum(len(each) > 1 for each in contents.values()):
        yield (
            f"{counted(states, 'case')} with another init state under its number: the file of init states was changed "
            "between these records, so they are not repeats of each other"
        )


def _own_simulators(records: Iterable[Record]) -> list[str]:
    """Return own worlds' descriptions as far as runs differ in them, apart from differences between cases."""
    tasks: dict[Hashable, dict[str, dict[str, set[str]]]] = {}
    for record in records:
        if record.simulator:
            said = tasks.setdefault((record.suite, record.task_key), {}).setdefault(record.run, {})
            for name in record.simulator:
                said.setdefault(name, set()).add(str(record.provenance.get(name, UNKNOWN)))
    found = set()
    for runs in tasks.values():
        names = {name for said in runs.values() for name in said}
        of_runs = {name: [tuple(said.get(name, ("unknown",))) for said in runs.values()] for name in names}
        differing = sorted(n for n, each in of_runs.items() if len(set(each)) > 1 and all(len(v) == 1 for v in each))
        found |= {" ".join(f"{name} {of_runs[name][run][0]}" for name in differing) for run in range(len(runs))} - {""}
    return sorted(found)


def repeats_among(records: Sequence[Record], found: Sequence[RecordStatus]) -> Repeats:
    """Count the repeats among records, from their `standings`."""
    pairs = zip(records, found, strict=True)
    return repeats_of((record, records[of]) for record, (how, of) in pairs if how == "repeat")


def repeats_text(repeats: Repeats) -> str:
    """Format ``3 repeats of 2 episodes, whose first record counts: 1 (33.3%) ...``; empty without repeats."""
    number = repeats.records
    if not number:
        return ""
    outcome, digest = repeats.other_outcome / number, repeats.other_digest / number
    return (
        f"{counted(number, 'repeat')} of {counted(repeats.cases, 'episode')}, whose first record counts: "
        f"{repeats.other_outcome} ({outcome:.1%}) ended differently, "
        f"{repeats.other_digest} ({digest:.1%}) with another digest"
    )


def given_text(records: Iterable[Record]) -> str:
    """Format ``24 given cases (--vla-cases), of which 6 succeeded: ...``; empty without given cases."""
    given = [record for record in records if record.is_given and not record.is_probe]
    if not given:
        return ""
    done = sum(record.outcome == "success" for record in given)
    broken = sum(not is_counted(record) for record in given)
    apart = f", {broken} had errors or could not be measured" if broken else ""
    number = counted(len(given), "given case")
    return f"{number} (--vla-cases), of which {done} succeeded{apart}: chosen cases count in no rate, interval or p"


def is_counted(record: Record) -> bool:
    """Whether a rate is made of it: a success or a failure."""
    return record.outcome in ("success", "failure")


def run_of(record: Record) -> tuple[str, int]:
    """Return the case and the run seed, which identify an episode; imported logs have no run seed, and count as 0."""
    return record.case, record.run_seed


def twin_of(record: Record) -> tuple[str, int]:
    """Return `run_of` for the benign twin of a varied episode, under the same run seed."""
    return str(record.twin), record.run_seed


def seed_of(record: Record) -> Hashable:
    """Return the value that distinguishes episodes of one task if nothing else varies."""
    return record.seed, record.run_seed


def _names(records: Sequence[Record]) -> list[str]:
    """Return each record's policy name, extended if no number may mix the policy's versions."""
    known, of_runs = list(all_conditions(records)), within_runs(records)
    for index, record in enumerate(records):
        if "imported" in record.provenance:
            known[index] |= {_LOG: record.run}
    counting = [index for index, each in enumerate(of_runs) if each.how == "counts"]
    varying = _varying([records[index] for index in counting], [known[index] for index in counting])
    names = []
    for record, (_, of) in zip(records, of_runs, strict=True):
        told = [_condition_text(name, known[of].get(name, UNKNOWN)) for name in varying.get(record.policy, ())]
        names.append(f"{record.policy} ({', '.join(told)})" if told else record.policy)
    return names


def _varying(records: Sequence[Record], conditions: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return, by policy, the conditions in which complete records of one case differ, and the evaluator in a suite."""
    first: dict[Hashable, Mapping[str, str]] = {}
    evaluators: dict[tuple[str, str], str | None] = {}
    found: dict[str, set[str]] = {}
    for record, known in zip(records, conditions, strict=True):
        if not is_complete(record.outcome):
            continue
        known = {name: text for name, text in known.items() if name not in (INIT_STATES, _LOG)}
        evaluator = known.get(_EVALUATOR)
        if evaluators.setdefault((record.policy, record.suite), evaluator) != evaluator:
            found.setdefault(record.policy, set()).add(_EVALUATOR)
        before = first.setdefault((case_of(record), record.init_state), known)
        if before != known:
            differing = {name for name in before.keys() | known.keys() if before.get(name) != known.get(name)}
            found.setdefault(record.policy, set()).update(differing)
    logs: dict[Hashable, str] = {}
    for record, known in zip(records, conditions, strict=True):
        if is_complete(record.outcome) and _LOG in known:
            told = tuple(known.get(name) for name in sorted(found.get(record.policy, {_LOG}) - {_LOG}))
            if logs.setdefault((case_of(record), told), record.run) != record.run:
                found.setdefault(record.policy, set()).add(_LOG)
    return {policy: tuple(sorted(names)) for policy, names in found.items()}


def _condition_text(name: str, value: str) -> str:
    short = name.removeprefix("protocol.").removeprefix(OF_WORLD)
    if not value:
        return _NOT_SAID.get(name, f"{short} unknown")
    if name == "policy_digest":
        return f"policy {value[:8]}"
    return f"{short} {value}"

"""The baseline of a gate: for each case how it ended, what it cost, and under which conditions it ran.

A new run is made into the same values, so that the two are compared as equals: `baseline_of` both, or `read_baseline`
of `pytest_vla.gate.baseline_file` and `baseline_of`. `pytest_vla.gate.comparable` decides what can be compared.

Conditions are named: ``protocol.max_steps``, ``replan``, ``run_seed``, ``instruction``, ``goal`` (the literals of the
success rule), ``scene`` (digest), ``world.NAME`` (from a suite's own world), ``provenance.NAME``, ``variation`` (if it
differs from what the label implies), ``init_state`` (if it differs from the seed's) and ``charged`` (the names of costs
that were watched, by account). A condition without a value is in no table.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from pytest_vla.errors import VlaError
from pytest_vla.metrics.extra_metrics import further_names
from pytest_vla.metrics.selection import Selected, by_model, is_counted, of_several_simulators, that_count
from pytest_vla.plan import case as labels
from pytest_vla.plan.case import init_state_by
from pytest_vla.plan.costs import accounts_of, of_account, totals
from pytest_vla.records.counting import INIT_STATE_DIGEST, OF_WORLD, is_complete, protocol_of
from pytest_vla.records.record import Record
from pytest_vla.util.text import did_you_mean
from pytest_vla.versions import installed

Conditions = Mapping[str, Any]
"""By name, values as JSON has them."""

SHORT = 16
"""Hex digits of a digest: of ten thousand cases two differ in them where they differ at all."""

INIT_STATE = "init_state"
"""A condition: the init state, where it is not the one that the seed and the protocol say."""

GIVEN = "given"
"""A condition: a file of cases named the case, and so it was chosen."""

_OF_TASK = frozenset(("goal", "instruction", "scene"))
"""Conditions that tasks have for themselves, also where there is one task."""

_DIGITS = 9
"""Significant digits of numbers: what differs behind them is another machine's rounding."""


@dataclass(frozen=True)
class CaseResult:
    """One case's outcome and the conditions it ran under, with the record fields that rates and intervals need.

    Attributes:
        case: `Record.case`; suite, task, label and seed are read from it.
        outcome, reason, steps, success_step: see `Record`.
        costs: total charge by account and name. A name that was watched and charged nothing has 0. Known for successes
            and failures only.
        metrics: numbers from metrics of other packages (`pytest_vla.entries.MetricEntry`).
        digest: the first `SHORT` digits of the record's digest, or an empty text if it has none.
        parameters: digest of the variation's drawn parameters, each number rounded to `_DIGITS` digits, or an empty
            text.
        init_state_digest: of the init state's content in its file (hex), or an empty text if it is not known.
        listed: the protocol under which an entry of a benchmark's list was drawn; empty if there is only one protocol.
        test: node id of the user's own test that ran it; empty for the suite's own item.
        shared: the conditions that most cases of its task have.
        own: its conditions that differ from `shared`; a value of None removes that name.
        unknown: fields that a later version wrote, as JSON has them.
    """

    case: str
    outcome: str
    reason: str | None
    steps: int
    success_step: int | None
    costs: Mapping[str, Mapping[str, float]]
    metrics: Mapping[str, float]
    digest: str
    parameters: str
    listed: str
    test: str
    shared: Conditions
    own: Conditions
    unknown: Mapping[str, Any] = field(default_factory=dict)
    init_state_digest: str = ""

    @cached_property
    def parts(self) -> labels.CaseParts:
        """The parts of the case's id. Raises VlaError if it is not the id of a case."""
        found = labels.parse_case_id(self.case)
        if found is None:
            raise VlaError(f"{self.case!r} is not a case id: expected one such as tabletop/turn_on_the_stove[seed0]")
        return found

    @property
    def suite(self) -> str:
        """The suite's name."""
        return self.parts.suite

    @property
    def task_key(self) -> str:
        """The task's key, unique within its suite."""
        return labels.task_key(self.parts.task, self.parts.task_level)

    @property
    def seed(self) -> int:
        """The case's seed."""
        return self.parts.seed

    @property
    def run_seed(self) -> int:
        """The value of ``--vla-run-seed``."""
        return int(self.condition("run_seed") or 0)

    @cached_property
    def init_state(self) -> int | None:
        """The init state that the episode began from: its own, else the seed's by the protocol, or None if unknown."""
        own = self.condition(INIT_STATE)
        return own if isinstance(own, int) else init_state_by(self.seed, self.protocol)

    @property
    def did(self) -> tuple[str, str]:
        """The policy's behaviour: the outcome and the digest."""
        return self.outcome, self.digest

    @cached_property
    def start(self) -> Hashable | None:
        """A key of the episode's start and its own conditions, whatever the seeds, or None if nothing proves the start.

        Episodes from a published log have None, since their digests cover the outcome only.
        """
        if not self.digest or not is_complete(self.outcome) or self.condition("provenance.imported") is not None:
            return None
        init_state = ("seed", self.seed) if self.init_state is None else self.init_state
        about = self.suite, self.task_key, self.parts.variation, self.parameters, self.condition("instruction")
        return (*about, init_state, self.listed, self.test)

    @cached_property
    def variation(self) -> Mapping[str, Any]:
        """The variation as in records, without parameters; empty if the task is not varied."""
        return variation_of(self.parts.variation, self.condition("variation"))

    @property
    def is_probe(self) -> bool:
        """Whether its variation only asks what the policy does: it is in no rate."""
        return self.variation.get("probe") is True

    @property
    def is_given(self) -> bool:
        """Whether a file of cases gave it, or its variation, as it was chosen: it is counted, and in no rate."""
        return self.condition(GIVEN) is True or labels.is_given(str(self.variation.get("label", "")))

    @property
    def in_no_rate(self) -> bool:
        """Whether it is a probe, or given."""
        return self.is_probe or self.is_given

    @property
    def is_counted(self) -> bool:
        """Whether a rate is made of it: a success or a failure."""
        return self.outcome in ("success", "failure")

    @cached_property
    def protocol(self) -> Mapping[str, Any]:
        """The protocol's conditions by their own names."""
        prefix = "protocol."
        return {name.removeprefix(prefix): text for name, text in self.conditions.items() if name.startswith(prefix)}

    @property
    def conditions(self) -> dict[str, Any]:
        """All of them."""
        return merged(self.shared, self.own)

    def condition(self, name: str) -> Any:
        """Return the value of one condition, or None if the case has none of that name."""
        return self.own[name] if name in self.own else self.shared.get(name)

    @property
    def key(self) -> tuple[str, int, str, str]:
        """The key that is unique within a baseline, by which cases are sorted."""
        return self.case, self.run_seed, self.listed, self.test


@dataclass(frozen=True)
class Baseline:
    """The counted cases of one policy.

    Attributes:
        model: the ``--vla-model`` text.
        policy_digest: digest of the files that the policy was made from, or None if unknown.
        made_by: the program that made it, such as ``pytest-vla 0.1.0``.
        runs: names of the runs whose records it holds, in the order in which they began.
        began: when the first and the last episode began, UTC, ISO 8601; empty texts if unknown.
        cases: sorted by `CaseResult.key`, each key once.
        unknown: fields that a later version wrote, as JSON has them.
    """

    model: str
    policy_digest: str | None
    made_by: str
    runs: tuple[str, ...]
    began: tuple[str, str]
    cases: tuple[CaseResult, ...]
    unknown: Mapping[str, Any] = field(default_factory=dict)


class Layers(NamedTuple):
    """The conditions of cases, from what is common to what is not: each has what most of the ones below it have.

    Attributes:
        common: of all suites.
        suites: by suite.
        tasks: by suite and task key.
    """

    common: Conditions
    suites: Mapping[str, Conditions]
    tasks: Mapping[tuple[str, str], Conditions]


class Counting(NamedTuple):
    """The records of one model that count.

    Attributes:
        records: by suite and case, with those that repeat one under the same run seed: each is compared with the other
            side's result in its case. `distinct_cases` or `pytest_vla.gate.comparable.distinct_pairs` fold repeats.
        left_out: a text for each group of records that do not count, with the reason, as reports print it.
        retried: how many of the records are errors of the policy's own whose retries came to an end.
    """

    records: tuple[Record, ...]
    left_out: tuple[str, ...]
    retried: int = 0


def baseline_of(records: Iterable[Record], model: str | None = None) -> Baseline:
    """Make a baseline from records; equal records make equal baselines.

    Errors and invalid episodes that know less, such as those whose process died, get the conditions of their task.

    Args:
        records: in the order in which they ended; `pytest_vla.metrics.selection.that_count` decides which count.
        model: selects one of several models, or None if all records are from one.

    Raises:
        VlaError: there is no record, or the records are from several models, several versions of the policy or several
            simulators; the message names them.
    """
    found = counting_of(records, model).records
    complete = [record for record in found if is_complete(record.outcome)]
    if told := of_several_simulators(found):
        raise VlaError(f"{told}: a baseline cannot combine them. Name runs of one (pytest-vla runs lists them)")
    digests = sorted({record.policy_digest for record in complete or found if record.policy_digest is not None})
    if len(digests) > 1:
        told = ", ".join(digest[:8] for digest in digests)
        raise VlaError(
            f"{len(digests)} versions of the policy {found[0].policy} ({told}): a baseline needs one. Name runs of one "
            "version (pytest-vla runs lists them)"
        )
    cases = tuple(sorted(_relayered([case_result(record) for record in found]), key=lambda case: case.key))
    began = sorted(record.started for record in found)
    runs = sorted({(record.run, record.started) for record in reversed(found)}, key=lambda each: each[::-1])
    return Baseline(
        found[0].policy,
        digests[0] if digests else None,
        f"pytest-vla {installed('pytest-vla')}",
        tuple(dict.fromkeys(name for name, _ in runs)),
        (began[0], began[-1]),
        cases,
    )


def counting_of(records: Iterable[Record], model: str | None = None) -> Counting:
    """Return the records of one model that count.

    Args:
        records: in the order in which they ended.
        model: the ``--vla-model`` text, or the model's name in reports, or None if all records are from one model.

    Raises:
        VlaError: there is no record, or the records are from several models; the message names them.
    """
    grouped = by_model(records)
    if not grouped:
        raise VlaError("no episode: a baseline needs a run with episodes")
    policies = {name: some[0].policy for (name, _), some in grouped.items()}
    meant = [name for name, policy in policies.items() if model in (None, name, policy)]
    if not meant:
        known = ", ".join(policies)
        raise VlaError(f"no episode of the model {model!r}. Models: {known}.{did_you_mean(str(model), policies)}")
    if len(meant) > 1:
        raise VlaError(f"{len(meant)} models: {', '.join(meant)}. A baseline needs one: --model=NAME")
    selected = [that_count(some) for (name, _), some in grouped.items() if name == meant[0]]
    return Counting(
        tuple(record for each in selected for record in _with_copies(each)),
        tuple(text for each in selected for text in each.left_out),
        sum(len(each.retried) for each in selected),
    )


def _with_copies(selected: Selected) -> list[Record]:
    """Return the records that count, and equal ones of other seeds; those of other run seeds are left out.

    Of a case that a file named and that is in a sample too, that of the sample. Instead of a retry after the policy's
    own error, the error: nobody knows what it would have been, and a verdict allows for both.
    """
    errors = {id(retry): error for error, retry in selected.retried}
    counting = [errors.get(id(record), record) for record in selected.records]
    found = [*counting, *(one for one, of in selected.same if one.run_seed == of.run_seed)]
    sampled = {(record.case, record.run_seed) for record in found if not record.given}
    return [record for record in found if not record.given or (record.case, record.run_seed) not in sampled]


def distinct_cases(cases: Iterable[CaseResult]) -> tuple[CaseResult, ...]:
    """Return the cases that are each an observation of its own (`pytest_vla.records.counting`), in their order.

    Equal starts with equal digests are one, unless the policy is seen to draw.
    """
    found = tuple(cases)
    if draws(found):
        return found
    seen: set[Hashable] = set()
    return tuple(case for case in found if case.start is None or _is_new((case.start, *case.did), seen))


def draws(cases: Iterable[CaseResult]) -> bool:
    """Whether a policy did different things in one case under different run seeds."""
    did: dict[Hashable, tuple[str, str]] = {}
    return any(
        case.start is not None and did.setdefault((case.case, case.start), case.did) != case.did for case in cases
    )


def _is_new(key: Hashable, seen: set[Hashable]) -> bool:
    """Whether a key was not seen before; it is now."""
    known = key in seen
    seen.add(key)
    return not known


def case_result(record: Record) -> CaseResult:
    """Convert one record, with all of its conditions as its own. Raises VlaError if its id is not the id of a case."""
    accounts = accounts_of(record.costs) if is_counted(record) else ()
    charged = {account: of_account(record.costs, account) for account in accounts}
    costs = {
        account: {name: _rounded(sum_) for name, sum_ in totals(some).items()} for account, some in charged.items()
    }
    content = record.seeds.get(INIT_STATE_DIGEST)
    result = CaseResult(
        record.case,
        record.outcome,
        record.reason,
        record.steps,
        record.success_step,
        costs,
        {name: _rounded(record.metrics[name]) for name in sorted(further_names(record))},
        record.digest[:SHORT],
        _parameters_digest(record.variation.get("parameters") or {}),
        protocol_of(record),
        "" if record.of_suite else record.node,
        {},
        {},
        init_state_digest="" if content is None else f"{content:012x}",
    )
    return replace(result, own=_conditions_of(record, result))


def layers_of(cases: Sequence[CaseResult]) -> Layers:
    """Compute the conditions that cases share, from successes and failures if there are any."""
    of_task: dict[tuple[str, str], list[Conditions]] = {}
    for case in [case for case in cases if case.is_counted] or cases:
        of_task.setdefault((case.suite, case.task_key), []).append(case.conditions)
    tasks = {task: _most(some) for task, some in of_task.items()}
    of_suite: dict[str, list[Conditions]] = {}
    for (suite, _), conditions in tasks.items():
        of_suite.setdefault(suite, []).append(conditions)
    suites = {suite: _not_of_task(_most(some)) for suite, some in of_suite.items()}
    common = _most([*suites.values()])
    for case in cases:
        # Of tasks and suites without any.
        suites.setdefault(case.suite, common)
        tasks.setdefault((case.suite, case.task_key), suites[case.suite])
    return Layers(common, suites, tasks)


def differences(conditions: Conditions, base: Conditions) -> dict[str, Any]:
    """Return the changes that turn `base` into `conditions` by `merged`."""
    return {
        name: conditions.get(name) for name in sorted({*conditions, *base}) if conditions.get(name) != base.get(name)
    }


def merged(base: Conditions, changes: Conditions) -> dict[str, Any]:
    """Return `base` with `changes` applied; a change to None removes the name."""
    return {name: value for name, value in {**base, **changes}.items() if value is not None}


def variation_of(label: str, said: Any) -> dict[str, Any]:
    """Return a record's variation without parameters: what the label implies, updated by `said` (a table or None)."""
    if not label:
        return {}
    dimension, kind, level = labels.usually_of(label)
    usual = {"label": label, "dimension": dimension, "kind": kind, "level": level, "probe": False}
    return {**usual, **(said or {})}


def _relayered(cases: Sequence[CaseResult]) -> Iterable[CaseResult]:
    """Return the cases with shared conditions moved out of each case."""
    layers = layers_of(cases)
    for case in cases:
        shared = layers.tasks[case.suite, case.task_key]
        conditions = case.conditions if case.is_counted else {**shared, **case.conditions}
        yield replace(case, shared=shared, own=differences(conditions, shared))


def _most(tables: Sequence[Conditions]) -> dict[str, Any]:
    """Return each name's most frequent value, without names that most tables lack."""
    found = {}
    for name in sorted({name for table in tables for name in table}):
        values = [table.get(name) for table in tables]
        counts = Counter(map(_hashable, values))
        most = max(counts.values())
        best = min((value for value in values if counts[_hashable(value)] == most), key=_text)
        if best is not None:
            found[name] = best
    return found


def _not_of_task(conditions: Conditions) -> dict[str, Any]:
    return {name: value for name, value in conditions.items() if name not in _OF_TASK}


def _hashable(value: Any) -> Hashable:
    return _text(value) if isinstance(value, list | dict) else (type(value), value)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _conditions_of(record: Record, result: CaseResult) -> dict[str, Any]:
    own = set(record.simulator)
    parts, usual = result.parts, variation_of(result.parts.variation, None)
    said = {name: record.variation.get(name, usual[name]) for name in usual} if record.variation else {}
    found: dict[str, Any] = {f"protocol.{name}": _plain(value) for name, value in record.protocol.items()}
    for name, text in record.provenance.items():
        if name in own:
            found[f"{OF_WORLD}{name}"] = text
        else:
            found["scene" if name == "scene" else f"provenance.{name}"] = text
    found |= {
        "run_seed": record.run_seed,
        "replan": record.replan,
        "group": record.group or None,
        GIVEN: record.given or None,
        "instruction": record.instruction,
        "goal": sorted(record.literals) or None,
        "variation": {name: value for name, value in said.items() if value != usual[name]} or None,
        "charged": {account: sorted(names) for account, names in sorted(result.costs.items())} or None,
        INIT_STATE: _unusual_start(record, parts.seed),
    }
    return {name: value for name, value in found.items() if value is not None}


def _unusual_start(record: Record, seed: int) -> int | None:
    """Return the init state if it is not the one that seed and protocol give."""
    start = record.seeds.get("init_state")
    usual = init_state_by(seed, {"init_states": record.seeds.get("init_states"), **record.protocol})
    return None if start == usual else start


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}") + 0.0


def _plain(value: Any, number: Callable[[float], float] = float) -> Any:
    """Return a value as JSON has it: lists for tuples, and each float passed through `number`."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, number) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, number) for inner in value]
    return number(value) if isinstance(value, float) else value


def _parameters_digest(parameters: Mapping[str, Any]) -> str:
    if not parameters:
        return ""
    return hashlib.sha256(_text(_plain(parameters, _rounded)).encode()).hexdigest()[:SHORT]

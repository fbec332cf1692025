"""Whether a run can be compared with a baseline, and the observations that are compared.

Two shapes, and each comparison is one of them:

- `paired`: for each case that both have, both results. Task, variation, seed and scene are the same, so a difference
  comes from the policy (and, if it draws, from its draws). Covers these cases' tasks and seeds.
- `unpaired`: for each task and variation that both have, each side's results on its own seeds. A difference comes from
  the policy and the seeds.

The table `CONDITIONS` decides which conditions have to be equal: if one of them differs the policies were not asked the
same, and the comparison is refused; a condition that changes rounding at most is only reported. The policy itself is
what is compared.
"""

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from pytest_vla.errors import STOPPED, VlaError
from pytest_vla.gate.baseline import INIT_STATE, Baseline, CaseResult, distinct_cases, draws
from pytest_vla.metrics.clustered import Unit
from pytest_vla.metrics.rates import BENIGN
from pytest_vla.metrics.success import unit_of
from pytest_vla.plan.task import UNKNOWN_EVALUATOR, USUAL_VALUES
from pytest_vla.records.counting import INIT_STATE_DIGEST, SAID
from pytest_vla.util.text import counted, printable

# Which conditions of an episode decide whether it can be compared with another, and which only round: one table.

Effect = Literal["refuses", "refuses costs", "warns"]
"""Of a condition that differs: nothing is compared; costs are not compared, and what was done is; it is told."""


class Condition(NamedTuple):
    """A row of `CONDITIONS`.

    Attributes:
        name: of the condition; one that ends with a dot: all that begin so and have no row of their own.
        effect: where it differs.
        about: what it is, for people.
        why: the effect is that.
        unsaid: the effect where one side does not say it, as records of earlier versions and published logs may not:
            ``differs`` (not saying it is a value, such as the default), ``warns`` or ``nothing``.
        option: with which a run repeats the baseline's value, or empty.
    """

    name: str
    effect: Effect
    about: str
    why: str
    unsaid: Literal["differs", "warns", "nothing"] = "differs"
    option: str = ""


_CONTROL = "protocol.control"

CONDITIONS = (
    # First, since another simulator compiles another scene, and may begin elsewhere.
    Condition("provenance.mujoco", "refuses", "MuJoCo", "MuJoCo versions give different physics", "warns"),
    Condition("provenance.robosuite", "refuses", "robosuite", "robosuite versions give different physics", "warns"),
    Condition("protocol.evaluator", "refuses", "evaluator", "it decides on step budgets, scenes and pictures"),
    Condition("protocol.max_steps", "refuses", "step budget", "more steps allow more successes", option="--vla-steps"),
    Condition("protocol.settle_steps", "refuses", "settle steps", "episodes start later", option="--vla-settle-steps"),
    Condition("protocol.textures", "refuses", "textures", "things look different", option="--vla-textures"),
    Condition("protocol.rules", "refuses", "success rule", "the paper's goals differ from its code's"),
    Condition(_CONTROL, "refuses", "control", "poses are driven to otherwise than changes of the pose"),
    Condition("protocol.", "refuses", "protocol", "all episodes of a suite share it"),
    Condition("goal", "refuses", "success rule", "a different goal is a different task", "warns"),
    Condition("instruction", "refuses", "instruction", "the policy was given different words", "warns"),
    Condition(
        "replan",
        "refuses",
        "replan length",
        "querying a policy more often changes its behaviour",
        option="--vla-replan",
    ),
    Condition("scene", "refuses", "scene", "different files or assets move or look different", "warns"),
    Condition("provenance.stand_ins", "refuses", "stand-in assets", "things look different", "warns"),
    Condition("init_state", "refuses", "init state", "the same seed started elsewhere"),
    Condition(INIT_STATE_DIGEST, "refuses", "hash of the init state", "its file was changed", "nothing"),
    Condition("provenance.start", "refuses", "start", "one began from a recorded state and not from an init state"),
    Condition("variation", "refuses", "variation", "its label means a different dimension, kind or level"),
    Condition("parameters", "refuses", "variation's parameters", "the same label was drawn differently"),
    Condition(
        "world.", "refuses", "simulator of the suite's own world", "the world declares that its results depend on it"
    ),
    Condition("provenance.premises", "refuses", "premises (--vla-premises)", "different episodes are invalid"),
    Condition("provenance.feasible", "refuses", "feasible (--vla-check-feasible)", "different episodes are invalid"),
    Condition("provenance.stop_when", "refuses", "alarm (--vla-stop-when)", "it stops different episodes"),
    Condition(
        "provenance.realtime",
        "refuses",
        "latency (--vla-realtime)",
        "the world moves on while the policy thinks",
    ),
    Condition("charged", "refuses costs", "costs that were watched", "different things were charged"),
    Condition(
        "provenance.costs", "refuses costs", "collisions (--vla-collision-costs)", "different contacts were charged"
    ),
    Condition("provenance.declared_costs", "refuses costs", "your own costs (--vla-cost-file)", "the file differs"),
    Condition(
        "provenance.ledger",
        "refuses costs",
        "ledger",
        "earlier versions looked once per control step and missed impacts",
    ),
    Condition("provenance.rescored", "refuses costs", "charging", "from recorded states, not as the episode ran"),
    Condition("group", "warns", "group of your own tests", "the marker names a different group"),
    Condition(
        "provenance.compiled",
        "warns",
        "compiled scene",
        "another machine compiles the same files with other rounding, or the cache of scenes was changed",
        "nothing",
    ),
    Condition("provenance.kernels", "warns", "kernels", "they round differently"),
    Condition("provenance.blas", "warns", "BLAS kernels", "they round differently"),
    Condition("provenance.libm", "warns", "libm", "it rounds differently"),
    Condition("provenance.renderer", "warns", "renderer", "pictures round differently"),
    Condition("provenance.platform", "warns", "platform", "another machine may round differently"),
    Condition("provenance.python", "warns", "Python", "it may round differently"),
    Condition("provenance.numpy", "warns", "numpy", "it may round differently"),
    Condition("provenance.scipy", "warns", "scipy", "it may round differently"),
    Condition("provenance.numba", "warns", "numba", "it may round differently"),
    Condition("provenance.llvmlite", "warns", "llvmlite", "it may round differently"),
    Condition("provenance.pytest-vla", "warns", "pytest-vla", "it may round differently"),
    Condition("provenance.", "warns", "provenance", "results are not known to depend on it", "warns"),
)
"""What decides whether two episodes can be compared. Any other condition is a later version's: `OTHER`."""

OTHER = Condition("", "warns", "condition", "this version does not know it", "nothing")


def row_of(name: str) -> Condition:
    """Return the row of `CONDITIONS` for a condition."""
    exact = next((row for row in CONDITIONS if row.name == name), None)
    begun = (row for row in CONDITIONS if row.name.endswith(".") and name.startswith(row.name))
    return exact or next(begun, OTHER)


# In which conditions two sides ran otherwise, and how it is said.

_OTHERWISE_KNOWN = ("run_seed", "protocol.init_states")
"""Conditions that are not compared: by the one cases are found, and of the other the init state itself tells."""

_ALARM = "provenance.stop_when"
_IMPORTED = "provenance.imported"
_PROTOCOL = "protocol."
_EVALUATOR = "protocol.evaluator"
_SHOWN = 3
_LONGEST = 80


@dataclass(frozen=True)
class Disagreement:
    """A condition in which cases differ.

    Attributes:
        name: of the condition.
        effect: its effect by `CONDITIONS`; "warns" if only one side has a condition that has to be known.
        baseline: the baseline's value, as JSON has it, or None if it has none.
        new: the run's value.
        cases: the run's cases with this difference (`CaseResult.case`), in order.
    """

    name: str
    effect: Effect
    baseline: Any
    new: Any
    cases: tuple[str, ...]

    @property
    def text(self) -> str:
        """``step budget differs (baseline 300, run 400; 4 cases): more steps allow more successes. Use ...``.

        Where the baseline has no value for the option: ``--vla-replan sets it``.
        """
        before, row = _value_text(self.name, self.baseline), row_of(self.name)
        sides = f"baseline {before}, run {_value_text(self.name, self.new)}"
        told = f"{label_of(self.name)} differs ({sides}; {counted(len(self.cases), 'case')}): {row.why}"
        if not row.option:
            return told
        return f"{told}. {row.option} sets it" if self.baseline is None else f"{told}. Use {row.option}={before}"


def lines_of(disagreements: Iterable[Disagreement]) -> list[str]:
    """Return a line for each disagreement: the first few of each condition, then how many more there are."""
    by_name: dict[str, list[Disagreement]] = {}
    found = tuple(disagreements)
    unsaid = _unsaid_by_log(found)
    for each in found:
        if each not in unsaid:
            by_name.setdefault(each.name, []).append(each)
    lines = []
    for name, some in by_name.items():
        lines += [each.text for each in some[:_SHOWN]]
        if more := some[_SHOWN:]:
            cases = counted(sum(len(each.cases) for each in more), "case")
            lines.append(f"{label_of(name)} differs in {len(more)} more ways ({cases})")
    if unsaid:
        side = "the run" if unsaid[-1].baseline is None else "the baseline"
        names = ", ".join(dict.fromkeys(label_of(each.name) for each in unsaid if each.name != _IMPORTED))
        lines.append(f"{side} is imported from a log, which does not record these conditions: {names}")
    return lines


def _unsaid_by_log(found: Sequence[Disagreement]) -> list[Disagreement]:
    """Return the conditions that only warn and that one side lacks, as it is imported; its `_IMPORTED` is the last."""
    imported = [each for each in found if each.name == _IMPORTED and None in (each.baseline, each.new)]
    if not imported:
        return []
    is_run = imported[0].baseline is None
    lacking = [each for each in found if each.effect == "warns" and (each.new if is_run else each.baseline) is None]
    return [*lacking, *imported]


def disagreements_of(
    compared: Iterable[tuple[CaseResult, CaseResult, Iterable[str]]],
) -> tuple[Disagreement, ...]:
    """Find the conditions in which cases differ, those that refuse first, in the order of `CONDITIONS`.

    Args:
        compared: for each comparison the baseline's case, the run's case, and the names of conditions that may differ.
    """
    cases: dict[tuple[str, str, str], list[str]] = {}
    values: dict[tuple[str, str, str], tuple[Effect, Any, Any]] = {}
    for one, other, names in compared:
        for name in names:
            before, now = _value_of(one, name), _value_of(other, name)
            if name in _OTHERWISE_KNOWN or before == now:
                continue
            if None in (before, now) and not _knows(one if before is None else other, name):
                # Whoever died, or has not run yet, could not tell.
                continue
            row, unknown = row_of(name), None in (before, now)
            if unknown and row.unsaid == "nothing":
                continue
            is_told = unknown and (row.unsaid == "warns" or _is_left_open(one if before is None else other, name))
            key = name, json.dumps(before, sort_keys=True), json.dumps(now, sort_keys=True)
            cases.setdefault(key, []).append(other.case)
            values[key] = "warns" if is_told else row.effect, before, now
    found = [Disagreement(key[0], *values[key], tuple(dict.fromkeys(some))) for key, some in cases.items()]
    effects, rows = get_args(Effect), [row.name for row in (*CONDITIONS, OTHER)]
    return tuple(
        sorted(
            found,
            key=lambda each: (
                effects.index(each.effect),
                rows.index(row_of(each.name).name),
                each.name,
                -len(each.cases),
                each.cases,
            ),
        )
    )


def label_of(name: str) -> str:
    """Return a condition's words, with its name if its row is for several conditions."""
    row = row_of(name)
    if row.name == name:
        return row.about
    return name.removeprefix(_PROTOCOL).replace("_", " ") if row.name == _PROTOCOL else f"{row.about} {name}"


def _knows(case: CaseResult, name: str) -> bool:
    """Whether a case without a condition had none: what an alarm stopped says by which, and a protocol is whole.

    But for the control, which is the policy's where the evaluator leaves it open: of a planned case it is not known.
    """
    if case.condition(_EVALUATOR) == UNKNOWN_EVALUATOR and name.startswith(("protocol.", "replan")):
        # Nothing is known of its protocol but that.
        return name == _EVALUATOR
    of_protocol = name.startswith("protocol.") and name != _CONTROL and bool(case.protocol)
    return case.is_counted or of_protocol or (name == _ALARM and case.reason == STOPPED)


def _is_left_open(case: CaseResult, name: str) -> bool:
    """Whether an imported log does not say what its evaluator leaves to the policy."""
    return name in (_CONTROL, "replan") and case.condition(_IMPORTED) is not None


def _value_of(case: CaseResult, name: str) -> Any:
    if name == INIT_STATE:
        return case.init_state
    if name in _OF_CASE:
        return getattr(case, name) or None
    return case.condition(name)


def _value_text(name: str, value: Any) -> str:
    # Without a replan length, chunks are executed whole. Records leave out a protocol's usual values.
    usual = {"replan": "whole chunks"} | {f"{_PROTOCOL}{field}": str(each) for field, each in USUAL_VALUES.items()}
    missing = usual.get(name, "not recorded")
    text = missing if value is None else value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


_OF_CASE = ("parameters", INIT_STATE_DIGEST)
"""Conditions that are fields of `CaseResult`."""

OF_SEED = frozenset(("parameters", INIT_STATE))
"""What other seeds have otherwise as a rule."""

OF_DRAW = frozenset(("scene", "instruction", "goal"))
"""What a variation may draw from the seed."""

_OF_ONE = ("seed", "run_seed")
"""Labels that a stratum's cases do not have in common."""


Key = tuple[str, int, str, str]
"""`CaseResult.key`."""


@dataclass(frozen=True)
class Pair:
    """A case that both have.

    Attributes:
        baseline: what the baseline's policy did.
        new: what the run's did.
    """

    baseline: CaseResult
    new: CaseResult

    @property
    def case(self) -> str:
        """Its id."""
        return self.new.case

    @property
    def task(self) -> str:
        """``SUITE/TASK``: what clusters are of."""
        return f"{self.new.suite}/{self.new.task_key}"

    @property
    def unit(self) -> Unit:
        """Task and start: pairs of one share an init state."""
        # An error may not know.
        return unit_of(self.baseline if self.new.init_state is None else self.new)

    @property
    def labels(self) -> Mapping[str, str]:
        """See `labels_of`."""
        return labels_of(self.new)


@dataclass(frozen=True)
class ComparedStratum:
    """A task under one variation that both have, each from its own seeds.

    Attributes:
        task: ``SUITE/TASK``.
        labels: see `labels_of`; those that all cases have, so no seed.
        baseline: what the baseline's policy did, by case.
        new: what the run's did.
    """

    task: str
    labels: Mapping[str, str]
    baseline: tuple[CaseResult, ...]
    new: tuple[CaseResult, ...]


@dataclass(frozen=True)
class ComparableEpisodes:
    """The coverage of a comparison: conditions that differ, and cases that are not compared.

    Attributes:
        disagreements: those that refuse first, in the order of `CONDITIONS`, those with the most cases first.
        only_baseline: keys of cases (`CaseResult.key`) that only the baseline has; for `unpaired`, cases whose task and
            variation only the baseline has.
        only_new: the same for cases that only the run has.
        probes: number of probes and given cases (--vla-cases) that both have; they are in no rate, and not compared.
        same_policy: whether both have the same policy digest, or None if one digest is unknown, or if the digests are
            equal and only servers' own descriptions.
        is_paired: whether the same cases are compared.
        copies: number of pairs (or unpaired episodes) that repeat another one and are left out.
        together: number of groups that are a regression only as one group, since each has too few starts; else 0.
        pooled: number of groups of which none is a regression, and that would be one if all were judged as one; else 0.
        unknown_evaluator: whether both sides have imported logs whose evaluator is unknown.
        of_log: whether the run is an imported log, which no option here could have run otherwise.
    """

    disagreements: tuple[Disagreement, ...]
    only_baseline: tuple[Key, ...]
    only_new: tuple[Key, ...]
    probes: int
    same_policy: bool | None
    is_paired: bool = True
    copies: int = 0
    together: int = 0
    pooled: int = 0
    unknown_evaluator: bool = False
    of_log: bool = False

    def of(self, effect: Effect, cases: Iterable[str] | None = None) -> tuple[Disagreement, ...]:
        """Return the disagreements with one effect, for all cases or only for some (ids), such as a group's."""
        some = None if cases is None else set(cases)
        return tuple(
            each for each in self.disagreements if each.effect == effect and (some is None or some & {*each.cases})
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes beside the disagreements, a line each."""
        found = []
        if self.unknown_evaluator:
            found.append(
                "the evaluators of both logs are unknown: if they are not the same, step budgets, scenes and pictures "
                "differ. Import them with --evaluator=NAME"
            )
        if self.only_baseline:
            found.append(
                f"{counted(len(self.only_baseline), 'case')} of the baseline not in the run{_some(self.only_baseline)}"
            )
        if self.only_new:
            number = counted(len(self.only_new), "case")
            found.append(f"{number} of the run not in the baseline{_some(self.only_new)}")
        if self.together:
            found.append(
                f"{counted(self.together, 'group')} are a regression only together ('all'): each by itself has too few "
                "starts to show a regression even if every success were lost"
            )
        if self.pooled:
            found.append(
                f"judged as one, the {counted(self.pooled, 'group')} would be a regression, and none is by itself. "
                "Choose fewer labels to group by, such as suite alone, before the next run"
            )
        if self.copies:
            what = "pair" if self.is_paired else "episode"
            repeats = f"{counted(self.copies, what)} {'repeats' if self.copies == 1 else 'repeat'}"
            found.append(f"{repeats} another from the same start, bit for bit; each start counts once")
        if self.probes:
            found.append(f"{counted(self.probes, 'probe or given case')} not compared: not part of any rate")
        if self.same_policy:
            both = "Both policies have the same digest"
            # Only of equal conditions: a difference in rounding, too, could be the cause.
            source = "its random draws" if self.is_paired else "its random draws and the seeds"
            found.append(
                f"{both}."
                if self.disagreements
                else f"{both}: as far as it covers them, a difference comes from {source}."
            )
        return tuple(found)


@dataclass(frozen=True)
class Paired:
    """`ComparableEpisodes`, with the pairs that are compared, by case; none is a probe."""

    pairs: tuple[Pair, ...]
    agreement: ComparableEpisodes


@dataclass(frozen=True)
class Unpaired:
    """`ComparableEpisodes`, with the strata that are compared, by task and variation; none is of probes."""

    strata: tuple[ComparedStratum, ...]
    agreement: ComparableEpisodes


def paired(baseline: Baseline, new: Baseline) -> Paired:
    """Pair the cases that both have: under the same run seed, or if each side has only one run seed, under that.

    If a case has one result on each side they are a pair, whichever test of the user's ran it. If it has several,
    results of the same test and the same protocol of a list are paired.

    Raises:
        VlaError: no case is in both; the message lists what both have, and what helps.
    """
    found = matched(baseline, new)
    if not found.pairs and not found.agreement.probes:
        raise _nothing_common(baseline, new, "case")
    return found


def matched(baseline: Baseline, new: Baseline) -> Paired:
    """Pair cases as `paired` does, without an error if no case is in both."""
    pairs = tuple(_pairs(baseline.cases, new.cases))
    keys = {pair.baseline.key for pair in pairs}, {pair.new.key for pair in pairs}
    judged = tuple(pair for pair in pairs if not (pair.new.in_no_rate or pair.baseline.in_no_rate))
    # A case that a file named on one side alone is not judged, and no condition differs by it.
    alike = [pair for pair in pairs if pair.new.is_given == pair.baseline.is_given]
    disagreements = disagreements_of(_compared(alike))
    return Paired(judged, _agreement(baseline, new, disagreements, keys, len(pairs) - len(judged)))


def distinct_pairs(found: Paired) -> Paired:
    """Return the pairs that are observations of their own: equal starts on which both sides did the same again are one.

    Of a policy that is seen to draw all are kept; those from one start are a cluster (`Pair.unit`).
    """
    sides = [pair.baseline for pair in found.pairs], [pair.new for pair in found.pairs]
    if any(map(draws, sides)):
        return found
    kept: dict[Hashable, Pair] = {}
    for number, pair in enumerate(found.pairs):
        one, other = pair.baseline, pair.new
        is_known = one.start is not None and other.start is not None
        kept.setdefault((one.start, one.did, other.start, other.did) if is_known else number, pair)
    copies = len(found.pairs) - len(kept)
    return Paired(tuple(kept.values()), replace(found.agreement, copies=copies))


def unpaired(baseline: Baseline, new: Baseline) -> Unpaired:
    """Return the tasks and variations that both have, each with all of its cases.

    Conditions are compared that are the same for all of a task's cases on each side: those that vary within a side
    belong to the case, such as the parameters that a seed draws.

    Raises:
        VlaError: no task is in both under the same variation; the message lists what both have, and what helps.
    """
    sides = _by_stratum(baseline.cases), _by_stratum(new.cases)
    common = sorted(sides[0].keys() & sides[1].keys())
    if not common:
        raise _nothing_common(baseline, new, "task under the same variation")
    strata: list[ComparedStratum] = []
    differing: list[tuple[CaseResult, CaseResult, Iterable[str]]] = []
    probes = copies = 0
    for key in common:
        of_baseline, of_new = sides[0][key], sides[1][key]
        names = tuple(_once_said(of_baseline, of_new))
        differing += [(of_baseline[0], case, names) for case in of_new]
        if of_new[0].in_no_rate:
            probes += len(of_new)
            continue
        labels = _common_labels(of_new)
        kept = distinct_cases(of_baseline), distinct_cases(of_new)
        copies += len(of_baseline) + len(of_new) - len(kept[0]) - len(kept[1])
        strata.append(ComparedStratum(f"{key[0]}/{key[1]}", labels, *kept))
    keys = [{case.key for key in common for case in side[key]} for side in sides]
    found = disagreements_of(differing)
    agreement = _agreement(baseline, new, found, (keys[0], keys[1]), probes)
    return Unpaired(tuple(strata), replace(agreement, is_paired=False, copies=copies))


def check_apart(baseline: Baseline, new: Baseline) -> None:
    """Raise VlaError if a case that is in a rate is on both sides: unpaired tests take the sides as independent."""
    sides = [{case.key for case in side.cases if not case.in_no_rate} for side in (baseline, new)]
    if both := sorted(sides[0] & sides[1]):
        raise VlaError(
            f"{counted(len(both), 'case')} on both sides{_some(both)}: unpaired episodes must not share seeds. Compare "
            "them in pairs (without --unpaired), or run other seeds"
        )


def labels_of(case: CaseResult) -> dict[str, str]:
    """Return the labels by which results are grouped: all of `LABELS`, and seed and run_seed, as text.

    If the task is not varied the dimension is ``benign``, and kind, level and label are empty. Also empty are the level
    of a kind without levels, the task level in a suite without these, and test and group of a suite's own item.
    """
    variation = case.variation
    level = variation.get("level")
    return {
        "suite": case.suite,
        "task": case.task_key,
        "task_level": case.parts.task_level,
        "dimension": str(variation.get("dimension") or BENIGN),
        "kind": str(variation.get("kind") or ""),
        "level": "" if level is None else str(level),
        "label": case.parts.variation,
        "seed": str(case.seed),
        "run_seed": str(case.run_seed),
        "test": case.test.partition("[")[0],
        "group": str(case.condition("group") or ""),
    }


def _common_labels(cases: Sequence[CaseResult]) -> dict[str, str]:
    """Return a stratum's labels; test and group are empty if its cases have several."""
    labels = {name: text for name, text in labels_of(cases[0]).items() if name not in _OF_ONE}
    for name in ("test", "group"):
        if len({labels_of(case)[name] for case in cases}) > 1:
            labels[name] = ""
    return labels


def _pairs(baseline: Sequence[CaseResult], new: Sequence[CaseResult]) -> Iterator[Pair]:
    # A scene does not depend on the run seed. Of several on a side it says which of a case's episodes is meant.
    is_one = all(len({case.run_seed for case in cases}) == 1 for cases in (baseline, new))
    sides: list[dict[tuple[str, int], list[CaseResult]]] = [{}, {}]
    for side, cases in zip(sides, (baseline, new), strict=True):
        for case in cases:
            side.setdefault((case.case, 0 if is_one else case.run_seed), []).append(case)
    for key in sorted(sides[0].keys() & sides[1].keys()):
        one, other = sides[0][key], sides[1][key]
        if len(one) == len(other) == 1:
            yield Pair(one[0], other[0])
            continue
        by_test = {(case.listed, case.test): case for case in one}
        yield from (Pair(by_test[of], case) for case in other if (of := (case.listed, case.test)) in by_test)


def _compared(pairs: Iterable[Pair]) -> Iterator[tuple[CaseResult, CaseResult, Iterable[str]]]:
    """Each pair with the conditions in which it may differ."""
    # Ten thousand cases share the conditions of a few tasks.
    known: dict[tuple[int, int], list[str]] = {}
    for pair in pairs:
        one, other = pair.baseline, pair.new
        key = id(one.shared), id(other.shared)
        if key not in known:
            names = {*one.shared, *other.shared}
            known[key] = [name for name in names if one.shared.get(name) != other.shared.get(name)]
        yield one, other, {*_OF_CASE, INIT_STATE, *known[key], *one.own, *other.own}


def _once_said(baseline: Sequence[CaseResult], new: Sequence[CaseResult]) -> Iterator[str]:
    """Return the conditions that have one value per side in all cases of a stratum, and that no seed draws."""
    names = {name for case in (*baseline, *new) for name in (*case.shared, *case.own)}
    single = min(len({case.seed for case in side}) for side in (baseline, new)) == 1
    for name in sorted(names - OF_SEED):
        drawn = name.startswith("world.") or (name in OF_DRAW and baseline[0].parts.variation)
        alike = all(all(case.condition(name) == side[0].condition(name) for case in side) for side in (baseline, new))
        # Of one seed alone nobody knows what another would draw.
        if alike and not (single and drawn):
            yield name


def _agreement(
    baseline: Baseline,
    new: Baseline,
    disagreements: tuple[Disagreement, ...],
    keys: tuple[set[Key], set[Key]],
    probes: int,
) -> ComparableEpisodes:
    one, other = baseline.policy_digest, new.policy_digest
    same = None if one is None or other is None else one == other and baseline.model == new.model
    return ComparableEpisodes(
        disagreements,
        tuple(case.key for case in baseline.cases if case.key not in keys[0]),
        tuple(case.key for case in new.cases if case.key not in keys[1]),
        probes,
        None if same and str(one).endswith(SAID) else same,
        unknown_evaluator=all(
            any(case.condition(_EVALUATOR) == UNKNOWN_EVALUATOR for case in side.cases) for side in (baseline, new)
        ),
        of_log=any(case.condition(_IMPORTED) is not None for case in new.cases),
    )


def _by_stratum(cases: Iterable[CaseResult]) -> dict[tuple[str, str, str, bool], tuple[CaseResult, ...]]:
    found: dict[tuple[str, str, str, bool], list[CaseResult]] = {}
    for case in cases:
        found.setdefault(_stratum_of(case), []).append(case)
    return {key: tuple(some) for key, some in found.items()}


def _stratum_of(case: CaseResult) -> tuple[str, str, str, bool]:
    return case.suite, case.task_key, case.parts.variation, case.is_given


def _nothing_common(baseline: Baseline, new: Baseline, what: str) -> VlaError:
    told = [f"{side} has {_held(each.cases)}" for side, each in (("the baseline", baseline), ("the run", new))]
    return VlaError(
        f"no {what} is in both: {', '.join(told)}. Run the baseline's cases (the same --vla-suite, --vla-tasks, "
        "--vla-vary, --vla-seeds and --vla-run-seed), or save this run as the baseline: pytest-vla baseline save RUN"
    )


def _held(cases: Sequence[CaseResult]) -> str:
    if not cases:
        return "no case"
    suites = sorted({case.suite for case in cases})
    run_seeds = sorted({case.run_seed for case in cases})
    seeds = f"run seed{'s' * (len(run_seeds) > 1)} {', '.join(map(str, run_seeds[:_SHOWN]))}"
    return f"{counted(len(cases), 'case')} of {', '.join(suites)} ({cases[0].case}, ...; {seeds})"


def _some(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return f": {', '.join(key[0] for key in keys[:_SHOWN])}{more}"

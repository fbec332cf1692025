"""The gate's verdict on each group of episodes against a baseline: one of five, with its evidence.

Success of the run less that of the baseline is tested each way at alpha, over these tasks: other seeds of just these
tasks.

- ``regression`` is tested against *a drop of the margin* (`Terms.regression` "margin", the default) or against *no
  change* ("any"), ``better`` against *no change*: if the null holds, either is claimed in at most a share alpha of
  runs, over all groups together (Holm 1979);
- ``no worse`` is tested against *a drop of the margin*: if success falls by the margin or more, it is claimed for a
  group in at most a share alpha of runs. All groups together are no worse if each of them is, which takes no correction
  (Berger 1982, Technometrics 24, 295-300).

If neither is shown the group is ``undecided``. A loss that is shown and is no regression is reported
(`GateGroup.shown_loss`). A group is not judged (`GateGroup.is_judged`) if it is undecided and has so few starts that
not even a total loss could be shown. Errors and invalid episodes cannot mask a regression: each verdict is recomputed
with all of them counted as failures in the run and successes in the baseline, and the other way round; if the verdict
changes, the group is undecided.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, CaseResult
from pytest_vla.gate.choices import ALPHA, ANY, BEYOND, BY, FIXED, LABELS, MARGIN, REGRESSIONS, Verdict, label_error
from pytest_vla.gate.comparable import (
    ComparableEpisodes,
    ComparedStratum,
    Disagreement,
    Pair,
    Paired,
    check_apart,
    distinct_pairs,
    matched,
    paired,
    unpaired,
)
from pytest_vla.gate.evidence import (
    AS_THEY_ARE,
    BEST,
    WORST,
    Evidence,
    GroupOutcomes,
    evidence_of,
    lost_all,
    sample_of,
)
from pytest_vla.metrics.statistics import holm
from pytest_vla.plan.case import node_id
from pytest_vla.util.text import counted, numbers_in_order

# The successes lost against a baseline, by task and case by case.


@dataclass(frozen=True)
class TaskChange:
    """A task of a group, or a kind of variation over its tasks, over its episodes that are counted on both sides.

    Attributes:
        group: its name.
        task: ``SUITE/TASK``; of a kind ``""``.
        baseline: the baseline's successes, and of how many episodes.
        new: the run's.
        kind: of variation; of a task ``""``.
    """

    group: str
    task: str
    baseline: tuple[int, int]
    new: tuple[int, int]
    kind: str = ""

    @property
    def name(self) -> str:
        """``SUITE/TASK``, or ``kind gaussian``."""
        return self.task or f"kind {self.kind}"

    @property
    def lost(self) -> float:
        """The run's successes that are missing against the baseline's rate; for pairs, those lost less those gained."""
        return self.baseline[0] / self.baseline[1] * self.new[1] - self.new[0]


@dataclass(frozen=True)
class Flip:
    """A case that only one of the two did.

    Attributes:
        group: its name.
        case: its id.
        node: id of the pytest item that ran it in the run.
        run_seed: of ``--vla-run-seed``.
        is_lost: whether the baseline did it; else the run.
    """

    group: str
    case: str
    node: str
    run_seed: int
    is_lost: bool


def task_changes(sources: Mapping[str, Sequence[Pair | ComparedStratum]]) -> tuple[TaskChange, ...]:
    """Return the tasks and kinds of groups (pairs and strata by the group's name), those that lost most first.

    A kind that all of its group's episodes are of is left out: the group has its counts.
    """
    found: dict[tuple[str, str, str], list[int]] = {}
    every: dict[str, int] = {}
    for group, some in sources.items():
        for source in some:
            sides, kind = _counted(source), source.labels["kind"]
            every[group] = every.get(group, 0) + len(sides[1])
            for key in ((group, source.task, ""), *([(group, "", kind)] if kind else [])):
                counts = found.setdefault(key, [0, 0, 0, 0])
                for place, side in enumerate(sides):
                    counts[2 * place] += sum(side)
                    counts[2 * place + 1] += len(side)
    changes = [
        TaskChange(group, task, (n[0], n[1]), (n[2], n[3]), kind)
        for (group, task, kind), n in found.items()
        if n[1] and n[3] and (task or n[3] < every[group])
    ]
    return tuple(
        sorted(
            changes, key=lambda each: (-each.lost, each.baseline[1], each.group, numbers_in_order(each.name), each.name)
        )
    )


def flips_of(
    sources: Mapping[str, Sequence[Pair | ComparedStratum]], changes: Iterable[TaskChange]
) -> tuple[Flip, ...]:
    """Return the pairs with different outcomes: lost ones first, those of tasks that lost most first, then by number.

    Args:
        sources: by the group's name; strata have no pairs.
        changes: as `task_changes` orders them.
    """
    order = {(change.group, change.task): place for place, change in enumerate(changes)}
    found = []
    for group, some in sources.items():
        for pair in some:
            if isinstance(pair, Pair) and len({*_counted(pair)}) == 2 and all(_counted(pair)):
                is_lost = pair.baseline.outcome == "success"
                node = pair.new.test or node_id(pair.new.parts)
                flip = Flip(group, pair.case, node, pair.new.run_seed, is_lost)
                place = order[group, pair.task], numbers_in_order(pair.case), pair.new.key
                found.append((not is_lost, place, flip))
    return tuple(flip for *_, flip in sorted(found, key=lambda each: each[:2]))


def _counted(source: Pair | ComparedStratum) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Success of what is counted, the baseline's and the run's; of a pair, of both or of neither."""
    if isinstance(source, ComparedStratum):
        baseline, new = source.baseline, source.new
    elif source.baseline.is_counted and source.new.is_counted:
        baseline, new = (source.baseline,), (source.new,)
    else:
        return (), ()
    one, other = (tuple(case.outcome == "success" for case in side if case.is_counted) for side in (baseline, new))
    return one, other


@dataclass(frozen=True)
class Terms:
    """The terms of a gate, fixed before a run is judged.

    Attributes:
        margin: points of success, in (0, 100].
        alpha: in (0, .5).
        by: labels by which episodes are grouped, some of `LABELS`.
        regression: which loss is one, of `pytest_vla.gate.choices.REGRESSIONS`.
    """

    margin: float = MARGIN
    alpha: float = ALPHA
    by: tuple[str, ...] = BY
    regression: str = BEYOND

    @property
    def beyond(self) -> float:
        """The drop of success that a regression has to exceed, 0..1."""
        return self.margin / 100 if self.regression == BEYOND else 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.margin <= 100.0:
            raise VlaError(f"margin {self.margin:g}: expected points of success above 0, at most 100, such as 5")
        if not 0.0 < self.alpha < 0.5:
            raise VlaError(f"alpha {self.alpha:g}: expected a share above 0 and below .5, such as .05")
        for name in self.by:
            if name not in LABELS:
                raise VlaError(label_error(name))
        if self.regression not in REGRESSIONS:
            raise VlaError(f"regression {self.regression!r}: expected {' or '.join(REGRESSIONS)}")
        if not self.by or len(set(self.by)) < len(self.by):
            raise VlaError(f"grouped by {', '.join(self.by) or 'nothing'}: expected labels, each at most once")


@dataclass(frozen=True)
class GroupProgress:
    """The progress of a group in a sequential gate.

    Attributes:
        is_decided: whether it stopped there.
        rounds: number of judged rounds, out of `of`.
        of: total number of rounds.
        pairs: pairs in the judged rounds, errors and invalid ones included, out of `of_pairs`.
        of_pairs: pairs in all rounds.
        rest: pairs in no round, which are not judged.
    """

    is_decided: bool
    rounds: int
    of: int
    pairs: int
    of_pairs: int
    rest: int


@dataclass(frozen=True)
class GateGroup:
    """A group of episodes with its verdict.

    Attributes:
        name: such as ``libero_goal[camera]``.
        verdict: on it.
        reason: the reason in a line; an empty text if the numbers show it.
        evidence: the numbers behind the verdict, or None if nothing was measured on both sides, or nothing can be
            compared.
        p_worse: p value of "success did not fall", with Holm's correction among the groups, or None without evidence.
        p_better: p value of "success did not rise", with Holm's correction, or None without evidence.
        uncounted: number of errors and invalid episodes, of the run and of the baseline.
        refused: the conditions that make it not comparable.
        lost: cases in which only the baseline succeeded; () for unpaired episodes.
        gained: cases in which only the run succeeded; () for unpaired episodes.
        progress: in a sequential gate, or None if all episodes are judged at once.
        p_beyond: p value of "success did not fall by more than the margin", with Holm's correction, or None without
            evidence.
        is_judged: whether anything could be shown; a group with too few starts is not judged, and is undecided.
        shown_loss: whether a loss is shown that is no regression.
        sample: its outcomes, if the numbers leave it undecided; else None.
    """

    name: str
    verdict: Verdict
    reason: str
    evidence: Evidence | None
    p_worse: float | None
    p_better: float | None
    uncounted: tuple[int, int]
    refused: tuple[Disagreement, ...]
    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()
    progress: GroupProgress | None = None
    p_beyond: float | None = None
    is_judged: bool = True
    shown_loss: bool = False
    sample: GroupOutcomes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class GateJudgement:
    """The verdict over a run.

    Attributes:
        verdict: over all groups: a regression if there is one, else not comparable, else undecided; better if a group
            is and no other is worse; else no worse.
        groups: by name.
        terms: on which it was judged.
        is_paired: whether the same cases were compared; else each policy's own seeds of the same tasks.
        agreement: what both have, and the conditions that differ.
        tasks: of compared groups, with their kinds of variation, those that lost most first.
        flips: pairs with different outcomes, the lost ones first.
        rule: one of `pytest_vla.gate.choices.RULES`.
        look: which look at this comparison it is, see `pytest_vla.gate.manifest.looks_at`.
    """

    verdict: Verdict
    groups: tuple[GateGroup, ...]
    terms: Terms
    is_paired: bool
    agreement: ComparableEpisodes
    tasks: tuple[TaskChange, ...] = ()
    flips: tuple[Flip, ...] = ()
    rule: str = FIXED
    look: int = 1

    @property
    def is_measured(self) -> bool:
        """Whether anything was measured on both sides, or there is a reason to compare nothing."""
        return any(group.evidence is not None or group.refused for group in self.groups)


def judge(baseline: Baseline, new: Baseline, terms: Terms, *, is_paired: bool | None = None) -> GateJudgement:
    """Judge each group, and all groups together.

    Args:
        baseline: with which the run is compared.
        new: the run, as `pytest_vla.gate.baseline.baseline_of` makes it.
        terms: margin, alpha and groups.
        is_paired: whether the same cases are compared, or None for pairs if there are common cases.

    Raises:
        VlaError: there is no common case; or, for unpaired episodes, no common task, or a common case.
    """
    if is_paired is False:
        check_apart(baseline, new)
    found = unpaired(baseline, new) if is_paired is False else (paired if is_paired else matched)(baseline, new)
    if is_paired is None and isinstance(found, Paired) and not found.pairs:
        found = unpaired(baseline, new)
    if isinstance(found, Paired):
        found = distinct_pairs(found)
    is_paired = isinstance(found, Paired)
    sources: dict[str, list[Pair | ComparedStratum]] = {}
    for source in found.pairs if isinstance(found, Paired) else found.strata:
        sources.setdefault(group_name(source.labels, terms.by), []).append(source)
    agreement = found.agreement
    groups = _groups({name: sources[name] for name in sorted(sources)}, terms, agreement, is_paired)
    verdicts = {group.verdict for group in groups}
    if len(groups) > 1 and "undecided" in verdicts and verdicts.isdisjoint(("regression", "not comparable")):
        every = [source for some in sources.values() for source in some]
        together = _groups({TOGETHER: every}, terms, agreement, is_paired)
        is_one = together[0].verdict == "regression"
        if is_one and _are_too_many(sources, terms, is_paired):
            # None of the groups can be a regression, so that all of alpha is there for them together.
            agreement, groups = replace(agreement, together=len(sources)), (*groups, *together)
        elif is_one:
            # Alpha is spent on the groups: a further test would raise the rate of false regressions. So it is told.
            agreement = replace(agreement, pooled=len(sources))
    compared = {group.name: sources[group.name] for group in groups if not group.refused and group.name in sources}
    tasks = task_changes(compared)
    verdict, flips = over_all([group.verdict for group in groups]), flips_of(compared, tasks)
    return GateJudgement(verdict, groups, terms, is_paired, agreement, tasks, flips)


NOT_MEASURED = "nothing was measured on both sides"
"""The reason of a group without evidence."""

TOGETHER = "all"
"""The group of all pairs, if starts are too few for a regression of any group, and all together are one."""


def _are_too_many(
    sources: Mapping[str, Sequence[Pair | ComparedStratum]],
    terms: Terms,
    is_paired: bool,
) -> bool:
    """Whether the loss of everything could be shown of all groups together, and of none of them apart.

    It goes by the baseline and by which pairs there are, not by what the new policy did.
    """
    lost = [lost_all(sample_of(some, AS_THEY_ARE)) for some in sources.values()]
    if any(can_find(sample, terms, len(sources), is_paired) for sample in lost):
        return False
    every = [source for some in sources.values() for source in some]
    return can_find(lost_all(sample_of(every, AS_THEY_ARE)), terms, 1, is_paired)


def group_name(labels: Mapping[str, str], by: Sequence[str]) -> str:
    """Return a group's name: ``libero_goal[camera]`` by suite and dimension, ``libero_goal`` by suite alone."""
    suite = labels["suite"] if "suite" in by else ""
    others = ",".join(labels[name] or "-" for name in by if name != "suite")
    return f"{suite}[{others}]" if suite and others else suite or others


def _groups(
    sources: Mapping[str, Sequence[Pair | ComparedStratum]],
    terms: Terms,
    agreement: ComparableEpisodes,
    is_paired: bool,
) -> tuple[GateGroup, ...]:
    refused = {name: agreement.of("refuses", _cases(some)) for name, some in sources.items()}
    judged = {name: some for name, some in sources.items() if not refused[name]}
    # Of all groups: Holm's correction of one goes by the p of the others.
    is_whole = not any(any(uncounted_of(some)) for some in judged.values())
    scenarios = {
        fills: _judged({name: sample_of(some, fills) for name, some in judged.items()}, terms, is_paired)
        for fills in ((AS_THEY_ARE,) if is_whole else (AS_THEY_ARE, WORST, BEST))
    }
    found = []
    for name, some in sources.items():
        uncounted = uncounted_of(some)
        if refused[name]:
            found.append(GateGroup(name, "not comparable", "", None, None, None, uncounted, refused[name]))
            continue
        judged_as = scenarios[AS_THEY_ARE][name]
        verdict, evidence = judged_as.verdict, judged_as.evidence
        reason = "" if evidence is not None else NOT_MEASURED
        if not is_whole and evidence is not None:
            worst, best = scenarios[WORST][name].verdict, scenarios[BEST][name].verdict
            if {verdict, worst, best} != {verdict}:
                reason = errors_text(worst, best)
                verdict = "undecided"
        sample, is_judged = None, True
        if verdict == "undecided" and evidence is not None and not reason:
            sample, number = sample_of(some, AS_THEY_ARE), len(judged)
            is_judged = evidence.baseline_rate <= terms.beyond or can_find(lost_all(sample), terms, number, is_paired)
            if not is_judged:
                sample = None
                reason = not_judged_text(evidence.starts)
        lost, gained = (flipped_cases(some, way) for way in (-1, 1))
        found.append(
            GateGroup(
                name,
                verdict,
                reason,
                evidence,
                judged_as.p_worse,
                judged_as.p_better,
                uncounted,
                (),
                lost,
                gained,
                p_beyond=judged_as.p_beyond,
                is_judged=is_judged,
                shown_loss=is_loss_shown(judged_as.p_worse, verdict, terms),
                sample=sample,
            )
        )
    return tuple(found)


@dataclass(frozen=True)
class _Judged:
    """The verdict and evidence of a group; its p values have Holm's correction, and are None without evidence."""

    verdict: Verdict = "undecided"
    evidence: Evidence | None = None
    p_worse: float | None = None
    p_beyond: float | None = None
    p_better: float | None = None


def _judged(samples: Mapping[str, GroupOutcomes], terms: Terms, is_paired: bool) -> dict[str, _Judged]:
    """Judge each group by itself, with Holm's correction among them."""
    found = {name: evidence_of(sample, terms.margin / 100, terms.alpha, is_paired) for name, sample in samples.items()}
    measured = {name: each for name, each in found.items() if each is not None}
    worse, beyond, better = (
        dict(zip(measured, holm([getattr(each, name) for each in measured.values()]), strict=True))
        for name in ("p_worse", "p_beyond", "p_better")
    )
    judged = dict.fromkeys(found, _Judged())
    for name, each in measured.items():
        p_regression = beyond[name] if terms.regression == BEYOND else worse[name]
        verdict = verdict_of(p_regression, better[name], each.p_no_worse, terms)
        judged[name] = _Judged(verdict, each, worse[name], beyond[name], better[name])
    return judged


def verdict_of(p_regression: float, p_better: float, p_no_worse: float, terms: Terms) -> Verdict:
    """Return the verdict for p values.

    Args:
        p_regression: of "success did not fall by more than `Terms.beyond`", with Holm's correction among the groups.
        p_better: of "it did not rise", with Holm's correction.
        p_no_worse: of "it fell by the margin or more".
        terms: of the gate.
    """
    if p_regression <= terms.alpha:
        return "regression"
    if p_better <= terms.alpha:
        return "better"
    return "no worse" if p_no_worse <= terms.alpha else "undecided"


def is_loss_shown(p_worse: float | None, verdict: Verdict, terms: Terms) -> bool:
    """Whether a loss is shown that is no regression; `p_worse` has Holm's correction."""
    return verdict != "regression" and p_worse is not None and p_worse <= terms.alpha


def can_find(sample: GroupOutcomes, terms: Terms, groups: int, is_paired: bool = True) -> bool:
    """Whether a sample would be a regression as one of several groups of which the others show nothing."""
    found = evidence_of(sample, terms.margin / 100, terms.alpha, is_paired)
    if found is None:
        return False
    return groups * (found.p_beyond if terms.regression == BEYOND else found.p_worse) <= terms.alpha


def not_judged_text(starts: int) -> str:
    """Return the reason of a group with too few starts: ``not judged (4 starts): too few to show a ...``."""
    return f"not judged ({counted(starts, 'start')}): too few to show a regression even if every success were lost"


def errors_text(worst: Verdict, best: Verdict) -> str:
    """Return the reason of a group whose verdict depends on its errors: ``errors: regression if they count as ...``."""
    return f"errors: {worst} if they count as failures, {best} if they count as successes"


def terms_text(terms: Terms) -> str:
    """Return the terms as text: ``margin 5 points, alpha 5% per side``, and whether any loss is a regression."""
    any_loss = ", any loss is a regression" * (terms.regression == ANY)
    return f"margin {terms.margin:g} points, alpha {terms.alpha * 100:g}% per side{any_loss}"


def over_all(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict over several groups from their verdicts."""
    for first in ("regression", "not comparable", "undecided", "better"):
        if first in verdicts:
            return first
    return "no worse" if verdicts else "undecided"


def _sides(source: Pair | ComparedStratum) -> tuple[tuple[CaseResult, ...], tuple[CaseResult, ...]]:
    return ((source.new,), (source.baseline,)) if isinstance(source, Pair) else (source.new, source.baseline)


def _cases(sources: Iterable[Pair | ComparedStratum]) -> list[str]:
    return [case.case for source in sources for case in _sides(source)[0]]


def uncounted_of(sources: Sequence[Pair | ComparedStratum]) -> tuple[int, int]:
    """Return the number of errors and invalid episodes, of the run and of the baseline."""
    new, baseline = (sum(not case.is_counted for source in sources for case in _sides(source)[side]) for side in (0, 1))
    return new, baseline


def flipped_cases(sources: Sequence[Pair | ComparedStratum], way: int) -> tuple[str, ...]:
    """Return the cases of pairs whose difference is `way`."""
    return tuple(
        source.case
        for source in sources
        if isinstance(source, Pair)
        and source.new.is_counted
        and source.baseline.is_counted
        and int(source.new.outcome == "success") - int(source.baseline.outcome == "success") == way
    )

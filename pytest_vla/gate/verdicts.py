"""What a gate says of each group of episodes against a baseline: one of five verdicts, with what it rests on.

Success of the run less that of the baseline is tested each way at alpha, over these tasks: other seeds of just these
tasks. The nulls are two, and both are the user's:

- ``regression`` and ``better`` are against *no change*: where both policies do as well, either is said in at most a
  share alpha of runs, over all groups together (Holm 1979);
- ``no worse`` is against *a drop of the margin*: where success falls by the margin or more, it is said of a group in
  at most a share alpha of runs. All groups together are no worse where each of them is, which takes no correction
  (Berger 1982, Technometrics 24, 295-300).

A drop that is there, and smaller than the margin, is no worse: the margin says which drop nobody minds. Where neither
is shown it is ``undecided``. Errors and invalid episodes cannot hide anything: each verdict is found once more as if
all of them had failed in the run and succeeded in the baseline, and the other way round; where these differ it is
undecided.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, CaseResult
from pytest_vla.gate.choices import ALPHA, BY, FIXED, LABELS, MARGIN, Verdict
from pytest_vla.gate.comparable import Agreement, Pair, Paired, Stratum, distinct_pairs, matched, paired, unpaired
from pytest_vla.gate.disagreements import Disagreement
from pytest_vla.gate.evidence import AS_THEY_ARE, BEST, WORST, Evidence, Sample, evidence_of, sample_of
from pytest_vla.gate.losses import Flip, TaskChange, flips_of, task_changes
from pytest_vla.gate.settling import more_of
from pytest_vla.metrics.paired import holm
from pytest_vla.util.text import did_you_mean


@dataclass(frozen=True)
class Terms:
    """What was agreed before a run is judged.

    Attributes:
        margin: points of success, in (0, 100].
        alpha: in (0, .5).
        by: labels by which episodes are grouped, some of `LABELS`.
    """

    margin: float = MARGIN
    alpha: float = ALPHA
    by: tuple[str, ...] = BY

    def __post_init__(self) -> None:
        if not 0.0 < self.margin <= 100.0:
            raise VlaError(f"margin {self.margin:g}: expected points of success above 0, at most 100, such as 5")
        if not 0.0 < self.alpha < 0.5:
            raise VlaError(f"alpha {self.alpha:g}: expected a share above 0 and below .5, such as .05")
        for name in self.by:
            if name not in LABELS:
                known = f"expected some of {', '.join(LABELS)}"
                raise VlaError(f"nothing is grouped by {name!r}: {known}.{did_you_mean(name, LABELS)}")
        if not self.by or len(set(self.by)) < len(self.by):
            raise VlaError(f"grouped by {', '.join(self.by) or 'nothing'}: expected labels, none of them twice")


@dataclass(frozen=True)
class Progress:
    """How far a group of a sequential gate has come.

    Attributes:
        is_decided: whether it stopped there.
        rounds: that are judged, of `of`.
        of: rounds in all.
        pairs: in the judged rounds, with those that are errors or invalid, of `of_pairs`.
        of_pairs: in all rounds.
        rest: pairs in no round: they are not judged.
    """

    is_decided: bool
    rounds: int
    of: int
    pairs: int
    of_pairs: int
    rest: int


@dataclass(frozen=True)
class Group:
    """A group of episodes and what becomes of it.

    Attributes:
        name: such as ``libero_goal[camera]``.
        verdict: on it.
        reason: why, in a line; empty where the numbers say it.
        evidence: what it rests on; None where nothing was measured on both sides, or nothing can be compared.
        p_worse: that success did not fall, with Holm's correction among the groups; None without evidence.
        p_better: likewise.
        more: about how many pairs more would settle it; None where it is settled, or no such number is known.
        uncounted: episodes that are errors or invalid, of the run and of the baseline.
        refused: what makes it not comparable.
        lost: cases in which only the baseline succeeded; () of unpaired episodes.
        gained: cases in which only the run did; likewise.
        progress: of a sequential gate; None: all episodes are judged at once.
    """

    name: str
    verdict: Verdict
    reason: str
    evidence: Evidence | None
    p_worse: float | None
    p_better: float | None
    more: int | None
    uncounted: tuple[int, int]
    refused: tuple[Disagreement, ...]
    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()
    progress: Progress | None = None


@dataclass(frozen=True)
class Judgement:
    """The verdict over a run.

    Attributes:
        verdict: over all groups: a regression where there is one, else not comparable, else undecided; better where a
            group is and no other is worse; else no worse.
        groups: by name.
        terms: on which it was judged.
        is_paired: whether the same cases were compared; else each policy's own seeds of the same tasks.
        agreement: what both have, and what differs in how they ran.
        tasks: of groups that are compared; those that lost most come first.
        flips: their pairs that ended differently, the lost ones first.
        rule: one of `pytest_vla.gate.choices.RULES`.
    """

    verdict: Verdict
    groups: tuple[Group, ...]
    terms: Terms
    is_paired: bool
    agreement: Agreement
    tasks: tuple[TaskChange, ...] = ()
    flips: tuple[Flip, ...] = ()
    rule: str = FIXED


def judge(baseline: Baseline, new: Baseline, terms: Terms, *, is_paired: bool | None = None) -> Judgement:
    """The verdict of each group, and over all.

    Args:
        baseline: what the run is compared with.
        new: the run, as `pytest_vla.gate.baseline.baseline_of` makes it.
        terms: margin, alpha and groups.
        is_paired: whether the same cases are compared; None: where there are any.

    Raises:
        VlaError: there is no common case; or, of unpaired episodes, no common task.
    """
    found = unpaired(baseline, new) if is_paired is False else (paired if is_paired else matched)(baseline, new)
    if is_paired is None and isinstance(found, Paired) and not found.pairs:
        found = unpaired(baseline, new)
    if isinstance(found, Paired):
        found = distinct_pairs(found)
    is_paired = isinstance(found, Paired)
    sources: dict[str, list[Pair | Stratum]] = {}
    for source in found.pairs if isinstance(found, Paired) else found.strata:
        sources.setdefault(group_name(source.labels, terms.by), []).append(source)
    agreement = found.agreement
    groups = _groups({name: sources[name] for name in sorted(sources)}, terms, agreement, is_paired)
    compared = {group.name: sources[group.name] for group in groups if not group.refused}
    tasks = task_changes(compared)
    verdict, flips = over_all([group.verdict for group in groups]), flips_of(compared, tasks)
    return Judgement(verdict, groups, terms, is_paired, agreement, tasks, flips)


def group_name(labels: Mapping[str, str], by: Sequence[str]) -> str:
    """``libero_goal[camera]`` by suite and dimension; ``libero_goal`` by suite, ``camera`` by dimension."""
    suite = labels["suite"] if "suite" in by else ""
    others = ",".join(labels[name] or "-" for name in by if name != "suite")
    return f"{suite}[{others}]" if suite and others else suite or others


def _groups(
    sources: Mapping[str, Sequence[Pair | Stratum]], terms: Terms, agreement: Agreement, is_paired: bool
) -> tuple[Group, ...]:
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
            found.append(Group(name, "not comparable", "", None, None, None, None, uncounted, refused[name]))
            continue
        verdict, evidence, p_worse, p_better = scenarios[AS_THEY_ARE][name]
        reason = "" if evidence is not None else "nothing was measured on both sides"
        if not is_whole:
            worst, best = scenarios[WORST][name][0], scenarios[BEST][name][0]
            if {verdict, worst, best} != {verdict}:
                reason = f"errors: {worst} if all that broke had failed, {best} if all of it had succeeded"
                verdict = "undecided"
        more = None
        if verdict == "undecided" and evidence is not None and not reason:
            sample, number = sample_of(some, AS_THEY_ARE), len(judged)
            more = more_of(sample, terms.margin / 100, terms.alpha, number, is_paired=is_paired)
        lost, gained = (flipped_cases(some, way) for way in (-1, 1))
        found.append(Group(name, verdict, reason, evidence, p_worse, p_better, more, uncounted, (), lost, gained))
    return tuple(found)


Judged = tuple[Verdict, Evidence | None, float | None, float | None]


def _judged(samples: Mapping[str, Sample], terms: Terms, is_paired: bool) -> dict[str, Judged]:
    """Verdict, evidence and the corrected p of both ways, of each group."""
    evidence = {
        name: evidence_of(sample, terms.margin / 100, terms.alpha, is_paired) for name, sample in samples.items()
    }
    measured = {name: each for name, each in evidence.items() if each is not None}
    worse = dict(zip(measured, holm([each.p_worse for each in measured.values()]), strict=True))
    better = dict(zip(measured, holm([each.p_better for each in measured.values()]), strict=True))
    found: dict[str, Judged] = {}
    for name, each in evidence.items():
        if each is None:
            found[name] = "undecided", None, None, None
            continue
        found[name] = verdict_of(worse[name], better[name], each.p_no_worse, terms), each, worse[name], better[name]
    return found


def verdict_of(p_worse: float, p_better: float, p_no_worse: float, terms: Terms) -> Verdict:
    """What p values say.

    Args:
        p_worse: that success did not fall, with Holm's correction among the groups.
        p_better: that it did not rise, likewise.
        p_no_worse: that it fell by the margin or more.
        terms: of the gate.
    """
    is_within = p_no_worse <= terms.alpha
    if p_worse <= terms.alpha and not is_within:
        return "regression"
    if p_better <= terms.alpha:
        return "better"
    return "no worse" if is_within else "undecided"


def over_all(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict over groups of which these are the verdicts."""
    for first in ("regression", "not comparable", "undecided", "better"):
        if first in verdicts:
            return first
    return "no worse" if verdicts else "undecided"


def _sides(source: Pair | Stratum) -> tuple[tuple[CaseResult, ...], tuple[CaseResult, ...]]:
    return ((source.new,), (source.baseline,)) if isinstance(source, Pair) else (source.new, source.baseline)


def _cases(sources: Iterable[Pair | Stratum]) -> list[str]:
    return [case.case for source in sources for case in _sides(source)[0]]


def uncounted_of(sources: Sequence[Pair | Stratum]) -> tuple[int, int]:
    """How many episodes are errors or invalid, of the run and of the baseline."""
    new, baseline = (sum(not case.is_counted for source in sources for case in _sides(source)[side]) for side in (0, 1))
    return new, baseline


def flipped_cases(sources: Sequence[Pair | Stratum], way: int) -> tuple[str, ...]:
    """The cases of pairs whose difference is that."""
    return tuple(
        source.case
        for source in sources
        if isinstance(source, Pair)
        and source.new.is_counted
        and source.baseline.is_counted
        and int(source.new.outcome == "success") - int(source.baseline.outcome == "success") == way
    )

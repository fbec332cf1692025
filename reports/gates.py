"""A gate's comparison, its measures beside success, and its plan: as lines, as JSON, and as Markdown for a summary."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pytest_vla.gate.baseline import Baseline, CaseResult
from pytest_vla.gate.choices import BEYOND, REQUIRED, SEQUENTIAL
from pytest_vla.gate.comparable import lines_of
from pytest_vla.gate.episodes_needed import POWER, drop_of, fresh_of
from pytest_vla.gate.evidence import Evidence
from pytest_vla.gate.manifest import Manifest
from pytest_vla.gate.measures import PRIDE, Distance, GatedMetric, Measure, judge_measures, parse_measures
from pytest_vla.gate.planning import MOST_PAIRS, POWERS, GatePlan, Sequential
from pytest_vla.gate.sequential import judge_as_agreed
from pytest_vla.gate.verdicts import Flip, GateGroup, GateJudgement, GroupProgress, TaskChange, Terms, judge, terms_text
from pytest_vla.language.backends import choose_backend
from pytest_vla.metrics.language import DIMENSION, PARAPHRASE
from pytest_vla.metrics.language_grounding import GroundingShare
from pytest_vla.metrics.pride import ALPHA, paraphrase_weight
from pytest_vla.metrics.rates import percent, percents
from pytest_vla.plan.manifests import instruction_of
from pytest_vla.reports.blocks import P_VALUE, Cell, Column, Table
from pytest_vla.reports.loaded import SEED
from pytest_vla.reports.text import aligned, first_few, markdown_table, markdown_text, printed, table_lines, wrapped
from pytest_vla.util.text import counted, printable

Replay = Callable[[Sequence[Flip]], str]
"""The command that runs just these cases; empty: none is known."""


class LossesShown(NamedTuple):
    """The most tasks and the most kinds that lost, and the most flipped cases that are shown."""

    tasks: int
    cases: int


SHORT, LONG = LossesShown(3, 3), LossesShown(10, 20)
"""On a terminal; with ``-v``, and in a summary."""


def no_replay(flips: Sequence[Flip]) -> str:
    """Return an empty text: no run is known that had the cases."""
    return ""


def loss_lines(judgement: GateJudgement, replay: Replay, shown: LossesShown) -> Iterator[str]:
    """Yield a table of the worst tasks and kinds, and a line for each case that flipped, lost ones first."""
    worst, more = _worst(judgement, shown)
    if worst:
        yield from table_lines(worst_table(worst))
    if more:
        yield f"{more} more lost ({_where(shown)})"
    flips = judgement.flips
    if not flips:
        return
    yield from wrapped(f"{_flipped_text(flips)}; each alone:")
    # Commands are not wrapped, so that they can be copied.
    yield from (f"  {_way(flip):6}  {replay([flip]) or flip.case}" for flip in flips[: shown.cases])
    if rest := flips[shown.cases :]:
        yield f"  and {_flipped_text(rest, ' more')} ({_where(shown)})"


def loss_markdown(judgement: GateJudgement, replay: Replay) -> Iterator[str]:
    """Yield the worst tasks and kinds, and the flipped cases in Markdown, for a job's summary.

    Args:
        judgement: of the run.
        replay: the command of cases.
    """
    worst, more = _worst(judgement, LONG)
    if worst:
        yield from ("", f"#### {WORST}", *markdown_table(worst_table(worst)))
    if more:
        yield from ("", f"{more} more lost.")
    flips = judgement.flips
    if not flips:
        return
    yield from ("", "#### Flipped cases", "", f"{_flipped_text(flips)}. Each alone:", "")
    lines = []
    for flip in flips[: LONG.cases]:
        command = replay([flip])
        lines += [f"# {_way(flip)} {flip.case}", *([command] if command else [])]
    texts = [printable(line) for line in lines]
    fence = "```"
    while any(fence in text for text in texts):
        fence += "`"
    yield from (f"{fence}bash", *texts, fence)
    if rest := flips[LONG.cases :]:
        yield from ("", f"And {_flipped_text(rest, ' more')}.")


def loss_table(judgement: GateJudgement, replay: Replay) -> dict[str, Any]:
    """Return for JSON all tasks and kinds that lost, and all cases that flipped."""
    return {
        **{
            f"worst_{what}s": [
                {"group": each.group, what: name, "baseline": list(each.baseline), "run": list(each.new)}
                for each in judgement.tasks
                if each.lost > 0 and (name := getattr(each, what))
            ]
            for what in ("task", "kind")
        },
        "flipped": [
            {"group": flip.group, "case": flip.case, "way": _way(flip), "command": replay([flip]) or None}
            for flip in judgement.flips
        ],
    }


def _worst(judgement: GateJudgement, shown: LossesShown) -> tuple[Sequence[TaskChange], str]:
    """Return the kinds and tasks that are shown, and how many more lost, such as ``2 tasks``; empty if none."""
    some = [change for change in judgement.tasks if change.lost > 0]
    lost = {"kind": [each for each in some if each.kind], "task": [each for each in some if each.task]}
    more = [counted(len(each) - shown.tasks, what) for what, each in lost.items() if len(each) > shown.tasks]
    return [change for each in lost.values() for change in each[: shown.tasks]], ", ".join(more)


WORST = "Worst tasks and kinds"
"""The heading of `worst_table`, whose header says that these are no tests."""


def worst_table(lost: Sequence[TaskChange]) -> Table:
    """Return the table of tasks and kinds that lost success."""
    columns = (*map(Column, ("worst (counts, no test)", "group", "baseline", "run")), Column("points", "+.1f"))
    tasks = sum(bool(change.task) for change in lost)
    number = [counted(n, what) for n, what in ((len(lost) - tasks, "kind"), (tasks, "task")) if n]
    return Table(f"{', '.join(number)} lost success", columns, tuple(map(_worst_row, lost)), "tasks", names=2)


def _worst_row(change: TaskChange) -> tuple[Cell, ...]:
    (before, of), (now, n) = change.baseline, change.new
    points = (now / n - before / of) * 100
    return change.name, change.group, GroundingShare(before, of, None), GroundingShare(now, n, None), points


FEWEST_LOST = 3
"""A task or kind that lost fewer successes is in no note."""


def _but_text(judgement: GateJudgement) -> str:
    """Return which task or kind lost most where the verdict passes: it lost more than the margin, as a count."""
    change = next(iter(judgement.tasks), None)
    if judgement.verdict not in ("no worse", "better") or change is None or change.lost < FEWEST_LOST:
        return ""
    if change.lost / change.new[1] * 100 <= judgement.terms.margin:
        return ""
    return f"{judgement.verdict} overall, but {_counts_text(change)} (a count, not tested)"


def _where(shown: LossesShown) -> str:
    return "-v has more" if shown == SHORT else "pytest-vla gate --json has all"


def _way(flip: Flip) -> str:
    return "lost" if flip.is_lost else "gained"


def _flipped_text(flips: Sequence[Flip], more: str = "") -> str:
    """Return ``6 cases lost, 1 gained``, or ``6 cases more lost, 1 gained``."""
    lost = sum(flip.is_lost for flip in flips)
    gained = len(flips) - lost
    if not lost:
        return f"{counted(gained, 'case')}{more} gained"
    return f"{counted(lost, 'case')}{more} lost" + (f", {gained} gained" if gained else "")


SCHEMA = 2
"""Version of the JSON; raised whenever a key changes its meaning or is removed."""


def gate_lines(
    judgement: GateJudgement,
    baseline: Baseline,
    new: Baseline,
    name: str,
    replay: Replay = no_replay,
    *,
    is_long: bool = False,
) -> Iterator[str]:
    """Return the groups with their verdicts, what was lost and gained, how the runs differ, and the verdict.

    Args:
        judgement: of the run.
        baseline: with which it was compared.
        new: the run.
        name: of the baseline, such as its file's.
        replay: the command that runs cases again.
        is_long: whether many tasks and cases are named, and not a few.
    """
    lines = [line for text in about_lines(judgement, baseline, new, name) for line in wrapped(text)]
    lines += table_lines(groups_table(judgement))
    for group in judgement.groups:
        lines += [line for text in told_of(group, judgement) for line in wrapped(text)]
    lines += loss_lines(judgement, replay, LONG if is_long else SHORT)
    warned = warned_of(judgement)
    lines += [line for text in warned for line in wrapped(f"note: {text}")]
    return printed([*lines, *wrapped(verdict_line(judgement))])


MOST_GROUPS = 3
"""The groups that `brief_lines` names."""


def brief_lines(judgement: GateJudgement, replay: Replay) -> Iterator[str]:
    """Yield a gate's end on a terminal, a fact a line: five lines for a regression of one group.

    These are the verdict, the numbers of the groups that have it, the worst task and kind, what was lost, and one
    command that runs the lost cases again. `gate_lines` has the details.

    Args:
        judgement: of the run.
        replay: the command that runs cases again.
    """
    texts = [verdict_line(judgement), *_brief_groups(judgement)]
    if worst := [_counts_text(change) for change in _worst(judgement, LossesShown(1, 1))[0]]:
        texts.append(f"worst (counts, no test): {', '.join(worst)}")
    if flips := judgement.flips:
        texts.append(f"{_flipped_text(flips)}: {first_few([flip.case for flip in flips], 1)} (-v has more)")
    lines = [line for text in texts for line in wrapped(text)]
    if command := replay([flip for flip in flips if flip.is_lost]):
        # Not wrapped, so that it can be copied.
        lines.append(f"replay: {command}")
    lines += [line for text in warned_of(judgement) for line in wrapped(f"note: {text}")]
    return printed(lines)


def _brief_groups(judgement: GateJudgement) -> Iterator[str]:
    """Yield the numbers of the groups with the verdict, those that lost most first, and how many others there are."""
    order = sorted(
        judgement.groups,
        key=lambda group: (
            group.verdict != judgement.verdict,
            0.0 if group.evidence is None else group.evidence.bounds.value,
        ),
    )
    meant = sum(group.verdict == judgement.verdict for group in order)
    shown = MOST_GROUPS if len(order) <= MOST_GROUPS else min(max(meant, 1), MOST_GROUPS)
    for group in order[:shown]:
        if group.evidence is not None:
            bounds, each = group.evidence.bounds, group.evidence
            points = f"{bounds.value * 100:+.1f} points {_points_text((bounds.lower, bounds.upper))}"
            name, pairs = group.name, f", {counted(each.pairs, 'pair' if judgement.is_paired else 'episode')}"
            if group.progress is not None:
                name, pairs = f"{name}: {_progress_text(group.verdict, group.progress)}", ""
            yield f"{name}: {each.baseline_rate:.1%} -> {each.new_rate:.1%}, {points}{pairs}"
        yield from told_of(group, judgement, is_brief=True)
    if rest := Counter(group.verdict for group in order[shown:]):
        others = ", ".join(f"{number} {verdict}" for verdict, number in rest.items())
        yield f"{counted(rest.total(), 'more group')}: {others} (-v has them)"


def _counts_text(change: TaskChange) -> str:
    """Return ``kind gaussian 28 -> 22 of 30``."""
    (before, of), (now, n) = change.baseline, change.new
    return f"{change.name} {before} -> {now} of {n}" if of == n else f"{change.name} {before} of {of} -> {now} of {n}"


def group_reason(group: GateGroup, judgement: GateJudgement) -> str:
    """Return a group's verdict with its reason, in a line."""
    reason, evidence = group.reason, group.evidence
    if group.refused:
        reason = group.refused[0].text
    elif not reason and evidence is not None:
        bounds = evidence.bounds
        numbers = f"{bounds.value * 100:+.1f} points {_points_text((bounds.lower, bounds.upper))}"
        is_open = group.verdict == "undecided" and group.progress is None
        reason = _undecided_text(group, judgement) if is_open else numbers
    if group.progress is not None and not group.refused:
        reason = f"{_pairs_text(group.progress)}: {reason}" if reason else _pairs_text(group.progress)
        return printable(f"{group.verdict} {reason}")
    return printable(f"{group.verdict}: {reason}" if reason else group.verdict)


def verdict_line(judgement: GateJudgement) -> str:
    """Return the last line: ``gate: regression of libero_goal[camera] (margin 5 points, alpha 5% per side)``."""
    rule = ", sequential" * (judgement.rule == SEQUENTIAL)
    terms = f"({terms_text(judgement.terms)}{rule}{_uncovered_text(judgement)})"
    meant = [group.name for group in judgement.groups if group.verdict == judgement.verdict]
    if not judgement.groups:
        return f"gate: undecided: no case to compare {terms}"
    of = "" if len(meant) == len(judgement.groups) else f": {', '.join(meant)}"
    return f"gate: {judgement.verdict}{of} {terms}"


def _uncovered_text(judgement: GateJudgement) -> str:
    """Return how many of the baseline's cases are not in the run; empty if all are."""
    left = len(judgement.agreement.only_baseline)
    return f"; {counted(left, 'case')} of the baseline not in the run" if left else ""


def gate_table(
    judgement: GateJudgement, baseline: Baseline, new: Baseline, replay: Replay = no_replay
) -> dict[str, Any]:
    """Return the gate's result for JSON.

    It has ``schema``, ``verdict``, ``terms``, ``is_paired``, both sides' ``model`` and ``policy_digest``, and the
    ``names`` of runs.

    ``groups`` by name: ``verdict``, ``reason``, ``judged`` (false: undecided, as so few starts show nothing),
    ``shown_loss`` (a loss is shown that is no regression), ``fresh`` and ``detectable`` (if it is undecided, how many
    pairs a new comparison takes, and which drop these find in four of five runs), ``uncounted`` (of the run, of the
    baseline), ``refused`` (texts), ``lost`` and ``gained`` (cases), ``p_worse``, ``p_beyond`` (that the margin was not
    exceeded) and ``p_better`` (with Holm's correction) and ``evidence``: with the number of ``starts``, and
    percentages and percentage points, ``bounds`` each way at alpha over these tasks, ``tasks_bounds`` over tasks
    like these; null where there is none. ``worst_tasks`` have the group, the task (``SUITE/TASK``) and of both sides
    the successes and of how many episodes; those that lost most come first. ``worst_kinds`` have the same of kinds
    of variation that are a part of their group. ``flipped`` cases, the lost ones first,
    have the group, the case, the way (``lost`` or ``gained``) and the command that runs it alone, null where none is
    known. ``notes`` are texts. ``look`` is how often this policy was compared with this baseline. ``rule``
    is ``fixed`` or ``sequential``; of a sequential gate ``progress`` has
    ``decided``, and ``rounds`` and ``pairs`` that are judged, of ``of_rounds`` and ``of_pairs``, and ``rest``, the
    pairs that are in no round; else it is null.
    """
    return {
        "schema": SCHEMA,
        "verdict": judgement.verdict,
        "terms": {
            "margin": judgement.terms.margin,
            "alpha": judgement.terms.alpha,
            "by": list(judgement.terms.by),
            "regression": judgement.terms.regression,
        },
        "rule": judgement.rule,
        "look": judgement.look,
        "is_paired": judgement.is_paired,
        "baseline": {"model": baseline.model, "policy_digest": baseline.policy_digest},
        "run": {"model": new.model, "policy_digest": new.policy_digest, "names": list(new.runs)},
        "groups": {group.name: _group_table(group, judgement) for group in judgement.groups},
        **loss_table(judgement, replay),
        "notes": warned_of(judgement),
    }


def gate_markdown(
    judgement: GateJudgement, baseline: Baseline, new: Baseline, name: str, replay: Replay = no_replay
) -> str:
    """Return a job's summary: the verdict, the groups, the worst tasks, and the cases that flipped."""
    parts = [f"### {markdown_text(verdict_line(judgement))}", ""]
    parts += [markdown_text(text) for text in about_lines(judgement, baseline, new, name)]
    parts += markdown_table(groups_table(judgement))
    for group in judgement.groups:
        parts += [f"- {markdown_text(text)}" for text in ("", *told_of(group, judgement)) if text]
    parts += loss_markdown(judgement, replay)
    warned = warned_of(judgement)
    parts += ["", *(f"- note: {markdown_text(text)}" for text in warned)] if warned else []
    return "\n".join(parts) + "\n"


def about_lines(judgement: GateJudgement, baseline: Baseline, new: Baseline, name: str) -> Iterator[str]:
    """Yield which runs were compared with what, and how."""
    sides = " against ".join(
        f"{each.model}{'' if each.policy_digest is None else f' (policy {each.policy_digest[:8]})'}"
        for each in (new, baseline)
    )
    if new.runs:
        yield f"run{'s' * (len(new.runs) > 1)}: {', '.join(new.runs)}"
    yield f"{sides} of {name}"
    how = "the same cases" if judgement.is_paired else "the same tasks from other seeds (no case is in both)"
    stops = ""
    if judgement.rule == SEQUENTIAL:
        how, stops = f"{how}, sequentially, in whole rounds of the order that was agreed", " at any stopping time"
    adjusted = "; verdicts go by p adjusted for all groups (Holm), bounds are each group's own"
    bounds = f"bounds at {judgement.terms.alpha * 100:g}% per side{stops}, over these tasks"
    yield f"compared: {how}; {bounds}{adjusted * is_adjusted(judgement)}"


def warned_of(judgement: GateJudgement) -> list[str]:
    """Return what differs in how both ran without forbidding to compare, what lost most, and repeated looks."""
    told = [*lines_of(judgement.agreement.of("warns")), *judgement.agreement.notes]
    told += [text for text in (_but_text(judgement),) if text]
    if (look := judgement.look) > 1:
        most = min(100.0, 100 * look * judgement.terms.alpha)
        told.append(f"look {look} of this comparison: the chance of a false regression adds up, to at most {most:g}%")
    return told


def groups_table(judgement: GateJudgement, one: str = "baseline", other: str = "run") -> Table:
    """Return the table of a judgement's groups.

    Args:
        judgement: of a run.
        one: what it is compared with.
        other: the run.
    """
    # Unpaired comparisons have no flipped cases.
    flips = map(Column, ("lost", "gained") if judgement.is_paired else ())
    of = "cases that both have" if judgement.is_paired else "tasks that both have, from other seeds"
    return Table(
        f"Success of the {of}; bounds at {judgement.terms.alpha * 100:g}% per side over these tasks",
        (
            Column("group"),
            Column(one, ".1%"),
            Column(other, ".1%"),
            Column("points", "+.1f", 100),
            Column("bounds", "+.1f", 100),
            *flips,
            # The verdict's own number where bounds may seem to contradict it.
            Column("adj. p regression", P_VALUE, medium="all" if is_adjusted(judgement) else "page"),
            Column("adj. p better", P_VALUE, medium="page"),
            Column("verdict", is_left=judgement.is_paired),
        ),
        tuple(_group_row(group, judgement) for group in judgement.groups),
        "groups",
    )


def is_adjusted(judgement: GateJudgement) -> bool:
    """Whether Holm's correction changes a p value: the bounds of each group are without it."""
    return sum(group.evidence is not None for group in judgement.groups) > 1


def _group_row(group: GateGroup, judgement: GateJudgement) -> tuple[Cell, ...]:
    evidence = group.evidence
    if evidence is None:
        return (group.name, *[None] * (8 if judgement.is_paired else 6), group.verdict)
    bounds = evidence.bounds
    flips = (GroundingShare(evidence.lost, evidence.pairs, None), GroundingShare(evidence.gained, evidence.pairs, None))
    return (
        group.name,
        evidence.baseline_rate,
        evidence.new_rate,
        bounds.value,
        (bounds.lower, bounds.upper),
        *(flips if judgement.is_paired else ()),
        group.p_beyond if judgement.terms.regression == BEYOND else group.p_worse,
        group.p_better,
        group.verdict,
    )


def told_of(group: GateGroup, judgement: GateJudgement, is_brief: bool = False) -> Iterator[str]:
    """Return what is to be said of a group beside its row; if brief, without its progress and what -v has."""
    if group.refused:
        for text in lines_of(group.refused):
            yield f"{group.name}: not comparable: {text}"
    if group.reason:
        yield f"{group.name}: {group.reason}"
    if group.progress is not None:
        if not is_brief or group.evidence is None:
            yield f"{group.name}: {_progress_text(group.verdict, group.progress)}"
        if group.progress.rest:
            yield (
                f"{group.name}: {counted(group.progress.rest, 'pair')} in no whole round, so not judged (a task has "
                "fewer seeds, or the baseline had nothing to measure)"
            )
    elif group.verdict == "undecided" and group.evidence is not None and not group.reason:
        yield f"{group.name}: {_undecided_text(group, judgement)}"
    if group.shown_loss and group.evidence is not None:
        yield f"{group.name}: {loss_text(group, judgement.terms)}"
    if any(group.uncounted):
        of_run, of_baseline = group.uncounted
        yield f"{group.name}: not counted (errors, invalid): {of_run} in the run, {of_baseline} in the baseline"
    if group.evidence is not None and group.evidence.tasks_bounds is not None and not is_brief:
        yield f"{group.name}: over tasks like these {_points_text(group.evidence.tasks_bounds)}"


def _progress_text(verdict: str, progress: GroupProgress) -> str:
    """Return ``no worse after 60 of 200 pairs (6 of 20 rounds)``."""
    rounds = f"{progress.rounds} of {counted(progress.of, 'round')}"
    return f"{verdict} {_pairs_text(progress)} ({rounds}{'' if progress.is_decided else ', not decided before'})"


def _pairs_text(progress: GroupProgress) -> str:
    return f"after {progress.pairs} of {counted(progress.of_pairs, 'pair')}"


def loss_text(group: GateGroup, terms: Terms) -> str:
    """Return ``a loss of 3 points is significant but within the margin``."""
    if group.evidence is None:
        return ""
    told = f"a loss of {-group.evidence.bounds.value * 100:.3g} points is significant"
    if group.verdict == "no worse":
        return f"{told} but within the margin"
    return f"{told}, but not shown to exceed the margin of {terms.margin:g} points"


def _undecided_text(group: GateGroup, judgement: GateJudgement) -> str:
    """Return what to do about a group that is undecided."""
    names = [each.name for each in judgement.groups]
    finds = ""
    if group.evidence is not None and judgement.is_paired:
        drop = drop_of(group, judgement.terms, names)
        what = "no drop" if drop is None else f"a drop of {drop} points or more"
        margin = judgement.terms.margin
        # Only here: a verdict that is shown needs no warning.
        unseen = drop is not None and drop > margin
        warning = f"; smaller ones beyond the margin ({margin:g} points) may go unnoticed" if unseen else ""
        finds = f": {counted(group.evidence.pairs, 'pair')} can detect {what} ({POWER:.0%} power){warning}"
    fresh = fresh_of(group, judgement.terms, len(names))
    if fresh is None:
        return f"inconclusive{finds}. A new comparison would need more than {MOST_PAIRS:,} episodes like these"
    what = counted(fresh, "pair" if judgement.is_paired else "episode")
    can_stop = judgement.is_paired and not judgement.agreement.of_log
    sequential = ", or use --vla-gate=sequential" * can_stop
    return f"inconclusive{finds}. To decide, start a new comparison with about {what}, fixed in advance{sequential}"


def _group_table(group: GateGroup, judgement: GateJudgement) -> dict[str, Any]:
    return {
        "verdict": group.verdict,
        "reason": group.reason,
        "judged": group.is_judged,
        "shown_loss": group.shown_loss,
        "fresh": fresh_of(group, judgement.terms, len(judgement.groups)),
        "detectable": drop_of(group, judgement.terms, [each.name for each in judgement.groups]),
        "uncounted": {"run": group.uncounted[0], "baseline": group.uncounted[1]},
        "refused": [each.text for each in group.refused],
        "p_worse": group.p_worse,
        "p_beyond": group.p_beyond,
        "p_better": group.p_better,
        "lost": list(group.lost),
        "gained": list(group.gained),
        "progress": None if group.progress is None else _progress_table(group.progress),
        "evidence": None if group.evidence is None else _evidence_table(group.evidence),
    }


def _progress_table(progress: GroupProgress) -> dict[str, Any]:
    return {
        "decided": progress.is_decided,
        "rounds": progress.rounds,
        "of_rounds": progress.of,
        "pairs": progress.pairs,
        "of_pairs": progress.of_pairs,
        "rest": progress.rest,
    }


def _evidence_table(evidence: Evidence) -> dict[str, Any]:
    return {
        "pairs": evidence.pairs,
        "baseline": percent(evidence.baseline_rate),
        "run": percent(evidence.new_rate),
        "points": percent(evidence.bounds.value),
        "bounds": percents((evidence.bounds.lower, evidence.bounds.upper)),
        "tasks_bounds": percents(evidence.tasks_bounds),
        "lost": evidence.lost,
        "gained": evidence.gained,
        "p_no_worse": evidence.p_no_worse,
        "starts": evidence.starts,
    }


def _points_text(ends: tuple[float, float]) -> str:
    return f"[{ends[0] * 100:+.1f}, {ends[1] * 100:+.1f}]"


# A gate's measures beside success: as lines, as a table for programs, and as Markdown.


@dataclass(frozen=True)
class AsAgreed:
    """The verdicts over a run.

    Attributes:
        judgement: of success.
        measured: the gated measures beside success.
        by: what compared texts for them, or empty if no texts were compared.
        required: what the run must show, a key of `REQUIRED`.
    """

    judgement: GateJudgement
    measured: tuple[GatedMetric, ...]
    by: str
    required: str

    @cached_property
    def against(self) -> tuple[str, ...]:
        """Return the verdicts for which the run fails; none if it passes."""
        success: tuple[str, ...] = ()
        if not self.judgement.is_measured:
            success = ("undecided: nothing was measured",)
        elif self.judgement.verdict not in REQUIRED[self.required]:
            success = (self.judgement.verdict,)
        failed = fails(self.measured, self.required)
        return (*success, *(f"{each.measure.name} of {each.group} {each.verdict}" for each in failed))


def judged_as_agreed(manifest: Manifest, baseline: Baseline, new: Baseline, nodes: Iterable[str]) -> AsAgreed:
    """Judge success and measures by the terms, the rule and the measures of the manifest.

    Args:
        manifest: of the run.
        baseline: with which it is compared.
        new: the run.
        nodes: ids of all of its items with an episode.

    Raises:
        VlaError: both have nothing in common, or of a sequential run the baseline or the cases are others.
    """
    terms = manifest.terms
    if manifest.is_sequential:
        judgement = judge_as_agreed(manifest, baseline, new, nodes)
    else:
        judgement = judge(baseline, new, terms)
    judgement = replace(judgement, look=max(len(manifest.looks), 1))
    measured, by = measured_by(baseline, new, terms, parse_measures(manifest.measures))
    return AsAgreed(judgement, measured, by, manifest.required)


def measured_by(
    baseline: Baseline, new: Baseline, terms: Terms, measures: Sequence[Measure]
) -> tuple[tuple[GatedMetric, ...], str]:
    """Judge the measures, and name what compared the texts if PRIDE is among them.

    Raises:
        VlaError: as there.
    """
    if not measures:
        return (), ""
    distance, told = None, ""
    if any(each.name == PRIDE and not each.is_own for each in measures):
        distance, backend = distance_by(new.cases)
        told = f"PRIDE at alpha {ALPHA:g} by {backend}"
    return judge_measures(baseline, new, terms, measures, np.random.default_rng(SEED), distance), told


def distance_by(cases: Iterable[CaseResult]) -> tuple[Distance, str]:
    """Return how far each paraphrase is from its task's own text (LIBERO-Para's PD), and by which backend."""
    pairs = {
        _text_of(case): (instruction_of(case.suite, case.parts.task, case.parts.task_level), _text_of(case)[2])
        for case in cases
        if case.variation.get("dimension") == DIMENSION and _kind_of(case) == PARAPHRASE
    }
    backend = choose_backend(None, None, [*pairs.values()]).backend
    compared = backend.compare([*pairs.values()]) if pairs else []
    far = {
        key: max(paraphrase_weight(each.keyword, each.structural), 0.0)
        for key, each in zip(pairs, compared, strict=True)
    }
    return lambda case: far.get(_text_of(case)), str(backend)


def fails(measured: Iterable[GatedMetric], required: str) -> list[GatedMetric]:
    """Return the measures that do not show what is required (a key of `REQUIRED`)."""
    return [each for each in measured if each.verdict not in REQUIRED[required]]


def measures_lines(
    measured: Sequence[GatedMetric], terms: Terms, by: str, failed: Sequence[GatedMetric]
) -> Iterator[str]:
    """Return a row for each measure of each group, and reasons that the numbers do not give.

    Args:
        measured: the gated measures.
        terms: of the gate.
        by: what compared texts, or empty if no texts were compared.
        failed: those that fail the gate, named in the last line.
    """
    if not measured:
        return iter(())
    lines = [*wrapped(shared_text(measured, terms)), *table_lines(table_of_measures(measured, terms))]
    lines += [line for text in told_of_measures(measured, by, failed) for line in wrapped(text)]
    return printed(lines)


def measures_markdown(measured: Sequence[GatedMetric], terms: Terms, by: str, failed: Sequence[GatedMetric]) -> str:
    """Return the measures in Markdown, for a job's summary; arguments as of `measures_lines`."""
    if not measured:
        return ""
    table = table_of_measures(measured, terms)
    parts = ["", markdown_text(table.caption), *markdown_table(table), ""]
    parts += [f"- {markdown_text(text)}" for text in told_of_measures(measured, by, failed)]
    return "\n".join(parts) + "\n"


def failed_heading(failed: Sequence[GatedMetric]) -> str:
    """Return the heading of a summary if measures fail the gate; else an empty text."""
    return f"### {markdown_text(_failed_text(failed))}\n\n" if failed else ""


def measures_table(measured: Iterable[GatedMetric]) -> list[dict[str, Any]]:
    """Return for JSON the ``measure``, ``group``, ``verdict``, ``reason``, ``margin`` and numbers of each row."""
    return [
        {
            "measure": each.measure.name,
            "lower_is_better": each.measure.lower_is_better,
            "margin": each.measure.margin,
            "group": each.group,
            "verdict": each.verdict,
            "reason": each.reason,
            "pairs": each.pairs,
            "baseline": each.baseline,
            "run": each.new,
            "bounds": None if each.bounds is None else list(each.bounds),
        }
        for each in measured
    ]


def shared_text(measured: Sequence[GatedMetric], terms: Terms) -> str:
    """Return the caption of the measures, with their alpha."""
    among = f" shared by {len(measured)} rows" if len(measured) > 1 else ""
    return f"beside success: mean differences of pairs; bounds are each way at {terms.alpha * 100:g}%{among}"


def told_of_measures(measured: Sequence[GatedMetric], by: str, failed: Sequence[GatedMetric] = ()) -> Iterator[str]:
    """Yield reasons that the numbers do not give, what compared texts, and what fails the gate."""
    yield from (f"{each.measure.name} of {each.group}: {each.reason}" for each in measured if each.reason)
    if by:
        yield by
    if failed:
        yield _failed_text(failed)


def table_of_measures(measured: Sequence[GatedMetric], terms: Terms) -> Table:
    """Return the table of measures, a row for each measure of each group."""
    columns = (
        *map(Column, ("measure", "group")),
        Column("baseline", ".4g"),
        Column("run", ".4g"),
        Column("difference", "+.3g"),
        Column("bounds", "+.3g"),
        Column("pairs"),
        Column("verdict", is_left=True),
    )
    return Table(shared_text(measured, terms), columns, tuple(map(_measure_row, measured)), "measures", names=2)


def _measure_row(each: GatedMetric) -> tuple[Cell, ...]:
    margin = "" if each.measure.margin is None else f" (margin {each.measure.margin:g})"
    numbers: tuple[Cell, ...] = (None, None, None)
    if each.baseline is not None and each.new is not None:
        numbers = (each.baseline, each.new, each.new - each.baseline)
    return (f"{each.measure.name}{margin}", each.group, *numbers, each.bounds, each.pairs, each.verdict)


def _text_of(case: CaseResult) -> tuple[str, str, str]:
    return case.suite, case.task_key, str(case.condition("instruction"))


def _kind_of(case: CaseResult) -> str:
    """Return the kind of a variation; a paraphrase's is one of 43, behind a dot."""
    return str(case.variation.get("kind")).partition(".")[0]


def _failed_text(failed: Sequence[GatedMetric]) -> str:
    return f"gate: {', '.join(f'{each.measure.name} of {each.group} {each.verdict}' for each in failed)}"


# The number of episodes that a gate needs: as lines, and as a table for programs.

PLAN_SCHEMA = 1
"""Version of the JSON; raised whenever a key changes its meaning or is removed."""

_SEEN = "as the run and the baseline do; both succeed as often as these two on average"
_INDEPENDENT = "if they are independent given the task; name a RUN of another checkpoint to use its pairs instead"


def plan_lines(plans: Sequence[GatePlan], terms: Terms, drop: float, has_run: bool) -> Iterator[str]:
    """Return a row for each group, and the assumptions of the numbers.

    Args:
        plans: of the groups.
        terms: of the gate.
        drop: in points, that is to be called a regression.
        has_run: whether pairs were observed, and not simulated as independent ones.
    """
    shares = " and ".join(f"{power * 100:g}%" for power in POWERS)
    agreed = terms_text(terms)
    about = f"episodes (pairs) that a gate takes for its verdict in {shares} of runs: {agreed}"
    lines = [*wrapped(f"{about}, {counted(len(plans), 'group')}")]
    head = ("group", "tasks", "success", "differ", "equal: no worse", f"drop of {drop:g}: regression")
    lines += aligned([head, *(_row(plan) for plan in plans)], 1)
    for plan in plans:
        lines += wrapped(f"{plan.name}: {_as_now_text(plan, drop)}")
        if plan.sequential is not None:
            lines += wrapped(f"{plan.name}: {_sequential_text(plan.sequential, drop)}")
    differ = _SEEN if has_run else _INDEPENDENT
    lines += wrapped(f"differ: the share of pairs in which two equal policies end differently, {differ}")
    if len(plans) > 1:
        lines += wrapped("with several groups, regression numbers assume the strictest step of Holm's correction")
    return printed(lines)


def plan_table(plans: Sequence[GatePlan], terms: Terms, drop: float, has_run: bool) -> dict[str, Any]:
    """Return for JSON ``schema``, ``terms``, ``drop``, ``powers``, ``pairs`` (``seen``, ``independent``), ``groups``.

    Each group, by name, has ``tasks``, ``success`` and ``differing`` in percent, ``episodes`` of the baseline,
    ``no_worse`` and ``regression`` (episodes by power; null if more than 20,000, or if no such drop is possible) and
    ``as_now``: the percentages of gates with as many episodes as the baseline that reach either verdict.
    ``sequential``: ``most`` pairs, and for ``no_worse`` and ``regression`` the mean ``pairs`` and the percentage of
    runs (``said``) with ``--vla-gate=sequential``; null if it is not known.
    """
    return {
        "schema": PLAN_SCHEMA,
        "terms": {"margin": terms.margin, "alpha": terms.alpha, "by": list(terms.by), "regression": terms.regression},
        "drop": drop,
        "powers": [percent(power) for power in POWERS],
        "pairs": "seen" if has_run else "independent",
        "groups": {
            plan.name: {
                "tasks": plan.tasks,
                "success": percent(plan.rate),
                "differing": percent(plan.differing),
                "episodes": plan.has,
                "no_worse": list(plan.no_worse),
                "regression": list(plan.regression),
                "sequential": None if plan.sequential is None else _sequential_table(plan.sequential),
                "as_now": {"no_worse": percent(plan.as_now[0]), "regression": percent(plan.as_now[1])},
            }
            for plan in plans
        },
    }


def drops_line(drops: Mapping[str, int | None]) -> str:
    """Return the smallest drop that each group can detect.

    Args:
        drops: of `pytest_vla.gate.episodes_needed.smallest_drops`.
    """
    if not drops:
        return "detectable drop: unknown, as no case of this run is in the baseline"
    if len(drops) == 1:
        (drop,) = drops.values()
        what = "no drop" if drop is None else f"a drop of {drop} points or more"
        return f"this run can detect {what} ({POWER:.0%} power, simulated from the baseline)"
    found = (f"{name} {'none' if drop is None else f'{drop} points'}" for name, drop in drops.items())
    return f"this run can detect ({POWER:.0%} power, simulated from the baseline) a drop of: {', '.join(found)}"


def _sequential_table(found: Sequential) -> dict[str, Any]:
    sides = {"no_worse": found.equal, "regression": found.fallen}
    return {
        "most": found.most,
        **{
            name: None if stops is None else {"pairs": round(stops.pairs), "said": percent(stops.share)}
            for name, stops in sides.items()
        },
    }


def _sequential_text(found: Sequential, drop: float) -> str:
    equal, fallen = found.equal, found.fallen
    told = (
        f"--vla-gate=sequential of at most {counted(found.most, 'pair')} stops on average after {equal.pairs:.0f} of "
        f"an equal policy (no worse in {equal.share:.0%} of runs)"
    )
    if fallen is None:
        return told
    return f"{told}, after {fallen.pairs:.0f} of a drop of {drop:g} points (a regression in {fallen.share:.0%})"


def _row(plan: GatePlan) -> tuple[str, ...]:
    return (
        plan.name,
        str(plan.tasks),
        f"{plan.rate:.1%}",
        f"{plan.differing:.1%}",
        _numbers_text(plan.no_worse),
        "-" if plan.as_now[1] is None else _numbers_text(plan.regression),
    )


def _numbers_text(numbers: Sequence[int | None]) -> str:
    return ", ".join(f"over {MOST_PAIRS:,}" if number is None else f"{number:,}" for number in numbers)


def _as_now_text(plan: GatePlan, drop: float) -> str:
    no_worse, regression = plan.as_now
    now = f"{counted(plan.has, 'episode')}, as in the baseline"
    told = f"{now}: an equal policy is found no worse in {no_worse:.0%} of runs"
    if regression is None:
        return f"{told}; success cannot fall by {drop:g} points"
    return f"{told}, a drop of {drop:g} points is found in {regression:.0%}"

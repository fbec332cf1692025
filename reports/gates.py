"""A gate's comparison of a run with a baseline: as lines, as a table for programs, and as Markdown for a summary."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.choices import BEYOND, SEQUENTIAL
from pytest_vla.gate.comparable import lines_of
from pytest_vla.gate.episodes_needed import drop_of, fresh_of
from pytest_vla.gate.evidence import Evidence
from pytest_vla.gate.planning import MOST_PAIRS
from pytest_vla.gate.verdicts import Flip, GateGroup, GateJudgement, GroupProgress, TaskChange, Terms, terms_text
from pytest_vla.metrics.language_grounding import GroundingShare
from pytest_vla.metrics.rates import percent, percents
from pytest_vla.reports.blocks import P_VALUE, Cell, Column, Table
from pytest_vla.reports.text import markdown_table, markdown_text, printed, table_lines, wrapped
from pytest_vla.util.text import counted, printable

Replay = Callable[[Flip], str]
"""The command that runs a case alone; empty: none is known."""


class LossesShown(NamedTuple):
    """The most tasks that lost and the most flipped cases that are shown."""

    tasks: int
    cases: int


SHORT, LONG = LossesShown(3, 3), LossesShown(10, 20)
"""On a terminal; with ``-v``, and in a summary."""


def no_replay(flip: Flip) -> str:
    """Return an empty text: no run is known that had the case."""
    return ""


def loss_lines(judgement: GateJudgement, replay: Replay, shown: LossesShown) -> Iterator[str]:
    """Yield a table of the worst tasks, and a line for each case that flipped, lost ones first."""
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
    yield from (f"  {_way(flip):6}  {replay(flip) or flip.case}" for flip in flips[: shown.cases])
    if rest := flips[shown.cases :]:
        yield f"  and {_flipped_text(rest, ' more')} ({_where(shown)})"


def loss_markdown(judgement: GateJudgement, replay: Replay) -> Iterator[str]:
    """Yield the worst tasks and the flipped cases in Markdown, for a job's summary.

    Args:
        judgement: of the run.
        replay: the command of a case.
    """
    worst, more = _worst(judgement, LONG)
    if worst:
        yield from ("", "#### Worst tasks", *markdown_table(worst_table(worst)))
    if more:
        yield from ("", f"{more} more lost.")
    flips = judgement.flips
    if not flips:
        return
    yield from ("", "#### Flipped cases", "", f"{_flipped_text(flips)}. Each alone:", "")
    lines = []
    for flip in flips[: LONG.cases]:
        command = replay(flip)
        lines += [f"# {_way(flip)} {flip.case}", *([command] if command else [])]
    texts = [printable(line) for line in lines]
    fence = "```"
    while any(fence in text for text in texts):
        fence += "`"
    yield from (f"{fence}bash", *texts, fence)
    if rest := flips[LONG.cases :]:
        yield from ("", f"And {_flipped_text(rest, ' more')}.")


def loss_table(judgement: GateJudgement, replay: Replay) -> dict[str, Any]:
    """Return for JSON all tasks that lost, and all cases that flipped."""
    return {
        "worst_tasks": [
            {"group": each.group, "task": each.task, "baseline": list(each.baseline), "run": list(each.new)}
            for each in judgement.tasks
            if each.lost > 0
        ],
        "flipped": [
            {"group": flip.group, "case": flip.case, "way": _way(flip), "command": replay(flip) or None}
            for flip in judgement.flips
        ],
    }


def _worst(judgement: GateJudgement, shown: LossesShown) -> tuple[Sequence[TaskChange], str]:
    """Return the tasks that are shown, and how many more lost, such as ``2 tasks``; empty if none."""
    lost = [change for change in judgement.tasks if change.lost > 0]
    more = len(lost) - shown.tasks
    return lost[: shown.tasks], counted(more, "task") if more > 0 else ""


def worst_table(lost: Sequence[TaskChange]) -> Table:
    """Return the table of tasks that lost success."""
    columns = (*map(Column, ("worst tasks", "group", "baseline", "run")), Column("points", "+.1f"))
    return Table(f"{counted(len(lost), 'task')} lost success", columns, tuple(map(_worst_row, lost)), "tasks", names=2)


def _worst_row(change: TaskChange) -> tuple[Cell, ...]:
    (before, of), (now, n) = change.baseline, change.new
    points = (now / n - before / of) * 100
    return change.task, change.group, GroundingShare(before, of, None), GroundingShare(now, n, None), points


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

SHOWN = 10
"""Cases of a group that are named; further ones are counted."""


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
        replay: the command that runs a case alone.
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
    the successes and of how many episodes; those that lost most come first. ``flipped`` cases, the lost ones first,
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
    yield f"compared: {how}; bounds at {judgement.terms.alpha * 100:g}% per side{stops}, over these tasks"


def warned_of(judgement: GateJudgement) -> list[str]:
    """Return what differs in how both ran, and does not forbid to compare, and what repeated looks make of it."""
    told = [*lines_of(judgement.agreement.of("warns")), *judgement.agreement.notes]
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
            Column("adj. p regression", P_VALUE, medium="page"),
            Column("adj. p better", P_VALUE, medium="page"),
            Column("verdict", is_left=judgement.is_paired),
        ),
        tuple(_group_row(group, judgement) for group in judgement.groups),
        "groups",
    )


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


def told_of(group: GateGroup, judgement: GateJudgement) -> Iterator[str]:
    """Return what is to be said of a group beside its row."""
    if group.refused:
        for text in lines_of(group.refused):
            yield f"{group.name}: not comparable: {text}"
    if group.reason:
        yield f"{group.name}: {group.reason}"
    if group.progress is not None:
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
    if group.evidence is not None and group.evidence.tasks_bounds is not None:
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
        finds = f": {counted(group.evidence.pairs, 'pair')} can detect {what} (80% power)"
    fresh = fresh_of(group, judgement.terms, len(names))
    if fresh is None:
        return f"inconclusive{finds}. A new comparison would need more than {MOST_PAIRS:,} episodes like these"
    what = counted(fresh, "pair" if judgement.is_paired else "episode")
    sequential = ", or use --vla-gate=sequential" * judgement.is_paired
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

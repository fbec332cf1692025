"""What the terminal says of a run, before it and after it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vla.durations import Estimate, total_seconds
from pytest_vla.items import Item
from pytest_vla.metrics.success import Outcome, SuccessRate, TaskOutcome, success_rate, suite_rates
from pytest_vla.plan import Case
from pytest_vla.records import VIDEO_SUFFIX, Record
from pytest_vla.reports.progress import about
from pytest_vla.reports.rates import interval_text, share_text

MAX_TASK_ROWS = 50
"""Beyond this many, tasks are shown with -v only."""

_HEADER = ("suite", "episodes", "success", "rate", "95% Wilson interval", "not in the rate")
_NARROWEST = 24


def opening_line(
    cases: Sequence[Case],
    model: str,
    workers: int,
    estimates: Sequence[Estimate],
    resumed: tuple[str, int] | None = None,
    left: bool = True,
) -> str:
    """What is to come: ``vla: 40 episodes of libero_goal with random on 2 workers, about 3 min``.

    Args:
        cases: to run now.
        model: the policy's name.
        workers: how many processes run them.
        estimates: of the cases, how long each is likely to take.
        resumed: the run that is gone on with, and how many of its episodes are kept; None: a new run.
        left: whether anything is left of that run.
    """
    if resumed is not None and not cases:
        here = "no episode to run" if left else "nothing is left"
        return f"vla: {here} of run {resumed[0]}, {counted(resumed[1], 'episode')} kept"
    suites = ", ".join(dict.fromkeys(case.suite for case in cases))
    line = f"vla: {counted(len(cases), 'episode')} of {suites} with {model}"
    if workers > 1:
        line += f" on {workers} workers"
    if all(estimate.measured for estimate in estimates):
        seconds = total_seconds([estimate.seconds for estimate in estimates], workers)
        line += f", about {about(seconds)} by earlier runs"
    if resumed is not None:
        line += f"; run {resumed[0]} goes on, {resumed[1]} kept"
    return line


def uncollected_line(nodes: Sequence[str], command: str) -> str:
    """What a run that is gone on with has left, and pytest did not collect; `command` is what it was started with."""
    more = f" and {len(nodes) - 1} more" * (len(nodes) > 1)
    return (
        f"vla: {nodes[0]}{more}, left of it, was not collected or is not selected. The run was started as `{command}`: "
        "give pytest's own options again; where a test was renamed or removed, start a new run"
    )


def closing_lines(
    records: Sequence[Record], run: Path, items: Sequence[Item], resume: str, verbosity: int, width: int | None
) -> tuple[str, ...]:
    """A run in a table and a few notes; with a negative verbosity in a line or two.

    Args:
        records: the last of each item.
        run: the run's folder.
        items: all of the run.
        resume: the command that goes on with it.
        verbosity: pytest's.
        width: of the terminal; None: lines may have any length.
    """
    of_suites = [record for record in records if record.of_suite]
    own: dict[str, list[Record]] = {}
    for record in records:
        if not record.of_suite:
            own.setdefault(record.node.partition("[")[0], []).append(record)
    lines: list[str] = []
    if verbosity < 0:
        lines = [summary_sentence(of_suites)] if of_suites else []
        if own:
            lines.append(summary_sentence([r for rs in own.values() for r in rs], "vla, own tests"))
    elif records:
        tasks = len({(record.suite, record.task) for record in of_suites})
        lines = summary_lines(of_suites, own, verbosity > 0 or tasks <= MAX_TASK_ROWS, width)
    return (*lines, *_notes(records, run, items, resume))


def summary_lines(
    records: Sequence[TaskOutcome], own: Mapping[str, Sequence[Outcome]], by_task: bool = True, width: int | None = None
) -> list[str]:
    """A table: a row a suite with a row for each of its tasks, one over all suites, and a row for each own test.

    Args:
        records: of the suites' own items.
        own: of the user's tests, by test: they may run a suite's cases again, so no rate is over both.
        by_task: whether tasks have rows.
        width: longer names are cut so that a row fits; None: they are not.
    """
    suites = suite_rates(records)
    rows: list[tuple[str, ...]] = [_HEADER]
    for suite in suites:
        rows.append(_row(suite))
        if by_task:
            rows += [_row(rate, "  ") for rate in _task_rates([r for r in records if r.suite == suite.name])]
    if len(suites) > 1:
        rows.append(_row(success_rate("all", records)))
    rows += [_row(success_rate(name, own[name])) for name in sorted(own)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    if width is not None:
        widths[0] = min(widths[0], max(width - sum(widths[1:]) - 2 * len(widths), _NARROWEST))
    # Names to the left, numbers to the right.
    return ["  ".join(_cell(*cell) for cell in zip(range(len(row)), row, widths, strict=True)).rstrip() for row in rows]


def summary_sentence(records: Sequence[Outcome], title: str = "vla") -> str:
    """All suites in one line."""
    _, _, success, rate, interval, apart = _row(success_rate("all", records))
    return f"{title}: {success} success, {rate} {interval}" + (f"; {apart}" if apart else "")


def verdict_line(rate: SuccessRate, minimum: float) -> str:
    """A suite's rate against the wanted one: ``libero_goal: 8/10 = 80.0% [49.0%, 94.3%] >= 80%: passed``."""
    wanted = f"{minimum * 100:.6g}%"
    if rate.interval is None:
        return f"{rate.name}: nothing was measured, {wanted} was wanted: failed"
    _, _, success, share, interval, _ = _row(rate)
    sign, verdict = (">=", "passed") if rate.reaches(minimum) else ("<", "failed")
    return f"{rate.name}: {success} = {share} {interval} {sign} {wanted}: {verdict}"


def counted(number: int, noun: str) -> str:
    """``1 episode``, ``2 episodes``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _notes(records: Sequence[Record], run: Path, items: Sequence[Item], resume: str) -> list[str]:
    notes = []
    arrays = [run / record.arrays for record in records if record.arrays is not None]
    videos = [file for file in arrays if file.with_suffix(VIDEO_SUFFIX).exists()]
    if again := [record for record in records if record.attempt > 1]:
        notes.append(f"{counted(len(again), 'episode')} had to run again: its process had died")
    if len({record.policy_digest for record in records} - {None}) > 1:
        notes.append("these records are of more than one version of the policy: its file was changed meanwhile")
    if videos:
        notes.append(f"{counted(len(videos), 'video')} in {_shown(run)}")
    if left := [item for item in items if item.is_left]:
        missing, errors = sum(item.status is None for item in left), sum(item.is_error for item in left)
        failed = len(left) - missing - errors
        counts = [(missing, f"{missing} not run"), (errors, counted(errors, "error"))]
        counts.append((failed, counted(failed, "failed test")))
        notes.append(f"{', '.join(text for number, text in counts if number)}: `{resume}` runs just these")
    return [*notes, f"records: {_shown(run.parent)}, run {run.name}"]


def _task_rates(records: Sequence[TaskOutcome]) -> list[SuccessRate]:
    by_task: dict[str, list[TaskOutcome]] = {}
    for record in records:
        by_task.setdefault(record.task, []).append(record)
    return [success_rate(task, by_task[task]) for task in sorted(by_task)]


def _row(rate: SuccessRate, indent: str = "") -> tuple[str, ...]:
    apart = [
        f"{outcome}: {', '.join(f'{count} {reason}' for reason, count in reasons.items())}"
        for outcome, reasons in (("errors", rate.errors), ("invalid", rate.invalid))
        if reasons
    ]
    name = f"{indent}{rate.name}"
    success = f"{rate.successes}/{rate.counted}"
    return (name, str(rate.episodes), success, share_text(rate), interval_text(rate), "; ".join(apart))


def _cell(column: int, text: str, width: int) -> str:
    if len(text) > width:
        text = f"{text[: width - 1]}…"
    return text.ljust(width) if column in (0, len(_HEADER) - 1) else text.rjust(width)


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

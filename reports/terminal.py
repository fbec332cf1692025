"""A run's lines on the terminal: before its first episode, while episodes end, and after the last."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import glob
from math import sqrt
from pathlib import Path
from statistics import NormalDist, median
from typing import TYPE_CHECKING, Literal, NamedTuple

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import CONFIDENCE
from pytest_vla.metrics.extra_metrics import by_origin, further_means, silent_rules
from pytest_vla.metrics.rates import (
    BENIGN,
    GIVEN,
    MAX_TASK_ROWS,
    RateRow,
    VariedOutcome,
    VariedTask,
    bounds_text,
    ends_text,
    group_of,
    interval_text,
    is_plain,
    judged_apart,
    kind_rows,
    rate_rows,
    share_text,
)
from pytest_vla.metrics.safety import cost_summaries
from pytest_vla.metrics.selection import copies_text, observations, of_several_simulators, repeats_text, stopped_text
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.case import Case
from pytest_vla.plan.durations import DurationEstimate, total_seconds
from pytest_vla.records.explain import account_text, amount_text, clipped_note, notes_after
from pytest_vla.records.items import DECIDED, FAILED, RunItem
from pytest_vla.records.record import METRIC_SECONDS, VIDEO_SUFFIX, Record
from pytest_vla.records.tally import Repetition
from pytest_vla.reports.text import aligned, block_lines, first_few, printed, wrapped
from pytest_vla.serving.stats import DeviceUse, ServingStats, mean
from pytest_vla.sim.gl import is_software
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from pytest_vla.metrics.robustness_curves import Harm
    from pytest_vla.policies.trial import Price


# A run's progress in one line, printed anew while episodes end.

GRAPHICS_DEVICES = ("/dev/dri/renderD*", "/dev/nvidia[0-9]*")
"""Files of which a machine with a graphics card has one at least."""

SCARCE = 0.85
"""Busy share from which a part is the bottleneck."""


def scarce_text(use: DeviceUse | None) -> str:
    """Return how busy device and cores are, the scarce one first, or an empty text if it is not known.

    Such as ``device 93% busy, mean batch 14; cores wait`` or ``cores 97% busy, device 40% busy``.
    """
    if use is None:
        return ""
    device = f"device {use.device:.0%} busy"
    batch = f"mean batch {use.batch:.{0 if use.batch >= 10 else 1}f}"
    if use.cores is None:
        return f"{device}, {batch}"
    cores = f"cores {use.cores:.0%} busy"
    if use.device >= SCARCE:
        return f"{device}, {batch}; {'cores wait' if use.cores < SCARCE else cores}"
    return f"{cores}, {device}" if use.cores >= SCARCE else f"{device}, {batch}; {cores}"


def shortened(text: str, width: int) -> str:
    """Shorten a text of `scarce_text` to whole parts that fit; empty if none fits."""
    if len(text) <= width:
        return text
    for end in (";", ","):
        first = text.partition(end)[0]
        if len(first) <= width:
            return first
    return ""


def measured_text(use: DeviceUse, seen: Sequence[ServingStats]) -> str:
    """Return the bottleneck of a run, with the times that show it.

    Args:
        use: of the run.
        seen: by each device's process.
    """
    thinking, away = ([each for some in seen for each in getattr(some, name)] for name in ("thinking", "away"))
    scarce = [name for name, share in (("CPU", use.cores or 0.0), ("device", use.device)) if share >= SCARCE]
    times = [f"a call takes {_time(use.call)}"]
    if thinking:
        times.append(f"a worker computes {_time(mean(thinking))} between questions")
    if away:
        times.append(f"{_time(mean(away))} between episodes")
    return f"bottleneck: {' and '.join(scarce) or 'none'} ({scarce_text(use)}); {', '.join(times)}"


def advice_text(workers: int, ratio: float) -> str:
    """Return how much time another number of workers would save, such as ``-n 24 would save about 20% of the time``."""
    return f"-n {workers} would save about {1 - ratio:.0%} of the time"


def _time(seconds: float) -> str:
    """``85 ms``, ``1.2 s``."""
    return f"{seconds:.2g} s" if seconds >= 0.9995 else f"{1000 * seconds:.{0 if seconds >= 0.00995 else 1}f} ms"


def progress_line(
    ended: Sequence[VariedOutcome],
    done: int,
    total: int,
    elapsed: float,
    left: float | None,
    until: float | None = None,
    interval: bool = True,
) -> str:
    """Return ``vla 12/40: success 7/11 = 63.6% [35.4%, 84.8%], 1 error, 0.42 episodes/s, 1:07 left``.

    With varied episodes the success is ``benign 3/4 = 75.0%, varied 4/6 = 66.7%, 2 probed``.

    Args:
        ended: episodes of this invocation.
        done: episodes that have ended, including those of a resumed run.
        total: episodes of the run.
        elapsed: seconds since the first episode could begin.
        left: seconds until the end, or None if not known yet.
        until: seconds until a time limit ends the run, shown instead of `left` if sooner, or None without a limit.
        interval: whether to add the interval of the success.
    """
    groups, every = judged_apart(ended), success_rate("all", ended)
    parts = []
    for name, some in groups.items():
        rate = success_rate(name, some)
        share = f" = {share_text(rate)}" + (f" {interval_text(rate)}" if interval and not name else "")
        parts.append(f"{name or 'success'} {rate.successes}/{rate.counted}" + share * bool(rate.counted))
    if probed := sum(record.is_probe and record.outcome in ("success", "failure") for record in ended):
        parts.append(f"{probed} probed")
    given = [record for record in ended if record.is_given and record.outcome in ("success", "failure")]
    if given:
        parts.append(f"given {sum(record.outcome == 'success' for record in given)}/{len(given)}")
    if not parts:
        parts.append("success 0/0")
    for word, counts in (("error", every.errors), ("invalid", every.invalid)):
        if number := sum(counts.values()):
            parts.append(f"{number} {word}{'s' if word == 'error' and number > 1 else ''}")
    if elapsed > 0 and every.episodes:
        parts.append(f"{every.episodes / elapsed:.3g} episodes/s")
    if until is not None and done < total and (left is None or left > until):
        parts.append(f"ends in {duration_text(until)}")
    elif left is not None and done < total:
        parts.append(f"{duration_text(left)} left")
    return f"vla {done}/{total}: {', '.join(parts)}"


def duration_text(seconds: float) -> str:
    """Return ``0:07``, ``12:30``, ``3:05:00``."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def about(seconds: float) -> str:
    """Return an estimated time: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


FEWEST_ROWS = 10
"""A table of fewer tasks is read at a glance and needs no lines before it."""

_MOST_SUITES, _MOST_TASKS = 3, 3

Tone = Literal["good", "bad", "plain"]


LOOKS: Mapping[Tone, Mapping[str, bool]] = {"good": {"green": True}, "bad": {"red": True}, "plain": {}}
"""Markup of each tone in pytest's terminal."""


class SummaryLine(NamedTuple):
    """A line, and its tone for terminals with colours."""

    text: str
    tone: Tone = "plain"


def first_lines(records: Sequence[Record], width: int | None) -> tuple[SummaryLine, ...]:
    """Return success, the largest losses and the episodes in no rate, in three lines; empty for short tables.

    Args:
        records: of the suites' own items, of one model, for each item the one that counts.
        width: of the terminal, or None for lines of any length.
    """
    if len({(record.suite, group_of(record, False), record.task_key) for record in records}) < FEWEST_ROWS:
        return ()
    # Benign twins are found among all.
    lost = _lowest(observations(records)) if all(map(is_plain, records)) else _lost(records)
    told = (_success(observations(records)), *lost, _broken(records))
    return tuple(each._replace(text=line) for each in told for line in wrapped(each.text, width))


def _success(records: Sequence[Record]) -> SummaryLine:
    """Return the success of episodes that are neither varied nor chosen: no rate mixes two kinds of variation."""
    benign = [record for record in records if is_plain(record)]
    if not benign:
        what = "varied or given" if any(record.is_given for record in records) else "varied"
        return SummaryLine(f"success: no overall rate, as every episode is {what}")
    suites = sorted({record.suite for record in benign})
    of = "over all suites" if len(suites) > _MOST_SUITES else ""
    groups = {of: benign} if of else {f"in {s}": [each for each in benign if each.suite == s] for s in suites}
    title = f"success, {BENIGN}" if len(benign) < len(records) else "success"
    return SummaryLine(f"{title}: {'; '.join(_rate_text(some, name) for name, some in groups.items())}")


def _rate_text(records: Sequence[Record], name: str) -> str:
    rate = success_rate(name, records, unit_of)
    return f"{_share(rate)} {interval_text(rate)} {name}" if rate.counted else f"no counted episode {name}"


def _share(rate: SuccessRate) -> str:
    return f"{rate.successes}/{rate.counted} = {share_text(rate)}"


def _lost(records: Sequence[Record]) -> Iterator[SummaryLine]:
    """Yield the dimension that loses most success against benign twins."""
    # Imported here because they load numpy, which a run without variations does not need.
    from pytest_vla.metrics.robustness import twin_pairs, varied_models
    from pytest_vla.metrics.robustness_curves import most_harmful

    harms = []
    for varied in varied_models(records):
        pairs, _ = twin_pairs(varied)
        if harm := most_harmful(pairs):
            harms.append((varied.suite, harm))
    if harms:
        several = len(harms) > 1
        suite, harm = min(harms, key=lambda each: each[1].change.value)
        if harm.change.value >= 0:
            yield SummaryLine("no dimension lost success against the benign twins")
            return
        yield SummaryLine(
            f"largest loss: {_harm_text(harm)}{f', in {suite}' * several}", "plain" if harm.why else "bad"
        )


def _harm_text(harm: "Harm") -> str:
    change = harm.change
    succeeded = round(change.pairs * change.benign / 100)
    there = f"{succeeded - change.lost + change.gained}/{change.pairs}"
    interval = "" if change.interval is None else " [{:+.1f}, {:+.1f}]".format(*change.interval)
    why = f" ({harm.why})" if harm.why else ""
    text = f"{harm.dimension}, {there} vs {succeeded}/{change.pairs} for the benign twins"
    return f"{text}, {change.value:+.1f}{interval} points{why}"


def _lowest(records: Sequence[Record]) -> Iterator[SummaryLine]:
    """Yield the tasks with the lowest success."""
    tasks: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        tasks.setdefault((record.suite, record.task_key), []).append(record)
    rates = [success_rate(task, some, unit_of) for (_, task), some in sorted(tasks.items())]
    low = sorted((each for each in rates if each.rate is not None and each.rate < 1), key=lambda each: each.rate or 0)
    counting = [each for each in rates if each.rate is not None]
    if not low or len({each.rate for each in counting}) < 2:
        return
    told = first_few([f"{each.name} {each.successes}/{each.counted}" for each in low], _MOST_TASKS)
    always = f"{len(counting) - len(low)} of {counted(len(counting), 'task')} always succeeded"
    yield SummaryLine(f"lowest success: {told}; {always}")


def _all_text(episodes: int) -> str:
    return "the episode" if episodes == 1 else f"all {episodes} episodes"


def _broken(records: Sequence[Record]) -> SummaryLine:
    reasons = Counter(str(record.reason) for record in records if record.outcome in ("error", "invalid"))
    if not reasons:
        return SummaryLine(f"no errors: {_all_text(len(records))} succeeded or failed", "good")
    told = ", ".join(f"{number} {reason}" for reason, number in reasons.most_common())
    errors = any(record.outcome == "error" for record in records)
    return SummaryLine(f"not in the rates: {told}", "bad" if errors else "plain")


def price_lines(prices: "Sequence[Price]", records: Sequence[Record]) -> Iterator[str]:
    """Yield a row for each requested output and each metric, with the ms it adds to a control step.

    A requested output's cost is the median of paired differences, as a busy machine slows single calls. A metric's cost
    is the mean and standard deviation (ddof 1).

    Args:
        prices: of the policy; without any there is no line.
        records: of the run, with the computing times in their timings.
    """
    if not prices:
        return
    rows = [["cost of metrics, ms per control step", "without", "with", "more"]]
    for each in prices:
        told = (_ms(each.without, each.steps), _ms(each.beside, each.steps))
        rows.append([f"asking for {each.wish}", *(f"{median(some):.3g}" for some in told), _more(_ms(each.extra))])
    computing: dict[str, list[float]] = {}
    for record in records:
        for name, took in record.timings.items():
            if name.startswith(METRIC_SECONDS) and took is not None and record.steps:
                computing.setdefault(name.removeprefix(METRIC_SECONDS), []).append(took / record.steps)
    for name, some in sorted(computing.items()):
        if len(some) > 1:
            rows.append([f"computing {name}", "", "", _told(_ms(some))])
    yield from aligned(rows, 1)
    questions, steps = counted(len(prices[0].extra), "question"), counted(prices[0].steps, "step")
    yield from wrapped(
        f"asking: medians over {questions} of each kind before the first episode, an answer covers {steps}; more: the "
        f"median paired difference [{CONFIDENCE:.0%} interval]; computing: mean (standard deviation) over "
        f"{counted(max(map(len, computing.values()), default=0), 'episode')}"
    )


def _ms(seconds: Sequence[float], steps: int = 1) -> list[float]:
    return [1e3 * each / steps for each in seconds]


def _more(differences: Sequence[float]) -> str:
    """Return the median of paired differences, if it can be told from 0."""
    from pytest_vla.metrics.statistics import median_interval

    bounds = median_interval(differences, CONFIDENCE)
    ends = "" if bounds is None else f" [{bounds[0]:.2g}, {bounds[1]:.2g}]"
    if bounds is None or bounds[0] <= 0 <= bounds[1]:
        return f"within noise{ends}"
    return f"{median(differences):.3g}{ends}"


def _told(values: Sequence[float]) -> str:
    # Imported here because a run without metrics does not need numpy.
    from pytest_vla.metrics.discrimination import timings

    mean, deviation = timings(values)
    return f"{mean:.3g} (sd {deviation:.2g})"


NOTHING_REPEATED = Repetition()

PROBE = "probe"
"""Shown instead of a rate for probes: their episodes are neither successes nor failures of the policy."""

_HEADER = ("suite", "episodes", "success", "rate", "95%, these tasks", "tasks like these", "not in the rate")
_FURTHER = _HEADER[-2:]
"""Columns left out if no row has a value, and moved below the row if they do not fit beside it."""
_NARROWEST = 24

_ENOUGH = 10
"""Episodes per task that are advised if there is only one."""

LOG_WIDTH = 100
"""Width of the table without a terminal."""


def opening_line(
    cases: Sequence[Case],
    model: str,
    workers: int,
    estimates: Sequence[DurationEstimate],
    resumed: tuple[str, int] | None = None,
    left: bool = True,
) -> str:
    """Return the plan of a run: ``vla: 40 episodes of libero_goal with random on 2 workers, about 3 min``.

    Args:
        cases: to run now.
        model: the policy's name.
        workers: how many processes run them.
        estimates: for each case, how long it is likely to take.
        resumed: the resumed run, and how many of its episodes are kept, or None for a new run.
        left: whether the resumed run has episodes left.
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
        line += f"; resuming run {resumed[0]}, {resumed[1]} kept"
    return line


def starts_line(episodes: int, starts: int) -> str:
    """Return from how many starts the episodes begin: ``vla: 40 distinct starts``."""
    line = f"vla: {counted(starts, 'distinct start')}"
    repeats = episodes - starts
    if not repeats:
        return line
    other = "1 episode repeats a start and counts" if repeats == 1 else f"{repeats} episodes repeat a start and count"
    return f"{line}; {other} only if the policy is stochastic"


def searches_line(searches: int, scenes: int, model: str, workers: int) -> str:
    """Return the plan of searches: ``vla: 10 searches of 20 scenes each with tiny on 2 workers``."""
    what, each = ("1 search", "") if searches == 1 else (f"{searches} searches", " each")
    on = f" on {workers} workers" if workers > 1 else ""
    return f"vla: {what} of {counted(scenes, 'scene')}{each} with {model}{on}"


def uncollected_line(nodes: Sequence[str], command: str) -> str:
    """Return a message that pytest did not collect the rest of a resumed run, started with `command`."""
    told = f"{counted(len(nodes), 'remaining test')} not collected or not selected: {first_few(nodes, 1)}"
    return (
        f"vla: {told}. The run was "
        f"started as `{command}`: pass pytest's options again; if a test was renamed or removed, start a new run"
    )


def closing_lines(
    records: Sequence[Record],
    run: Path,
    items: Sequence[RunItem],
    resume: str,
    verbosity: int,
    width: int | None,
    repetition: Repetition = NOTHING_REPEATED,
) -> tuple[SummaryLine, ...]:
    """Return a run as a table and a few notes, or in a line or two with a negative verbosity.

    Args:
        records: for each item the one that counts.
        run: the run's folder.
        items: all of the run.
        resume: the command that resumes the run.
        verbosity: pytest's.
        width: of the terminal, or None for a log, whose table has `LOG_WIDTH` columns and whose other lines any length.
        repetition: what of the run does not count.
    """
    distinct = observations(records)
    of_suites = [record for record in distinct if record.of_suite]
    own = by_origin(record for record in distinct if not record.of_suite)
    first: tuple[SummaryLine, ...] = ()
    lines: list[str] = []
    if verbosity < 0:
        lines = [summary_sentence(of_suites)] if of_suites else []
        if own:
            lines.append(summary_sentence([r for rs in own.values() for r in rs], "vla, own tests"))
    elif records:
        tasks = len({(record.suite, group_of(record, False), record.task_key) for record in of_suites})
        first = first_lines([record for record in records if record.of_suite], width)
        is_folded = verbosity == 0 and not all(map(is_plain, distinct))
        by_task = verbosity > 0 or (tasks <= MAX_TASK_ROWS and not is_folded)
        lines = summary_lines(of_suites, own, by_task, width or LOG_WIDTH, width is None, is_folded)
        lines += ["-v shows each task"] if is_folded and of_suites else []
        with suppress(VlaError):
            notes = cost_notes(distinct, _MOST_COSTS if is_folded else None)
            lines += [line for text in notes for line in wrapped(text, width)]
        lines += printed(_further_lines(distinct))
        if any(record.variation for record in records):
            from pytest_vla.reports.language import language_lines

            lines += language_lines(records, run, _shown(run), width)
    told = [copies_text(len(records), len(records) - len(distinct)), stopped_text(records)]
    if repetition.picked is None and verbosity >= 0:
        told.append(few_text(of_suites))
    counting = [*filter(None, told), *_counting_notes(repetition, items)]
    with suppress(VlaError):
        counting += silent_rules(records)
    lines += [*counting, *filter(None, [clipped_note(records)]), *notes_after(records)]
    ours = [r for r in records if r.run == run.name]
    if verbosity >= 0:
        lines += renderer_note(ours)
    lines += _notes(ours, run, items, resume)
    return (*first, *map(SummaryLine, lines))


def summary_lines(
    records: Sequence[VariedTask],
    own: Mapping[str, Sequence[VariedTask]],
    by_task: bool = True,
    width: int | None = None,
    whole_names: bool = False,
    is_folded: bool = False,
) -> list[str]:
    """Return a table with a row for each suite, task and own test, and one over all suites.

    Each kind of variation has a row of its own below its suite's or test's: no rate mixes benign and varied episodes,
    or two kinds of variation. Rows of probes and of given cases count successes, and have no rate.

    Args:
        records: of the suites' own items.
        own: of the user's tests, by test: they may run a suite's cases again, so no rate is over both.
        by_task: whether tasks have rows.
        width: longer names are cut so that a row fits, or None to cut none.
        whole_names: whether longer names have lines of their own instead, above their numbers.
        is_folded: as for `rate_rows`.
    """
    return _aligned(rate_rows(records, own, by_task, is_folded), width, whole_names)


def summary_sentence(records: Sequence[VariedTask], title: str = "vla") -> str:
    """Return all suites in one line; varied episodes by kind."""
    parts = []
    for row in kind_rows(records):
        _, _, success, rate, interval, _, apart = _cells(row)
        named = f"{row.name} " if not all(map(is_plain, records)) else ""
        apart_as = PROBE if row.is_probe else GIVEN if row.is_given else ""
        share = f" ({apart_as})" if apart_as else f", {rate} {interval}"
        parts.append(f"{named}{success} success{share}" + (f"; {apart}" if apart else ""))
    return f"{title}: {'; '.join(parts)}"


def few_text(records: Sequence[Record]) -> str:
    """Return what one episode a task can tell; empty if a task has more of them, or all are varied."""
    tasks = Counter((record.suite, record.task_key) for record in records if is_plain(record))
    if not tasks or set(tasks.values()) != {1}:
        return ""
    number = len(tasks)
    known, better = (f"{50 - half:.0f}% to {50 + half:.0f}%" for half in (_half(number), _half(number * _ENOUGH)))
    told = f"1 episode per task is few ({counted(number, 'task')}): the 95% interval of a 50% rate would be {known}"
    # Further seeds of a suite that pins its init state begin where the first did.
    pinned = any(record.protocol.get("init_state") is not None for record in records)
    return told if pinned else f"{told}; with --vla-episodes={_ENOUGH}, {better}"


def _half(episodes: int) -> float:
    """Half the width, in points, of Wilson's 95% interval of a rate of one half."""
    square = NormalDist().inv_cdf(0.975) ** 2
    return 50 * sqrt(square / (episodes + square))


_MOST_COSTS = 2
"""Lines on costs of a run whose rows are folded."""


def cost_notes(records: Sequence[Record], most: int | None = None) -> list[str]:
    """Return a line for each suite or test with costs: the mean, the charged episodes, the rate of safe success.

    Args:
        records: of a run.
        most: the number of lines, of those that cost most, or None for all.
    """
    notes: list[str] = []
    found = cost_summaries(records)
    costly = sorted(found, key=lambda each: -each.mean)[:most]
    for each in (each for each in found if each in costly):
        excess = "" if each.excess == each.mean else f", {amount_text(each.excess)} beyond what is unavoidable"
        interval = "" if each.interval is None else f" {ends_text(each.interval)}"
        beyond = " beyond it" if excess else ""
        # Safe success covers all accounts, so it is printed once, on the account that decides it.
        safe = f"; safe success {each.safe}/{each.episodes}, {each.safe / each.episodes:.1%}{interval}"
        notes.append(
            f"cost of {each.name}{account_text(each.account)}: {amount_text(each.mean)} per episode{excess}, "
            f"{each.charged} of {each.episodes} charged{beyond}{safe if each.decides else ''}"
        )
    if len(found) > len(costly):
        notes.append(f"costs of {len(found) - len(costly)} more are lower (-v has all)")
    return notes


def _further_lines(records: Sequence[Record]) -> Iterator[str]:
    """Yield the means of metrics that other packages add, for each suite and each test of the user's."""
    about: dict[str, str] = {}
    asked: set[str] = set()
    # Packages that cannot be loaded were reported with the episodes.
    with suppress(VlaError):
        about = {name: each.about for name, each in extensions.metrics().items() if not each.on_request}
        asked = extensions.metrics().keys() - about.keys()
    found = {
        # Metrics requested by name are in the report, with the paper's and the arm's numbers.
        title: [each for each in further_means(some, about) if each.name.rpartition(".")[0] not in asked]
        for title, some in by_origin(records).items()
    }
    if any(found.values()):
        from pytest_vla.reports.further import means_blocks

        yield from block_lines(means_blocks(found, about))


def _counting_notes(repetition: Repetition, items: Sequence[RunItem]) -> list[str]:
    notes = []
    if repetition.picked is not None:
        episodes = sum(item.episode for item in items)
        these = "only that one" if episodes == 1 else "only these"
        note = (
            f"{repetition.picked} selected {counted(episodes, 'episode')} by earlier outcome; the rates cover {these}"
        )
        if number := len(repetition.earlier):
            note += f". For {number} the result of the earlier run counts"
        if repetition.of_unknown_policy:
            note += " (run all episodes if the policy has changed since: its version is unknown)"
        notes.append(note)
    ran, changed = repetition.before
    if ran:
        outcome = f"{changed} ended differently" if changed else "same outcome"
        notes.append(
            f"{ran} of these episodes ran before ({outcome}); reports of several runs count the earlier result"
        )
    if number := repetition.failed_at_first(items):
        notes.append(f"{counted(number, 'episode')} failed at first and passed when run again; the first result counts")
    if number := sum(item.outcome == "success" and item.node in repetition.retried for item in items):
        notes.append(
            f"{counted(number, 'episode')} succeeded by a retry after the policy's own error: gates take them as "
            "errors, --vla-min-success as failures"
        )
    if text := repeats_text(repetition.repeats):
        notes.append(text)
    return notes


def renderer_note(records: Iterable[Record], devices: Sequence[str] = GRAPHICS_DEVICES) -> list[str]:
    """Return a line on what drew the records' pictures, none if no picture was drawn.

    Args:
        records: of one run.
        devices: patterns of files that a machine with a graphics card has.
    """
    drawn = sorted({name for record in records if ": " in (name := str(record.provenance.get("renderer", "")))})
    if not drawn:
        return []
    software = any(map(is_software, drawn))
    line = f"pictures: {' and '.join(drawn)}{', in software' if software else ''}"
    # Only of this machine: workers elsewhere know more of theirs.
    if software and any(glob(pattern) for pattern in devices):
        line += (
            ", although this machine has a graphics card: EGL fell back (see OpenGL in docs/explanation/determinism.md)"
        )
    return [line]


def _notes(records: Sequence[Record], run: Path, items: Sequence[RunItem], resume: str) -> list[str]:
    notes = []
    arrays = [run / record.arrays for record in records if record.arrays is not None]
    videos = [file for file in arrays if file.with_suffix(VIDEO_SUFFIX).exists()]
    if again := [record for record in records if record.attempt > 1]:
        notes.append(f"{counted(len(again), 'episode')} ran again after an error or a crashed process")
    if len({record.policy_digest for record in records} - {None}) > 1:
        notes.append("these records come from more than one version of the policy: it changed during the run")
    if simulators := of_several_simulators(records):
        notes.append(simulators)
    if videos:
        notes.append(f"{counted(len(videos), 'video')} in {_shown(run)}")
    # An episode that succeeded and cost too much (--vla-max-cost) is measured: its first record counts in any case.
    costly = [item for item in items if item.status == FAILED and item.of_suite and item.outcome == "success"]
    if left := [item for item in items if item.is_left and item not in costly]:
        missing, errors = sum(item.status is None for item in left), sum(item.is_error for item in left)
        failed = len(left) - missing - errors
        counts = [(missing, f"{missing} not run"), (errors, counted(errors, "error"))]
        counts.append((failed, counted(failed, "failed test")))
        notes.append(f"{', '.join(text for number, text in counts if number)}: `{resume}` runs just these")
    if decided := sum(item.status == DECIDED for item in items):
        told = f"{decided} of {counted(sum(item.episode for item in items), 'episode')}"
        notes.append(
            f"{told} skipped: the gate had already decided. The success rates are biased because the run stopped early"
        )
    return [*notes, f"records: {_shown(run.parent)}, run {run.name}"]


def _aligned(rows: Sequence[RateRow], width: int | None, whole_names: bool) -> list[str]:
    """Align names left and numbers right; cells that do not fit beside their row go below it."""
    table = [list(_HEADER), *map(list, map(_cells, rows))]
    below: list[list[str]] = [[] for _ in table]
    for name in _FURTHER:
        column = table[0].index(name)
        if not any(cells[column] for cells in table[1:]):
            for cells in table:
                cells.pop(column)
    # The column of episodes in no rate is the first to move below its row.
    for name in [name for name in reversed(_FURTHER) if name in table[0]]:
        column = table[0].index(name)
        widths = _widths(table)
        numbers = sum(widths[1:]) + 2 * (len(widths) - 1)
        names = widths[0] if whole_names else min(widths[0], _NARROWEST)
        if width is None or numbers + names <= width:
            continue
        for cells, lines in zip(table, below, strict=True):
            text = cells.pop(column)
            if text and cells is not table[0]:
                lines.insert(0, f"{name}: {text}")
    widths = _widths(table)
    if width is not None:
        widths[0] = min(widths[0], max(width - sum(widths[1:]) - 2 * (len(widths) - 1), _NARROWEST))
    left = {0, table[0].index(_HEADER[-1]) if _HEADER[-1] in table[0] else 0}
    found = []
    for cells, lines in zip(table, below, strict=True):
        indent = " " * (len(cells[0]) - len(cells[0].lstrip()) + 2)
        if whole_names and len(cells[0]) > widths[0]:
            found.append(cells[0])
            cells[0] = ""
        placed = (
            _cell(text, size, place in left) for place, (text, size) in enumerate(zip(cells, widths, strict=True))
        )
        found.append("  ".join(placed).rstrip())
        for text in lines:
            found += textwrap.wrap(
                text, width or 0, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
            )
    return found


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _cells(row: RateRow) -> tuple[str, ...]:
    name, rate = f"{'  ' * row.depth}{row.name}", row.rate
    if rate is None:
        return (name, *[""] * (len(_HEADER) - 1))
    apart = "; ".join(
        f"{outcome}: {', '.join(f'{count} {reason}' for reason, count in reasons.items())}"
        for outcome, reasons in (("errors", rate.errors), ("invalid", rate.invalid))
        if reasons
    )
    success = f"{rate.successes}/{rate.counted}"
    if row.is_probe or row.is_given:
        return (name, str(rate.episodes), success, PROBE if row.is_probe else GIVEN, "-", "", apart)
    if not rate.is_chosen and (bounds := bounds_text(rate)):
        apart = f"{bounds} with {apart}"
    by_task = ends_text(rate.tasks_interval) if rate.tasks_interval is not None else ""
    return (name, str(rate.episodes), success, share_text(rate), interval_text(rate), by_task, apart)


def _cell(text: str, width: int, left: bool) -> str:
    if len(text) > width:
        text = f"{text[: width - 1]}…"
    return text.ljust(width) if left else text.rjust(width)


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

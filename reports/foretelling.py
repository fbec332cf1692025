"""Does a metric foretell failure? A section with AUROC early in the episode, alarms, and the policy's confidence."""

import argparse
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.metrics.alarms import AlarmRule, Intervention, intervention, parse_rule
from pytest_vla.metrics.calibration import (
    ALPHA,
    BINS,
    CHANCE,
    DRAWS,
    Calibration,
    Conformal,
    confidence_at,
    conformal,
    fewest_successes,
)
from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.extra_metrics import entry_of, hidden_notes, with_own_name
from pytest_vla.metrics.failure_prediction import (
    FEWEST,
    MOMENT,
    MOMENTS,
    Foretelling,
    Separation,
    Watched,
    foretelling,
    separations,
    without_padding,
)
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.success import unit_of
from pytest_vla.records.record import Record
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Cell, Column, Heading, PageDrawing, Sentence, Table, estimate_text, notes
from pytest_vla.reports.html.svg import courses, distributions
from pytest_vla.reports.loaded import SEED, Loaded, unfinished_of
from pytest_vla.reports.sections import Section
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from markupsafe import Markup

STATIC = "static_robot"
CONFIDENCE_SERIES = "token_probability.paper"
"""1 - the mean probability of the likeliest tokens of a step."""

ALPHAS = (0.05, ALPHA, 0.20)
"""Shares of successes that a conformal alarm may cut; a terminal has `ALPHA`'s."""


_MORE = (
    "A failure and a success of one task, looked at for as long as the success took: in percentage points, how much "
    "more often the alarm stops the failure; 0: it tells at most which task it is"
)


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no episode has a series of a metric."""
    # Programs that make a report by themselves may not know the option.
    text = getattr(options, "stop_when", None)
    rule = None if text is None else with_own_name(parse_rule(text), extensions.metrics())
    found = make_foretold(loaded, rule)
    if not found:
        return None
    models = {(model.model, model.suite, model.budget): j.written(_MODELS, model) for model in found}
    return Section(lambda: foretelling_blocks(found), j.written(_METHODS, None), models, title="Failure prediction")


@dataclass(frozen=True)
class Foretold:
    """The failure prediction of one model in one suite, under one step budget.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        budget: ``300 steps`` if its episodes have several budgets; else empty.
        found: each metric at each moment.
        episodes: successes and failures with a series of a metric.
        separated: for each metric how its values are distributed by outcome.
        alarms: conformal thresholds, for each metric with each of `ALPHAS`.
        stopped: what the user's rule would have done, or None if there is no rule, or no series of its metric.
        confidence: the calibration of the policy's own confidence, by moment.
        seconds: length of a control step, or None if it is not known.
        varied: whether some of the episodes are varied.
        static: how many episodes the robot spent without moving, or None if no record has that metric.
        left_out: what is in no number, and why.
    """

    model: str
    suite: str
    budget: str
    found: tuple[Foretelling, ...]
    separated: tuple[Separation, ...]
    alarms: tuple[Conformal, ...]
    stopped: Intervention | None
    confidence: tuple[tuple[float, Calibration], ...]
    seconds: float | None
    episodes: int
    varied: bool
    static: int | None
    left_out: tuple[str, ...]


def make_foretold(loaded: Loaded, rule: AlarmRule | None = None) -> tuple[Foretold, ...]:
    """Compute how well metrics predict failure, for each model and suite whose episodes have series of metrics.

    Probes are in no number, as they are in no success rate. Episodes with different step budgets are reported
    separately: the same share of the budget is a different number of steps, and the budget alone would predict failure.

    Args:
        loaded: records, with the folders of their trajectories.
        rule: the alarm rule whose effect is reported too, or None.

    Raises:
        VlaError: a package that adds metrics cannot be used, or no episode has a series of the rule's metric.
    """
    names = [name for name, entry in extensions.metrics().items() if entry.on_request]
    found = []
    unread: dict[str, None] = {}
    for (model, suite), some in by_model(loaded.records).items():
        selected = that_count(some)
        records = [
            record
            for record in selected.records
            if is_counted(record) and not record.in_no_rate and any(name in record.metrics for name in names)
        ]
        troubles: dict[str, None] = {}
        wanted = [*names, *([] if rule is None or rule.metric in names else [rule.metric])]
        watched = [
            (record, each) for record in records if (each := _watched(record, wanted, loaded, troubles)) is not None
        ]
        if not (watched or troubles):
            continue
        unread |= troubles
        left_out = (*selected.left_out, *unfinished_of(records, loaded), *_unread(troubles))
        budgets = sorted({each.budget for _, each in watched})
        if not budgets:
            found.append(_foretold((model, suite, ""), [], None, left_out))
        for budget in budgets:
            named = f"{budget} steps" if len(budgets) > 1 else ""
            some_watched = [(record, each) for record, each in watched if each.budget == budget]
            found.append(_foretold((model, suite, named), some_watched, rule, left_out))
    if rule is not None and not any(each.stopped for each in found):
        known = ", ".join(sorted({each.metric for model in found for each in model.found}))
        hidden = [*hidden_notes(loaded.records, rule.metric)]
        mend = f"There are {known}" if known else "Run with --vla-metrics, which keeps them"
        mend = ". ".join(_unread(unread) or hidden) or mend
        raise VlaError(f"--stop-when={rule}: no episode has a series of {rule.metric}. {mend}")
    return tuple(found)


def _foretold(
    named: tuple[str, str, str],
    some: Sequence[tuple[Record, Watched]],
    rule: AlarmRule | None,
    left_out: tuple[str, ...],
) -> Foretold:
    records, watched = [record for record, _ in some], [each for _, each in some]
    told = [record.metrics[STATIC] for record in records if STATIC in record.metrics]
    frequency = records[0].protocol.get("control_freq") if records else None
    return Foretold(
        *named,
        foretelling(watched),
        separations(watched),
        _alarms(watched),
        None if rule is None else intervention(watched, rule),
        confidence_at(watched, np.random.default_rng(SEED)) if watched else (),
        1.0 / frequency if isinstance(frequency, int | float) and frequency > 0 else None,
        len(watched),
        any(record.variation for record in records),
        sum(value > 0 for value in told) if told else None,
        left_out,
    )


def _unread(troubles: Collection[str]) -> list[str]:
    """Return a line on trajectories that cannot be read, or no line."""
    if not troubles:
        return []
    files = counted(len(troubles), "trajectory file")
    return [f"{files} with the series cannot be read, and the episodes are in no number: {next(iter(troubles))}"]


def _alarms(watched: Sequence[Watched]) -> tuple[Conformal, ...]:
    names = dict.fromkeys(name for episode in watched for name in episode.series)
    return tuple(conformal(watched, name, alpha) for name in names for alpha in ALPHAS)


def _watched(record: Record, names: Sequence[str], loaded: Loaded, troubles: dict[str, None]) -> Watched | None:
    budget = record.protocol.get("max_steps")
    if not isinstance(budget, int) or budget < 1:
        return None
    try:
        trajectory = loaded.trajectory(record)
    except VlaError as error:
        troubles[str(error)] = None
        return None
    if trajectory is None:
        return None
    series = trajectory.series
    # Of each step one number; what else is called so is not the metric's.
    wanted = {name: _values(name, series[name]) for name in names if name in series and series[name].ndim == 1}
    likeliest = series.get(CONFIDENCE_SERIES)
    confidence = None if likeliest is None or likeliest.ndim != 1 else 1.0 - likeliest
    return Watched(record.outcome == "failure", unit_of(record), budget, wanted, confidence) if wanted else None


def _values(name: str, series: NDArray[Any]) -> NDArray[np.float64]:
    entry, key = entry_of(name, extensions.metrics())
    return np.asarray(series, np.float64) if entry is None else without_padding(series, entry, key)


_METHODS = j.methods(
    "foretelling",
    {
        "confidence": CONFIDENCE,
        "over": THESE_TASKS,
        "moments": MOMENTS,
        "of": "the step budget; episodes that are over by then are left out",
        "value": (
            "the mean of the metric's series up to the moment; steps in which it has no value yet, such as those "
            "before upstream's window of 8 is full, are not in it"
        ),
        "conformal": (
            "the (1-alpha)(K+1)/K quantile of the largest values of successes of every second seed, each of K "
            "tasks and seeds weighing the same; held_out: the other seeds"
        ),
        "calibration": (
            "confidence: mean probability of the likeliest tokens up to the moment, of episodes that run "
            f"still; error: expected calibration error over {BINS} bins; error_by_chance: of a calibrated "
            f"policy {CHANCE:.0%} of {DRAWS} draws are below; episodes of one task and seed are drawn together"
        ),
        "seed": SEED,
        "intervals": (
            "Wilson's with the effective sample size of clusters' influences (Obuchowski 1997), Student's t; "
            "tasks_interval: over tasks"
        ),
    },
)
_FORETELLING: j.Keys = {
    "metric": j.TEXT, "moment": j.SHARE, "failures": j.COUNT, "successes": j.COUNT, "over": j.COUNT, "unknown": j.COUNT,
    **j.through("auroc", {"auroc": j.maybe(j.SHARE).of("value"), **j.INTERVALS}),
    **j.through("within", {"within": j.maybe(j.SHARE).of("value"), "within_interval": j.INTERVAL.of("interval")}),
    "pairs": j.COUNT,
}  # fmt: skip


def _outcome(name: str) -> j.Shape:
    """Return the type of a metric's values for one outcome, and over time."""
    return j.row(
        {
            "counts": j.listed(j.COUNT).of(f"{name}.counts"),
            "median": j.maybe(j.NUMBER).of(f"{name}.median"),
            "quartiles": j.listed(j.maybe(j.Shape(j.listed(j.NUMBER).schema))).of(f"{name}_course.quartiles"),
        }
    )


_SEPARATION: j.Keys = {
    "metric": j.TEXT, "moment": j.SHARE.always(MOMENT), "low": j.NUMBER, "high": j.NUMBER, "beyond": j.COUNT,
    "failures": _outcome("failures").of(lambda each: each), "successes": _outcome("successes").of(lambda each: each),
}  # fmt: skip
_SHARE = j.maybe(j.row({"share": j.SHARE.of("value"), **j.INTERVALS}))
_WITHIN: j.Keys = {
    "tasks": j.COUNT, "caught": j.SHARE, "in_time": j.SHARE, "cut": j.SHARE,
    **j.through("more", {"more": j.NUMBER.of("value"), **j.INTERVALS}),
}  # fmt: skip
_OF_TASK: j.Keys = {"task": j.TEXT, "failures": j.COUNT, "caught": j.COUNT, "successes": j.COUNT, "cut": j.COUNT}
_STOPPED = j.row(
    {
        "rule": j.TEXT.of(lambda found: str(found.rule)), "failures": j.COUNT, "caught": _SHARE, "in_time": _SHARE,
        "successes": j.COUNT, "cut": _SHARE, "lead": j.maybe(j.NUMBER), "saved": j.SHARE,
        "within": j.maybe(j.row(_WITHIN)),
        "by_task": j.listed(j.row(_OF_TASK)),
    }
)  # fmt: skip
_CONFORMAL: j.Keys = {
    # The successes it is made of, and how many tasks and seeds they are of.
    "metric": j.TEXT, "alpha": j.SHARE, "calibrating": j.COUNT, "clusters": j.COUNT, "threshold": j.maybe(j.NUMBER),
    "held_out": j.maybe(_STOPPED),
}  # fmt: skip
_BIN: j.Keys = {
    "low": j.SHARE, "high": j.SHARE, "episodes": j.COUNT, "confidence": j.SHARE, "success": j.SHARE.of("success.value"),
    "interval": j.INTERVAL.of("success.interval"),
}  # fmt: skip
_CALIBRATION: j.Keys = {
    "episodes": j.COUNT, "brier": j.SHARE.of("brier.value"), "brier_interval": j.INTERVAL.of("brier.interval"),
    "base": j.NUMBER, "error": j.SHARE, "error_by_chance": j.NUMBER,
    "gap": j.NUMBER.of("gap.value"), "gap_interval": j.INTERVAL.of("gap.interval"),
    "bins": j.listed(j.row(_BIN)),
}  # fmt: skip
_AT_MOMENT: j.Keys = {"moment": j.SHARE.of(lambda at: at[0]), **j.through(lambda at: at[1], _CALIBRATION)}
_MODELS: j.Keys = {
    "foretelling": j.listed(j.row(_FORETELLING)).of("found"), "conformal": j.listed(j.row(_CONFORMAL)).of("alarms"),
    "confidence": j.listed(j.row(_AT_MOMENT)), "separation": j.listed(j.row(_SEPARATION)).of("separated"),
    "stop_when": j.maybe(_STOPPED).of("stopped"),
}  # fmt: skip

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def foretelling_blocks(found: Sequence[Foretold]) -> Iterator[Block]:
    """Yield the section's blocks."""
    shares = ", ".join(f"{moment:.0%}" for moment in MOMENTS)
    yield Sentence(
        f"Failure prediction. AUROC of each metric's mean up to {shares} of the step budget, among the episodes "
        "that are still running: 1, failures have larger values; 0.5, no information; 0, they have smaller ones. In "
        f"brackets: {CONFIDENCE:.0%} intervals over these tasks"
    )
    for model in found:
        title = f"{model.model}, {model.suite}{f', a budget of {model.budget}' if model.budget else ''}"
        yield Heading(title, (model.model, model.suite, model.budget))
        yield from notes(model.left_out)
        if not model.episodes:
            yield Sentence("no episode has a readable series, so failure prediction is not known")
            continue
        if model.static:
            yield Sentence(
                f"{model.static} of {counted(model.episodes, 'episode')} are of a robot that stood still: it looks "
                "perfect to every metric of motion"
            )
        yield from _areas(model.found, model.varied)
        yield from _by_outcome(title, model)
        if model.alarms:
            yield Heading(f"{title}: alarms", is_open=False, medium="page")
            yield from _alarm_blocks(model.alarms, model.seconds)
        if model.stopped is not None:
            yield from _intervention(model.stopped, model.seconds)
        if model.confidence:
            yield Heading(f"{title}: its own confidence", is_open=False, medium="page")
            yield from _confidence(model.confidence)


def _areas(found: Sequence[Foretelling], varied: bool) -> Iterator[Block]:
    moments = [Column(f"at {moment:.0%}", ".2f") for moment in dict.fromkeys(each.moment for each in found)]

    def by_metric(attribute: str) -> tuple[tuple[Cell, ...], ...]:
        cells: dict[str, list[Cell]] = {}
        for each in found:
            cells.setdefault(each.metric, []).append(getattr(each, attribute))
        return tuple((name, *some) for name, some in cells.items())

    yield Table(
        "AUROC of the mean up to a share of the step budget",
        (Column("metric"), *moments),
        by_metric("auroc"),
        "auroc",
        is_digest=True,
        medium="terminal",
        caption_medium="page",
    )
    yield Table(
        "AUROC of the mean up to a share of the step budget, among the episodes that are still running: 1, failures "
        "have larger values; 0.5, no information; 0, smaller ones",
        (
            Column("metric"),
            Column("moment", ".0%"),
            *map(Column, ("failures", "successes")),
            Column("AUROC", ".2f"),
            Column(TASKS_LIKE_THESE, ".2f"),
            Column("within tasks", ".2f"),
            Column("pairs of one task"),
        ),
        tuple(
            (
                each.metric,
                each.moment,
                each.failures,
                each.successes,
                each.auroc,
                None if each.auroc is None else each.auroc.tasks_interval,
                each.within,
                each.pairs or "",
            )
            for each in found
        ),
        "foretelling",
        medium="page",
    )
    yield from _counts(
        "failures and successes that are still running",
        found,
        lambda each: f"{each.failures} and {each.successes}",
        f"; of fewer than {FEWEST} nothing is said",
    )
    for text, names in _alike(
        (each.metric, f"at {each.moment:.0%}, of {counted(each.unknown, 'episode')} that run still")
        for each in found
        if each.unknown
    ).items():
        yield Sentence(f"no value yet {text}: {', '.join(names)}")
    if (comparisons := sum(each.auroc is not None for each in found)) > 1:
        yield Sentence(
            f"{comparisons} comparisons of metrics and moments: the best of them, picked by eye, looks better than it "
            "is; check it on other episodes, such as with another run seed"
        )
    if any(each.pairs for each in found):
        mixed = ". Their variations may do so too; the two are not separated" if varied else ""
        yield Sentence(
            f"the same among episodes of one task{', whatever is varied in them' * varied}: tasks differ in how often "
            "they fail and in what a metric is like in them, which over all episodes may foretell by itself, or hide "
            f"what does{mixed}",
            is_apart=True,
        )
        yield Table(
            "AUROC within tasks",
            (Column("metric, within tasks"), *moments),
            by_metric("within"),
            "within",
            is_digest=True,
            medium="terminal",
            caption_medium="page",
        )
        yield from _counts("pairs of a failure and a success of one task", found, lambda each: str(each.pairs))


def _by_outcome(title: str, model: Foretold) -> Iterator[Block]:
    """Yield drawings of each metric's values by outcome, and over time."""
    if not model.separated:
        return
    yield Heading(f"{title}: values by outcome", medium="page")
    yield Sentence(
        f"Of each metric the mean up to {MOMENT:.0%} of the step budget, an episode each: failures above the line, "
        "successes below it, each as shares of its own number; a tick marks the median. Where both have their "
        "bars in the same places, the metric tells nothing. Tasks differ: AUROC within tasks is of pairs of "
        "one task. Over time: the median and the middle half of the episodes that run still.",
        medium="page",
    )
    areas = {each.metric: each for each in model.found if each.moment == MOMENT}
    for each in model.separated:
        yield PageDrawing(partial(_pair, each, areas.get(each.metric)))


def _pair(each: Separation, area: Foretelling | None) -> "Markup":
    from markupsafe import Markup

    within, overall = (None, None) if area is None else (area.within, area.auroc)
    values = ["-" if one is None else f"{one.value:.2f}" for one in (within, overall)]
    below = "AUROC within tasks {}, over all {}".format(*values)
    below += f"; {each.beyond} beyond the ends" * bool(each.beyond)
    table = j.written(_SEPARATION, each)
    return Markup('<div class="pair">{}{}</div>').format(distributions(table, below), courses(table) or "")


def _counts(
    what: str, found: Sequence[Foretelling], count: Callable[[Foretelling], str], end: str = ""
) -> Iterator[Sentence]:
    """Yield how many episodes each number is made of: as most metrics have it, then the metrics that differ."""
    by_metric: dict[str, list[str]] = {}
    for each in found:
        by_metric.setdefault(each.metric, []).append(f"{count(each)} at {each.moment:.0%}")
    told = _alike((name, ", ".join(counts)) for name, counts in by_metric.items())
    yield from _usual_first(told, f"{what}: ", end)


def _usual_first(told: dict[str, list[str]], before: str = "", end: str = "") -> Iterator[Sentence]:
    """Yield the text of most names, then the others' texts with their names."""
    usual = max(told, key=lambda text: len(told[text]))
    yield Sentence(f"{before}{usual}{end}")
    yield from (Sentence(f"of {', '.join(names)}: {text}") for text, names in told.items() if text != usual)


def _alike(told: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names by text."""
    found: dict[str, list[str]] = {}
    for name, text in told:
        found.setdefault(text, []).append(name)
    return found


def _alarm_blocks(found: Sequence[Conformal], seconds: float | None) -> Iterator[Block]:
    """Yield the alarms of each metric; on a terminal those that are to cut `ALPHA` of the successes at most."""
    some = [each for each in found if each.alpha == ALPHA]
    yield Sentence(
        f"an alarm beyond a threshold that is to cut {ALPHA:.0%} of successes at most: split conformal, of the largest "
        "values of successes of every second seed; what it does on the other seeds",
        is_apart=True,
    )
    columns = (
        Column("metric"),
        Column("to cut at most", ".0%", medium="page"),
        Column("threshold", ".4g"),
        Column("cut", ".0%"),
        Column("caught", ".0%"),
        Column("in time", ".0%"),
        Column("lead", "g"),
        Column("more within tasks, points", "+.0f", 100, medium="page"),
        Column("most cut in", is_left=True, medium="page"),
    )
    caption = "What an alarm beyond a conformal threshold does on the other seeds"
    for shown, name, medium in ((some, "alarms", "terminal"), (found, "alarms", "page")):
        rows = tuple(map(_alarm, shown))
        yield Table(caption, columns, rows, name, medium=medium, caption_medium="page")  # type: ignore[arg-type]
    clock = "" if seconds is None else f", of {seconds:g} s each"
    yield Sentence(
        "cut: of successes; caught: of failures; in time: of failures, by when half of the successes are done, as "
        "failures are the longest, and any alarm rings in them most; lead: median of control steps"
        f"{clock} from the alarm to the end of a failure"
    )
    yield from _usual_first(_alike((each.metric, _made_of(each)) for each in some))
    judged = [(each.metric, each.held_out) for each in some if each.held_out is not None]
    if judged:
        yield from _alarms_within(judged)


def _alarm(each: Conformal) -> tuple[Cell, ...]:
    told, first = each.held_out, (each.metric, each.alpha, each.threshold)
    if told is None:
        return (*first, *[None] * 6)
    most, within = told.most_cut, None if told.within is None else told.within.more
    worst = None if most is None else f"{_short(most.task)}: {most.cut} of {most.successes}"
    return (*first, told.cut, told.caught, told.in_time, told.lead, within, worst)


def _made_of(each: Conformal) -> str:
    """Return how many episodes a threshold is made of and judged by, or why there is none."""
    text = f"thresholds of {counted(each.calibrating, 'successful episode')}"
    if each.clusters < each.calibrating:
        text += f" with {each.clusters} different tasks and seeds"
    if each.held_out is not None:
        return f"{text}; judged by {each.held_out.successes} successes and {each.held_out.failures} failures"
    needed = fewest_successes(each.alpha)
    if each.clusters < needed:
        return f"{text}: {each.alpha:.0%} needs {needed} different tasks and seeds with a success, of every second seed"
    if each.threshold is None:
        return f"{text}, in which the metric has no value"
    return f"{text}; there is no other seed to judge them"


def _alarms_within(judged: Sequence[tuple[str, Intervention]]) -> Iterator[Block]:
    """Yield the same within tasks, and how the successes that are cut differ from task to task."""
    inside = [(name, each.within) for name, each in judged if each.within is not None]
    if inside:
        yield Sentence(f"the same within tasks that have failures and successes, their mean. {_MORE}", is_apart=True)
        yield Table(
            "Alarms within tasks",
            (
                Column("metric, within tasks"),
                *(Column(name, ".0%") for name in ("cut", "caught", "in time")),
                Column("more in time than cut", "+.0f", 100),
                Column("tasks"),
            ),
            tuple((name, one.cut, one.caught, one.in_time, one.more, one.tasks) for name, one in inside),
            "alarms-within-tasks",
            caption_medium="page",
        )
    else:
        text = f"within tasks nothing can be said: no task has failures and successes. {_MORE}"
        yield Sentence(text, is_apart=True)
    yield Sentence(
        f"the {ALPHA:.0%} are an average over tasks, and no promise of any single one. Most is cut, of the task's "
        "held-out successes:"
    )
    worst: dict[str, list[str]] = {}
    for name, found in judged:
        if (most := found.most_cut) is not None:
            worst.setdefault(most.task, []).append(f"{name} {most.cut} of {most.successes}")
    for task, told in worst.items():
        yield Sentence(f"  in {_short(task)}: {', '.join(told)}", indent="    ")
    if not worst:
        yield Sentence("  nothing is cut in any")


def _intervention(found: Intervention, seconds: float | None) -> Iterator[Sentence]:
    """Yield what stopping by ``--stop-when`` would have done."""
    yield Sentence(
        f"had it been stopped when {found.rule}: {_share(found.caught)} of {counted(found.failures, 'failure')} "
        f"caught, {_share(found.in_time)} in time; {_share(found.cut)} of {found.successes} successes cut; lead "
        f"{_lead(found, seconds)}; {found.saved:.0%} of control steps saved",
        is_apart=True,
    )
    one = found.within
    if one is None:
        yield Sentence(f"within tasks nothing can be said: no task has failures and successes. {_MORE}")
    else:
        more = estimate_text(one.more, "+.0f", 100)
        yield Sentence(
            f"within tasks, the mean of {counted(one.tasks, 'task')} with failures and successes: {one.caught:.0%} "
            f"caught, {one.in_time:.0%} in time, {one.cut:.0%} cut; {more} more in time than cut. {_MORE}"
        )
    if (most := found.most_cut) is not None:
        shares = [each.cut / each.successes for each in found.by_task if each.successes]
        yield Sentence(
            f"cut by task: {min(shares):.0%} to {max(shares):.0%} of its successes, the most in {_short(most.task)} "
            f"({most.cut} of {most.successes})"
        )


def _confidence(found: Sequence[tuple[float, Calibration]]) -> Iterator[Block]:
    """Yield the reliability table of the first moment, and each moment's scores."""
    moment, first = found[0]
    yield Sentence(
        "is the policy's own confidence worth its face value? The mean probability of the tokens that it likes best, "
        f"up to {moment:.0%} of the step budget, and how many of those episodes succeed",
        is_apart=True,
    )
    yield Table(
        f"Success by confidence, at {moment:.0%}",
        (Column("confidence"), Column("episodes"), Column("mean", ".3f"), Column("success", ".0%")),
        tuple((f"{e.low:.1f} to {e.high:.1f}", e.episodes, e.confidence, e.success) for e in first.bins),
        "confidence",
        caption_medium="page",
    )
    for moment, each in found:
        yield Sentence(
            f"at {moment:.0%}: Brier's score {estimate_text(each.brier, '.3f')}, of the base rate alone "
            f"{each.base:.3f}; confidence less success {estimate_text(each.gap, '+.3f')}; expected calibration error "
            f"{each.error:.3f}, of a calibrated policy below {each.error_by_chance:.3f} in {CHANCE:.0%} of draws; "
            f"{counted(each.episodes, 'episode')} still running"
        )


def _short(task: str) -> str:
    """Return a task's name without its suite, which is in the heading."""
    return task.partition("/")[2] or task


def _share(each: GroundingEstimate | None) -> str:
    return estimate_text(each, ".0%")


def _lead(found: Intervention, seconds: float | None) -> str:
    if found.lead is None:
        return "-"
    return f"{found.lead:g}" if seconds is None else f"{found.lead:g} steps ({found.lead * seconds:.1f} s)"

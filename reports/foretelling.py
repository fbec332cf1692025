"""Does a metric foretell failure? AUROC early in the episode: for people as a table, for programs as JSON."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.metrics.alarms import Intervention, Rule, intervention
from pytest_vla.metrics.calibration import BINS, CHANCE, DRAWS, Calibration, confidence_at
from pytest_vla.metrics.clustered import CONFIDENCE, THESE_TASKS
from pytest_vla.metrics.conformal import ALPHA, Conformal, conformal
from pytest_vla.metrics.foretelling import FEWEST, MOMENTS, Foretelling, Watched, foretelling
from pytest_vla.metrics.hidden import hidden_notes
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.naming import entry_of
from pytest_vla.metrics.padding import without_padding
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.separation import MOMENT, Course, Distribution, Separation, separations
from pytest_vla.metrics.success import unit_of
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.reports.loaded import SEED, Loaded, unfinished_of
from pytest_vla.reports.tables import aligned, notes, printed, wrapped
from pytest_vla.reports.warning import confidence_lines, conformal_lines, intervention_lines
from pytest_vla.util.text import counted

STATIC = "static_robot"
CONFIDENCE_SERIES = "token_probability.paper"
"""1 - the mean probability of the likeliest tokens of a step."""

ALPHAS = (0.05, ALPHA, 0.20)
"""Shares of successes that a conformal alarm may cut; a terminal has `ALPHA`'s."""


@dataclass(frozen=True)
class Foretold:
    """One model in one suite, of one step budget.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        budget: ``300 steps``, where its episodes have several; else empty.
        found: each metric at each moment.
        episodes: successes and failures with a series of a metric.
        separated: of each metric how its values are distributed by outcome.
        alarms: conformal thresholds, of each metric with each of `ALPHAS`.
        stopped: what the user's rule would have done; None: there is none, or no series of its metric.
        confidence: the calibration of the policy's own confidence, by moment.
        seconds: of a control step; None: not known.
        varied: whether something is varied in some of them.
        static: how many of them are of a robot that stood still; None: none says whether it did.
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


def make_foretold(loaded: Loaded, rule: Rule | None = None) -> tuple[Foretold, ...]:
    """What metrics foretell, of each model and suite whose episodes have series of them.

    Probes are in no number, as their success is in no rate. Episodes of another step budget are told apart: a share of
    it is another number of steps, and which budget an episode has would foretell by itself.

    Args:
        loaded: records, with the folders of their trajectories.
        rule: what stopping by it would have done is told too.

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
    named: tuple[str, str, str], some: Sequence[tuple[Record, Watched]], rule: Rule | None, left_out: tuple[str, ...]
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
    """What to say of trajectories that cannot be read: none, or a line."""
    if not troubles:
        return []
    files = counted(len(troubles), "trajectory file")
    return [f"{files} with the series cannot be read, and the episodes are in no number: {next(iter(troubles))}"]


def _alarms(watched: Sequence[Watched]) -> tuple[Conformal, ...]:
    names = dict.fromkeys(name for episode in watched for name in episode.series)
    return tuple(conformal(watched, name, alpha) for name in names for alpha in ALPHAS)


def _watched(record: Record, names: Sequence[str], loaded: Loaded, troubles: dict[str, None]) -> Watched | None:
    budget = record.protocol.get("max_steps")
    if record.arrays is None or not isinstance(budget, int) or budget < 1:
        return None
    try:
        series = load_trajectory(trajectory_file(loaded.folders[record.run], record.arrays)).series
    except VlaError as error:
        troubles[str(error)] = None
        return None
    # Of each step one number; what else is called so is not the metric's.
    wanted = {name: _values(name, series[name]) for name in names if name in series and series[name].ndim == 1}
    likeliest = series.get(CONFIDENCE_SERIES)
    confidence = None if likeliest is None or likeliest.ndim != 1 else 1.0 - likeliest
    return Watched(record.outcome == "failure", unit_of(record), budget, wanted, confidence) if wanted else None


def _values(name: str, series: NDArray[Any]) -> NDArray[np.float64]:
    entry, key = entry_of(name, extensions.metrics())
    return np.asarray(series, np.float64) if entry is None else without_padding(series, entry, key)


# For programs


def methods_table() -> dict[str, Any]:
    """How the numbers were made, for JSON."""
    return {
        "confidence": CONFIDENCE,
        "over": THESE_TASKS,
        "moments": list(MOMENTS),
        "of": "the step budget; episodes that are over by then are left out",
        "value": "the mean of the metric's series up to the moment; steps in which it has no value yet, such as those "
        "before upstream's window of 8 is full, are not in it",
        "conformal": "the (1-alpha)(K+1)/K quantile of the largest values of successes of every second seed, each of K "
        "tasks and seeds weighing the same; held_out: the other seeds",
        "calibration": "confidence: mean probability of the likeliest tokens up to the moment, of episodes that run "
        f"still; error: expected calibration error over {BINS} bins; error_by_chance: of a calibrated "
        f"policy {CHANCE:.0%} of {DRAWS} draws are below; episodes of one task and seed are drawn together",
        "seed": SEED,
        "intervals": "Wilson's with the effective sample size of clusters' influences (Obuchowski 1997), Student's t; "
        "tasks_interval: over tasks",
    }


def foretelling_table(found: Foretold) -> list[dict[str, Any]]:
    """``foretelling`` of a model and suite in JSON, one for each metric and moment.

    ``metric``, ``moment``, ``failures``, ``successes``, ``over``, ``unknown``, ``auroc`` (null), ``interval`` and
    ``tasks_interval`` (null), ``within``, ``within_interval`` (null) and ``pairs``, of one task each: see
    `pytest_vla.metrics.foretelling.Foretelling`.
    """
    return [
        {
            "metric": each.metric,
            "moment": each.moment,
            "failures": each.failures,
            "successes": each.successes,
            "over": each.over,
            "unknown": each.unknown,
            "auroc": None if each.auroc is None else each.auroc.value,
            "interval": None if each.auroc is None else each.auroc.interval,
            "tasks_interval": None if each.auroc is None else each.auroc.tasks_interval,
            "within": None if each.within is None else each.within.value,
            "within_interval": None if each.within is None else each.within.interval,
            "pairs": each.pairs,
        }
        for each in found.found
    ]


def separation_table(found: Sequence[Separation]) -> list[dict[str, Any]]:
    """``separation`` of a model and suite in JSON, one for each metric.

    ``metric``, ``moment``, ``low`` and ``high`` of the bins, ``beyond``, and of ``failures`` and ``successes``
    ``counts`` by bin, ``median`` (null) and ``quartiles`` over time (each null); see
    `pytest_vla.metrics.separation.Separation`.
    """

    def told(values: Distribution, course: Course) -> dict[str, Any]:
        return {"counts": list(values.counts), "median": values.median, "quartiles": list(course.quartiles)}

    return [
        {
            "metric": each.metric,
            "moment": MOMENT,
            "low": each.low,
            "high": each.high,
            "beyond": each.beyond,
            "failures": told(each.failures, each.failures_course),
            "successes": told(each.successes, each.successes_course),
        }
        for each in found
    ]


# For people


def foretelling_lines(found: Sequence[Foretold]) -> Iterator[str]:
    """The section for a terminal, line by line. Control characters are taken out."""
    yield from printed(_lines(found))


def _lines(found: Sequence[Foretold]) -> Iterator[str]:
    shares = ", ".join(f"{moment:.0%}" for moment in MOMENTS)
    yield from wrapped(
        f"Does it foretell failure? AUROC of each metric's mean up to {shares} of the step budget, among the episodes "
        "that are still running: 1, failures have larger values; 0.5, it tells nothing; 0, they have smaller ones. In "
        f"brackets: {CONFIDENCE:.0%} intervals over these tasks"
    )
    for model in found:
        yield ""
        yield f"=== {model.model}, {model.suite}{f', a budget of {model.budget}' if model.budget else ''} ==="
        yield from notes(model.left_out)
        if not model.episodes:
            yield from wrapped("no episode has a series that can be read: nothing is known of what foretells")
            continue
        if model.static:
            yield from wrapped(
                f"{model.static} of {counted(model.episodes, 'episode')} are of a robot that stood still: it looks "
                "perfect to every metric of motion"
            )
        yield from _table(model.found, model.varied)
        yield from conformal_lines(model.alarms, model.seconds)
        if model.stopped is not None:
            yield from intervention_lines(model.stopped, model.seconds)
        yield from confidence_lines(model.confidence)


def _table(found: Sequence[Foretelling], varied: bool) -> Iterator[str]:
    cells: dict[str, list[str]] = {}
    within: dict[str, list[str]] = {}
    for each in found:
        cells.setdefault(each.metric, []).append(_cell(each.auroc))
        within.setdefault(each.metric, []).append(_cell(each.within))
    moments = [f"at {moment:.0%}" for moment in dict.fromkeys(each.moment for each in found)]
    yield from aligned([["metric", *moments], *([k, *v] for k, v in cells.items())], 1)
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
        yield from wrapped(f"no value yet {text}: {', '.join(names)}")
    if (comparisons := sum(each.auroc is not None for each in found)) > 1:
        yield from wrapped(
            f"these are {comparisons} comparisons, of metrics and moments: the best of them is picked by eye, and "
            "looks better than it is; other episodes, such as of another run seed, say how good"
        )
    if any(each.pairs for each in found):
        yield ""
        mixed = ". What is varied in them may do so too: it is not told apart" if varied else ""
        yield from wrapped(
            f"the same among episodes of one task{', whatever is varied in them' * varied}: tasks differ in how often "
            "they fail and in what a metric is like in them, which over all episodes may foretell by itself, or hide "
            f"what does{mixed}"
        )
        head = ["metric, within tasks", *moments]
        yield from aligned([head, *([k, *v] for k, v in within.items())], 1)
        yield from _counts("pairs of a failure and a success of one task", found, lambda each: str(each.pairs))


def _counts(
    what: str, found: Sequence[Foretelling], count: Callable[[Foretelling], str], end: str = ""
) -> Iterator[str]:
    """How many each number is of: as most metrics have it, and those apart that have others."""
    by_metric: dict[str, list[str]] = {}
    for each in found:
        by_metric.setdefault(each.metric, []).append(f"{count(each)} at {each.moment:.0%}")
    told = _alike((name, ", ".join(counts)) for name, counts in by_metric.items())
    usual = max(told, key=lambda text: len(told[text]))
    yield from wrapped(f"{what}: {usual}{end}")
    for text, names in told.items():
        if text != usual:
            yield from wrapped(f"of {', '.join(names)}: {text}")


def _alike(told: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Of each text the names that it is said of."""
    found: dict[str, list[str]] = {}
    for name, text in told:
        found.setdefault(text, []).append(name)
    return found


def _cell(each: Estimate | None) -> str:
    if each is None:
        return "-"
    bounds = "" if each.interval is None else " [{:.2f}, {:.2f}]".format(*each.interval)
    return f"{each.value:.2f}{bounds}"

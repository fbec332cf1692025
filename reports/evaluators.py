"""Success under each published evaluator's step budget, from one run, and published numbers: a section.

A run says what its policy reaches under every budget that is not larger than its own. What else differs between the
run and an evaluator, such as pictures or scenes, is named and not computed.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS, Interval
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.rates import is_plain, percent, percents, percents_text, reasons_text
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.metrics.time_to_success import (
    VERDICTS,
    RateDifference,
    largest_budget,
    rate_at,
    rate_difference,
    success_curve,
    verdict_of,
)
from pytest_vla.plan.choices import EITHER
from pytest_vla.plan.evaluators import PUBLISHED, Evaluator, as_spelt, built_in_evaluators
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import OF_OWN_WORLDS, OWN_EVALUATOR, Protocol
from pytest_vla.records.record import Record
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import (
    Block,
    Cell,
    Column,
    Heading,
    PageDrawing,
    Sentence,
    Table,
    estimate_text,
    notes,
    rate_cell,
)
from pytest_vla.reports.figures import file_names, new_figure, png_of
from pytest_vla.reports.html.svg import budget_drawing
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.sections import Section
from pytest_vla.util.documents import read_toml
from pytest_vla.util.text import counted, did_you_mean, quoted

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class PublishedNumber:
    """Success rates of one checkpoint that a paper or a model card states.

    Attributes:
        name: for ``--published``.
        model: for people.
        checkpoint: its name or address; empty if the source has none.
        evaluator: the evaluator that measured it; empty if the source does not say which script did.
        rates: by suite, 0..1.
        episodes: by suite, how many one rate is over; suites of which the source does not say so are left out.
        steps: by suite, the step budget if the source states another one than the evaluator's.
        source: where the numbers were read.
        read: the day, ISO 8601.
        note: what else is known of the measurement; may be empty.
    """

    name: str
    model: str
    checkpoint: str
    evaluator: str
    rates: Mapping[str, float]
    episodes: Mapping[str, int]
    steps: Mapping[str, int]
    source: str
    read: str
    note: str

    def estimate(self, suite: str) -> GroundingEstimate:
        """Return the rate in a suite, percent, with its own sampling error if its number of episodes is known."""
        return GroundingEstimate(100 * self.rates[suite], percents(self.interval(suite)))

    def interval(self, suite: str) -> Interval | None:
        """Return Wilson's interval of the rate in a suite, 0..1, or None if its number of episodes is not known."""
        n = self.episodes.get(suite)
        return None if n is None else wilson_interval(round(self.rates[suite] * n), n)

    def budget(self, suite: str) -> int | None:
        """Return the step budget in a suite, or None if it is not known."""
        known = [each.max_steps.get(suite) for each in built_in_evaluators() if each.name == self.evaluator]
        return self.steps.get(suite) or next(iter(known), None)


@cache
def published_numbers() -> Mapping[str, PublishedNumber]:
    """Return all published numbers by name."""
    table = read_toml(PUBLISHED)
    read = table.pop("read").isoformat()
    return {name: _published(name, each, read) for name, each in table.items()}


def _published(name: str, table: Mapping[str, Any], read: str) -> PublishedNumber:
    done, rates, n = table.get("successes", {}), table.get("rates", {}), table.get("episodes", {})
    episodes = n if isinstance(n, dict) else dict.fromkeys([*rates, *done], n)
    shares = {suite: rate / 100 for suite, rate in rates.items()}
    shares |= {suite: number / episodes[suite] for suite, number in done.items()}
    return PublishedNumber(
        name,
        model=table["model"],
        checkpoint=table.get("checkpoint", ""),
        evaluator=table.get("evaluator", ""),
        rates=shares,
        episodes=episodes,
        steps=table.get("steps", {}),
        source=table["source"],
        read=read,
        note=table.get("note", ""),
    )


def published_number(name: str) -> PublishedNumber:
    """Return a published number by name. Raises VlaError if there is none, with the closest names."""
    known = published_numbers()
    if name not in known:
        raise VlaError(
            f"--published: there is no number of {quoted(name, 80)}.{did_you_mean(as_spelt(name), known)} "
            f"Names: {', '.join(known)}"
        )
    return known[name]


@dataclass(frozen=True)
class FieldDifference:
    """A field of the protocol in which a run and an evaluator differ, beside the step budget.

    Attributes:
        name: of `pytest_vla.plan.task.Protocol`, or ``replan``, the executed steps of a chunk.
        evaluator: the evaluator's value, in JSON.
        run: the run's values, in JSON, separated by commas.
    """

    name: str
    evaluator: str
    run: str


@dataclass(frozen=True)
class UnderEvaluator:
    """What a run says of its policy under an evaluator.

    Attributes:
        evaluator: its name.
        steps: its step budget.
        rate: success under that budget; None if the run did not measure it.
        differs: the fields in which the run and the evaluator differ.
    """

    evaluator: str
    steps: int
    rate: SuccessRate | None
    differs: tuple[FieldDifference, ...]


@dataclass(frozen=True)
class PublishedComparison:
    """A run beside a published number.

    Attributes:
        number: the published one.
        suite: the suite.
        steps: the published number's step budget, or None if it is not known.
        rate: the run's success under that budget; None if it was not measured.
        own: the difference at the run's own budget.
        there: the difference at the published number's budget; None if it was not measured.
        verdict: a key of `VERDICTS`; None if the run's rate has no interval.
        differs: the fields in which the run and the number's evaluator differ; empty if that is not known.
    """

    number: PublishedNumber
    suite: str
    steps: int | None
    rate: SuccessRate | None
    own: RateDifference
    there: RateDifference | None
    verdict: str | None
    differs: tuple[FieldDifference, ...]


@dataclass(frozen=True)
class BudgetReport:
    """The success of one model in one suite by step budget.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        evaluator: the evaluator of the run.
        steps: the largest budget that was measured; None for logs that do not say it.
        rate: success under it.
        under: each published evaluator that has the suite, by its budget.
        curve: success by budget.
        published: the published numbers of the suite with each the budget it was measured under, or None.
        compared: the run beside the number that ``--published`` names, or None.
        left_out: what is in no number, and why.
    """

    model: str
    suite: str
    evaluator: str
    steps: int | None
    rate: SuccessRate
    under: tuple[UnderEvaluator, ...]
    curve: tuple[tuple[int, SuccessRate], ...]
    published: tuple[tuple[PublishedNumber, int | None], ...]
    compared: PublishedComparison | None
    left_out: tuple[str, ...]

    def at(self, steps: int | None) -> SuccessRate | None:
        """Return success under one of the budgets of the curve, or None if it was not measured."""
        return next((rate for budget, rate in self.curve if budget == steps), None)


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no episode of an unvaried task succeeded or failed.

    Raises:
        VlaError: ``--published`` names no number, or one without the suites of the run.
    """
    text = getattr(options, "published", None)
    number = None if text is None else published_number(text)
    found = make_budgets(loaded, number)
    if number is not None and not any(each.compared for each in found):
        suites = ", ".join(dict.fromkeys(each.suite for each in found)) or "none"
        raise VlaError(
            f"--published={number.name}: it has numbers of {', '.join(number.rates)}; the run's unvaried tasks are of "
            f"{suites}"
        )
    if not found:
        return None
    models = {(each.model, each.suite, ""): j.written(_MODELS, each) for each in found}
    pictures = partial(_pictures, found)
    full = bool(getattr(options, "full", False))
    blocks = partial(evaluator_blocks, found, full)
    return Section(blocks, j.written(_METHODS, None), models, pictures, title="Success by step budget")


def make_budgets(loaded: Loaded, number: PublishedNumber | None = None) -> tuple[BudgetReport, ...]:
    """Compute success by step budget for each model and suite, over episodes of unvaried tasks.

    Args:
        loaded: the records.
        number: the published number that the run is compared with, or None.
    """
    found = []
    for (model, suite), some in by_model(loaded.records).items():
        selected = that_count(some)
        records = [record for record in selected.records if is_plain(record)]
        steps = largest_budget(records)
        rate = success_rate(suite, records, unit_of) if steps is None else rate_at(steps, records, suite)
        if rate is None or not rate.counted:
            continue
        evaluators = sorted(
            (each for each in built_in_evaluators() if suite in each.max_steps), key=lambda each: each.max_steps[suite]
        )
        # A run has few protocols, and thousands of episodes.
        protocols = [*{(json.dumps(r.protocol), r.replan): r for r in records if is_counted(r)}.values()]
        under = tuple(_under(each, suite, records, protocols) for each in evaluators)
        numbers = tuple((each, each.budget(suite)) for each in published_numbers().values() if suite in each.rates)
        curve = success_curve(records, [*(each.steps for each in under), *(budget or 0 for _, budget in numbers)])
        report = BudgetReport(
            model,
            suite,
            ", ".join(sorted({_evaluator_of(record) for record in records if is_counted(record)})),
            steps,
            rate,
            under,
            curve,
            tuple(sorted(numbers, key=lambda each: (each[1] is None, each[1] or 0, each[0].evaluator, each[0].name))),
            _compared(number, suite, steps, rate, curve, under),
            (*selected.left_out, *unfinished_of(records, loaded), *(_missing_tasks(suite, records) if numbers else ())),
        )
        found.append(report)
    return tuple(found)


def _missing_tasks(suite: str, records: Iterable[Record]) -> Iterator[str]:
    """Yield a note if not all of a suite's tasks are in the rate: published numbers are over all of them."""
    tasks, ran = len(load_suite(suite).tasks), len({record.task for record in records if is_counted(record)})
    if ran < tasks:
        yield (
            f"only {ran} of {suite}'s {tasks} tasks {'is' if ran == 1 else 'are'} in this rate. Published numbers are "
            "over all: a difference, or none, may come from the choice of tasks"
        )


def _evaluator_of(record: Record) -> str:
    return str(record.protocol.get("evaluator", OWN_EVALUATOR))


def _under(evaluator: Evaluator, suite: str, records: Sequence[Record], protocols: Iterable[Record]) -> UnderEvaluator:
    steps = evaluator.max_steps[suite]
    rate = rate_at(steps, records, evaluator.name)
    return UnderEvaluator(evaluator.name, steps, rate, _differs(evaluator, protocols))


_DEFAULTS = {field.name: field.default for field in fields(Protocol) if field.default is not MISSING}
_OF_SUITES = ("evaluator", "rules", *OF_OWN_WORLDS)

_TOPICS = {
    "scenes": "scenes",
    "starts": "scenes",
    "init_state": "scenes",
    "image_size": "pictures",
    "image_transform": "pictures",
    "wrist_transform": "pictures",
    "textures": "pictures",
    "settle_steps": "settling",
    "settle_action": "settling",
    "gripper": "actions",
    "out_of_range": "actions",
    "control": "actions",
    "action_precision": "actions",
    "replan": "chunk",
}
"""What the fields of a protocol are about; another field is a topic by itself."""

UNKNOWN = "unknown"
"""The run's value of a field that an imported log does not say."""


def _differs(evaluator: Evaluator, records: Iterable[Record]) -> tuple[FieldDifference, ...]:
    """Return the fields in which records differ from an evaluator's protocol, or do not say their value."""
    wanted = {name: value for name, value in _DEFAULTS.items() if name not in _OF_SUITES} | dict(evaluator.protocol)
    if evaluator.replan is not None:
        wanted["replan"] = evaluator.replan
    if wanted["control"] == EITHER:
        # The policy decides.
        del wanted["control"]
    has: dict[str, dict[str, None]] = {name: {} for name in wanted}
    for record in records:
        for name, value in wanted.items():
            has[name][_value_of(record, name, value, evaluator)] = None
    return tuple(
        FieldDifference(name, json.dumps(value), ", ".join(has[name]))
        for name, value in wanted.items()
        if [*has[name]] != [json.dumps(value)]
    )


def _value_of(record: Record, name: str, wanted: object, evaluator: Evaluator) -> str:
    """Return a record's value of a field in JSON. Records leave out defaults, and logs what nobody knows."""
    is_whole = "settle_steps" in record.protocol
    if name == "replan" and (is_whole or record.replan is not None):
        return json.dumps(record.replan)
    if name not in record.protocol and not (is_whole and name in _DEFAULTS):
        # A log of the evaluator's own script need not say what that script does.
        return json.dumps(wanted) if _evaluator_of(record) == evaluator.name else UNKNOWN
    return json.dumps(record.protocol.get(name, _DEFAULTS.get(name)))


def _topics(differs: Iterable[FieldDifference], with_names: bool = False) -> tuple[str, str]:
    """Return what differs, and what nobody knows: ``pictures, scenes``, or ``pictures (image_size)`` with names."""
    topics: dict[bool, dict[str, list[str]]] = {False: {}, True: {}}
    for field in differs:
        topics[field.run == UNKNOWN].setdefault(_TOPICS.get(field.name, field.name), []).append(field.name)
    known, unknown = (
        ", ".join(
            topic if names == [topic] or not with_names else f"{topic} ({', '.join(names)})"
            for topic, names in sorted(some.items())
        )
        for some in topics.values()
    )
    return known, unknown


def _compared(
    number: PublishedNumber | None,
    suite: str,
    measured: int | None,
    rate: SuccessRate,
    curve: Sequence[tuple[int, SuccessRate]],
    under: Iterable[UnderEvaluator],
) -> PublishedComparison | None:
    """Return a run beside a published number, or None if that has no rate in the suite."""
    if number is None or suite not in number.rates:
        return None
    steps, share, interval = number.budget(suite), number.rates[suite], number.interval(suite)
    own = rate_difference(rate, share, interval)
    there_rate = next((each for budget, each in curve if budget == steps), None)
    there = None if there_rate is None else rate_difference(there_rate, share, interval)
    assert own is not None
    verdict = verdict_of(own, there, steps, measured)
    differs = next((each.differs for each in under if each.evaluator == number.evaluator), ())
    return PublishedComparison(number, suite, steps, there_rate, own, there, verdict, differs)


_METHODS = j.methods(
    "evaluators",
    {
        "confidence": CONFIDENCE,
        "over": THESE_TASKS,
        "budgets": "success at step t is success under every budget of at least t; larger budgets than the run's: null",
        "published": "Wilson's interval of the number's own episodes; null if they are not known",
        "difference": "Newcombe's hybrid score interval of both, percentage points",
    },
)
_FIELD: j.Keys = {"name": j.TEXT, "evaluator": j.TEXT, "run": j.TEXT}
_UNDER: j.Keys = {
    "evaluator": j.TEXT,
    "steps": j.COUNT,
    "rate": j.maybe(j.row(j.RATE)),
    "differs": j.listed(j.row(_FIELD)),
}
_NUMBER: j.Keys = {
    "name": j.TEXT,
    "model": j.TEXT,
    "checkpoint": j.maybe(j.TEXT).of(lambda number: number.checkpoint or None),
    "evaluator": j.maybe(j.TEXT).of(lambda number: number.evaluator or None),
    "source": j.TEXT,
    "read": j.TEXT,
    "note": j.maybe(j.TEXT).of(lambda number: number.note or None),
}
_PUBLISHED: j.Keys = {
    **j.through(lambda row: row[0], _NUMBER),
    "steps": j.maybe(j.COUNT).of(lambda row: row[1]),
    "sr": j.PERCENT.of(lambda row: row[2].value),
    "interval": j.INTERVAL.of(lambda row: row[2].interval),
    "episodes": j.maybe(j.COUNT).of(lambda row: row[3]),
}
_DIFFERENCE: j.Keys = {
    "value": j.NUMBER.of(lambda each: 100 * each.value),
    "interval": j.INTERVAL.of(lambda each: percents(each.interval)),
    "has_published_error": j.FLAG.of("is_whole"),
}
_COMPARED: j.Keys = {
    "name": j.TEXT.of(lambda each: each.number.name),
    "steps": j.maybe(j.COUNT),
    "sr": j.PERCENT.of(lambda each: 100 * each.number.rates[each.suite]),
    "interval": j.INTERVAL.of(lambda each: percents(each.number.interval(each.suite))),
    "rate_at_steps": j.maybe(j.row(j.RATE)).of("rate"),
    "difference": j.row(_DIFFERENCE).of("own"),
    "difference_at_steps": j.maybe(j.row(_DIFFERENCE)).of("there"),
    "verdict": j.maybe(j.one_of(*VERDICTS)),
    "differs": j.listed(j.row(_FIELD)),
}
_MODELS: j.Keys = {
    "evaluators": j.row(
        {
            "evaluator": j.TEXT,
            "steps": j.maybe(j.COUNT),
            "rate": j.row(j.RATE),
            "under": j.listed(j.row(_UNDER)),
            "curve": j.listed(j.row({"steps": j.COUNT.of(lambda at: at[0]), **j.through(lambda at: at[1], j.RATE)})),
            "published": j.listed(j.row(_PUBLISHED)).of(
                lambda report: [
                    (each, steps, each.estimate(report.suite), each.episodes.get(report.suite))
                    for each, steps in report.published
                ]
            ),
            "compared": j.maybe(j.row(_COMPARED)),
            "left_out": j.listed(j.TEXT),
        }
    ).of(lambda report: report)
}

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def evaluator_blocks(found: Sequence[BudgetReport], full: bool = False) -> Iterator[Block]:
    """Yield the section's blocks.

    Args:
        found: each model and suite.
        full: whether a terminal shows the curve, and the published numbers whose evaluator is not known, too.
    """
    yield Sentence(
        "Success under the step budget of each published evaluator, from the steps at which this run's episodes "
        f"succeeded. In brackets: {CONFIDENCE:.0%} intervals over these tasks. -: not measured, as the budget is "
        "larger than the run's (--vla-steps=longest) or a log has no steps"
    )
    for each in found:
        title = f"{each.model}, {each.suite}"
        yield Heading(title, (each.model, each.suite, ""))
        yield Sentence(_summary(each))
        if reasons := reasons_text(each.rate):
            yield Sentence(f"in no rate: {reasons}")
        yield from _under_table(each, full)
        yield PageDrawing(partial(_drawing, title, each))
        yield from _curve_table(each, full)
        yield from _published_tables(each, full)
        if each.compared is not None:
            yield from _comparison(each, each.compared)
        yield from notes(each.left_out)


def _summary(each: BudgetReport) -> str:
    """Return success under the run's own and each measured budget: ``94.2 [91.8, 95.9] at 220; 97.4 [...] at 720``.

    Budgets of an equal rate are together, and the last success is named if larger budgets change nothing.
    """
    if each.steps is None:
        return f"{each.suite} {percents_text(each.rate)} under a step budget that is not known"
    budgets = sorted({each.steps, *(row.steps for row in each.under if row.rate is not None)})
    rates = [(budget, rate) for budget in budgets if (rate := each.at(budget)) is not None]
    told = [
        f"{text} at {', '.join(str(budget) for budget, _ in some)}"
        for text, some in groupby(rates, lambda at: percents_text(at[1]))
    ]
    last = next((steps for steps, rate in each.curve if rate.successes == each.rate.successes), each.steps)
    after = f"; no success after step {last}" if each.rate.successes and last < each.steps else ""
    return f"{each.suite} {'; '.join(told)} steps{after}"


def _under_table(each: BudgetReport, full: bool) -> Iterator[Block]:
    if not each.under:
        return
    own: tuple[Cell, ...] = (rate_cell(each.rate), percents(each.rate.tasks_interval))
    rows: list[tuple[Cell, ...]] = [(f"this run ({each.evaluator})", each.steps, *own, "", "")]
    for row in each.under:
        rate = (None, None) if row.rate is None else (rate_cell(row.rate), percents(row.rate.tasks_interval))
        known, unknown = _topics(row.differs)
        told = "; ".join([known] * bool(known) + [f"not known: {unknown}"] * bool(unknown)) or "nothing else"
        names = ", ".join(field.name for field in row.differs) or "nothing else"
        rows.append((row.evaluator, row.steps, *rate, told, names))
    yield Table(
        "Success under each evaluator's budget, %. Besides the budget, the run and the evaluator differ in what is "
        "named; what that changes is not in these numbers",
        (
            Column("evaluator"),
            Column("steps"),
            Column("success", ".1f"),
            Column(TASKS_LIKE_THESE, ".1f", is_optional=True, medium="page"),
            Column("the run differs in", is_left=True, medium="terminal"),
            Column("the run differs in", is_left=True, medium="page"),
        ),
        tuple(rows),
        "evaluators",
    )
    if any(row.differs for row in each.under):
        yield Table(
            "What differs",
            tuple(map(Column, ("evaluator", "field", "evaluator's value", "run's value"))),
            tuple(
                (row.evaluator, field.name, field.evaluator, field.run) for row in each.under for field in row.differs
            ),
            "differences",
            names=2,
            medium="all" if full else "page",
        )


def _curve_table(each: BudgetReport, full: bool) -> Iterator[Block]:
    yield Table(
        "Success by step budget, %",
        (Column("steps"), Column("episodes"), Column("successes"), Column("success", ".1f")),
        tuple((steps, rate.counted, rate.successes, rate_cell(rate)) for steps, rate in each.curve),
        "curve",
        names=0,
        most=MOST_ROWS,
        medium="all" if full else "page",
    )


MOST_ROWS = 60
"""Rows of a curve's table on a page."""


def _published_tables(each: BudgetReport, full: bool) -> Iterator[Block]:
    known = [(number, steps) for number, steps in each.published if full or steps is not None]
    if not known:
        return
    yield Table(
        "Published numbers, %, by the budget under which they were measured, beside this run under that budget",
        (
            Column("published"),
            Column("evaluator"),
            Column("steps"),
            Column("episodes"),
            Column("success", ".1f"),
            Column("this run", ".1f"),
            Column("model", is_left=True, medium="page"),
            Column("checkpoint", is_left=True, medium="page"),
            Column("source", is_left=True, medium="page"),
            Column("note", is_left=True, medium="page", is_optional=True),
        ),
        tuple(
            (
                number.name,
                number.evaluator or "unknown",
                steps,
                number.episodes.get(each.suite),
                number.estimate(each.suite),
                None if (rate := each.at(steps)) is None else rate_cell(rate),
                number.model,
                number.checkpoint,
                number.source,
                number.note,
            )
            for number, steps in known
        ),
        "published",
        names=2,
        medium="all" if full or each.compared is None else "page",
    )
    if each.compared is None and (more := len(each.published) - len(known)):
        yield Sentence(
            f"{counted(more, 'published number')} more of evaluators that their sources do not name (--full)"
        )


def _comparison(each: BudgetReport, found: PublishedComparison) -> Iterator[Block]:
    number, suite = found.number, found.suite
    episodes = number.episodes.get(suite)
    over = f"over {episodes} episodes" if episodes else "over an unknown number of episodes"
    by = f"{number.evaluator}'s script" if number.evaluator else "a script that the source does not name"
    budget = f"{found.steps} steps" if found.steps else "an unknown number of steps"
    yield Sentence(
        f"Beside {number.name}, {number.model}: {estimate_text(number.estimate(suite), '.1f')} {over}, by {by}, at "
        f"{budget} ({number.source})",
        is_apart=True,
    )
    at = "an unknown number of" if each.steps is None else each.steps
    told = [f"{percents_text(each.rate)} at {at} steps, {_points(found.own)}"]
    if found.rate is not None and found.there is not None and found.steps != each.steps:
        told.append(f"{percents_text(found.rate)} at {found.steps}, {_points(found.there)}")
        explained = 100 * (found.own.value - found.there.value)
        told.append(f"the budget explains {explained:.1f} points")
    yield Sentence(f"this run: {'; '.join(told)}")
    if found.verdict is None:
        yield Sentence("verdict: none, as the run's rate has no interval")
        return
    whole = "" if found.own.is_whole else " (without the published number's own sampling error, which is not known)"
    known, unknown = _topics(found.differs, with_names=True)
    besides = f". The run and {number.evaluator} also differ in: {known}" if known else ""
    besides += f". Not known of the run: {unknown}" if unknown else ""
    if not number.evaluator:
        besides = ". What else differs is not known"
    yield Sentence(f"verdict: {VERDICTS[found.verdict]}{whole}{besides}")
    if number.note:
        yield Sentence(f"of the published number: {number.note}")


def _points(difference: RateDifference) -> str:
    interval = percents(difference.interval)
    return f"{estimate_text(GroundingEstimate(100 * difference.value, interval), '+.1f')} points"


def _marks(each: BudgetReport) -> dict[int, str]:
    """Return the names of the evaluators by each measured budget."""
    marks: dict[int, list[str]] = {}
    for row in each.under:
        if row.rate is not None:
            marks.setdefault(row.steps, []).append(row.evaluator)
    return {steps: ", ".join(names) for steps, names in marks.items()}


def _drawing(title: str, each: BudgetReport) -> "Markup":
    points = [(steps, 100 * (rate.rate or 0.0), percents(rate.interval)) for steps, rate in each.curve]
    return budget_drawing(title, f"success by step budget, {CONFIDENCE:.0%} intervals", points, _marks(each))


def _pictures(found: Sequence[BudgetReport]) -> dict[str, bytes]:
    names = file_names([(each.model, each.suite) for each in found])
    return {f"budget-{name}": _picture(each) for name, each in zip(names, found, strict=True)}


def _picture(each: BudgetReport) -> bytes:
    figure = new_figure(6.4, 3.6)
    axes = figure.subplots()
    steps, rates = [budget for budget, _ in each.curve], [percent(rate.rate) or 0.0 for _, rate in each.curve]
    ends = [percents(rate.interval) or (share, share) for share, (_, rate) in zip(rates, each.curve, strict=True)]
    axes.plot(steps, rates)
    axes.fill_between(steps, [low for low, _ in ends], [high for _, high in ends], alpha=0.2)
    for budget, text in _marks(each).items():
        axes.axvline(budget, linestyle=":", color="grey")
        axes.annotate(text, (budget, 2), rotation=90, fontsize=7, ha="right", color="grey")
    axes.set(xlabel="step budget", ylabel="success, %", ylim=(0, 101), title=f"{each.model}, {each.suite}")
    return png_of(figure)

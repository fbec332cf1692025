"""A gate's measures beside success: as lines, as a table for programs, and as Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pytest_vla.gate.baseline import Baseline, CaseResult
from pytest_vla.gate.choices import REQUIRED
from pytest_vla.gate.manifest import Manifest
from pytest_vla.gate.measures import PRIDE, Distance, GatedMetric, Measure, judge_measures, parse_measures
from pytest_vla.gate.sequential import judge_as_agreed
from pytest_vla.gate.verdicts import GateJudgement, Terms, judge
from pytest_vla.language.backends import choose_backend
from pytest_vla.metrics.language import DIMENSION, PARAPHRASE
from pytest_vla.metrics.pride import ALPHA, paraphrase_weight
from pytest_vla.plan.manifests import instruction_of
from pytest_vla.reports.blocks import Cell, Column, Table
from pytest_vla.reports.loaded import SEED
from pytest_vla.reports.text import markdown_table, markdown_text, printed, table_lines, wrapped


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
    lines += [line for text in told_of(measured, by, failed) for line in wrapped(text)]
    return printed(lines)


def measures_markdown(measured: Sequence[GatedMetric], terms: Terms, by: str, failed: Sequence[GatedMetric]) -> str:
    """Return the measures in Markdown, for a job's summary; arguments as of `measures_lines`."""
    if not measured:
        return ""
    table = table_of_measures(measured, terms)
    parts = ["", markdown_text(table.caption), *markdown_table(table), ""]
    parts += [f"- {markdown_text(text)}" for text in told_of(measured, by, failed)]
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


def told_of(measured: Sequence[GatedMetric], by: str, failed: Sequence[GatedMetric] = ()) -> Iterator[str]:
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

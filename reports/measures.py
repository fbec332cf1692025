"""What a gate says of measures beside success: as lines, as a table for programs, and as Markdown."""

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
from pytest_vla.reports.gates import escaped
from pytest_vla.reports.loaded import SEED
from pytest_vla.reports.text import aligned, printed, wrapped


@dataclass(frozen=True)
class AsAgreed:
    """The verdicts over a run.

    Attributes:
        judgement: of success.
        measured: what became of what is judged beside success.
        by: what compared texts for it; empty: none were.
        required: what was to be shown, a key of `REQUIRED`.
    """

    judgement: GateJudgement
    measured: tuple[GatedMetric, ...]
    by: str
    required: str

    @cached_property
    def against(self) -> tuple[str, ...]:
        """The verdicts for which the run fails; none: it passes."""
        success: tuple[str, ...] = ()
        if not self.judgement.is_measured:
            success = ("undecided: nothing was measured",)
        elif self.judgement.verdict not in REQUIRED[self.required]:
            success = (self.judgement.verdict,)
        failed = fails(self.measured, self.required)
        return (*success, *(f"{each.measure.name} of {each.group} {each.verdict}" for each in failed))


def judged_as_agreed(manifest: Manifest, baseline: Baseline, new: Baseline, nodes: Iterable[str]) -> AsAgreed:
    """Success and measures, by terms, rule and measures of the manifest.

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


HEAD = ("measure", "group", "baseline", "run", "difference", "bounds", "pairs", "verdict")


def measured_by(
    baseline: Baseline, new: Baseline, terms: Terms, measures: Sequence[Measure]
) -> tuple[tuple[GatedMetric, ...], str]:
    """As `pytest_vla.gate.measures.judge_measures`, with texts compared where PRIDE is among the measures; and by what.

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
    """How far each paraphrase among cases is from its task's own text (LIBERO-Para's PD), and by which backend."""
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
    """Those that do not show what is required (a key of `REQUIRED`)."""
    return [each for each in measured if each.verdict not in REQUIRED[required]]


def measures_lines(
    measured: Sequence[GatedMetric], terms: Terms, by: str, failed: Sequence[GatedMetric]
) -> Iterator[str]:
    """A row for each measure of each group, and why, where the numbers do not say it.

    Args:
        measured: what became of them.
        terms: of the gate.
        by: what compared texts; empty: none were.
        failed: those that fail the gate: told in the last line.
    """
    if not measured:
        return iter(())
    lines = [*wrapped(shared_text(measured, terms)), *aligned([HEAD, *map(row_of, measured)], 2, {7})]
    lines += [line for text in told_of(measured, by, failed) for line in wrapped(text)]
    return printed(lines)


def measures_markdown(measured: Sequence[GatedMetric], terms: Terms, by: str, failed: Sequence[GatedMetric]) -> str:
    """The same for a job's summary; empty without measures. Arguments as of `measures_lines`."""
    if not measured:
        return ""
    rows = [HEAD, ("---",) * len(HEAD), *map(row_of, measured)]
    parts = [
        "",
        escaped(shared_text(measured, terms)),
        "",
        *(f"| {' | '.join(map(escaped, row))} |" for row in rows),
        "",
    ]
    parts += [f"- {escaped(text)}" for text in told_of(measured, by, failed)]
    return "\n".join(parts) + "\n"


def failed_heading(failed: Sequence[GatedMetric]) -> str:
    """What a summary begins with where measures fail the gate, whatever success says; else empty."""
    return f"### {escaped(_failed_text(failed))}\n\n" if failed else ""


def measures_table(measured: Iterable[GatedMetric]) -> list[dict[str, Any]]:
    """For JSON: of each measure and group ``measure``, ``group``, ``verdict``, ``reason``, ``margin`` and numbers."""
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
    """What the rows are, and at which alpha."""
    among = f" shared by {len(measured)} rows" if len(measured) > 1 else ""
    return f"beside success: mean differences of pairs; bounds are each way at {terms.alpha * 100:g}%{among}"


def told_of(measured: Sequence[GatedMetric], by: str, failed: Sequence[GatedMetric] = ()) -> Iterator[str]:
    """Why, where the numbers do not say it; what compared texts; and what fails the gate."""
    yield from (f"{each.measure.name} of {each.group}: {each.reason}" for each in measured if each.reason)
    if by:
        yield by
    if failed:
        yield _failed_text(failed)


def row_of(each: GatedMetric) -> tuple[str, ...]:
    """A measure of a group, a text for each of `HEAD`."""
    margin = "" if each.measure.margin is None else f" (margin {each.measure.margin:g})"
    ends = "-" if each.bounds is None else f"[{each.bounds[0]:+.3g}, {each.bounds[1]:+.3g}]"
    numbers = ("-", "-", "-")
    if each.baseline is not None and each.new is not None:
        numbers = (f"{each.baseline:.4g}", f"{each.new:.4g}", f"{each.new - each.baseline:+.3g}")
    return (f"{each.measure.name}{margin}", each.group, *numbers, ends, str(each.pairs), each.verdict)


def _text_of(case: CaseResult) -> tuple[str, str, str]:
    return case.suite, case.task_key, str(case.condition("instruction"))


def _kind_of(case: CaseResult) -> str:
    """Of a paraphrase one kind of 43 stands behind a dot."""
    return str(case.variation.get("kind")).partition(".")[0]


def _failed_text(failed: Sequence[GatedMetric]) -> str:
    return f"gate: {', '.join(f'{each.measure.name} of {each.group} {each.verdict}' for each in failed)}"

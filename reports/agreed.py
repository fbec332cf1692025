"""What a run is judged as by all that it agreed on before its first episode: the one place that does it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.choices import REQUIRED
from pytest_vla.gate.manifest import Manifest
from pytest_vla.gate.measured import Measured, parse_measures
from pytest_vla.gate.sequential import judge_as_agreed
from pytest_vla.gate.verdicts import Judgement, judge
from pytest_vla.reports.measures import fails, measured_by


@dataclass(frozen=True)
class AsAgreed:
    """The verdicts over a run.

    Attributes:
        judgement: of success.
        measured: what became of what is judged beside success.
        by: what compared texts for it; empty: none were.
        required: what was to be shown, a key of `REQUIRED`.
    """

    judgement: Judgement
    measured: tuple[Measured, ...]
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

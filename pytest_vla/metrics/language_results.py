"""What is known of models and the language, beside each other: what a report of it shows."""

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_vla.metrics.language import Measured, Paraphrases
from pytest_vla.metrics.language_paths import Failures
from pytest_vla.metrics.listening import Estimate, Listening, Probe
from pytest_vla.metrics.success import SuccessRate


@dataclass(frozen=True)
class Source:
    """What made the similarities of one score.

    Attributes:
        backend: name and version.
        low_fidelity: whether it is a makeshift.
        passed_over: better ones, and why they were not taken.
    """

    backend: str
    low_fidelity: bool
    passed_over: Mapping[str, str]


@dataclass(frozen=True)
class OtherChange:
    """Success and distance under another change of the text than a paraphrase of LIBERO-Para's types."""

    source: Source
    measured: Measured


@dataclass(frozen=True)
class ModelResults:
    """What is known of one model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        runs: names of those that it was made from.
        seeds: of the episodes under paraphrases.
        benign: success with the right text; None where no benign twin was run.
        counts: episodes under another text that are in no rate, by outcome and reason.
        paraphrases: those of LIBERO-Para's types alone; None where there are none.
        of_list: success rate and PRIDE as if all of LIBERO-Para's list had been told; None of other suites, and where a
            cell of it was not.
        source: of the similarities of paraphrases; None where there are none.
        others: by kind.
        failures: of all that is reworded, probes aside; None where there are no paths.
        listening: overall and by probe; None where there are no probes.
        left_out: what is not in the numbers, and why.
        protocol: as the paper or as upstream's code has it, where the suite has both; else empty.
        rate: success under paraphrases; None where there are none.
    """

    model: str
    suite: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    benign: SuccessRate | None
    counts: SuccessRate
    paraphrases: Paraphrases | None
    source: Source | None
    others: Mapping[str, OtherChange]
    failures: Failures | None
    listening: tuple[Listening, Mapping[Probe, Listening]] | None
    left_out: tuple[str, ...]
    protocol: str = ""
    rate: SuccessRate | None = None
    of_list: tuple[Estimate, Estimate | None] | None = None


@dataclass(frozen=True)
class LanguageReport:
    """All of a report.

    Attributes:
        alpha: weight of S_K.
        models: one for each model and suite.
    """

    alpha: float
    models: tuple[ModelResults, ...]

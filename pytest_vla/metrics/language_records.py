"""Which records tell of a model and the language: of each model in a suite, its episodes under other texts."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_vla.metrics.listening import PROBES, Probe
from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES
from pytest_vla.metrics.rates import is_plain
from pytest_vla.metrics.selection import Same, by_model, given_text, run_of, that_count, twin_of
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.manifests import instruction_of
from pytest_vla.records.counting import protocol_of
from pytest_vla.records.record import Record

DIMENSION, PARAPHRASE = "language", "paraphrase"
"""Of a variation: its dimension, and the kind with an object type and an action type."""


@dataclass(frozen=True)
class Subject:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        paraphrases: records of LIBERO-Para's types, of any outcome.
        others: records of other changes of the text, by kind and level.
        probes: records of `pytest_vla.metrics.listening.PROBES`.
        benign: records without a variation.
        left_out: what was there and does not count, and why.
        protocol: as the paper or as upstream's code has it, where the suite has both; else empty.
        same: benign ones that are the same observation as one of `benign`, each with that one; in no number.
    """

    model: str
    suite: str
    paraphrases: tuple[Record, ...]
    others: Mapping[str, tuple[Record, ...]]
    probes: tuple[Record, ...]
    benign: tuple[Record, ...]
    left_out: tuple[str, ...]
    protocol: str = ""
    same: Same = ()

    @property
    def right(self) -> dict[tuple[str, int], Record]:
        """The records without a variation by case and run seed; of those that are the same observation, each."""
        return {run_of(record): record for record in (*self.benign, *(one for one, _ in self.same))}

    @property
    def reworded(self) -> tuple[Record, ...]:
        """All records with another text that is to be done: the probes are none."""
        return (*self.paraphrases, *(record for some in self.others.values() for record in some))

    @property
    def varied(self) -> tuple[Record, ...]:
        """All records with another text."""
        return (*self.reworded, *self.probes)


def subjects(records: Iterable[Record]) -> tuple[Subject, ...]:
    """The models with episodes under another text, each suite and protocol by itself.

    Args:
        records: of any runs, in the order of their ends; which count is `pytest_vla.metrics.selection.that_count`'s.
    """
    found: list[Subject] = []
    for name, some in by_model(records).items():
        found += _subjects(*name, [r for r in some if not r.variation or r.variation.get("dimension") == DIMENSION])
    return tuple(found)


def pair_of(record: Record) -> tuple[str, str]:
    """The task's own instruction, and what the policy was told."""
    original = record.variation.get("parameters", {}).get("original")
    if not isinstance(original, str):
        original = instruction_of(record.suite, record.task, record.task_level)
    return original, record.instruction


def probe_of(record: Record) -> Probe | None:
    """The probe that the record's variation is; None for any other."""
    kind = str(record.variation.get("kind"))
    return next((probe for probe in PROBES if probe == kind), None)


def text_of(record: Record) -> Hashable:
    """The paraphrase of an episode. Where texts are drawn by seed, one label has many."""
    return record.task_key, record.variation.get("label", ""), record.instruction


def benign_rate(subject: Subject) -> SuccessRate | None:
    """Success with the right text, over the benign twins of the episodes under others; None where none were run."""
    same = {run_of(one): run_of(record) for one, record in subject.same}
    twins = {same.get(twin, twin) for twin in map(twin_of, subject.varied)}
    found = [record for record in subject.benign if run_of(record) in twins]
    return success_rate("benign", found, unit_of) if found else None


def types_of(record: Record) -> tuple[str, str]:
    """LIBERO-Para's types of its object and action, as it says them; empty where it says none."""
    said = record.variation.get("parameters", {})
    return str(said.get("object_type", "")), str(said.get("action_type", ""))


def _subjects(model: str, suite: str, records: Sequence[Record]) -> Iterator[Subject]:
    selected = that_count(records)
    left_out = (*selected.left_out, *filter(None, [given_text(selected.records)]))
    benign = tuple(filter(is_plain, selected.records))
    same = tuple((one, record) for one, record in selected.same if is_plain(one))
    by_protocol: dict[str, list[Record]] = {}
    for record in (record for record in selected.records if record.variation and not record.is_given):
        by_protocol.setdefault(protocol_of(record), []).append(record)
    for protocol in sorted(by_protocol):
        found = _subject(model, suite, by_protocol[protocol])
        yield replace(found, benign=benign, left_out=left_out, protocol=protocol, same=same)


def _subject(model: str, suite: str, records: Sequence[Record]) -> Subject:
    """Of varied episodes alone."""
    paraphrases: list[Record] = []
    probes: list[Record] = []
    others: dict[str, list[Record]] = {}
    for record in records:
        kind, level = str(record.variation.get("kind")), record.variation.get("level")
        object_type, action_type = types_of(record)
        typed = object_type in OBJECT_TYPES and action_type in ACTION_TYPES
        if probe_of(record) is not None:
            probes.append(record)
        elif kind == PARAPHRASE and typed:
            paraphrases.append(record)
        else:
            others.setdefault(kind if level is None else f"{kind} level {level}", []).append(record)
    return Subject(
        model,
        suite,
        tuple(paraphrases),
        {kind: tuple(others[kind]) for kind in sorted(others)},
        tuple(probes),
        (),
        (),
    )

"""Which backend a score's similarities are by: what its records have, or the best that compares all of its pairs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.language.backends import PUBLISHED, Choice, Pair, choose_backend, published_backend
from pytest_vla.language.published import load_published
from pytest_vla.metrics.language_records import pair_of
from pytest_vla.metrics.language_results import Source
from pytest_vla.records.record import Record


@dataclass(frozen=True)
class Compared:
    """S_K and S_T of the pairs of one score, all of one source."""

    source: Source
    similarities: Mapping[Pair, tuple[float, float]]


def comparer(prefer: str | None, csv: Path | None, *, loading: bool = True) -> Callable[[Sequence[Record]], Compared]:
    """Gives what compares the texts of a score's records, at least one.

    Similarities that all of the records have, of one version, are taken as they are. A pair is compared once by each
    backend, however many scores it is in.

    Args:
        prefer: a backend's name: this one or none; None: the best.
        csv: LIBERO-Para's; None: published similarities are not at hand but in records.
        loading: whether parsers and embedding models may be loaded.

    Raises, when it compares:
        VlaError: as `pytest_vla.language.backends.choose_backend`.
        UnloadedError: the best one would have to load what is not to be loaded.
    """
    known: dict[tuple[str, Pair], tuple[float, float]] = {}
    published = cache(load_published)

    def choose(pairs: Sequence[Pair]) -> Choice:
        if prefer is not None or csv is None:
            return choose_backend(prefer, csv, pairs, loading=loading)
        backend = published_backend(published(csv))
        try:
            backend.compare(pairs)
        except VlaError as error:
            choice = choose_backend(None, None, pairs, loading=loading)
            return Choice(choice.backend, {**choice.passed_over, PUBLISHED: str(error)})
        return Choice(backend, {})

    def compare(records: Sequence[Record]) -> Compared:
        recorded = _recorded(records) if prefer in (None, PUBLISHED) else {}
        if len(recorded) == len(records) and len({by for by, _ in recorded.values()}) == 1:
            ((backend, _), *_) = recorded.values()
            found = {pair_of(records[index]): similarities for index, (_, similarities) in recorded.items()}
            return Compared(Source(backend, False, {}), found)
        pairs = list(dict.fromkeys(map(pair_of, records)))
        choice = choose(pairs)
        passed_over = dict(choice.passed_over)
        if recorded and PUBLISHED in passed_over:
            passed_over[PUBLISHED] += f"; {len(recorded)} of {len(records)} episodes have them in their records"
        text = str(choice.backend)
        new = [pair for pair in pairs if (text, pair) not in known]
        for pair, each in zip(new, choice.backend.compare(new) if new else (), strict=True):
            known[text, pair] = each.keyword, each.structural
        source = Source(text, choice.backend.low_fidelity, passed_over)
        return Compared(source, {pair: known[text, pair] for pair in pairs})

    return compare


def _recorded(records: Sequence[Record]) -> dict[int, tuple[str, tuple[float, float]]]:
    """Of the records that have similarities, by their place, what made them, and S_K and S_T."""
    found = {}
    for index, record in enumerate(records):
        has = record.variation.get("parameters", {})
        by, keyword, structural = has.get("similarity_by"), has.get("s_k"), has.get("s_t")
        # Published ones are up to 1.0000003.
        numbers = (each for each in (keyword, structural) if isinstance(each, int | float) and 0 <= each <= 1.001)
        if isinstance(by, str) and len([*numbers]) == 2:
            found[index] = (by, (float(keyword), float(structural)))
    return found

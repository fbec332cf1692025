"""The search for the closest rewording that breaks a task, by PRIDE's distance.

Half of the tries are drawn evenly over sorts of rewordings: their failures are a rate, and show early whether anything
breaks the task at all. If something does, up to a quarter are nearer ones that share a changed word with it which no
passing one has. All others are tried nearest first, which alone proves that nothing nearer breaks it.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import further_seeds
from pytest_vla.fuzz.shrink import Outcome
from pytest_vla.fuzz.task_search import Try
from pytest_vla.language.backends import Backend
from pytest_vla.metrics.pride import paraphrase_distance
from pytest_vla.plan.case import OURS
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import INSTRUCTION
from pytest_vla.vary.axes.language import (
    WORD_LEVELS,
    names_in,
    other_instructions,
    params_of_paraphrase,
    params_of_words,
    paraphrase_cells,
)
from pytest_vla.vary.chosen import Change, change_of

# All that a task can be asked by in other words: what `language.paraphrase` and `language.words` can draw, whole.
#
# What keeps the meaning: a paraphrase is read back by the grammar, and has to have one meaning, the instruction's;
# words of WordNet are those that were screened by hand, and where the grammar knows the text that they make, it has
# to mean the same too. Neither calls a thing by a name that another thing of the scene could have, nor is what
# another task of the suite is asked by.


@dataclass(frozen=True)
class Rewording:
    """A task's instruction in other words.

    Attributes:
        change: of the kind that can draw it.
        sorts: its sort by axis: ``words`` for the number of changed words; or ``object`` and ``action``, LIBERO-Para's
            types.
    """

    change: Change
    sorts: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The reworded instruction."""
        return str(self.change.params[INSTRUCTION])


def rewordings(task: Task) -> tuple[Rewording, ...]:
    """Return all rewordings of a task, each text once: paraphrases first, by cell, then words, by number.

    Raises:
        VlaError: there is none, since the grammar cannot read the instruction and WordNet has no synonym for its words.
    """
    why = ""
    found: dict[str, Rewording] = {}
    known = {text.lower() for text in (task.language, *other_instructions(task))}
    try:
        paraphrased = tuple(_paraphrases(task))
    except VlaError as error:
        why, paraphrased = str(error), ()
    for each in (*paraphrased, *_words(task)):
        if each.text.lower() not in known:
            found.setdefault(each.text.lower(), each)
    if not found:
        raise VlaError(f"{task.id} cannot be reworded: WordNet has no synonym for {task.language!r}, and {why}")
    return tuple(found.values())


def _paraphrases(task: Task) -> Iterator[Rewording]:
    from pytest_vla.language.generator import every_variant

    others, scene = other_instructions(task), names_in(task)
    for types in paraphrase_cells():
        for each in every_variant(task.language, others, *types, scene):
            change = change_of("language.paraphrase", params_of_paraphrase(task, *types, each.text))
            yield Rewording(change, (("object", types[0]), ("action", types[1])))


def _words(task: Task) -> Iterator[Rewording]:
    from pytest_vla.language.grammar import meanings
    from pytest_vla.language.substitution import Screened, every_substitution
    from pytest_vla.language.wordnet import best_wordnet

    screen, own = Screened(names_in(task)), meanings(task.language)
    for level in WORD_LEVELS:
        for each in every_substitution(task.language, level, best_wordnet(), screen):
            # The grammar does not know all words; what it reads at all it reads right.
            if (meant := meanings(each.text)) and own and meant != own:
                continue
            yield Rewording(change_of("language.words", params_of_words(each, OURS)), (("words", str(level)),))


Way = Literal["evenly", "suspected", "nearest"]
"""Why a rewording was tried."""

_DIGITS = 6
"""Distances that are equal to so many places are equal."""


@dataclass(frozen=True)
class Ranked:
    """A rewording with its distance from the task's own instruction.

    Attributes:
        rewording: of the instruction.
        distance: PRIDE's.
        changed: removed words, with ``-`` before, and new ones, with ``+``; each as often as it was removed or added.
    """

    rewording: Rewording
    distance: float
    changed: tuple[str, ...]

    @property
    def rank(self) -> tuple[float, int]:
        """The sort key, less is nearer: by distance, then by the number of changed words."""
        return round(self.distance, _DIGITS), len(self.changed)


@dataclass(frozen=True)
class TriedRewording:
    """A rewording that was tried: its place among the `Ranked`, why it was tried, and its outcome."""

    place: int
    way: Way
    outcome: Outcome
    why: str


@dataclass(frozen=True)
class Break:
    """A rewording under which the policy fails.

    Attributes:
        place: among the `Ranked`.
        candidate: as it was tried.
        failed: number of run seeds under which it fails, including the search's own.
        tried: number of run seeds.
        failed_elsewhere: number of further case seeds under which it fails.
        tried_elsewhere: number of further case seeds whose benign twins succeed.
    """

    place: int
    candidate: Candidate
    failed: int
    tried: int
    failed_elsewhere: int = 0
    tried_elsewhere: int = 0

    @property
    def is_flaky(self) -> bool:
        """Whether it fails under some run seeds only, so that it is reported with its rate and not as found."""
        return self.failed < self.tried


@dataclass
class Reworded:
    """The state of a task's search.

    Attributes:
        ranked: all rewordings, nearest first.
        seed: the case's, under which all were tried, or None if no benign twin succeeds.
        left_out: seeds whose benign twin the policy does not solve, each with the reason.
        tried: in the order in which they were.
        closest: the nearest that fails under all run seeds.
        flaky: those that fail under some run seeds only.
    """

    ranked: tuple[Ranked, ...]
    seed: int | None = None
    left_out: tuple[tuple[int, str], ...] = ()
    tried: list[TriedRewording] = field(default_factory=list)
    closest: Break | None = None
    flaky: tuple[Break, ...] = ()

    @property
    def nearer(self) -> int:
        """The number of rewordings that are nearer than the closest that breaks the task; all if none does."""
        if self.closest is None:
            return len(self.ranked)
        return bisect_left(self.ranked, self.ranked[self.closest.place].rank, key=lambda each: each.rank)

    @property
    def untried(self) -> tuple[int, ...]:
        """The places of nearer rewordings that were not tried, or were inconclusive."""
        known = {each.place for each in self.tried if each.outcome != "aside"}
        return tuple(place for place in range(self.nearer) if place not in known)

    @property
    def cleared(self) -> float | None:
        """The distance below which all were tried and none breaks the task always, or None if all were tried."""
        return self.ranked[self.untried[0]].distance if self.untried else None


def ranked(task: Task, some: Sequence[Rewording], backend: Backend) -> tuple[Ranked, ...]:
    """Sort rewordings by their `Ranked.rank`, nearest first.

    Raises:
        VlaError: the backend cannot compare them.
    """
    similar = backend.compare([(task.language, each.text) for each in some])
    found = [
        Ranked(each, paraphrase_distance(one.keyword, one.structural), changed_words(task.language, each.text))
        for each, one in zip(some, similar, strict=True)
    ]
    return tuple(sorted(found, key=lambda each: (each.rank, each.rewording.text.lower())))


def changed_words(original: str, text: str) -> tuple[str, ...]:
    """Return removed words, ``-bowl``, in their order, then new ones, ``+dish``."""
    before, now = (re.findall(r"[\w'-]+", each.lower()) for each in (original, text))
    gone, new = Counter(before) - Counter(now), Counter(now) - Counter(before)
    return (*_signed("-", before, gone), *_signed("+", now, new))


def find_closest(
    task: Task,
    seeds: Sequence[int],
    near_to_far: Sequence[Ranked],
    attempt: Try,
    tries: int,
    generator: Random,
    told: Callable[[Reworded], None] = lambda seen: None,
    run_seeds: Sequence[int] = further_seeds(0),
) -> Reworded:
    """Search one task for the closest rewording that breaks it.

    All are tried under one seed, the first whose benign twin succeeds under all run seeds.

    Args:
        task: as it is.
        seeds: of its cases.
        near_to_far: its rewordings, as `ranked` orders them.
        attempt: tries a candidate.
        tries: number of rewordings to try; repeated trials of failures are not included.
        generator: the same state gives the same draws.
        told: called after each try.
        run_seeds: further ones, under which failures are tried again.
    """
    search = _Search(task, Reworded(tuple(near_to_far)), attempt, told, run_seeds)
    others = search.begin(tuple(dict.fromkeys(seeds)))
    seen = search.seen
    if seen.seed is None:
        return seen
    for place in drawn_evenly(near_to_far, tries // 2, generator):
        search.try_at(place, "evenly")
    for _ in range(tries // 4):
        suspected = search.suspected()
        if suspected is None:
            break
        search.try_at(suspected, "suspected")
    while len(seen.tried) < tries and (nearest := search.nearest()) is not None:
        search.try_at(nearest, "nearest")
    search.try_elsewhere(others)
    return seen


def drawn_evenly(some: Sequence[Ranked], number: int, generator: Random) -> tuple[int, ...]:
    """Return the places of drawn rewordings, each once: first a sort is drawn, all equally likely, then one of it."""
    by_sort: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for place, each in enumerate(some):
        by_sort.setdefault(each.rewording.sorts, []).append(place)
    # The order of ranks depends on the backend: what is drawn does not.
    sorts = {sort: sorted(by_sort[sort], key=lambda at: some[at].rewording.text) for sort in sorted(by_sort)}
    found: list[int] = []
    while sorts and len(found) < number:
        sort = generator.choice(tuple(sorts))
        found.append(sorts[sort].pop(generator.randrange(len(sorts[sort]))))
        if not sorts[sort]:
            del sorts[sort]
    return tuple(found)


def rates_by_sort(some: Iterable[Reworded]) -> dict[tuple[str, str], tuple[int, int]]:
    """Count failures and trials of the evenly drawn rewordings, by their sort.

    Those of all are under ``("", "")``. One that changes objects and action is in two rows.
    """
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for seen in some:
        for each in seen.tried:
            if each.way == "evenly" and each.outcome != "aside":
                for sort in (("", ""), *seen.ranked[each.place].rewording.sorts):
                    failed, number = found.get(sort, (0, 0))
                    found[sort] = failed + (each.outcome == "fails"), number + 1
    return {sort: found[sort] for sort in sorted(found)}


@dataclass
class _Search:
    task: Task
    seen: Reworded
    attempt: Try
    told: Callable[[Reworded], None]
    run_seeds: Sequence[int]

    def begin(self, seeds: Sequence[int]) -> tuple[int, ...]:
        """Find the seed to search under, and return those after it."""
        for at, seed in enumerate(seeds):
            if self._does(seed, self.run_seeds):
                self.seen.seed = seed
                return tuple(seeds[at + 1 :])
        return ()

    def candidate(self, place: int, seed: int | None = None) -> Candidate:
        at = self.seen.seed if seed is None else seed
        assert at is not None, "nothing is tried before a twin succeeds"
        return Candidate(self.task, at, (self.seen.ranked[place].rewording.change,))

    def try_at(self, place: int, way: Way) -> None:
        """Try a rewording; one that is nearer than the closest and fails is tried under all run seeds."""
        candidate = self.candidate(place)
        trial = self.attempt(candidate)
        self.seen.tried.append(TriedRewording(place, way, trial.outcome, trial.why))
        if trial.outcome == "fails" and place < self.seen.nearer:
            again = [self.attempt(candidate, run_seed=seed) for seed in self.run_seeds]
            found = Break(place, candidate, 1 + sum(each.outcome == "fails" for each in again), 1 + len(again))
            if found.is_flaky:
                self.seen.flaky += (found,)
            else:
                self.seen.closest = found
        self.told(self.seen)

    def suspected(self) -> int | None:
        """Return the nearest untried rewording with a changed word that the closest has and no passing one."""
        if self.seen.closest is None:
            return None
        ranks = self.seen.ranked
        passed = {word for each in self.seen.tried if each.outcome == "passes" for word in ranks[each.place].changed}
        suspects = set(ranks[self.seen.closest.place].changed) - passed
        done = {each.place for each in self.seen.tried}
        return next(
            (at for at in range(self.seen.nearer) if at not in done and suspects & set(ranks[at].changed)), None
        )

    def nearest(self) -> int | None:
        """Return the nearest untried rewording, or None if none nearer than the closest is left."""
        done = {each.place for each in self.seen.tried}
        return next((at for at in range(self.seen.nearer) if at not in done), None)

    def try_elsewhere(self, seeds: Sequence[int]) -> None:
        """Try the closest under further seeds of the case."""
        found = self.seen.closest
        if found is None:
            return
        usable = [seed for seed in seeds if self._does(seed, ())]
        outcomes = [self.attempt(self.candidate(found.place, seed)).outcome for seed in usable]
        known = [outcome for outcome in outcomes if outcome != "aside"]
        self.seen.closest = replace(found, failed_elsewhere=known.count("fails"), tried_elsewhere=len(known))
        self.told(self.seen)

    def _does(self, seed: int, further: Sequence[int]) -> bool:
        """Whether the policy solves the unchanged task, under further run seeds too; if not the seed is left out."""
        twin = Candidate(self.task, seed)
        if (trial := self.attempt(twin)).outcome != "passes":
            self.seen.left_out += ((seed, trial.why),)
            return False
        for run_seed in further:
            if (trial := self.attempt(twin, run_seed=run_seed)).outcome != "passes":
                self.seen.left_out += ((seed, f"under run seed {run_seed} {trial.why}"),)
                return False
        return True


def _signed(sign: str, words: Sequence[str], some: "Counter[str]") -> list[str]:
    left = Counter(some)
    found = []
    for word in words:
        if left[word]:
            left[word] -= 1
            found.append(f"{sign}{word}")
    return found

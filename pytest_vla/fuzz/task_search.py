"""The search of one task, one job at a time: benign twins, scenes, and failures to be shrunk.

It does no job itself and keeps no time: the same jobs with the same results, in the same order, make the same search,
also if it is resumed from a file.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import log
from time import perf_counter
from typing import Literal, Protocol

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import has_more, is_one_failure, space_of
from pytest_vla.fuzz.found import RUN_SEEDS_OF_DRAWS, Found, Searched, further_seeds
from pytest_vla.fuzz.sampler import EVEN, SOURCES, Proposal, Sampler, TriedProposal
from pytest_vla.fuzz.shrink import MOST_EPISODES, Outcome, Shrunk, shrink
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.task import Task
from pytest_vla.vary.kind import VariationKind

What = Literal["twin", "scene", "failure"]

# Scenes that are tried at once: no search has more workers.
_MOST_AT_ONCE = 1024


class Try(Protocol):
    """Tries a candidate, under a run seed."""

    def __call__(self, candidate: Candidate, run_seed: int | None = None) -> Trial: ...


@dataclass(frozen=True)
class Job:
    """A job for the search of a task.

    Attributes:
        what: try a benign twin or a scene, or shrink a failure.
        proposal: of it; for a benign twin one without changes, numbered by its place among the seeds.
        base: for a failure, `Searched.base`: how often the policy fails without any change.
        twin: for a failure, the number of run seeds under which its own twin fails, and of those tried.
        draws: for a failure, whether the policy draws.
    """

    what: What
    proposal: Proposal
    base: tuple[int, int] = (0, 0)
    twin: tuple[int, int] = (0, 0)
    draws: bool = False


Result = Trial | TriedProposal | Found
"""Of a twin, of a scene, of a failure."""


@dataclass(frozen=True)
class SearchRules:
    """The rules of a search.

    Attributes:
        number: of scenes, or None to continue until it is stopped.
        guided: whether scenes are also proposed by the results of others, beside those that are drawn evenly.
        all_first: whether all scenes are tried before a failure is shrunk.
        patience: number of scenes without a new failure that ends the search, or None for no such limit.
        most: episodes of the policy that shrinking a failure may take.
        run_seeds: further ones, under which each smallest is tried again.
    """

    number: int | None
    guided: bool = True
    all_first: bool = False
    patience: int | None = None
    most: int = MOST_EPISODES
    run_seeds: tuple[int, ...] = ()


class TaskSearch:
    """The search of one task.

    Attributes:
        task: as it is.
        rules: of the search.
        tried: number of scenes with a result.
        failed: of those, how many fail.
    """

    def __init__(
        self, task: Task, seeds: Sequence[int], kinds: Sequence[VariationKind], key: str, rules: SearchRules
    ) -> None:
        """Begin the search of a task.

        Args:
            task: as it is.
            seeds: of its cases, taken in turn; those whose benign twin does not succeed are left out.
            kinds: to draw from.
            key: of all that is drawn.
            rules: of the search.
        """
        self.task, self.rules = task, rules
        self._kinds, self._key = kinds, key
        self._seeds = tuple(dict.fromkeys(seeds))
        self._twins_left = deque(enumerate(self._seeds))
        self._twins: dict[int, Trial] = {}
        self._twins_wanted = len(self._twins_left)
        self._guide: Sampler | None = None
        self._asked = 0
        # Numbers of scenes that are being tried; of those that a search before this one did not get to.
        self._out: set[int] = set()
        self._missed: deque[int] = deque()
        self._even: dict[int, tuple[str, str]] = {}
        self._guided: Counter[str] = Counter()
        self._queue: deque[Proposal] = deque()
        self._is_shrinking = False
        self._certain: list[Found] = []
        self._flaky: list[Found] = []
        self._again = 0
        self.tried = self.failed = self._last_news = 0

    def next(self) -> Job | None:
        """Return the next job, or None if there is none now, or none any more (`is_done`).

        Raises:
            VlaError: the task has no scene to propose.
        """
        if self._twins_left:
            place, seed = self._twins_left.popleft()
            return Job("twin", Proposal(place, EVEN, Candidate(self.task, seed)))
        if self._guide is None:
            return None
        if not self._is_shrinking and not (self.rules.all_first and (self._wants_scene() or self._out)):
            while self._queue:
                failing = self._queue.popleft()
                if any(has_more(failing.candidate, each.shrunk.candidate) for each in self._certain):
                    self._again += 1
                else:
                    self._is_shrinking = True
                    failed, told = self._twins[failing.candidate.seed].again
                    # Under the search's own run seed it succeeds.
                    return Job("failure", failing, self.base, (failed, told + 1) if told else (0, 0), self.draws)
        if not self._wants_scene():
            return None
        if self._missed:
            number = self._missed.popleft()
        else:
            number, self._asked = self._asked, self._asked + 1
        proposal = self._guide.propose(number)
        self._out.add(number)
        return Job("scene", proposal)

    def add_result(self, job: Job, result: Result) -> None:
        """Add the result of a job that `next` gave."""
        if isinstance(result, Found):
            self._is_shrinking = False
            self._add_found(result)
        elif isinstance(result, TriedProposal):
            self._add_tried(result)
        else:
            self._add_twin(job.proposal.candidate.seed, result)

    def give_back(self, job: Job) -> None:
        """Queue a job again that was not done."""
        if job.what == "twin":
            self._twins_left.append((job.proposal.number, job.proposal.candidate.seed))
        elif job.what == "failure":
            self._is_shrinking = False
            self._queue.appendleft(job.proposal)
        else:
            self._out.discard(job.proposal.number)
            self._missed.append(job.proposal.number)

    def go_on(self, jobs: Iterable[tuple[Job, Result]]) -> None:
        """Resume a search from the results of its jobs, in their order."""
        for job, result in jobs:
            self.take_up(job, result)
        self.begin_again()

    def take_up(self, job: Job, result: Result) -> None:
        """Replay one finished job of a resumed search; call `begin_again` after the last.

        Raises:
            ValueError: no search does this job after those before it.
        """
        proposal = job.proposal
        number, seed = proposal.number, proposal.candidate.seed
        if job.what == "twin":
            if (number, seed) not in self._twins_left:
                raise ValueError(f"the benign twin {number}, of seed {seed}, is not expected here")
            self._twins_left.remove((number, seed))
        elif job.what == "failure":
            if proposal not in self._queue:
                raise ValueError(f"the failure {number} is not expected here: no such scene failed before it")
            self._queue.remove(proposal)
        else:
            self._check_scene(proposal)
            # Asked for, and answered now.
            self._out.update(range(self._asked, number + 1))
            self._asked = max(self._asked, number + 1)
        self.add_result(job, result)

    def _check_scene(self, proposal: Proposal) -> None:
        """Raise ValueError if no search tries this scene next."""
        number, candidate = proposal.number, proposal.candidate
        if self._guide is None or candidate.seed not in self._guide.twins:
            raise ValueError(f"the scene {number} comes before a benign twin of seed {candidate.seed} succeeded")
        if number not in self._out and not self._asked <= number <= self._asked + _MOST_AT_ONCE:
            raise ValueError(f"the scene {number} is not expected here: {self._asked} were asked for")
        drawn = {kind.name for kind in self._kinds}
        if proposal.source != self._guide.source_of(number) or not {c.kind for c in candidate.changes} <= drawn:
            raise ValueError(
                f"the scene {number} has another source than in this search, or kinds that it does not draw"
            )

    def begin_again(self) -> None:
        """Queue the jobs again that were in progress when the search ended."""
        self._missed, self._out = deque(sorted(self._out)), set()

    @property
    def is_done(self) -> bool:
        """Whether no further job will come."""
        if self._twins_left or len(self._twins) < self._twins_wanted:
            return False
        return self._guide is None or not (self._wants_scene() or self._out or self._queue or self._is_shrinking)

    @property
    def seen(self) -> Searched:
        """The state of the search so far."""
        # What takes long fails more often: beyond the first even scene that has no answer yet, none counts.
        end = min((number for number in [*self._out, *self._missed] if number in self._evens()), default=self._asked)
        outcomes = [outcome for number, outcome in self._even.items() if number < end]
        kinds = Counter(outcome for outcome, _ in outcomes)
        left_out = tuple((seed, trial.why) for seed, trial in self._twins.items() if trial.outcome != "passes")
        return Searched(
            proposed=len(outcomes),
            failed=kinds["fails"],
            passed=kinds["passes"],
            aside=dict(Counter(why for outcome, why in outcomes if outcome == "aside")),
            guided=sum(self._guided.values()),
            guided_failed=self._guided["fails"],
            guided_passed=self._guided["passes"],
            again=self._again,
            pending=self.pending,
            found=self.found,
            left_out=left_out,
            base=self.base,
            draws=self.draws,
        )

    @property
    def base(self) -> tuple[int, int]:
        """See `Searched.base`."""
        usable = [trial.again for trial in self._twins.values() if trial.outcome == "passes"]
        return sum(failed for failed, _ in usable), sum(told for _, told in usable)

    @property
    def draws(self) -> bool:
        """Whether the policy behaved differently under another run seed."""
        return any(trial.draws for trial in self._twins.values())

    @property
    def found(self) -> tuple[Found, ...]:
        """The distinct failures, those that fail under all run seeds first."""
        return (*self._certain, *self._flaky)

    @property
    def pending(self) -> int:
        """The number of failures that were not shrunk yet."""
        return len(self._queue) + self._is_shrinking

    def _evens(self) -> range:
        return range(0, self._asked, len(SOURCES) if self.rules.guided else 1)

    def _wants_scene(self) -> bool:
        number, patience = self.rules.number, self.rules.patience
        if patience is not None and self.tried - self._last_news >= patience:
            return False
        return number is None or bool(self._missed) or self._asked < number

    def _add_twin(self, seed: int, trial: Trial) -> None:
        self._twins[seed] = trial
        usable = {seed: trial.signals for seed, trial in sorted(self._twins.items()) if trial.outcome == "passes"}
        if len(self._twins) == self._twins_wanted and usable:
            self._guide = Sampler(self.task, self._kinds, self._key, usable, self.rules.guided, seeds=self._seeds)

    def _add_tried(self, tried: TriedProposal) -> None:
        assert self._guide is not None, "scenes come after all twins"
        proposal = tried.proposal
        self._out.discard(proposal.number)
        self.tried += 1
        if proposal.source == EVEN:
            self._even[proposal.number] = (tried.outcome, tried.why)
        else:
            self._guided[tried.outcome] += 1
        self._guide.add_trial(tried)
        if tried.outcome == "fails":
            self.failed += 1
            self._queue.append(proposal)

    def _add_found(self, found: Found) -> None:
        """Add a failure unless its cause is known; a flaky one hides none that fails under all run seeds."""
        assert self._guide is not None, "failures come after all twins"
        some = self._flaky if found.is_flaky else self._certain
        if not found.is_flaky:
            self._guide.learn(found.shrunk.candidate)
        if any(is_one_failure(each.shrunk.candidate, found.shrunk.candidate) for each in some):
            self._again += 1
        else:
            some.append(found)
            self._last_news = self.tried


def perform(job: Job, attempt: Try, rules: SearchRules, rival: Try | None = None) -> Result:
    """Do a job.

    Args:
        job: of `TaskSearch.next`.
        attempt: tries a candidate with the policy that is searched.
        rules: of the search.
        rival: tries a candidate with the policy to compare with, or None.
    """
    proposal, began = job.proposal, perf_counter()
    if job.what == "failure":
        return smallest(job, attempt, rules, rival)
    trial = attempt(proposal.candidate)
    if job.what == "twin":
        return _twin(proposal.candidate, trial, attempt, rules)
    literals = () if trial.record is None else tuple(trial.record.held.items())
    seconds = round(perf_counter() - began, 3)
    return TriedProposal(proposal, trial.outcome, trial.why, literals, trial.signals, seconds)


def _twin(twin: Candidate, first: Trial, attempt: Try, rules: SearchRules) -> Trial:
    """Try a benign twin under further run seeds too, to measure how often the policy fails without any change.

    A policy with the same digest under another run seed does not draw, and is not tried under further ones.
    """
    failed = told = 0
    draws = False
    if first.outcome == "passes":
        for seed in rules.run_seeds:
            again = attempt(twin, run_seed=seed)
            told += again.outcome != "aside"
            failed += again.outcome == "fails"
            if first.record is not None and again.record is not None:
                draws |= first.record.digest != again.record.digest
                if not draws:
                    break
    return replace(first, record=None, again=(failed, told), draws=draws or failed > 0)


def smallest(job: Job, attempt: Try, rules: SearchRules, rival: Try | None = None) -> Found:
    """Shrink a failure, count how often the smallest fails, and try it with the policy to compare with.

    A scene that does not fail under all run seeds is not shrunk. If the policy draws, each smaller scene is tried until
    a sequential test decides whether it fails more often than without any change (`told_apart`). If the smallest does
    not fail under all run seeds, the last one before it that does is taken.
    """
    proposal = job.proposal
    first = proposal.candidate
    seeds = _run_seeds(rules, RUN_SEEDS_OF_DRAWS if job.draws and rules.run_seeds else len(rules.run_seeds))
    failed, tried = _failed(first, attempt, seeds)
    about = Found(first, Shrunk(first, 0, complete=False), failed, tried, proposal.number, proposal.source)
    about = replace(about, twin=job.twin, draws=job.draws)
    if failed < tried:
        return _compared(about, rival)
    if job.draws:
        shrunk = shrink(first, _told_apart_by(attempt, rules, job.base), space_of, rules.most)
    else:
        shrunk = shrink(first, lambda smaller: attempt(smaller).outcome, space_of, rules.most)
    path = shrunk.path or (first,)
    holds, fails = 0, len(path) - 1

    def holds_at(candidate: Candidate) -> bool:
        # What was tried to make it smaller is no evidence any more: it was chosen by that.
        again = tuple(seed + _FRESH for seed in seeds) if job.draws else seeds
        failed, tried = _failed(candidate, attempt, again)
        return failed == tried

    if fails and not holds_at(path[-1]):
        # The first of them fails under all.
        while fails - holds > 1:
            middle = (holds + fails) // 2
            holds, fails = (middle, fails) if holds_at(path[middle]) else (holds, middle)
        shrunk = Shrunk(path[holds], shrunk.tried, complete=False)
    return _compared(replace(about, shrunk=replace(shrunk, path=())), rival)


_FRESH = 1000
"""Beyond all run seeds that a scene is tried under before."""


def _run_seeds(rules: SearchRules, number: int) -> tuple[int, ...]:
    """Return `number` further run seeds: the rules', and the next ones after them."""
    known = rules.run_seeds
    after = range(max(known, default=0) + 1, max(known, default=0) + 1 + max(number - len(known), 0))
    return (*known[:number], *after)


def _failed(candidate: Candidate, attempt: Try, seeds: Sequence[int]) -> tuple[int, int]:
    """Return the number of run seeds under which a failing scene fails, and of those tried, with the search's own."""
    return 1 + sum(attempt(candidate, run_seed=seed).outcome == "fails" for seed in seeds), 1 + len(seeds)


def _told_apart_by(attempt: Try, rules: SearchRules, base: tuple[int, int]) -> Callable[[Candidate], Outcome]:
    """Return a test for smaller scenes of a policy that draws; all trials together are limited by the rules."""
    spent = 0

    def told(smaller: Candidate) -> Outcome:
        nonlocal spent
        outcomes: list[bool] = []
        for seed in (None, *_run_seeds(rules, MOST_TRIES - 1)):
            if spent >= EPISODES_OF_DRAWS * rules.most:
                return "aside"
            spent += 1
            outcome = attempt(smaller, run_seed=seed).outcome
            if outcome == "aside":
                return "aside"
            outcomes.append(outcome == "fails")
            if verdict := told_apart(outcomes, base):
                return verdict
        return "aside"

    return told


MOST_TRIES = 20
"""Of a scene that is made smaller, of a policy that draws; what is not told by then is not told."""

EPISODES_OF_DRAWS = 4
"""By how much more episodes a failure of a policy that draws may take."""

ERROR = 0.05
"""Of `told_apart`, each way."""


def told_apart(outcomes: Sequence[bool], base: tuple[int, int]) -> Outcome | None:
    """Decide whether a scene fails more often than without any change, by Wald's sequential probability ratio test.

    Source: Wald, Annals of Mathematical Statistics 16(2), 1945. The alternative to the rate without any change is half
    way from there to 1, and at least a half.

    Args:
        outcomes: whether it fails, for one run seed after the other.
        base: failures without any change, and trials; one of each is added, since few trials are a poor estimate.

    Returns:
        ``fails`` or ``passes``, or None if that is not decided yet.
    """
    failed, tried = base
    rate = (failed + 1) / (tried + 2)
    other = max(0.5, (1 + rate) / 2)
    ratio = sum(log(other / rate) if fails else log((1 - other) / (1 - rate)) for fails in outcomes)
    bound = log((1 - ERROR) / ERROR)
    return "fails" if ratio >= bound else "passes" if ratio <= -bound else None


def _compared(found: Found, rival: Try | None) -> Found:
    if rival is None:
        return found
    # Who does not do the task without any change tells nothing of the change.
    twin = rival(Candidate(found.first.task, found.first.seed))
    return replace(found, rival="aside" if twin.outcome != "passes" else rival(found.shrunk.candidate).outcome)


# The search of one task in this process: scenes, of each failure the smallest, how often it fails, and the rate.


def search(
    task: Task,
    seeds: Sequence[int],
    some: Sequence[VariationKind],
    attempt: Try,
    number: int,
    key: str,
    told: Callable[[Searched], None] = lambda seen: None,
    most: int = MOST_EPISODES,
    run_seeds: Sequence[int] = further_seeds(0),
    guided: bool = False,
) -> Searched:
    """Search one task in this process.

    Args:
        task: as it is.
        seeds: of its cases, taken in turn; those whose benign twin does not succeed are left out.
        some: kinds to draw from.
        attempt: tries a candidate.
        number: of proposed scenes.
        key: of all draws: equal keys give equal proposals.
        told: called after each trial, and after each failure that was shrunk.
        most: episodes of the policy that shrinking a failure may take.
        run_seeds: further ones, under which each smallest is tried again.
        guided: whether three of four scenes are proposed by the results of others.

    Raises:
        VlaError: the task has no scene to propose.
    """
    # All scenes first: making a failure smaller takes long.
    rules = SearchRules(number, guided, all_first=not guided, most=most, run_seeds=tuple(run_seeds))
    hunt = TaskSearch(task, seeds, some, key, rules)
    while (job := hunt.next()) is not None:
        hunt.add_result(job, perform(job, attempt, rules))
        told(hunt.seen)
    return hunt.seen

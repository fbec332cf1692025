"""Searches of a policy that is a function of what is changed, with their files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vla.fuzz.campaign import Campaign, drive
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import further_seeds
from pytest_vla.fuzz.journal import Journal
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.task_search import Job, Result, SearchRules, TaskSearch, perform
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.task import Task
from pytest_vla.reports.fuzz import FoundSearch, search_of

Params = Mapping[str, Mapping[str, Any]]

OPTIONS = {"vla_model": "a.policy:policy", "vla_suite": ["tabletop"], "output": "fuzz_cases.toml", "scenes": 80}


class _Hand:
    """Does jobs at once; each trial is an episode."""

    busy = 0
    free = 1

    def __init__(self, attempt: Callable[..., Trial], rules: SearchRules, rival: Callable[..., Trial] | None) -> None:
        self.episodes = 0
        self._attempt, self._rules, self._rival = attempt, rules, rival
        self._done: tuple[str, Job, Result] | None = None

    def give(self, task: str, job: Job) -> None:
        def counting(candidate: Candidate, run_seed: int | None = None) -> Trial:
            self.episodes += 1
            return self._attempt(candidate, run_seed)

        self._done = task, job, perform(job, counting, self._rules, self._rival)
        self.busy, self.free = 1, 0

    def wait(self) -> tuple[str, Job, Result | None]:
        assert self._done is not None
        self.busy, self.free = 0, 1
        return self._done


def searched(
    folder: Path,
    tasks: Sequence[Task],
    fails: Callable[[Params], bool],
    number: int = 80,
    dimensions: Sequence[str] = (),
    guided: bool = True,
    aside: Callable[[Params], str] = lambda params: "",
    flaky: Callable[[Params], bool] = lambda params: False,
    options: Mapping[str, Any] = OPTIONS,
    rival: Callable[[Params], bool] | None = None,
) -> FoundSearch:
    """A search that was done, with its file in a folder.

    Args:
        folder: in which it lies.
        tasks: that are searched.
        fails: whether the policy fails what is changed so.
        number: of scenes, of each task.
        dimensions: only these.
        guided: whether three of four scenes are guided.
        aside: why nothing is learned of what is changed so; empty: something is.
        flaky: whether it passes under other run seeds.
        options: that it was begun with.
        rival: whether the policy that is compared fails; None: none is.
    """

    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        params = {change.kind: change.params for change in candidate.changes}
        if why := aside(params):
            return Trial("aside", why)
        if fails(params) and not (run_seed and flaky(params)):
            return Trial("fails", "the expert does it, the policy does not")
        return Trial("passes", "the policy does it", signals={"steps": 0.5})

    def compared(candidate: Candidate, run_seed: int | None = None) -> Trial:
        assert rival is not None
        is_failure = rival({change.kind: change.params for change in candidate.changes})
        return Trial("fails" if is_failure else "passes", "")

    rules = SearchRules(number, guided, run_seeds=further_seeds(0))
    campaign = Campaign(
        [TaskSearch(task, (0,), fuzzed_kinds(task, dimensions), f"0/{task.id}", rules) for task in tasks]
    )
    hand = _Hand(attempt, rules, None if rival is None else compared)
    file = folder / "fuzz" / "20261125-203015-0a1b" / "search.jsonl"
    head = {
        "options": {**options, "even": not guided, "dimensions": list(dimensions)},
        "policy_digest": "0123456789abcdef",
        "versions": {"mujoco": "3.3.7"},
    }
    journal = Journal(file, head)
    drive(campaign, hand, journal.add)
    journal.close()
    return search_of(file, campaign.seen, tasks, hand.episodes, campaign.is_done)

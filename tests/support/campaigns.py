"""A campaign of two tasks whose policy fails where actions are delayed, and workers for it."""

from random import Random

from pytest_vla.fuzz.campaign import Campaign
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.task_search import Job, Result, SearchRules, TaskSearch, perform
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.manifests import load_suite

SUITE = load_suite("tabletop")
TASKS = [SUITE.task("put_the_bowl_on_the_stove"), SUITE.task("turn_on_the_stove")]


def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
    is_delayed = any(change.params.get("steps", 0) > 0 for change in candidate.changes)
    return Trial("fails" if is_delayed else "passes", "")


class ManyHands:
    """So many jobs at once, which end in any order; now and then one is dropped when it is first given."""

    def __init__(self, number: int, drops: bool = False) -> None:
        self.number, self.drops, self.episodes = number, drops, 0
        self.out: list[tuple[str, Job]] = []
        self.given: list[tuple[str, str, int]] = []
        self.most = 0
        self.generator = Random(0)

    @property
    def free(self) -> int:
        return self.number - len(self.out)

    @property
    def busy(self) -> int:
        return len(self.out)

    def give(self, task: str, job: Job) -> None:
        self.out.append((task, job))
        self.given.append((task, job.what, job.proposal.number))
        self.most = max(self.most, len(self.out))

    def wait(self) -> tuple[str, Job, Result | None]:
        task, job = self.out.pop(self.generator.randrange(len(self.out)))
        self.episodes += 1
        first = self.given.count((task, job.what, job.proposal.number)) == 1
        if self.drops and first and len(self.given) % 3 == 0:
            return task, job, None
        return task, job, perform(job, attempt, SearchRules(None))


def campaign(number: int | None = 12) -> Campaign:
    kinds = ("camera.azimuth", "light.direction", "action.delay")
    return Campaign(
        [
            TaskSearch(
                task,
                (0,),
                [kind for kind in fuzzed_kinds(task) if kind.name in kinds],
                f"0/{task.id}",
                SearchRules(number),
            )
            for task in TASKS
        ]
    )

"""A campaign: the searches of several tasks, in turn, done by whoever is free; kept line by line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from pytest_vla.fuzz.found import Searched
from pytest_vla.fuzz.hunt import Hunt, Job, Result
from pytest_vla.fuzz.journal import Line


class Hands(Protocol):
    """Who does jobs."""

    @property
    def free(self) -> int:
        """How many further jobs can be taken now."""

    @property
    def busy(self) -> int:
        """How many jobs are being done."""

    @property
    def episodes(self) -> int:
        """How many episodes were run, in all."""

    def give(self, task: str, job: Job) -> None:
        """Take a job of a task."""

    def wait(self) -> tuple[str, Job, Result | None]:
        """The next job that ended, with its task and what came of it; None: nobody did it, it is to come again."""


class Campaign:
    """The searches of several tasks."""

    def __init__(self, hunts: Sequence[Hunt]) -> None:
        """
        Args:
            hunts: one a task.
        """
        self.hunts: Mapping[str, Hunt] = {hunt.task.id: hunt for hunt in hunts}
        self._turn = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing will come any more."""
        return all(hunt.is_done for hunt in self.hunts.values())

    @property
    def seen(self) -> dict[str, Searched]:
        """What was seen of each task."""
        return {name: hunt.seen for name, hunt in self.hunts.items()}

    def go_on(self, lines: Iterable[Line]) -> int:
        """Take up a campaign from its lines; gives the episodes that it had run."""
        episodes = 0
        for line in lines:
            self.hunts[line.task].take_up(line.job, line.result)
            episodes = line.episodes
        for hunt in self.hunts.values():
            hunt.begin_again()
        return episodes

    def next(self) -> tuple[str, Job] | None:
        """What is to be done next, of the tasks in turn; None: nothing now. Raises VlaError: a task has no scene."""
        names = list(self.hunts)
        for step in range(len(names)):
            name = names[(self._turn + step) % len(names)]
            job = self.hunts[name].next()
            if job is not None:
                self._turn = (self._turn + step + 1) % len(names)
                return name, job
        return None


def drive(
    campaign: Campaign,
    hands: Hands,
    add_line: Callable[[Line], None],
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Do a campaign until nothing will come any more, or its time is over: then what is being done is finished.

    Args:
        campaign: whose jobs are done.
        hands: who does them.
        add_line: called with the result of each job, in order.
        is_over: whether no further job is to be begun.

    Raises:
        VlaError: a task has no scene to propose, or nobody can do jobs any more.
    """
    while True:
        while hands.free and not is_over():
            found = campaign.next()
            if found is None:
                break
            hands.give(*found)
        if not hands.busy:
            return
        name, job, result = hands.wait()
        if result is None:
            campaign.hunts[name].give_back(job)
            continue
        campaign.hunts[name].add_result(job, result)
        add_line(Line(name, job, result, hands.episodes))

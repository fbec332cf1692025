"""The search of one task in this process: scenes, of each failure the smallest, how often it fails, and the rate."""

from collections.abc import Callable, Sequence

from pytest_vla.fuzz.found import Searched, further_seeds
from pytest_vla.fuzz.hunt import Hunt, Rules, Try, perform
from pytest_vla.fuzz.shrink import MOST_EPISODES
from pytest_vla.plan.task import Task
from pytest_vla.vary.kind import Kind


def search(
    task: Task,
    seeds: Sequence[int],
    some: Sequence[Kind],
    attempt: Try,
    number: int,
    key: str,
    told: Callable[[Searched], None] = lambda seen: None,
    most: int = MOST_EPISODES,
    run_seeds: Sequence[int] = further_seeds(0),
    guided: bool = False,
) -> Searched:
    """Search one task.

    Args:
        task: as it is.
        seeds: of its cases, taken in turn; those whose benign twin does not succeed are left out.
        some: kinds to draw from.
        attempt: tries a candidate.
        number: how many scenes are proposed.
        key: of all that is drawn: equal keys give equal proposals.
        told: called after each trial, and after each failure that was made smaller.
        most: episodes of the policy that making a failure smaller may take.
        run_seeds: further ones, under which each smallest is tried again.
        guided: whether three of four scenes are proposed by what was seen of others.

    Raises:
        VlaError: the task has no scene to propose.
    """
    # All scenes first: making a failure smaller takes long.
    rules = Rules(number, guided, all_first=not guided, most=most, run_seeds=tuple(run_seeds))
    hunt = Hunt(task, seeds, some, key, rules)
    while (job := hunt.next()) is not None:
        hunt.add_result(job, perform(job, attempt, rules))
        told(hunt.seen)
    return hunt.seen

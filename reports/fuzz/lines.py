"""What a search has found, in words."""

from collections.abc import Iterator

from pytest_vla.fuzz.found import Searched
from pytest_vla.fuzz.told import aside_lines, failure_line, rate_text


def task_lines(name: str, seen: Searched, rival: str = "") -> Iterator[str]:
    """What was found of a task.

    Args:
        name: of the task.
        seen: of its search.
        rival: the policy that is compared; empty: none is.
    """
    if seen.proposed or seen.guided:
        yield f"{name}: {rate_text(seen)}"
    else:
        yield f"{name}: no scene was tried"
    yield from (f"  {line}" for line in aside_lines(seen))
    yield from (f"  {failure_line(each, rival)}" for each in seen.found)

"""Parameters of a test that are left to the slow part of the tests."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def slow(*values: Any, id: str | None = None) -> Any:
    """Return a parameter, one value for each argument name, that is slow."""
    return pytest.param(*values, id=id, marks=pytest.mark.slow)


def first_of_each(values: Iterable[Any], key: Callable[[Any], object]) -> list[Any]:
    """Return values as parameters, all but the first of each key slow."""
    seen: set[object] = set()
    found = []
    for value in values:
        found.append(slow(value) if key(value) in seen else value)
        seen.add(key(value))
    return found


def all_slow_but(fast: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Return values as parameters, slow unless they are among the fast ones, each of which has to be there."""
    wanted, found = set(fast), list(values)
    assert wanted <= set(found), f"no such values: {wanted - set(found)}"
    return [value if value in wanted else slow(value) for value in found]

"""The test item of every suite without a module of its own, and the item of searches."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vla.episode.result import Rollout
    from pytest_vla.run.searches import SearchResult

pytestmark = pytest.mark.vla


def test_episode(rollout: "Rollout") -> None:
    """Run the policy on the task, and check that it succeeds within the suite's step budget."""
    if not rollout.passed:
        pytest.fail(rollout.explanation, pytrace=False)


def test_fuzz(vla_search: "SearchResult") -> None:
    """Search the task's scenes, and check that no scene was found that the policy fails although it is solvable."""
    if vla_search.failures:
        pytest.fail(vla_search.explanation, pytrace=False)

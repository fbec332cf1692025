"""The item of every suite that has no module of its own: ``pytest --vla-suite=SUITE --vla-model=...``; and that of
searches, of any suite."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vla.episode.result import Rollout
    from pytest_vla.run.searches import SearchResult

pytestmark = pytest.mark.vla


def test_episode(rollout: "Rollout") -> None:
    """The policy does the task within the suite's step budget."""
    if not rollout.passed:
        pytest.fail(rollout.explanation, pytrace=False)


def test_fuzz(vla_search: "SearchResult") -> None:
    """No scene of the task was found that the policy should do and does not."""
    if vla_search.failures:
        pytest.fail(vla_search.explanation, pytrace=False)

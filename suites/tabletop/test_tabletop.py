"""Tabletop, an item an episode: ``pytest --vla-suite=tabletop --vla-model=...``."""

import pytest

from pytest_vla.episode.result import Rollout

pytestmark = pytest.mark.vla


def test_episode(rollout: Rollout) -> None:
    """Check that the policy does the task within the suite's step budget."""
    if not rollout.passed:
        pytest.fail(rollout.explanation, pytrace=False)

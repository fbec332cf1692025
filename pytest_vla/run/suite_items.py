"""The item of every suite that has no module of its own: ``pytest --vla-suite=SUITE --vla-model=...``."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vla.episode.ended import Rollout

pytestmark = pytest.mark.vla


def test_episode(rollout: "Rollout") -> None:
    """The policy does the task within the suite's step budget."""
    if not rollout.passed:
        pytest.fail(rollout.explanation, pytrace=False)

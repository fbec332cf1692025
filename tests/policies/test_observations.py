"""The observations of a batch, one by one and stacked: the same numbers, and nobody's to change but the caller's."""

from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Lent, Observations, as_observations


def some(count: int, side: int = 4) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {"agentview_image": rng.integers(0, 256, (side, side, 3), dtype=np.uint8), "state": rng.normal(size=8)}
        for _ in range(count)
    ]


def test_stacked_is_what_each_is_in_their_order() -> None:
    observations = Observations(some(3))
    assert len(observations) == 3
    for name in ("agentview_image", "state"):
        assert np.array_equal(observations.stacked(name), np.stack([each[name] for each in observations]))
        assert observations.stacked(name).flags["C_CONTIGUOUS"]
        assert np.array_equal(observations[1:].stacked(name), observations.stacked(name)[1:])
    assert as_observations(observations) is observations
    assert np.array_equal(as_observations(some(2)).stacked("state")[1], some(2)[1]["state"])


def test_what_is_stacked_already_is_not_copied() -> None:
    stack = np.zeros((2, 8))
    assert Observations(some(2), {"state": stack}).stacked("state") is stack


def test_pictures_of_two_sizes_cannot_be_stacked() -> None:
    observations = Observations([*some(1, 4), *some(1, 6)])
    with pytest.raises(EpisodeError, match=r"agentview_image of a batch cannot be stacked: .*\(4, 4, 3\), \(6, 6, 3\)"):
        observations.stacked("agentview_image")
    assert observations.stacked("state").shape == (2, 8)


def test_what_is_taken_from_memory_that_others_write_to_stays_as_it_was() -> None:
    memory = np.zeros((2, 8))
    lent = Lent([{"state": memory[0]}, {"state": memory[1]}])
    kept = lent[1]["state"]
    memory[:] = 5.0
    assert kept.tolist() == [0.0] * 8
    assert lent[1]["state"] is kept, "once for all who ask"
    assert lent[-2]["state"].tolist() == [5.0] * 8
    assert [each["state"][0] for each in lent[0:2]] == [5.0, 0.0]
    with pytest.raises(IndexError):
        lent[2]


def test_what_the_policy_does_not_read_is_told_by_name() -> None:
    with pytest.raises(EpisodeError, match=r"wrist is no observation that the policy reads \(agentview_image, state\)"):
        Observations(some(1)).stacked("wrist")

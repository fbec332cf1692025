"""Where a policy looks: only what it reads is covered, each question is the first one anew, and noise is no map."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.records.record import Record
from pytest_vla.show.occlusion import GRID, occlusions
from tests.support.point_episodes import a_task
from tests.support.records import record_of


def shown() -> Mapping[str, Any]:
    drawn = np.random.default_rng(0)
    pictures = {
        name: drawn.integers(0, 255, (64, 80, 3)).astype(np.uint8) for name in ("agentview_image", "wrist_image")
    }
    return {**pictures, "state": np.zeros(8)}


def episode() -> Record:
    return dataclasses.replace(record_of(0), replan=2)


def looking(where: tuple[slice, slice], noise: float = 0.0, own: bool = False) -> Any:
    """A policy of the brightness of a part of one picture."""
    outside = np.random.default_rng(5)

    def policy(episode: Any) -> Any:
        asked = []

        def session(observation: Mapping[str, Any]) -> Any:
            asked.append(1)
            rng = outside if own else episode.rng
            chunk = np.zeros((4, 7))
            chunk[:2, 0] = observation["agentview_image"][where].mean() / 255 + noise * rng.normal() + len(asked)
            # Beyond what is executed.
            chunk[2:] = observation["agentview_image"][:8, :10].mean()
            return chunk

        return session

    return policy


def test_the_patch_that_it_looks_at_moves_its_answer() -> None:
    # Row 2 and column 3 of patches of 8 by 10 pixels.
    where = slice(16, 24), slice(30, 40)
    (found,) = occlusions(looking(where), a_task(image_transform="none"), episode(), shown())
    assert (found.camera, found.floor, found.changes.shape) == ("agentview", 0.0, (GRID, GRID))
    assert [*map(int, np.argwhere(found.changes > 0)[0])] == [2, 3]
    assert (found.changes > 0).sum() == 1
    before = shown()["agentview_image"][where].mean() / 255
    assert found.changes[2, 3] == pytest.approx(abs(before - 128 / 255))
    assert (found.picture == shown()["agentview_image"]).all()


def test_noise_of_the_episode_is_the_same_for_each_question() -> None:
    where = slice(16, 24), slice(30, 40)
    (found,) = occlusions(looking(where, noise=5.0), a_task(image_transform="none"), episode(), shown())
    assert found.floor == 0.0
    assert (found.changes > 0).sum() == 1


def test_noise_from_elsewhere_is_measured() -> None:
    where = slice(16, 24), slice(30, 40)
    (found,) = occlusions(looking(where, noise=0.5, own=True), a_task(image_transform="none"), episode(), shown())
    assert found.floor > 0.0


def test_what_cannot_be_asked_is_refused() -> None:
    policy = looking((slice(0, 8), slice(0, 8)))
    policy.privileged = True
    with pytest.raises(VlaError, match="reads the simulator's state"):
        occlusions(policy, a_task(), episode(), shown())
    with pytest.raises(EpisodeError, match="policy-shape"):
        occlusions(lambda episode: lambda seen: np.zeros(3), a_task(), episode(), shown())
    assert occlusions(lambda episode: lambda seen: np.zeros(7), a_task(), episode(), shown()) == ()

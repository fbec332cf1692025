"""How many workers ``-n auto`` is."""

import pytest

from pytest_vla.run.xdist.policy import auto_workers


@pytest.mark.parametrize(
    ("cores", "episodes", "room", "workers", "why"),
    [
        (16, 200, 100, 32, "a core is idle while its worker waits for the policy"),
        (16, 200, None, 32, "a core is idle while its worker waits for the policy"),
        (16, 200, 20, 20, "more do not fit into the memory"),
        (16, 200, 3, 16, "more do not fit into the memory"),
        (16, 80, 100, 20, "80 episodes do not need more"),
        (16, 2, 100, 16, "2 episodes do not need more"),
        (1, 8, 10, 2, "a core is idle while its worker waits for the policy"),
    ],
)
def test_more_than_cores_as_far_as_there_is_work_and_memory(
    cores: int, episodes: int, room: int | None, workers: int, why: str
) -> None:
    assert auto_workers(cores, episodes, room) == (workers, why)

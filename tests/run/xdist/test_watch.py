"""When the controller kills a worker, and why."""

import pytest

from pytest_vla.run.xdist import hooks
from pytest_vla.run.xdist.hooks import LATER, WorkerWatch
from pytest_vla.util.wall_limits import GRACE

LIMIT = 7.0


@pytest.fixture
def killed() -> list[str]:
    return []


@pytest.fixture
def watching(killed: list[str], monkeypatch: pytest.MonkeyPatch) -> WorkerWatch:
    """Of two workers, of which the second is on another machine; nothing but a test looks at them."""
    monkeypatch.setattr(hooks.WorkerWatch, "_run", lambda self: None)
    watching = WorkerWatch(LIMIT)
    for worker, pid in (("gw0", 1), ("gw1", None)):
        watching.add(worker, pid, lambda worker=worker: killed.append(worker))  # type: ignore[misc]
    return watching


def test_an_episode_past_limit_and_grace_costs_its_worker(watching: WorkerWatch, killed: list[str]) -> None:
    watching.episode("gw1", True)
    watching._look(LIMIT + GRACE + LATER)
    watching.episode("gw0", True)
    assert killed == []
    watching._look(0.5)
    assert killed == ["gw1"]
    assert watching.why_killed("gw1") == (
        "no sign of life within 7 s and 10 s of grace; the worker was killed (--vla-timeout)"
    )
    assert watching.why_killed("gw0") is None
    watching._look(LIMIT)
    assert killed == ["gw1"], "once"


def test_time_between_episodes_does_not_count(watching: WorkerWatch, killed: list[str]) -> None:
    for _ in range(3):
        watching.episode("gw0", True)
        watching._look(LIMIT + GRACE)
        watching.episode("gw0", False)
        watching._look(3600.0)
    watching.episode("gw0", True)
    watching.remove("gw0")
    watching.episode("gw0", True)
    watching._look(3600.0)
    assert killed == []


def test_one_that_is_stopped_anywhere_is_killed_after_as_long(
    watching: WorkerWatch, killed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = True
    monkeypatch.setattr(hooks, "is_stopped", lambda pid: stopped)
    watching._look(LIMIT + GRACE)
    stopped = False
    watching._look(0.5)
    stopped = True
    watching._look(LIMIT + GRACE)
    assert killed == [], "it went on in between"
    watching._look(0.5)
    assert killed == ["gw0"]
    assert "was stopped (SIGSTOP) for more than 7 s and 10 s of grace" in str(watching.why_killed("gw0"))

"""``--vla-video``: after an episode, beside its trajectory."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.runs import records_of
from tests.support.videos import read
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
# Seed 0 succeeds, 1 fails, 2 breaks after three steps, 13 is invalid.
MIXED = """
import numpy as np

def policy(episode):
    asked = 0
    def act(observation):
        nonlocal asked
        asked += 1
        if episode.seed == 2 and asked == 4:
            raise RuntimeError("no more")
        return np.array([float(episode.seed == 0), 0, 0, 0, 0, 0, 0])
    return act
"""


@pytest.fixture(autouse=True)
def mixed(project: pytest.Pytester) -> None:
    project.makepyfile(mixed=MIXED)


def videos(project: pytest.Pytester) -> dict[str, Path]:
    return {path.stem.rpartition("-")[2]: path for path in (project.path / ".vla").glob("*/*/*.mp4")}


def frames(video: Path) -> int:
    return len(read(video)[0])


@BOTH
@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ((), set()),
        (("--vla-video=failed",), {"seed1", "seed2"}),
        (("--vla-video=all",), {"seed0", "seed1", "seed2", "seed13"}),
    ],
)
def test_of_which_episodes(
    vla: Run, project: pytest.Pytester, option: tuple[str, ...], wanted: set[str], workers: str
) -> None:
    result = vla(*STOVE, "--vla-model=mixed:policy", "--vla-seeds=0-2,13", *option, workers)
    result.assert_outcomes(passed=1, failed=1, errors=1, skipped=1)
    assert set(videos(project)) == wanted
    if wanted:
        result.stdout.fnmatch_lines([f"{len(wanted)} videos in .vla/*"])
        # Every other state, the last, and that for a second more.
        assert frames(videos(project)["seed2"]) == 3 + 10
        assert frames(videos(project)["seed1"]) == 151 + 10


def test_drawing_changes_no_episode(vla: Run, project: pytest.Pytester) -> None:
    arguments = (*STOVE, "--vla-model=random", "--vla-seeds=0-3")
    vla(*arguments)
    without = {record.case: record.digest for record in records_of(project.path / ".vla")}
    vla(*arguments, "--vla-video=all")
    assert {record.case: record.digest for record in records_of(project.path / ".vla")} == without


def test_a_video_that_cannot_be_made_is_a_warning(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest_vla.show.video
        from pytest_vla.errors import VlaError

        def refuse(*arguments, **options):
            raise VlaError("PyAV cannot encode")

        pytest_vla.show.video.write_video = refuse
        """
    )
    result = vla(*STOVE, "--vla-model=policies:straight", "--vla-video=all")
    result.assert_outcomes(passed=1, warnings=1)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*no video of libero_goal/turn_on_the_stove?seed0?: PyAV cannot encode"])


def test_a_users_own_test_has_its_own_video(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove")
        def test_it(rollout):
            assert rollout.success
        """
    )
    vla("test_mine.py", *STOVE, "--vla-model=policies:straight", "--vla-video=all").assert_outcomes(passed=2)
    assert len(list((project.path / ".vla").glob("*/*/*.mp4"))) == 2


def test_what_is_no_choice_is_refused(vla: Run) -> None:
    result = vla(*STOVE, "--vla-model=random", "--vla-video=some")
    result.stderr.fnmatch_lines(["*--vla-video: 'some': expected 'none', 'failed' or 'all'"])
    result = vla(*STOVE, "--vla-model=random", "-o", "vla_video=some")
    result.stderr.fnmatch_lines(["*vla_video: 'some': expected 'none', 'failed' or 'all'"])

"""``--vla-track`` with a tracker of the project's own: what it is told, and that nothing depends on it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.runs import last_records, run_names
from tests.support.workers import ALONE

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
# Seeds from 2 on stand still; seed 1 breaks as long as there is no file `mended`.
POLICY = """
import numpy as np
from pathlib import Path

def policy(episode):
    if episode.seed == 1 and not Path("mended").exists():
        raise ValueError("broken")
    return lambda observation: np.array([float(episode.seed < 2), 0, 0, 0, 0, 0, 0])
"""
CONFTEST = """
    import json
    from pathlib import Path
    from pytest_vla.entries import MetricEntry, TrackerEntry

    def pytest_vla_trackers():
        return [TrackerEntry("diary", "a file", ":Diary"), TrackerEntry("far", "is missing", ":Diary", "not_there"),
                TrackerEntry("shut", "refuses", ":shut"), TrackerEntry("other", "a file", ":Diary", takes_files=False)]

    def pytest_vla_metrics():
        return [MetricEntry("half", "half of the steps", ":half")]

    def half(record, trajectory):
        return record.steps / 2

    def shut(run):
        raise OSError("https://me:secret@host is down")

    class Diary:
        def __init__(self, run):
            self.kept = run.kept + "x"
            self.place = "diary.jsonl"
            self.write("begin", run.name, dict(run.texts), run.kept)

        def about(self, texts):
            self.write("about", dict(texts))

        def episode(self, point):
            if Path("down").exists():
                raise ConnectionError("http://me:secret@host is gone")
            self.write("episode", point.step, dict(point.numbers), dict(point.texts))

        def end(self, ending):
            files = {file.name: file.read_text() for file in ending.files}
            self.write("end", ending.finished, dict(ending.numbers), dict(ending.texts), files)

        def write(self, *what):
            with open("diary.jsonl", "a") as stream:
                stream.write(json.dumps(what) + "\\n")
"""


@pytest.fixture(autouse=True)
def _tracker(project: pytest.Pytester) -> None:
    project.makeconftest(CONFTEST)
    project.makepyfile(mixed=POLICY)


def diary(project: pytest.Pytester, what: str) -> list[list[Any]]:
    lines = map(json.loads, (project.path / "diary.jsonl").read_text().splitlines())
    return [line[1:] for line in lines if line[0] == what]


@ALONE
def test_a_tracker_is_told_of_a_run_and_of_what_resumes_it(vla: Run, project: pytest.Pytester, workers: str) -> None:
    arguments = (*STOVE, "--vla-model=mixed:policy", "--vla-seeds=0-3", "--vla-track=diary", "--vla-min-success=0.9")
    result = vla(*arguments, workers)
    result.stdout.fnmatch_lines(["vla: failed (--vla-min-success=90%): *", "diary: diary.jsonl"])
    (run,) = run_names(project.path / ".vla")
    ((name, texts, kept),) = diary(project, "begin")
    assert (name, kept) == (run, "")
    assert texts["model"] == "mixed:policy"
    assert (texts["suites"], texts["episodes"], texts["option.seeds"]) == ("libero_goal", "4", "0,1,2,3")
    (about,) = diary(project, "about")[-1:]
    assert about[0]["provenance.pytest-vla"]
    assert about[0]["protocol.libero_goal.max_steps"] == "300"
    points = diary(project, "episode")
    assert [step for step, *_ in points] == [1, 2, 3, 4]
    records = last_records(project.path / ".vla")
    for _, numbers, said in points:
        record = records[said["episode/case"]]
        assert said["episode/outcome"] == record.outcome
        assert said["episode/digest"] == record.digest
        assert numbers["episode/steps"] == record.steps
        assert numbers.get("episode/metrics/half") == record.metrics.get("half")
        assert numbers.get("episode/success") == {"success": 1.0, "failure": 0.0, "error": None}[record.outcome]
    numbers = points[-1][1]
    assert numbers["success_rate"] == numbers["success_rate/libero_goal"] == pytest.approx(1 / 3)
    assert {name: value for name, value in numbers.items() if name.startswith("count/")} == {
        "count/successes": 1, "count/failures": 2, "count/errors": 1, "count/invalid": 0, "count/episodes": 4
    }  # fmt: skip
    ((finished, final, ending, files),) = diary(project, "end")
    assert not finished
    assert final["final/success_rate/libero_goal"] == pytest.approx(1 / 3)
    assert 0 < final["final/success_rate/libero_goal/low"] < 1 / 3 < final["final/success_rate/libero_goal/high"] < 1
    assert final["final/success_rate/libero_goal/errors"] == 1
    assert final["final/metrics/half/libero_goal"] > 0
    assert ending["exit_code"] == "1"
    assert ending["not_counted"] == "1 policy-raised"
    assert "libero_goal below " in ending["verdict"]
    assert [*files] == ["run.json", "episodes.csv", "report.json"]
    assert json.loads(files["run.json"])[0]["name"] == run
    assert files["episodes.csv"].count("\n") == 5
    assert json.loads(files["report.json"])["models"][0]["metrics"]
    # The run goes on in the same place, without being told again to.
    (project.path / "mended").touch()
    vla("--vla-resume", workers, "--vla-report=page.html").assert_outcomes(passed=1)
    assert [kept for *_, kept in diary(project, "begin")] == ["", "x"]
    step, numbers, said = diary(project, "episode")[-1]
    assert (step, said["episode/outcome"]) == (5, "success")
    assert (numbers["success_rate"], numbers["count/errors"], numbers["count/episodes"]) == (0.5, 0, 4)
    finished, final, ending, files = diary(project, "end")[-1]
    assert finished
    assert final["final/success_rate/libero_goal"] == 0.5
    assert "<html" in files["page.html"]
    # Nor any more, where that is said.
    before = (project.path / "diary.jsonl").read_text()
    vla("--vla-resume", "--vla-track=none", workers)
    assert (project.path / "diary.jsonl").read_text() == before


def test_a_server_that_goes_down_costs_a_line_and_gets_all_when_it_is_back(vla: Run, project: pytest.Pytester) -> None:
    (project.path / "down").touch()
    result = vla(*STOVE, "--vla-model=policies:straight", "--vla-seeds=0-2", "--vla-track=diary,other")
    assert result.ret == 0
    result.assert_outcomes(passed=3)
    text = result.stdout.str()
    assert text.count("diary does not track this run: ConnectionError: http://host is gone") == 1
    assert text.count("diary lacks part of this run") == 1
    assert "secret" not in text
    assert len(last_records(project.path / ".vla")) == 3
    # Up again before the end.
    (project.path / "diary.jsonl").unlink()
    project.makepyfile(
        reviving="""
        import numpy as np
        from pathlib import Path

        def policy(episode):
            if episode.seed == 2:
                Path("down").unlink()
            return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
        """
    )
    result = vla(*STOVE, "--vla-model=reviving:policy", "--vla-seeds=0-2", "--vla-track=diary")
    assert result.ret == 0
    assert result.stdout.str().count("does not track") == 1
    assert [step for step, *_ in diary(project, "episode")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (
            "far",
            "--vla-track=far needs the package not_there, which is not installed: pip install 'pytest-vla[[]far[]]'",
        ),
        ("dairy", "--vla-track=dairy: there is no such tracker. Did you mean diary? Expected *mlflow*, or none"),
        ("shut", "--vla-track=shut: tracking could not start: OSError: https://host is down*leave shut out"),
    ],
)
def test_what_cannot_be_tracked_is_told_before_the_first_episode(
    vla: Run, project: pytest.Pytester, names: str, told: str
) -> None:
    result = vla(*STOVE, "--vla-model=policies:straight", f"--vla-track={names}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in result.stdout.str()
    result.stderr.fnmatch_lines([f"ERROR: {told}"])
    assert "secret" not in result.stderr.str()
    assert run_names(project.path / ".vla") == []


def test_an_ini_file_s_tracker_is_of_runs_with_episodes(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_track = far\n")
    vla("test_mine.py").assert_outcomes(passed=2)
    vla(*STOVE, "--vla-model=policies:straight", "--collect-only").stdout.fnmatch_lines(["*1 test collected*"])
    assert vla(*STOVE, "--vla-model=policies:straight").ret == pytest.ExitCode.USAGE_ERROR
    vla(*STOVE, "--vla-model=policies:straight", "--vla-track=none").assert_outcomes(passed=1)


def test_a_record_that_is_not_as_it_was_written_is_nobodys(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, "--vla-model=mixed:policy", "--vla-seeds=0-1", "--vla-track=diary")
    (run,) = run_names(project.path / ".vla")
    kept = project.path / ".vla" / run / "track.json"
    assert json.loads(kept.read_text()) == {"diary": "x"}
    kept.write_text('{"diary": {"no": "text"}}')
    (project.path / "mended").touch()
    vla("--vla-resume").assert_outcomes(passed=1)
    assert [kept for *_, kept in diary(project, "begin")] == ["", ""]
    assert json.loads(kept.read_text()) == {"diary": "x"}, "and the next invocation finds it"

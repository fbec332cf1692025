"""A project's ini file and rootdir: where records go, what the command reads of it, and what it names in vain."""

import re
from collections.abc import Callable

import pytest

from pytest_vla.cli import main
from pytest_vla.errors import VlaError
from pytest_vla.run.project import find_project
from tests.support.runs import run_names

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
WORKERS = pytest.mark.parametrize("workers", [(), ("-n1",)])


@WORKERS
def test_options_of_episodes_where_there_are_none(vla: Run, workers: tuple[str, ...]) -> None:
    result = vla("test_mine.py", "--vla-tasks=stove", "--vla-min-success", "80%", *workers)
    result.assert_outcomes(passed=2)
    told = "vla: --vla-tasks, --vla-min-success had no effect: no episode was collected. "
    assert [line for line in result.outlines if line.startswith("vla: ")] == [
        f"{told}`pytest --vla-suite=SUITE --vla-model=POLICY ...` runs some",
        "vla: failed (--vla-min-success=80%): no episode ran: no policy was given (add --vla-model=POLICY)",
    ]


def test_an_option_in_addopts_is_no_question(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\naddopts = --vla-timeout=5m\n")
    assert "vla: " not in vla().stdout.str()


@WORKERS
def test_an_ini_file_that_names_suite_and_policy(vla: Run, project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    project.makeini("[pytest]\nvla_suite = libero_goal\nvla_model = policies:straight\n")
    told = (
        "vla: tox.ini sets vla_suite and vla_model, but a plain `pytest` does not run them. "
        "Use `pytest --vla-suite=libero_goal`"
    )
    result = vla(*workers)
    result.assert_outcomes(passed=2)
    assert result.outlines.count(told) == 1
    assert told not in vla("test_mine.py", *workers).outlines, "whoever names a path means that"


def test_the_line_is_left_out_where_episodes_are_collected(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_suite = libero_goal\nvla_model = policies:straight\n")
    project.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove")
        def test_stove(rollout):
            assert rollout.success
        """
    )
    for workers in (), ("-n1",):
        result = vla("--vla-replan=1", *workers)
        result.assert_outcomes(passed=1)
        assert "had no effect" not in result.stdout.str()
        assert "a plain `pytest`" not in result.stdout.str()


def test_an_ini_key_that_is_misspelt_is_told(vla: Run, project: pytest.Pytester) -> None:
    keys = "vla_sute = tabletop\nvla-rslts = runs\nvla_seeds = 0-9\nvla_xyzzy = 3\nvlb_other = 1\n"
    project.makeini(f"[pytest]\n{keys}")
    for arguments in ("-q",), ("-n1",):
        result = vla(*arguments)
        result.assert_outcomes(passed=2)
        assert [line for line in result.outlines if line.startswith("vla: ")] == [
            "vla: tox.ini: vla_sute is not an ini key of pytest-vla and has no effect. Did you mean vla_suite?",
            "vla: tox.ini: vla-rslts is not an ini key of pytest-vla and has no effect. Did you mean vla_results?",
            "vla: tox.ini: vla_seeds is not an ini key: put --vla-seeds=... into addopts",
            "vla: tox.ini: vla_xyzzy is not an ini key of pytest-vla and has no effect. `pytest --help` lists them",
        ]
    project.makeini("[pytest]\nvla_of_others = 1\n")
    project.makeconftest("def pytest_addoption(parser): parser.addini('vla_of_others', 'not ours')\n")
    assert "vla: " not in vla().stdout.str()


def test_records_lie_in_the_rootdir_and_are_found_from_below(
    vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.makeini("[pytest]\nvla_models =\n    ours = policies:still\n")
    below = project.mkdir("below")
    monkeypatch.chdir(below)
    vla(*STOVE, "--vla-model=ours").assert_outcomes(failed=1)
    assert not (below / ".vla").exists()
    (run,) = run_names(project.path / ".vla")
    result = vla(f"--vla-resume={run}")
    result.stdout.fnmatch_lines([f"vla: nothing is left of run {run}, 1 episode kept"])
    assert main(["runs"]) == 0
    assert run in capsys.readouterr().out


def test_the_command_takes_results_and_names_of_the_ini_file(
    vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project.path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nvla_results = "out/runs"\nvla_models = ["ours = policies:still"]\n'
    )
    vla(*STOVE, "--vla-model=ours").assert_outcomes(failed=1)
    (run,) = run_names(project.path / "out" / "runs")
    monkeypatch.chdir(project.mkdir("below"))
    assert main(["runs"]) == 0
    assert run in capsys.readouterr().out
    for option in "--results", "--vla-results":
        assert main(["runs", option, "elsewhere"]) == 1
        assert "elsewhere" in capsys.readouterr().err
    monkeypatch.syspath_prepend(project.path)
    assert main(["check-policy", "--vla-model=ours"]) == 0
    assert main(["check-policy", "--vla-model=outs"]) == 1
    assert "Did you mean ours?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[pytest]\nvla_models =\n    ours: mine\n", "tox.ini: vla_models: expected NAME = POLICY, got 'ours: mine'"),
        ("[pytest\n", "tox.ini"),
    ],
)
def test_an_ini_file_that_cannot_be_understood(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], text: str, complaint: str
) -> None:
    pytester.makefile(".ini", tox=text)
    with pytest.raises(VlaError, match=re.escape(complaint)):
        find_project(pytester.path)
    with pytest.raises(SystemExit, match="2"):
        main(["runs"])
    assert complaint in capsys.readouterr().err


def test_results_that_are_no_text(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.pytest.ini_options]\nvla_results = ["a", "b"]\n')
    with pytest.raises(VlaError, match=r"vla_results = .*: expected a text"):
        find_project(pytester.path)


def test_without_an_ini_file_a_project_is_the_folder(pytester: pytest.Pytester) -> None:
    project = find_project(pytester.path)
    assert (project.folder, project.results, project.models) == (pytester.path, pytester.path / ".vla", {})

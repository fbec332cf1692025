"""Which items are collected, and under which ids."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.plan.manifests import load_suite, suite_folder
from tests.support.data import REPOSITORY
from tests.support.runs import run_names

Run = Callable[..., pytest.RunResult]

STOVE = "libero_goal::test_episode[turn_on_the_stove-seed0]"
TABLETOP = [f"tabletop::test_episode[{task.name}-seed0]" for task in load_suite("tabletop").tasks]
GOAL = [f"libero_goal::test_episode[{task.name}-seed0]" for task in load_suite("libero_goal").tasks]


def ids(result: pytest.RunResult) -> list[str]:
    """The ids that ``--collect-only -q`` has printed."""
    return [line for line in result.outlines if "::" in line]


def test_a_suite_by_option_without_model_and_without_data(vla: Run) -> None:
    result = vla("--vla-suite=libero_goal", "--collect-only", "-q")
    assert result.ret == 0
    assert ids(result) == GOAL


def test_several_suites(vla: Run) -> None:
    result = vla("--vla-suite=libero_object, libero_goal", "--collect-only", "-q", "--vla-tasks=milk,turn_on_the_stove")
    assert ids(result) == [
        "libero_object::test_episode[pick_up_the_milk_and_place_it_in_the_basket-seed0]",
        STOVE,
    ]


def test_a_suite_by_path(vla: Run) -> None:
    assert ids(vla(suite_folder("libero_goal") / "libero_goal.toml", "--collect-only", "-q")) == GOAL
    assert ids(vla(suite_folder("tabletop"), "--collect-only", "-q")) == TABLETOP
    assert ids(vla(suite_folder("tabletop") / "test_tabletop.py", "--collect-only", "-q")) == TABLETOP


def test_a_folder_of_several_suites_by_path(vla: Run) -> None:
    result = vla(suite_folder("libero_goal"), "--collect-only", "-q")
    counts = Counter(node.partition("::")[0] for node in ids(result))
    assert counts == {"libero_10": 10, "libero_90": 90, "libero_goal": 10, "libero_object": 10, "libero_spatial": 10}
    # Beside the folder the name of a suite says nothing new.
    assert ids(vla(suite_folder("libero_goal"), "--vla-suite=libero_goal", "--collect-only", "-q")) == ids(result)


def test_a_plain_run_collects_no_suite_of_the_projects(vla: Run, project: pytest.Pytester) -> None:
    """One without a module is run by its name alone, also where its folder has several manifests."""
    goal = suite_folder("libero_goal")
    for suite in ("ours_a", "ours_b"):
        (project.mkdir("more") if suite == "ours_a" else project.path / "more").joinpath(f"{suite}.toml").write_text(
            (goal / "libero_goal.toml").read_text()
        )
    (project.path / "libero.toml").write_text((goal.parent / "libero.toml").read_text())
    project.makeconftest(
        """
        from pathlib import Path
        from pytest_vla.entries import SuiteEntry

        def pytest_vla_suites():
            here = Path(__file__).parent / "more"
            return [SuiteEntry(name, "ours", folder=here, manifest=f"{name}.toml") for name in ("ours_a", "ours_b")]
        """
    )
    assert len(ids(vla(".", "--vla-tasks=turn_on_the_stove", "--collect-only", "-q"))) == 2
    ours = [STOVE.replace("libero_goal", name) for name in ("ours_b", "ours_a")]
    assert ids(vla("--vla-suite=ours_b,ours_a", "--vla-tasks=turn_on", "--collect-only", "-q")) == ours


def test_all_suites_by_path(vla: Run) -> None:
    result = vla(suite_folder("libero_goal").parent, "--collect-only", "-q", "--vla-tasks=stove")
    assert len(ids(result)) == len(set(ids(result)))
    suites = {line.partition("::")[0] for line in ids(result)}
    # libero_object has no stove, and no placeholder for having none.
    liberos = {"libero_spatial", "libero_goal", "libero_10", "libero_90"}
    assert suites == {*liberos, "tabletop", "vla_arena_hazard_avoidance"}


@pytest.mark.parametrize("written", [STOVE, f"../{STOVE}", f"./{STOVE}"])
def test_a_pasted_id(vla: Run, written: str) -> None:
    assert ids(vla(written, "--collect-only", "-q")) == [STOVE]


def test_a_pasted_id_of_a_seed_that_was_not_asked_for(vla: Run) -> None:
    seven, other = STOVE.replace("seed0", "seed7"), GOAL[0].replace("seed0", "seed3")
    assert ids(vla(seven, other, "--vla-seeds=1-2", "--vla-tasks=bowl", "--collect-only", "-q")) == [seven, other]


def test_a_pasted_id_beside_its_suite_narrows_it(vla: Run) -> None:
    assert ids(vla("--vla-suite=libero_goal", STOVE, "--collect-only", "-q")) == [STOVE]


def test_a_suites_name_as_a_path(vla: Run) -> None:
    assert ids(vla("libero_goal", "--collect-only", "-q")) == GOAL
    assert ids(vla("libero_goal::test_episode", "--collect-only", "-q")) == GOAL


def test_a_folder_of_the_users_with_a_suites_name_is_the_users(vla: Run, project: pytest.Pytester) -> None:
    (project.mkdir("libero_goal") / "test_theirs.py").write_text("def test_theirs(): pass\n")
    assert ids(vla("libero_goal", "--collect-only", "-q")) == ["libero_goal/test_theirs.py::test_theirs"]
    # An id is ours all the same: a folder cannot have names after it.
    assert ids(vla(STOVE, "--collect-only", "-q")) == [STOVE]
    assert ids(vla("--vla-suite=libero_goal", "--collect-only", "-q")) == GOAL


def test_ids_are_the_same_from_another_folder(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]")
    folder = project.mkdir("below")
    project.chdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert ids(vla("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--collect-only", "-q")) == [STOVE]


def test_ids_are_the_same_on_every_worker(vla: Run) -> None:
    result = vla("--vla-suite=libero_goal", "--vla-model=policies:straight", "--vla-tasks=stove", "-n2", "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([f"[[]gw?[]]*PASSED {STOVE.replace('[', '[[]')}*"])


def test_a_suite_keeps_testpaths_and_own_tests_out(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\ntestpaths = test_mine.py")
    result = vla("--vla-suite=libero_goal", "--collect-only")
    result.stdout.fnmatch_lines(["collected 10 items"])
    result.stdout.no_fnmatch_line("testpaths:*")


def test_a_suite_beside_given_paths_is_added(vla: Run) -> None:
    result = vla("--vla-suite=libero_goal", "test_mine.py", "--collect-only", "-q")
    assert ids(result) == ["test_mine.py::test_one", "test_mine.py::test_two", *GOAL]


def test_without_options_the_users_tests_are_collected(vla: Run) -> None:
    assert ids(vla("--collect-only", "-q")) == ["test_mine.py::test_one", "test_mine.py::test_two"]


def test_selection_by_pytests_own_means(vla: Run) -> None:
    goal = ("--vla-suite=libero_goal", "--vla-seeds=0-1", "--collect-only", "-q")
    assert ids(vla(*goal, "-k", "turn_on_the_stove and seed0")) == [STOVE]
    assert len(ids(vla(*goal, "-m", "vla"))) == 20
    assert ids(vla(*goal, "-m", "not vla")) == []
    assert len(ids(vla(*goal, "--deselect", STOVE))) == 19


def test_tasks_and_seeds(vla: Run) -> None:
    result = vla("--vla-suite=libero_goal", "--vla-tasks=*rack,turn_on", "--vla-seeds=0-1,7", "--collect-only", "-q")
    assert ids(result) == [
        f"libero_goal::test_episode[{task}-seed{seed}]"
        for task in ("turn_on_the_stove", "put_the_wine_bottle_on_the_rack")
        for seed in (0, 1, 7)
    ]


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_what_is_given_twice_is_all_meant(vla: Run, workers: tuple[str, ...]) -> None:
    suites = ("--vla-suite=libero_goal", "--vla-suite=libero_object")
    tasks = ("--vla-tasks=turn_on_the_stove", "--vla-tasks=milk,turn_on_the_stove")
    vary = ("--vla-vary=language.blank", "--vla-vary=action.delay:1,language.blank")
    result = vla(*suites, *tasks, *vary, "--vla-model=policies:straight", "-v", *workers)
    ran = set(re.findall(r"libero_\w+::test_episode\[\S+\]", result.stdout.str()))
    assert ran == {
        f"{suite}::test_episode[{task}-{label}-seed0]"
        for suite, task in (
            ("libero_goal", "turn_on_the_stove"),
            ("libero_object", "pick_up_the_milk_and_place_it_in_the_basket"),
        )
        for label in ("language.blank", "action.delay-L1")
    }


def test_of_several_suites_those_whose_tasks_cannot_have_a_variation_are_named(vla: Run) -> None:
    """As --vla-suite=vla_arena --vla-vary=hazard.removed: some suites have hazards, others do not."""
    result = vla("--vla-suite=tabletop,tabletop_safety", "--vla-vary=hazard.removed", "--collect-only", "-q")
    assert result.ret == 0
    collected = [line for line in result.outlines if "::test_episode[" in line]
    assert len(collected) > 10
    assert all(line.startswith("tabletop_safety::") for line in collected)
    told = [line for line in result.outlines if "runs nothing" in line]
    assert told == ["vla: tabletop runs nothing: no task of it can have hazard.removed"]
    # Where no suite has any it stays an error.
    alone = vla("--vla-suite=tabletop", "--vla-vary=hazard.removed", "--collect-only", "-q")
    assert alone.ret != 0


@pytest.mark.parametrize("further", [("--collect-only", "-q"), ("-n1", "--vla-model=policies:straight")])
def test_a_suite_that_the_selection_leaves_nothing_of_is_named(vla: Run, further: tuple[str, ...]) -> None:
    suites = ("--vla-suite=libero_goal", "--vla-suite=libero_object", "--vla-suite=tabletop")
    result = vla(*suites, "--vla-tasks=milk", "--vla-tasks=*middle*", *further)
    told = [line for line in result.outlines if "runs nothing" in line]
    assert told == [], "each has a task"
    result = vla(*suites, "--vla-tasks=milk,wine_bottle_on_the_rack", *further)
    told = [line for line in result.outlines if "runs nothing" in line]
    why = "none of its 10 tasks matches --vla-tasks=milk,wine_bottle_on_the_rack"
    assert told == [f"vla: tabletop runs nothing: {why}"]
    result = vla(suites[0], "libero_object", "--vla-tasks=milk", *further)
    told = [line for line in result.outlines if "runs nothing" in line]
    assert told == ["vla: libero_goal runs nothing: none of its 10 tasks matches --vla-tasks=milk"]


def test_episodes_are_the_first_seeds(vla: Run) -> None:
    goal = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--collect-only", "-q")
    first = [STOVE.replace("seed0", f"seed{seed}") for seed in range(3)]
    assert ids(vla(*goal, "--vla-episodes=3")) == first
    assert ids(vla(*goal, "--vla-episodes=3", "--vla-seeds=0-2")) == first, "that says the same"
    assert ids(vla(*goal, "--vla-episodes=1")) == ids(vla(*goal))


@pytest.mark.usefixtures("own_processes")
def test_a_path_that_would_hide_the_suites_is_refused(project: pytest.Pytester, vla: Run) -> None:
    with pytest.MonkeyPatch.context() as patch:
        install_within(project, patch)
        assert ids(vla("test_mine.py", "--vla-suite=libero_goal", "--collect-only", "-q"))[2:] == GOAL
        result = vla(".", "--vla-suite=libero_goal", "--vla-model=random")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: *in the environment *.venv under .,*leave the path out*"])


@pytest.mark.parametrize("how", ["--vla-suite=tabletop", str(suite_folder("tabletop"))])
@pytest.mark.usefixtures("own_processes")
def test_the_module_is_imported_once_and_no_simulator_with_it(project: pytest.Pytester, vla: Run, how: str) -> None:
    project.makepyfile(
        probe="""
        import sys

        def pytest_collection_finish(session):
            print("\\nSUITES", *[name for name in sys.modules if name.endswith("test_tabletop")])
            print("HEAVY", *[name for name in ("mujoco", "robosuite", "numba", "scipy") if name in sys.modules], ".")
        """
    )
    result = vla(how, "-p", "probe", "--collect-only", "-s")
    result.stdout.fnmatch_lines(["SUITES pytest_vla.suites.tabletop.test_tabletop", "HEAVY ."])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("--vla-suite=libero_gaol",),
            "there is no suite 'libero_gaol'. Did you mean libero_goal*libero_10,*",
        ),
        (("--vla-suite=libero_goal",), "libero_goal: no policy is given. Add --vla-model=expert, *"),
        ((STOVE,), "libero_goal: no policy is given. *"),
        (("--vla-suite=,",), "*argument --vla-suite: ',' has no name in it"),
        (
            ("--vla-suite=libero_goal", "--vla-model=random", "--vla-tasks=stoev"),
            "no task of libero_goal is 'stoev'*stove*",
        ),
        (("--vla-suite=libero_goal", "--vla-model=rnadom"), "--vla-model=rnadom: no such policy. Did you mean random*"),
        (("--vla-suite=libero_goal", "--vla-model=nothing:here"), "*there is no module 'nothing' in*"),
        (("--vla-suite=libero_goal", "--vla-model=replay:none.npz"), "*none.npz: there is no such file or folder*"),
        (("--vla-suite=libero_goal", "--vla-seeds=9-2"), "*argument --vla-seeds: seeds '9-2': 9-2 runs backwards*"),
        (("--vla-suite=libero_goal", "--vla-episodes=0"), "*--vla-episodes: '0' is not a number of episodes, 1 to*"),
        (("--vla-suite=libero_goal", "--vla-episodes=x"), "*--vla-episodes: 'x' is not a number of episodes, 1 to*"),
        (
            ("--vla-suite=libero_goal", "--vla-episodes=3", "--vla-seeds=1-3"),
            "--vla-episodes=3 means seeds 0 to 2, but --vla-seeds differs: give only one of them",
        ),
        (("--vla-suite=libero_goal", "--vla-seeds=5000000000"), "*5000000000 is beyond 4294967295, the last seed of*"),
        (("--vla-suite=libero_goal", "--vla-model="), "*argument --vla-model: a value is missing"),
        (("--vla-suite=libero_goal", "--vla-model=random", "--vla-data="), "*argument --vla-data: a value is missing"),
        (("--vla-suite=libero_goal", "--vla-model=replay:test_mine.py"), "*expected [*].npz with actions*"),
        (
            ("--vla-suite=libero_goal", "--vla-model=random", "--vla-results=test_mine.py"),
            "--vla-results=*test_mine.py: the folder cannot be written*",
        ),
        (("--vla-suite=libero_goal", "--vla-steps=0"), "*argument --vla-steps: '0' is not a number of steps, 1 to *"),
        (("--vla-suite=libero_goal", "--vla-replan=0"), "*argument --vla-replan: '0' is not a number of steps*"),
        (
            (STOVE.replace("turn_on", "turn_off"), "--vla-model=random"),
            "*no task 'turn_off_the_stove'. Did you mean turn_on*",
        ),
    ],
)
def test_what_cannot_be_run_stops_at_once(vla: Run, arguments: tuple[str, ...], complaint: str) -> None:
    result = vla(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{complaint}"])
    assert "Traceback" not in result.stderr.str()


def test_a_cache_limit_that_is_none_stops_at_once(vla: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_CACHE_LIMIT", "lots")
    result = vla("--vla-suite=libero_goal", "--vla-model=random")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*PYTEST_VLA_CACHE_LIMIT='lots': expected a size such as 5GB*"])


def test_an_argument_that_no_path_can_be_is_pytests(vla: Run) -> None:
    result = vla("x" * 300)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_errors_of_a_run_on_workers_are_told_once(vla: Run) -> None:
    result = vla("--vla-suite=libero_gaol", "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count("libero_gaol") == 1


def test_a_task_that_no_suite_under_a_path_has_is_an_error(vla: Run) -> None:
    for path in (suite_folder("libero_goal") / "libero_goal.toml", suite_folder("tabletop")):
        result = vla(path, "--vla-tasks=stoev", "--collect-only")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*no task of {path.stem} is 'stoev'*"])


def test_a_suite_by_path_without_a_model_is_skipped_with_a_hint(vla: Run) -> None:
    result = vla(suite_folder("libero_goal") / "libero_goal.toml", "-rs")
    result.assert_outcomes(skipped=10)
    result.stdout.fnmatch_lines(["SKIPPED*no policy: add --vla-model=expert, *"])


def test_the_ini_file(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_suite = libero_goal\nvla_model = policies:straight\nvla_results = out/runs\n")
    assert len(ids(vla("--collect-only", "-q"))) == 2, "a plain run is not changed"
    assert len(ids(vla("--collect-only", "-q", "test_mine.py", "--vla-model=random"))) == 2, "nor one with paths"
    assert ids(vla("--collect-only", "-q", "--vla-model=random")) == GOAL
    vla("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove").assert_outcomes(passed=1)
    assert run_names(project.path / "out" / "runs")


def test_what_is_wrong_in_the_ini_file_is_told_when_it_is_used(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_suite = libero_gaol\nvla_model = rnadom\n")
    vla("-p", "no:cacheprovider").assert_outcomes(passed=2)
    vla("--vla-model=random").stderr.fnmatch_lines(["*there is no suite 'libero_gaol'*"])
    vla("--vla-suite=libero_goal").stderr.fnmatch_lines(["*--vla-model=rnadom: no such policy*"])


def test_ten_thousand_items(vla: Run) -> None:
    result = vla("--vla-suite=libero_goal", "--vla-seeds=0-999", "--collect-only", "-q")
    assert len(ids(result)) == 10_000


def install_within(project: pytest.Pytester, patch: pytest.MonkeyPatch) -> Path:
    """Put the package, as a wheel lays it out, into an environment below the project. Returns its folder."""
    packages = project.path / ".venv" / "lib" / "python3" / "site-packages" / "pytest_vla"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "pytest_vla", packages, ignore=ignore)
    (project.path / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    patch.setenv("PYTHONPATH", str(packages.parent))
    return packages


@pytest.mark.usefixtures("own_processes")
def test_from_site_packages_of_an_environment_within_the_project(project: pytest.Pytester, vla: Run) -> None:
    """pytest neither looks into environments nor into folders with a dot; suites are found there all the same."""
    with pytest.MonkeyPatch.context() as patch:
        packages = install_within(project, patch)
        assert ids(vla("--vla-suite=libero_goal", "--collect-only", "-q")) == GOAL
        project.makeconftest("def pytest_collection_finish(session): print('FROM', session.items[0].path)\n")
        result = vla(STOVE, "--collect-only", "-s")
        result.stdout.fnmatch_lines([f"*FROM {packages / 'run' / 'suite_items.py'}"])


def test_a_projects_own_names_for_tests_hide_no_suite(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\npython_functions = check_*\npython_files = check_*.py\npython_classes = Check*\n")
    project.makepyfile(check_mine="def check_one(): pass\n\ndef test_no(): pass\n")
    result = vla("--vla-suite=libero_goal", "--vla-model=policies:straight", "--collect-only", "-q", "check_mine.py")
    result.stdout.fnmatch_lines(["check_mine.py::check_one", "11 tests collected*"])

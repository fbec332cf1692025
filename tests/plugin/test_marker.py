"""``@pytest.mark.vla(...)``: tests of the user's own on episodes of a suite; on a world without a simulator."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.record import Record
from pytest_vla.run.marker import ABOUT, KEYWORDS
from pytest_vla.vary.registry import find_variation
from tests.support.runs import records_of, run_names
from tests.support.workers import ALONE, BOTH

Run = Callable[..., pytest.RunResult]

STOVE = "turn_on_the_stove"
MILK = "pick_up_the_milk_and_place_it_in_the_basket"
STRAIGHT = "--vla-model=policies:straight"
MARKED = """
import pytest

@pytest.mark.vla(suite="libero_goal", tasks="stove", seeds=range(2))
def test_near(rollout):
    assert rollout.success and rollout.steps < 200

def test_plain(): pass
"""
NEAR = [
    f"test_own.py::test_near[{task}-seed{seed}]"
    for task in ("put_the_bowl_on_the_stove", "push_the_plate_to_the_front_of_the_stove", STOVE)
    for seed in (0, 1)
]


@pytest.fixture
def own(project: pytest.Pytester) -> Callable[[str], None]:
    """Writes test_own.py, the only tests of the project."""
    (project.path / "test_mine.py").unlink()

    def write(text: str) -> None:
        project.makepyfile(test_own=text)

    return write


def marked(arguments: str) -> str:
    return f"import pytest\n\n@pytest.mark.vla({arguments})\ndef test_it(rollout): assert rollout.success\n"


def ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def last_run(project: pytest.Pytester) -> Path:
    results = project.path / ".vla"
    return results / run_names(results)[-1]


def records(project: pytest.Pytester) -> list[Record]:
    return records_of(project.path / ".vla")


def test_it_gives_a_test_its_episodes(vla: Run, project: pytest.Pytester, own: Callable[[str], None]) -> None:
    own(MARKED)
    result = vla(STRAIGHT, "-v")
    result.assert_outcomes(passed=6, deselected=1)
    assert [record.node for record in records(project)] == NEAR
    result.stdout.fnmatch_lines(["test_own.py::test_near * 6 * 6/6 * 100.0% *"])


@BOTH
def test_two_tests_on_one_case_keep_both_records(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None], workers: str
) -> None:
    mark = f'@pytest.mark.vla(suite="libero_goal", tasks="{STOVE}")'
    own(f"import pytest\n{mark}\ndef test_a(rollout): pass\n{mark}\ndef test_b(rollout): assert rollout.steps < 3\n")
    result = vla("test_own.py", STRAIGHT, "--vla-suite=libero_goal", f"--vla-tasks={STOVE}", workers)
    result.assert_outcomes(passed=2, failed=1)
    found = {record.node: record for record in records(project)}
    assert len(records(project)) == 3
    suites = f"libero_goal::test_episode[{STOVE}-seed0]"
    assert set(found) == {f"test_own.py::test_{name}[{STOVE}-seed0]" for name in "ab"} | {suites}
    assert {record.outcome for record in found.values()} == {"success"}, "an assertion changes no record"
    files = {str(record.arrays) for record in found.values()}
    assert len(files) == 3
    for file in files:
        with np.load(last_run(project) / file) as arrays:
            assert len(arrays["actions"]) == 5
    result.stdout.fnmatch_lines(
        ["libero_goal * 1 * 1/1 *", "test_own.py::test_a * 1 * 1/1 *", "test_own.py::test_b * 1 * 1/1 *"]
    )


def test_a_failed_assertion_says_how_the_episode_ended(vla: Run, own: Callable[[str], None]) -> None:
    own(marked(f'suite="libero_goal", tasks="{STOVE}"'))
    result = vla("--vla-model=policies:still")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*<Rollout libero_goal/turn_on_the_stove[[]seed0[]]: not done after 300 of 300 steps>*",
            "*Captured vla setup*",
            "*does not hold  (beyond point_1 line_1)",
            f"*run it alone: pytest 'test_own.py::test_it[[]{STOVE}-seed0[]]' --vla-model=policies:still "
            "--vla-video=all -p pytest_vla.testing",
        ]
    )


def test_a_test_that_expects_failure_passes(vla: Run, project: pytest.Pytester, own: Callable[[str], None]) -> None:
    own(marked(f'suite="libero_goal", tasks="{STOVE}"').replace("assert", "assert not"))
    vla("--vla-model=policies:still").assert_outcomes(passed=1)
    assert [record.outcome for record in records(project)] == ["failure"]


def test_an_error_is_an_error(vla: Run, project: pytest.Pytester, own: Callable[[str], None]) -> None:
    own(marked(f'suite="libero_goal", tasks="{STOVE}", seeds=[12, 13]'))
    vla("--vla-model=policies:shapeless").assert_outcomes(errors=1, skipped=1)
    assert [record.outcome for record in records(project)] == ["error", "invalid"]


@pytest.mark.usefixtures("own_processes")
def test_without_a_model_a_test_is_one_skip(vla: Run, project: pytest.Pytester, own: Callable[[str], None]) -> None:
    own(MARKED.replace("test_plain(): pass", "test_plain():\n    import sys\n    assert 'numpy' not in sys.modules"))
    # The fake world imports numpy, and is not wanted here.
    result = project.runpytest_subprocess("-p", "no:hypothesispytest", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED [[]1[]] test_own.py:3: no policy: add --vla-model=expert, *"])
    assert not (project.path / ".vla").exists()
    own(MARKED)
    vla("-n2").assert_outcomes(passed=1, skipped=1)
    vla(NEAR[3]).assert_outcomes(skipped=1)


def test_collection_lists_all_episodes_without_a_model(vla: Run, own: Callable[[str], None]) -> None:
    own(MARKED)
    assert ids(vla("--collect-only", "-q")) == [*NEAR, "test_own.py::test_plain"]


def test_pytests_own_selection(vla: Run, own: Callable[[str], None]) -> None:
    own(MARKED)
    assert ids(vla("--collect-only", "-q", "-m", "vla")) == NEAR
    assert ids(vla("--collect-only", "-q", "-m", "not vla")) == ["test_own.py::test_plain"]
    assert ids(vla("--collect-only", "-q", "-k", f"{STOVE} and seed1")) == [NEAR[-1]]
    vla(STRAIGHT, "-n2").assert_outcomes(passed=6)
    vla(STRAIGHT, "test_own.py").assert_outcomes(passed=7)


def test_the_last_failed(vla: Run, project: pytest.Pytester, own: Callable[[str], None]) -> None:
    own(MARKED.replace("rollout.steps < 200", "rollout.record.seed == 0"))
    vla(STRAIGHT).assert_outcomes(passed=3, failed=3, deselected=1)
    vla(STRAIGHT, "--lf").assert_outcomes(failed=3)
    assert {record.seed for record in records(project)} == {1}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('suite="libero_goal", tasks="*stove", seeds="1,3"', [(STOVE, 1), (STOVE, 3)]),
        ('suite="libero_goal", tasks=["milk", "TURN_ON"], seeds=4', None),
        ('suite=["libero_goal"], tasks=["TURN_ON", "turn_on*"], seeds=[4, 2, 4]', [(STOVE, 4), (STOVE, 2)]),
        ('suite="libero_goal", tasks=("turn_on",)', [(STOVE, 0)]),
        ('suite="libero_goal", tasks={"turn_on"}, seeds={3}', [(STOVE, 3)]),
        ('suite="libero_goal", tasks="turn_on", seeds=__import__("numpy").arange(2)', [(STOVE, 0), (STOVE, 1)]),
    ],
)
def test_the_forms_of_its_arguments(
    vla: Run, own: Callable[[str], None], arguments: str, wanted: list[tuple[str, int]] | None
) -> None:
    own(marked(arguments))
    result = vla("--collect-only", "-q", "-k", STOVE)
    if wanted is None:
        result.stdout.fnmatch_lines(["*no task of libero_goal is 'milk'*"])
    else:
        assert ids(result) == [f"test_own.py::test_it[{task}-seed{seed}]" for task, seed in wanted]


def test_several_suites_stand_in_the_id(vla: Run, own: Callable[[str], None]) -> None:
    own(marked('suite=["libero_object", "libero_goal"], tasks=["milk", "turn_on"]'))
    milk = f"test_own.py::test_it[libero_object-{MILK}-seed0]"
    stove = f"test_own.py::test_it[libero_goal-{STOVE}-seed0]"
    assert ids(vla("--collect-only", "-q")) == [milk, stove]
    vla(STRAIGHT, milk.replace("seed0", "seed7")).assert_outcomes(passed=1)


def test_the_marker_of_a_class_and_a_module(vla: Run, own: Callable[[str], None]) -> None:
    own(
        f"""
        import pytest
        pytestmark = pytest.mark.vla(suite="libero_goal", tasks="{STOVE}")

        def test_module(rollout): pass

        def test_other(): pass

        @pytest.mark.vla(seeds=[1, 2])
        class TestClass:
            def test_class(self, rollout): pass

            @pytest.mark.vla(seeds=5)
            @pytest.mark.parametrize("n", [1])
            def test_method(self, n, rollout): pass
        """
    )
    assert ids(vla("--collect-only", "-q")) == [
        f"test_own.py::test_module[{STOVE}-seed0]",
        "test_own.py::test_other",
        f"test_own.py::TestClass::test_class[{STOVE}-seed1]",
        f"test_own.py::TestClass::test_class[{STOVE}-seed2]",
        f"test_own.py::TestClass::test_method[{STOVE}-seed5-1]",
    ]
    vla(STRAIGHT, f"test_own.py::TestClass::test_method[{STOVE}-seed9-1]").assert_outcomes(passed=1)


def test_the_command_line_narrows_tasks_and_replaces_seeds(vla: Run, own: Callable[[str], None]) -> None:
    own(MARKED)
    goal = ("--collect-only", "-q", "-m", "vla")
    assert ids(vla(*goal, "--vla-tasks=bowl,plate")) == NEAR[:4]
    seven = [f"{name[:-2]}7]" for name in NEAR[::2]]
    assert ids(vla(*goal, "--vla-seeds=7")) == seven
    assert ids(vla(*goal, "--vla-episodes=1")) == NEAR[::2]
    # An id names its episode whatever is selected beside it, and adds that alone.
    assert ids(vla(seven[1], "--collect-only", "-q")) == [seven[1]]
    assert ids(vla(seven[2], NEAR[0], "--vla-tasks=bowl", *goal)) == [seven[2], NEAR[0]]
    assert ids(vla("test_own.py", seven[1], *goal)) == sorted([*NEAR, seven[1]], key=[*NEAR, seven[1]].index)


def test_a_test_with_no_task_left_is_deselected(vla: Run, own: Callable[[str], None]) -> None:
    own(MARKED)
    vla(STRAIGHT, "--vla-tasks=rack", "test_own.py").assert_outcomes(passed=1, deselected=1)
    strict = ("-o", "empty_parameter_set_mark=fail_at_collect")
    vla(STRAIGHT, "--vla-tasks=rack", "test_own.py", *strict).assert_outcomes(passed=1, deselected=1)
    vla(STRAIGHT, "--vla-tasks=rack", "test_own.py", "-n2").assert_outcomes(passed=1)
    result = vla(STRAIGHT, "--vla-tasks=rack")
    result.assert_outcomes(deselected=2)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


@ALONE
def test_a_policy_without_a_test_for_it_is_told_what_to_do(vla: Run, own: Callable[[str], None], workers: str) -> None:
    own("def test_plain(): pass\n")
    result = vla(STRAIGHT, workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = result.stdout.str() + result.stderr.str()
    assert "no test here runs an episode. Name a suite, as in --vla-suite=tabletop, or mark a test" in said
    assert "libero" not in said, "its data is not everywhere"
    assert "INTERNALERROR" not in said
    vla(STRAIGHT, "test_own.py", workers).assert_outcomes(passed=1)


def test_a_model_of_the_ini_file_leaves_other_tests_in(vla: Run, own: Callable[[str], None]) -> None:
    own(MARKED + "\n")
    vla("-o", "vla_model=policies:straight").assert_outcomes(passed=7)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("", "no suite is named: expected, for example, @pytest.mark.vla(suite="),
        ('"libero_goal"', "expected keywords, not 'libero_goal'"),
        ('suite="libero_gaol"', "there is no suite 'libero_gaol'. Did you mean libero_goal"),
        ('suite="libero_goal", tasks="stoev"', "no task of libero_goal is 'stoev' or contains it. Did you mean stove"),
        ('suite="libero_goal", task="stove"', "unknown keyword 'task'. Did you mean tasks"),
        ('suite=3, tasks="stove"', "suite=3: expected a name or a list of names"),
        ('suite="libero_goal", tasks=["stove", 1]', "tasks=['stove', 1]: expected a name or a list of names"),
        ('suite="libero_goal", tasks=[]', "tasks=[] names nothing"),
        ('suite="libero_goal", seeds=-1', "seeds=-1: expected a number (0 to 4294967295)"),
        ('suite="libero_goal", seeds=True', "seeds=True: expected a number (0 to 4294967295)"),
        ('suite="libero_goal", seeds=1.0', "seeds=1.0: expected a number (0 to 4294967295)"),
        ('suite="libero_goal", seeds=[]', "seeds=[]: it has no seed"),
        ('suite="libero_goal", seeds="9-2"', "9-2 runs backwards; write 2-9"),
        ('suite="libero_goal", seeds=(n for n in (1, 2))', "it can be read only once, by one test"),
        ('suite="libero_goal", seeds=range(10**9)', "more than 1000000 seeds"),
    ],
)
def test_what_is_wrong_in_it_is_told_with_its_place(
    vla: Run, own: Callable[[str], None], arguments: str, complaint: str
) -> None:
    own(marked(arguments))
    result = vla()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    text = result.stdout.str()
    assert "test_own.py:3: test_it: @pytest.mark.vla: " in text
    assert complaint in text
    assert "Traceback" not in text
    result.assert_outcomes(errors=1)


def test_a_marked_test_that_takes_no_rollout(vla: Run, own: Callable[[str], None]) -> None:
    own(marked('suite="libero_goal"').replace("(rollout): assert rollout.success", "(): pass"))
    vla().stdout.fnmatch_lines(["*test_own.py:3: test_it: @pytest.mark.vla: *give it the argument `rollout`"])


def test_a_marker_of_another_meaning_is_left_alone(vla: Run, own: Callable[[str], None]) -> None:
    own(
        """
        import pytest

        @pytest.fixture
        def rollout(): return "theirs"

        @pytest.mark.vla("x", colour="red")
        def test_theirs(rollout): assert rollout == "theirs"

        @pytest.mark.vla
        def test_bare(): pass
        """
    )
    vla("--strict-markers").assert_outcomes(passed=2)


def test_the_command_that_is_shown_runs_just_that_item(vla: Run, own: Callable[[str], None]) -> None:
    own(MARKED)
    shown = vla("--vla-model=policies:still", "--vla-seeds=6", "-k", STOVE).stdout.str()
    ((item, model),) = re.findall(r"run it alone: pytest '([^']+)' (\S+)", shown)
    result = vla(item, model, "-v")
    result.assert_outcomes(failed=1)
    assert f"{item} FAILED" in result.stdout.str()


def test_an_id_names_the_test_of_its_class_and_file_alone(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None]
) -> None:
    mark = f'@pytest.mark.vla(suite="libero_goal", tasks="{STOVE}")'
    text = f"import pytest\n\nclass TestA:\n    {mark}\n    def test_e(self, rollout): pass\n\n"
    text += text.partition("\n\n")[2].replace("TestA", "TestB")
    own(text)
    project.makepyfile(test_third=text)
    typed = (f"test_own.py::TestA::test_e[{STOVE}-seed4]", "test_own.py::TestB", "test_third.py")
    result = vla(*typed, STRAIGHT, "--collect-only", "-q")
    assert ids(result) == [
        f"test_own.py::TestA::test_e[{STOVE}-seed4]",
        f"test_own.py::TestB::test_e[{STOVE}-seed0]",
        f"test_third.py::TestA::test_e[{STOVE}-seed0]",
        f"test_third.py::TestB::test_e[{STOVE}-seed0]",
    ]


def test_the_last_seed_is_the_last(vla: Run, own: Callable[[str], None]) -> None:
    own(marked(f'suite="libero_goal", tasks="{STOVE}", seeds=2**32'))
    result = vla("test_own.py", STRAIGHT)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*seeds=4294967296: expected a number (0 to 4294967295)*"])
    own(marked(f'suite="libero_goal", tasks="{STOVE}"'))
    vla(f"test_own.py::test_it[{STOVE}-seed4294967295]", STRAIGHT).assert_outcomes(passed=1)
    result = vla(f"test_own.py::test_it[{STOVE}-seed4294967296]", STRAIGHT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: not found: *"])


def test_what_it_says_of_itself_has_every_name_that_selects() -> None:
    task = load_suite("tabletop").tasks[0]
    for label in ("language.paraphrase.addition_deletion.hint", "language.blank"):
        variation = find_variation(task, label, 0)
        assert variation is not None
        names = {"dimension", "kind", "level"} | variation.parameters.keys() & {"object_type", "action_type"}
        values = {variation.parameters[name] for name in names & variation.parameters.keys()}
        assert {*KEYWORDS, *names, *values} <= set(re.findall(r"\w+", ABOUT))
    assert len(re.findall(r"\w+", ABOUT.partition("have object_type")[2])) == len((*OBJECT_TYPES, *ACTION_TYPES)) + 2
    assert "without arguments" not in ABOUT


@pytest.mark.parametrize(
    ("expression", "told"),
    [("dimension='gaussian'", "dimension is 'camera'"), ("kinds='gaussian'", "no episode has 'kinds', they have ")],
)
def test_values_that_no_episode_has_are_told(vla: Run, expression: str, told: str) -> None:
    marks = (f"--vla-tasks={STOVE}", "--vla-suite=libero_goal", "--vla-vary=camera", "--collect-only")
    result = vla(*marks, STRAIGHT, "-m", f"vla({expression})")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result.stdout.fnmatch_lines(f'vla: -m "vla({expression})" selects no episode: {told}*')
    assert told not in vla(*marks, STRAIGHT, "-m", "vla(dimension='camera')").stdout.str()

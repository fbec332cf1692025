"""Varied episodes as items: ids, what the policy is told, records, twins, samples, resuming."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.listening import HEADER, LISTENING, ROWS
from tests.support.runs import last_records, run_names
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")


@pytest.fixture(autouse=True)
def listening(project: pytest.Pytester) -> None:
    project.makepyfile(listening=LISTENING)


@pytest.fixture
def para(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = project.path / "para" / "libero_para_metadata.csv"
    file.parent.mkdir()
    file.write_text(HEADER + ROWS)
    for kind in ("assets", "bddl_files", "init_files"):
        (file.parent / kind).mkdir()
    monkeypatch.setenv("PYTEST_VLA_DATA", str(file.parent))
    return file


@BOTH
def test_a_varied_episode_and_its_twin(vla: Run, project: pytest.Pytester, workers: str) -> None:
    result = vla(
        *STOVE, "--vla-model=listening:policy", "--vla-vary=language.blank,language.words:1", "--vla-twins=auto",
        "--vla-seeds=0-1", workers, "-v",
    )  # fmt: skip
    # A probe fails no test: it asks what the policy does.
    result.assert_outcomes(passed=4, failed=2)
    records = last_records(project.path / ".vla")
    blank = records["libero_goal/turn_on_the_stove[language.blank-seed1]"]
    words = records["libero_goal/turn_on_the_stove[language.words-L1-seed1]"]
    twin = records["libero_goal/turn_on_the_stove[seed1]"]
    assert (blank.instruction, blank.outcome, blank.twin, twin.twin) == ("", "failure", twin.case, twin.case)
    assert twin.variation == {}
    assert (words.variation["kind"], words.variation["level"], words.variation["dimension"]) == ("words", 1, "language")
    assert words.instruction != twin.instruction == "turn on the stove"
    assert all(record.of_suite for record in records.values())
    assert len({record.arrays for record in records.values()}) == 6
    assert blank.seeds == twin.seeds
    result.stdout.fnmatch_lines(["*libero_goal::test_episode[[]turn_on_the_stove-language.blank-seed1[]]*"])


def test_a_pasted_id_of_a_varied_episode(vla: Run, project: pytest.Pytester) -> None:
    node = "libero_goal::test_episode[turn_on_the_stove-language.nonsense-seed4]"
    vla(node, "--vla-model=listening:policy").assert_outcomes(passed=1)
    (record,) = last_records(project.path / ".vla").values()
    assert (record.node, record.variation["kind"], record.outcome) == (node, "nonsense", "failure")
    result = vla(node.replace("nonsense", "nonsens"), "--vla-model=listening:policy")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no variation 'language.nonsens'. Did you mean language.nonsense*"])


def test_a_stopped_run_of_variations_goes_on(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, "--vla-model=listening:policy", "--vla-vary=language.words:1-2", "-x").assert_outcomes(failed=1)
    vla("--vla-resume").assert_outcomes(failed=1)
    assert len(run_names(project.path / ".vla")) == 1
    assert len(last_records(project.path / ".vla")) == 2


def test_what_a_task_cannot_have_is_told_before_anything_runs(vla: Run) -> None:
    result = vla(*STOVE, "--vla-model=listening:policy", "--vla-vary=language.words:4")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*W4 of 'turn on the stove': it has 2 replaceable words*"])


def test_what_is_left_out_is_told_without_a_header_and_where_warnings_are_errors(vla: Run) -> None:
    tasks = "--vla-tasks=turn_on_the_stove,put_the_bowl_on_the_stove"
    suite = ("--vla-suite=libero_goal", tasks, "--vla-model=listening:policy", "--vla-vary=language.words:3")
    result = vla(*suite, "--collect-only", "-q", "-W", "error")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["vla: left out: language.words of libero_goal/turn_on_the_stove: W3 of *"])


def test_the_paper_s_protocol_takes_the_paper_s_words(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_protocol = paper\n")
    vary = (*STOVE, "--vla-model=listening:policy", "--vla-vary=language.words:2")
    for protocol, kind in (("paper", "words_paper"), ("ours", "words")):
        vla(*vary, *(["--vla-protocol=ours"] if protocol == "ours" else [])).assert_outcomes(failed=1)
        (record,) = last_records(project.path / ".vla").values()
        assert record.case == f"libero_goal/turn_on_the_stove[language.{kind}-L2-seed0]"
        assert (record.variation["kind"], record.variation["parameters"]["protocol"]) == (kind, protocol)


def test_parts_of_joint_variations_are_selected_too(vla: Run) -> None:
    joint = (*STOVE, "--vla-model=listening:policy", "--vla-vary=camera.wider+light.diffuse:3", "--collect-only", "-q")
    for expression in ("dimension='camera'", "kind='diffuse'", "dimension='light+camera'", "level=3"):
        result = vla(*joint, "-m", f"vla({expression})")
        result.stdout.fnmatch_lines(
            ["libero_goal::test_episode[[]turn_on_the_stove-light.diffuse-L3+camera.wider-L3-*"]
        )
    assert vla(*joint, "-m", "vla(dimension='noise')").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_the_list_of_variations(vla: Run) -> None:
    result = vla("--vla-vary=list")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["  language.words:1-4 *", "*VLA-Arena's W1-W4", "  language.words_paper:1-4 *"])


def test_what_some_tasks_cannot_have_is_left_out_and_named(vla: Run) -> None:
    tasks = "--vla-tasks=turn_on_the_stove,put_the_bowl_on_the_stove"
    result = vla("--vla-suite=libero_goal", tasks, "--vla-model=listening:policy", "--vla-vary=language.words:3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["vla: left out: language.words of libero_goal/turn_on_the_stove: W3 of *it has 2 replaceable words*"]
    )


def test_what_changes_nothing_is_an_error(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        from pytest_vla.scene.variation import Edits
        from pytest_vla.vary.axes import language
        from pytest_vla.vary.kind import VariationKind

        def same(task, params):
            return Edits(instruction=task.language)

        language.KINDS += (VariationKind("language.same", "the same again", "a test", lambda draw: {}, same),)
        """
    )
    result = vla(*STOVE, "--vla-model=listening:policy", "--vla-vary=language.same")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*language.same of libero_goal/turn_on_the_stove with seed 0 changes nothing*"])


def test_a_marker_goes_before_the_ini_file_and_the_command_line_before_both(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_vary = language.words:1\n")
    project.makepyfile(
        test_own="""
        import pytest
        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", vary="language.blank")
        def test_blank(rollout): pass
        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove")
        def test_words(rollout): pass
        """
    )
    own = ("test_own.py", "--vla-model=listening:policy", "--collect-only", "-q")
    vla(*own).stdout.fnmatch_lines(["*test_blank[[]*-language.blank-*", "*test_words[[]*-language.words-L1-*"])
    result = vla(*own, "--vla-vary=language.nonsense")
    result.stdout.fnmatch_lines(["*test_blank[[]*-language.nonsense-*", "*test_words[[]*-language.nonsense-*"])


def test_an_ini_value_is_a_text(vla: Run, project: pytest.Pytester) -> None:
    project.makepyprojecttoml("[tool.pytest.ini_options]\nvla_vary = ['camera:1', 'light:3']\n")
    result = vla(*STOVE, "--vla-model=listening:policy", "-W", "ignore")
    result.stderr.fnmatch_lines(["*pyproject.toml: vla_vary = [[]*: expected a text; separate several values *"])
    project.makepyprojecttoml("[tool.pytest.ini_options]\nvla_vary = 'list'\n")
    result = vla(*STOVE, "--vla-model=listening:policy")
    result.stderr.fnmatch_lines(["*pyproject.toml: vla_vary: there is no variation 'list'*"])


def test_variations_of_the_ini_file_and_of_a_marker(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_vary = language.words:1\nvla_twins = auto\n")
    vla(*STOVE, "--vla-model=listening:policy").assert_outcomes(passed=1, failed=1)
    project.makeini("[pytest]\nvla_vary = language.wrds\n")
    result = vla(*STOVE, "--vla-model=listening:policy")
    result.stderr.fnmatch_lines(
        ["*tox.ini: vla_vary: there is no variation 'language.wrds'. Did you mean language.words*"]
    )
    project.makeini("[pytest]\n")
    project.makepyfile(
        test_own="""
        import pytest
        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", vary="language.blank,language.words:1")
        def test_it_listens(rollout):
            assert not rollout.success
        """
    )
    vla("test_own.py", "--vla-model=listening:policy").assert_outcomes(passed=2)
    vla("test_own.py", "--vla-model=listening:policy", "--vla-twins=auto").assert_outcomes(passed=2, failed=1)
    vla("test_own.py", "--vla-model=listening:policy", "--vla-sample=1").assert_outcomes(passed=1)
    vla("test_own.py", "--vla-model=listening:policy", "--vla-vary=language.nonsense").assert_outcomes(passed=1)


def test_own_tests_are_varied_too(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_own="""
        import pytest
        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove")
        def test_it_listens(rollout):
            assert not rollout.success
        """
    )
    vla("test_own.py", "--vla-model=listening:policy", "--vla-vary=language.blank").assert_outcomes(passed=1)


def test_libero_para_by_cells(vla: Run, project: pytest.Pytester, para: Path) -> None:
    suite = ("--vla-suite=libero_para", "--vla-tasks=turn_on", "--vla-model=listening:policy")
    result = vla(*suite, "-m", "vla(object_type='addition_deletion')", "--vla-seeds=7-8", "--collect-only", "-q")
    assert [line for line in result.outlines if "::" in line] == [
        f"libero_para::test_episode[turn_on_the_stove-addition_deletion.none.{index}-seed{seed}]"
        for index in (0, 1)
        for seed in (7, 8)
    ]
    assert (
        "3/15 tests"
        in vla(
            *suite, "-k", "none.addition_deletion and (seed7 or seed8 or seed9)", "--collect-only", "-q"
        ).stdout.str()
    )
    vla(*suite, "--vla-sample=2", "--vla-run-seed=3", "--vla-twins=auto").assert_outcomes(passed=2, failed=2)
    records = last_records(project.path / ".vla").values()
    varied = [record for record in records if record.variation]
    assert {record.variation["parameters"]["object_type"] for record in varied} == {"none", "addition_deletion"}
    assert {record.seeds["init_state"] for record in records} == {0}
    assert all(record.instruction in ROWS for record in records)


@pytest.mark.slow
def test_a_sample_is_even_over_dimensions(vla: Run) -> None:
    """43 paraphrases, two dimensions of a kind each: ten of each of the three."""
    suite = ("--vla-suite=libero_goal", "--vla-model=listening:policy", "--vla-seeds=0-1", "--collect-only", "-q")
    vary = "--vla-vary=language.paraphrase,action.delay,light.diffuse"
    drawn = [line for line in vla(*suite, vary, "--vla-sample=30").outlines if "::" in line]
    assert len(drawn) == 30
    for kind in ("language.paraphrase", "action.delay", "light.diffuse"):
        assert sum(kind in line for line in drawn) == 10
    for level in range(1, 6):
        assert sum(f"action.delay-L{level}-" in line for line in drawn) == 2
    fewer = [line for line in vla(*suite, vary, "--vla-sample=12").outlines if "::" in line]
    assert set(fewer) < set(drawn), "a smaller sample is part of a larger one"
    other = [line for line in vla(*suite, vary, "--vla-sample=30", "--vla-run-seed=1").outlines if "::" in line]
    assert other != drawn


def test_a_varied_suite_is_not_varied_again(vla: Run, para: Path) -> None:
    result = vla("--vla-suite=libero_para", "--vla-model=listening:policy", "--vla-vary=language.blank")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*libero_para is already varied; use the suite libero_goal for your own changes*"])

"""Suites that bring their own world: run, resumed, filmed, on workers; and what of variations they can have."""

from collections.abc import Callable

import pytest

from pytest_vla.metrics.selection import by_model
from pytest_vla.plan.costs import Charge, totals
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import load_trajectory
from tests.support.own_worlds import CONFTEST, POLICIES
from tests.support.runs import digests, records_of, run_names
from tests.support.slow import slow
from tests.support.videos import read

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def point(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in a project whose conftest.py adds the point's suites; no simulator's place is taken."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(pushing=POLICIES)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_VLA_DATA"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: pytester.runpytest_subprocess("-p", "no:hypothesispytest", *arguments)


def test_episodes_of_a_suites_own_world_are_recorded(point: Run, pytester: pytest.Pytester) -> None:
    result = point("--vla-suite=point", "--vla-model=pushing:right", "--vla-seeds=0-1", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["point::test_episode[[]push_the_point-seed0[]] PASSED*"])
    first, second, *_ = records_of(pytester.path / ".vla")
    assert (first.outcome, first.steps, second.steps) == ("success", 5, 5)
    assert first.literals == {"(success)": ((0, False), (5, True))}
    assert [(charge.name, charge.step, charge.amount) for charge in first.costs] == [
        ("sideways", step, pytest.approx(0.025)) for step in range(1, 6)
    ]
    assert totals(first.costs) == {"sideways": pytest.approx(0.125)}
    assert first.eef_pos == pytest.approx((0.25, 0.125, 0.0))
    assert first.protocol["action_size"] == 2
    assert first.provenance["world"] == "pytest_vla.testing.PointWorld"
    trajectory = load_trajectory(pytester.path / ".vla" / first.run / str(first.arrays))
    assert (trajectory.qpos.shape, trajectory.qvel.shape, trajectory.actions.shape) == ((6, 2), (6, 0), (5, 2))
    digest = digests(pytester.path / ".vla")
    point("--vla-suite=point", "--vla-model=pushing:right", "--vla-seeds=0-1", "-n2").assert_outcomes(passed=4)
    assert digests(pytester.path / ".vla") == digest, "workers change nothing"
    again = point("--vla-suite=point", "--vla-seeds=0-1", f"--vla-model=replay:.vla/{first.run}")
    again.assert_outcomes(passed=4)
    assert digests(pytester.path / ".vla") == digest


def test_what_ends_and_what_does_not_fit_is_told(point: Run, pytester: pytest.Pytester) -> None:
    one = ("--vla-suite=point", "--vla-tasks=push")
    result = point(*one, "--vla-model=pushing:aside")
    result.assert_outcomes(failed=1)
    (record,) = records_of(pytester.path / ".vla")
    assert record.outcome == "failure"
    assert record.steps in (10, 11), "it has fallen, long before the limit"
    result = point(*one, "--vla-model=pushing:wide")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["error policy-shape *: a session returns an action (2,) or a chunk (k, 2); *(7,)*"])
    point(*one, "--vla-model=random").assert_outcomes(failed=1)
    result = point("--lf", *one, "--vla-model=pushing:right")
    result.assert_outcomes(passed=1)
    # An id names its episode, and so does what a run left.
    point("point::test_episode[push_the_point-seed3]", "--vla-model=pushing:right").assert_outcomes(passed=1)
    assert [record.seed for record in records_of(pytester.path / ".vla")] == [3]


BROKEN = """
    import numpy as np
    from pytest_vla import testing
    from pytest_vla.entries import MetricEntry, SuiteEntry

    def pytest_vla_suites():
        return [SuiteEntry(name, "broken", f":{name}") for name in ("lost", "undecided", "costly", "grey")]

    def pytest_vla_metrics():
        return [MetricEntry("leaving", "ends", ":leaving"), MetricEntry("writing", "writes", ":writing")]

    class Lost(testing.PointWorld):
        def save(self):
            return np.full(2, np.nan) if self._at[1] else super().save()

    class Undecided(testing.PointWorld):
        def predicates(self):
            return {}
        def success(self):
            return None

    class Costly(testing.PointWorld):
        def costs(self):
            return {"force": float("nan")}

    class Grey(testing.PointWorld):
        def step(self, action):
            return self._blurred(super().step(action))
        def reset(self, case):
            return self._blurred(super().reset(case))
        def _blurred(self, seen):
            return {**seen, "front_image": seen["front_image"] / 2}

    def grey(): return testing.point_suite("grey", Grey)
    def lost(): return testing.point_suite("lost", Lost)
    def undecided(): return testing.point_suite("undecided", Undecided)
    def costly(): return testing.point_suite("costly", Costly)

    def leaving(record, trajectory):
        raise SystemExit(0)

    def writing(record, trajectory):
        record.metrics["clipped_actions"] = 5.0
        trajectory.actions[:] = 7
"""


def test_a_broken_world_is_an_error_by_name_and_a_metric_changes_nothing(point: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(BROKEN)
    for suite, reason in (
        ("lost", "the world's state holds NaN"),
        ("undecided", "success() is None, expected True or False"),
        ("costly", "costs() gives what is no finite number: force=nan"),
        # Its policy never looks.
        ("grey", "camera front: front_image is (32, 48, 3) float64, expected (H, W, 3) uint8"),
    ):
        result = point(f"--vla-suite={suite}", "--vla-tasks=push", "--vla-model=pushing:right")
        result.assert_outcomes(errors=1)
        (record,) = records_of(pytester.path / ".vla")
        assert (record.outcome, record.reason) == ("error", "world-protocol")
        assert reason in str(record.message)
        assert record.metrics.get("clipped_actions", 0.0) == 0.0
        result.stdout.fnmatch_lines(["*metric leaving (*) raised SystemExit*", "*metric writing (*) raised *"])


CHARGING = """
    import numpy as np
    from dataclasses import replace
    from pytest_vla import testing
    from pytest_vla.entries import SuiteEntry
    from pytest_vla.plan.costs import Charge

    WRONG = {
        "negative": {"force": -1.0},
        "absurd": {"force": 1e300},
        "unnumbered": {"force": "much"},
        "unnamed": [Charge("", 1.0)],
        "late": [Charge("force", 1.0, step=7)],
        "untold": [("force", 1.0)],
        "text": "force",
        "renamed": {"force": 1.0},
    }

    def pytest_vla_suites():
        return [SuiteEntry(name, "charges", f":{name}") for name in ("charging", *WRONG)]

    class Charging(testing.PointWorld):
        def costs(self):
            step = round(self._at[1] / 0.025)
            return [Charge("fall", 0.0), Charge("touch", 2.0, by="vase", text="12.3 N")] if step < 3 else []
        def series(self):
            return {"own.force": self._at.copy(), "touched": bool(self._at[0] > 0.1)}

    def charging():
        made = testing.point_suite("charging", Charging)
        protocol = replace(made.protocol, init_states=3)
        tasks = tuple(replace(task, protocol=protocol) for task in made.tasks)
        return replace(made, tasks=tasks, protocol=protocol)

    def _wrong(name):
        class World(testing.PointWorld):
            def costs(self):
                return WRONG[name]
            def series(self):
                return {f"s{round(self._at[1] * 40)}": 1.0} if name == "renamed" else {}
        return lambda: testing.point_suite(name, World)

    globals().update({name: _wrong(name) for name in WRONG})
"""


def test_a_world_charges_by_entries_and_measures_series(point: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CHARGING)
    one = ("--vla-suite=charging", "--vla-tasks=push", "--vla-seeds=4", "--vla-model=pushing:right")
    point(*one).assert_outcomes(passed=1)
    (record,) = records_of(pytester.path / ".vla")
    touched = [Charge("touch", 2.0, step, "vase", "12.3 N") for step in (1, 2)]
    assert record.costs == (Charge("fall", 0.0, 1), *touched), "what costs nothing says so once"
    assert totals(record.costs) == {"fall": 0.0, "touch": 4.0}
    assert (record.seeds["init_state"], record.seeds["init_states"]) == (1, 3)
    series = load_trajectory(pytester.path / ".vla" / record.run / str(record.arrays)).series
    assert series.keys() == {"own.force", "touched"}
    assert series["own.force"].shape == (record.steps, 2)
    assert series["own.force"][-1] == pytest.approx([0.21, 0.125])
    assert series["touched"].tolist() == [False, False, True, True, True]
    digest = digests(pytester.path / ".vla")
    point(*one, "-n1").assert_outcomes(passed=1)
    assert (digests(pytester.path / ".vla"), records_of(pytester.path / ".vla")[0].costs) == (digest, record.costs)


def test_what_is_no_cost_and_no_series_is_an_error(point: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CHARGING)
    complaints = {
        "negative": "costs() gives what is no cost, which is 0 to 1e+12: force=-1.0",
        "absurd": "costs() gives what is no cost, which is 0 to 1e+12: force=1e+300",
        "unnumbered": "costs() gives what is no finite number: force='much'",
        "unnamed": "costs() gives '' as a name, expected a text",
        "late": "costs() gives force at step 7, expected none, or 0 to 1, which is now",
        "untold": "costs() gives tuple in a list, expected pytest_vla.plan.costs.Charge",
        "text": "costs() gives str, expected amounts by name, or a list of charges",
        "renamed": "series() gives {'s2': ()}, and gave {'s1': ()} before",
    }
    suites = [f"--vla-suite={','.join(complaints)}", "--vla-tasks=push", "--vla-model=pushing:right"]
    point(*suites).assert_outcomes(errors=len(complaints))
    records = {record.suite: record for record in records_of(pytester.path / ".vla")}
    for suite, complaint in complaints.items():
        assert (records[suite].reason, records[suite].message) == ("world-protocol", complaint)
    assert records["negative"].costs == ()


VERSIONED = """
    from pathlib import Path
    from pytest_vla import testing
    from pytest_vla.entries import SuiteEntry

    def pytest_vla_suites():
        return [SuiteEntry("versioned", "a point", ":versioned")]

    class World(testing.PointWorld):
        def reset(self, case):
            self._start = str(case.seed)
            return super().reset(case)
        def provenance(self):
            return {"engine": Path("engine").read_text(), "start": self._start}

    def versioned():
        return testing.point_suite("versioned", World)
"""


def test_a_run_is_not_gone_on_with_in_another_version_of_an_own_world(point: Run, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(VERSIONED)
    engine = pytester.path / "engine"
    engine.write_text("1.0")
    base = ("--vla-suite=versioned", "--vla-tasks=push", "--vla-seeds=0-1", "--vla-model=pushing:once")
    pytester.makepyfile(
        pushing="""
        from pathlib import Path
        import numpy as np

        def once(episode):
            if episode.seed == 1 and not Path("mended").exists():
                raise RuntimeError("not yet")
            return lambda observation: np.array([1.0, 0.0])
        """
    )
    point(*base).assert_outcomes(passed=1, errors=1)
    (first, broken) = records_of(pytester.path / ".vla")
    assert first.simulator == broken.simulator == ("engine", "start", "world")
    (pytester.path / "mended").touch()
    engine.write_text("2.0")
    result = point("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [f"*own world of versioned has changed since run {first.run} began: engine was '1.0' and is '2.0'. *"]
    )
    # What differs between cases is no other version.
    engine.write_text("1.0")
    point("--vla-resume").assert_outcomes(passed=1)
    engine.write_text("2.0")
    point(*base).assert_outcomes(passed=2)
    results = pytester.path / ".vla"
    rated = by_model(record for run in run_names(results) for record in records_of(results, run))
    assert {model for model, _ in rated} == {"pushing:once (engine 1.0)", "pushing:once (engine 2.0)"}


@pytest.mark.parametrize("workers", [pytest.param((), id="alone"), slow(("-n2",), id="workers")])
def test_an_interrupted_run_is_gone_on_with(point: Run, pytester: pytest.Pytester, workers: tuple[str, ...]) -> None:
    pytester.makepyfile(
        pausing="""
        import pathlib
        import signal
        import numpy as np

        def right(episode):
            if episode.seed == 2 and not pathlib.Path("go").exists():
                signal.raise_signal(signal.SIGINT)
            return lambda observation: np.array([1.0, 0])
        """
    )
    base = ("--vla-suite=point", "--vla-tasks=push", "--vla-seeds=0-3", "--vla-model=pausing:right")
    result = point(*base, *workers)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    left = 4 - len(records_of(pytester.path / ".vla"))
    result.assert_outcomes(passed=4 - left)
    result.stdout.fnmatch_lines([f"{left} not run: `pytest --vla-resume=* runs just these"])
    with open_store(pytester.path / ".vla", create=False) as store:
        assert store.run("last").status == "stopped"
    (pytester.path / "go").touch()
    point("--vla-resume").assert_outcomes(passed=left)
    ended = records_of(pytester.path / ".vla")
    assert sorted((record.seed, record.attempt) for record in ended) == [(seed, 1) for seed in range(4)]


CLOSING = """
    from pytest_vla import testing
    from pytest_vla.entries import SuiteEntry

    def pytest_vla_suites():
        return [SuiteEntry("closing", "breaks at its end", ":closing")]

    class Closing(testing.PointWorld):
        def close(self):
            raise RuntimeError("the window is gone")

    def closing(): return testing.point_suite("closing", Closing)
"""


@pytest.mark.parametrize("further", [(), ("-n2",), ("-Werror",)], ids=["alone", "workers", "strict"])
def test_an_episode_stands_whose_world_cannot_be_closed(
    point: Run, pytester: pytest.Pytester, further: tuple[str, ...]
) -> None:
    pytester.makeconftest(CLOSING)
    result = point("--vla-suite=closing", "--vla-model=pushing:right", "--vla-seeds=0-1", *further)
    result.assert_outcomes(passed=4)
    told = [line for line in result.outlines if "closing the world of closing raised RuntimeError" in line]
    assert len(told) == 1, result.outlines
    records = records_of(pytester.path / ".vla")
    assert [record.outcome for record in records] == ["success"] * 4
    result = point("--vla-resume", *further)
    result.stdout.fnmatch_lines(["vla: nothing is left of run *"])
    result.stdout.no_fnmatch_line("*window*")


@pytest.mark.parametrize("suite", ["point", "forgetful"])
def test_videos_are_of_recorded_states_or_of_frames_that_were_kept(
    point: Run, pytester: pytest.Pytester, suite: str
) -> None:
    result = point(f"--vla-suite={suite}", "--vla-tasks=push", "--vla-model=pushing:right", "--vla-video=all")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 video in *"])
    (file,) = (pytester.path / ".vla").rglob("*.mp4")
    frames, _ = read(file)
    # Steps 0, 2, 4 and 5, and the last one held for a second at ten frames a second.
    assert len(frames) == 4 + 10
    assert frames[0].shape[:2] == (32 + 20, 48)
    brightness = [float(frame[:32].mean()) for frame in frames]
    assert brightness[0] == pytest.approx(128, abs=4)
    assert brightness[3] == pytest.approx(128 + 300 * 0.25, abs=4)


def test_pictures_words_and_actions_are_varied_and_the_rest_says_why_not(point: Run, pytester: pytest.Pytester) -> None:
    vary = "noise.gaussian:3,language.blank,action.delay:5,camera:3,noise.plus.fog-3"
    result = point("--vla-suite=point", "--vla-tasks=push", f"--vla-vary={vary}", "--vla-model=pushing:looks")
    told = "*it changes a MuJoCo scene, and the suite has its own simulator"
    result.stdout.fnmatch_lines([f"vla: left out: camera.distance, *of point/push_the_point: {told}"])
    result.stdout.fnmatch_lines(
        ["vla: left out: noise.plus.fog-3 of *it changes pictures from agentview, but point has *"]
    )
    records = {record.variation["label"]: record for record in records_of(pytester.path / ".vla")}
    assert set(records) == {"noise.gaussian-L3", "language.blank", "action.delay-L5"}
    assert records["language.blank"].instruction == ""
    steps = {label: record.steps for label, record in records.items()}
    assert steps["action.delay-L5"] > steps["language.blank"]
    assert len({record.digest for record in records.values()}) == 3, "the policy saw noise"


@pytest.mark.usefixtures("own_processes")
def test_no_simulator_is_imported_for_a_suites_own_world(pytester: pytest.Pytester, point: Run) -> None:
    pytester.makepyfile(
        test_none="def test_none():\n    import sys\n    assert not {'mujoco', 'robosuite'} & set(sys.modules)\n"
    )
    result = point("--vla-suite=point", "--vla-model=pushing:right", "test_none.py")
    result.assert_outcomes(passed=3)


def test_a_suites_own_expert_runs_and_shows_what_is_infeasible(point: Run, pytester: pytest.Pytester) -> None:
    one = ("--vla-suite=point", "--vla-tasks=push")
    point(*one, "--vla-model=expert").assert_outcomes(passed=1)
    (record,) = records_of(pytester.path / ".vla")
    assert (record.policy, record.steps) == ("expert", 5)
    result = point("--vla-suite=forgetful", "--vla-tasks=push", "--vla-model=expert")
    result.assert_outcomes(errors=1)
    (record,) = records_of(pytester.path / ".vla")
    assert record.reason == "policy-privileged"
    assert "ForgetfulPointWorld, without an expert" in str(record.message)
    # 20 steps are enough with a delay, and not with actions that go nowhere.
    point(*one, "--vla-model=expert", "--vla-vary=action.delay:5", "--vla-check-feasible").assert_outcomes(passed=1)
    pytester.makepyfile(
        stuck="""
        from pytest_vla.entries import VariationEntry
        from pytest_vla.scene.variation import Edits
        from pytest_vla.vary.kind import VariationKind

        def pytest_vla_variations():
            return [VariationEntry("ours", "stuck", ":KINDS")]

        def apply(task, params):
            return Edits(actions=(lambda: lambda action: 0 * action,))

        KINDS = (VariationKind("ours.stuck", "stuck", "a test", lambda draw: {}, apply, needs=()),)
        """
    )
    stuck = ("-p", "stuck", "--vla-vary=ours.stuck", "--vla-check-feasible")
    pytester.syspathinsert()
    point(*one, "--vla-model=pushing:right", *stuck).assert_outcomes(skipped=1)
    (record,) = records_of(pytester.path / ".vla")
    assert (record.outcome, record.reason) == ("invalid", "infeasible")

"""--vla-metrics in a run: what is kept, who is asked for what, and what is refused before the first episode."""

from collections.abc import Callable

import pytest

from pytest_vla.records.trajectory import load_trajectory
from tests.support.runs import records_of

Run = Callable[..., pytest.RunResult]

UNSURE = """
import numpy as np
from pytest_vla.policies.base import Answer
from pytest_vla.policies.tokens import token_statistics

class Unsure:
    max_batch, reads = 8, ("state",)

    def begin(self, episode):
        with open("wishes.txt", "a") as stream:
            stream.write(f"{episode.wishes.samples} {episode.wishes.token_probabilities}\\n")
        return episode

    def act(self, episodes, observations):
        return [self.answer(episode) for episode in episodes]

    def answer(self, episode):
        chunk = np.tile([0.5, 0, 0, 0, 0, 0, -1.0], (3, 1))
        drawn = np.clip(chunk + 0.1 * episode.rng.normal(size=(4, 3, 7)), -1, 1)
        told = token_statistics(episode.rng.normal(size=(7, 11)))
        wishes = episode.wishes
        return Answer(
            chunk,
            drawn if wishes.samples else None,
            told.first if wishes.token_probabilities else None,
            told if wishes.token_probabilities else None,
        )

unsure = Unsure()
"""
# Raises in its first episode, and never again.
SHY = """
from pathlib import Path
import numpy as np

def shy(episode):
    seen = Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        raise ValueError("who are you?")
    return lambda observation: np.array([0.5, 0, 0, 0, 0, 0, -1])
"""
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=unsure:unsure")


@pytest.fixture(autouse=True)
def _unsure(project: pytest.Pytester) -> None:
    project.makepyfile(unsure=UNSURE)


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_they_are_kept_with_every_episode(vla: Run, project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = vla(*STOVE, "--vla-seeds=0-1", "--vla-metrics=all", *workers)
    result.assert_outcomes(passed=2, warnings=4)
    result.stdout.fnmatch_lines(["*metrics optimal_trajectory, object_turn: no value could be computed. Expected *"])
    result.stdout.fnmatch_lines(["token_entropy *"])
    for record in records_of(project.path / ".vla"):
        assert 0 < record.metrics["token_entropy"] < 1
        assert record.metrics["execution_variability"] > 0
        assert record.metrics["static_robot"] == 0
        series = load_trajectory(project.path / ".vla" / record.run / str(record.arrays)).series
        assert series["token_entropy"].shape == (record.steps,)
        assert series["answer.samples"].shape == (record.steps, 4, 7)
    # Once a run three sessions that are no episode's: what each wish costs.
    wishes = (project.path / "wishes.txt").read_text().splitlines()
    assert sorted(wishes) == ["0 False", "0 True", "4 False", "4 True", "4 True"]
    result.stdout.fnmatch_lines(["cost of metrics, ms per control step*", "asking for samples*"])
    result.stdout.fnmatch_lines(["computing execution_variability*", "asking: medians over 6 *"])


def test_where_nothing_is_said_nobody_is_asked_and_episodes_are_the_same(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE).assert_outcomes(passed=1)
    (bare,) = records_of(project.path / ".vla")
    assert bare.metrics == {"clipped_actions": 0.0}
    assert not load_trajectory(project.path / ".vla" / bare.run / str(bare.arrays)).series
    # An ini file may ask for them, and typing none of its own is no way to be asked for more.
    project.makeini("[pytest]\nvla_metrics = tb-e\n")
    vla(*STOVE).assert_outcomes(passed=1)
    (record,) = records_of(project.path / ".vla")
    assert record.digest == bare.digest
    assert record.metrics.keys() == {"clipped_actions", "token_entropy", "token_entropy.paper"}
    assert (project.path / "wishes.txt").read_text().splitlines() == ["0 False", "0 True"]


def test_an_unknown_name_ends_the_run_before_its_first_episode(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, "--vla-metrics=EV", "--vla-metrics=token_entrpy")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--vla-metrics=token_entrpy: there is no such metric. Did you mean token_entropy*"])
    assert not (project.path / "wishes.txt").exists()
    result = vla(*STOVE, "--vla-metrics=a b")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*'a b' is not the name of a metric*"])


def test_the_list_needs_no_run(vla: Run) -> None:
    result = vla("--vla-metrics=list")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["execution_variability (EV) *; needs samples"])


def test_a_resumed_run_keeps_them(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(shy=SHY)
    vla(*STOVE[:2], "--vla-model=shy:shy", "--vla-metrics=A-PI").assert_outcomes(errors=1)
    vla("--vla-resume").assert_outcomes(passed=1)
    (record,) = (each for each in records_of(project.path / ".vla") if each.outcome == "success")
    assert "action_position_instability.arm" in record.metrics


def test_an_episode_that_is_stopped_is_in_no_rate_and_says_why(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, "--vla-seeds=0-1", "--vla-stop-when=TB-E>0 for 3", "-n2")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*(0.0% to 100.0%)*invalid: 2 stopped-early*"])
    result.stdout.fnmatch_lines(["2 episodes were stopped by a rule (--vla-stop-when). Rates and means cover*"])
    for record in records_of(project.path / ".vla"):
        assert (record.outcome, record.reason, record.steps) == ("invalid", "stopped-early", 3)
        assert "token_entropy" in record.metrics
    # A resumed run has nothing left, under the same rule.
    vla("--vla-resume").stdout.fnmatch_lines(["*nothing is left*"])


def test_a_rule_that_never_had_a_value_is_said_at_the_end(vla: Run) -> None:
    result = vla(*STOVE[:2], "--vla-seeds=0-1", "--vla-model=policies:straight", "--vla-stop-when=TB-E>0 for 3")
    result.assert_outcomes(passed=2, warnings=2)
    said = "--vla-stop-when=token_entropy>0.0 for 3: no value in 2 of 2 episodes, so the rule stopped none: "
    result.stdout.fnmatch_lines([f"{said}it needs token probabilities, which this policy or world does not provide"])


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        ("token_entropy", "*expected >, >=, < or <= after token_entropy*"),
        ("token_entrpy>1", "*there is no metric token_entrpy. Did you mean token_entropy*"),
        ("OT>1", "*optimal_trajectory is known only after an episode*"),
    ],
)
def test_a_rule_that_cannot_be_used_ends_the_run_before_its_first_episode(vla: Run, rule: str, complaint: str) -> None:
    result = vla(*STOVE, f"--vla-stop-when={rule}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([complaint])


def test_a_test_of_ones_own_sees_how_unsure_the_policy_was(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_sure="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove")
        def test_it_is_sure(rollout):
            assert rollout.uncertainty["token_entropy"].shape == (rollout.steps,)
            assert "execution_variability" not in rollout.uncertainty
        """
    )
    vla("test_sure.py", "--vla-model=unsure:unsure", "--vla-metrics=token_entropy,TI").assert_outcomes(passed=1)

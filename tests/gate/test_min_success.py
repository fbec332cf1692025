"""What ``--vla-min-success`` makes of benign and varied episodes, and of probes; runs are in tests/plugin."""

import dataclasses

import pytest

from pytest_vla.gate.min_success import judge
from pytest_vla.records.record import Record
from tests.support.varied import varied


def probe(success: bool, seed: int = 0) -> Record:
    record = varied("language.blank", success, seed=seed)
    return dataclasses.replace(record, variation={**record.variation, "probe": True})


def of(label: str, successes: int, failures: int) -> list[Record]:
    return [varied(label, seed < successes, seed=seed) for seed in range(successes + failures)]


def test_benign_and_varied_episodes_are_judged_apart() -> None:
    # Together they are 10 of 20, which is what is wanted.
    lines, passed = judge([*of("", 9, 1), *of("camera.distance-L5", 1, 9)], 0.5, 0, False)
    assert not passed
    assert lines == (
        "libero_goal, benign: 9/10 = 90.0% [59.6%, 98.2%] >= 50%",
        "libero_goal, varied: 1/10 = 10.0% [1.8%, 40.4%] < 50%",
        "for reference: a policy with a true rate of 30% passes this check 15% of the time (10 episodes)",
        "vla: failed (--vla-min-success=50%): libero_goal, varied below 50%",
    )
    assert judge([*of("", 9, 1), *of("camera.distance-L5", 5, 5)], 0.5, 0, False)[1]
    assert not judge([*of("", 4, 6), *of("camera.distance-L5", 10, 0)], 0.5, 0, False)[1]


def test_what_is_varied_alone_says_so_and_what_is_not_has_the_suites_name() -> None:
    assert judge(of("camera.distance-L5", 2, 0), 0.5, 0, False)[0][0].startswith("libero_goal, varied: 2/2 ")
    assert judge(of("", 2, 0), 0.5, 0, False)[0][0].startswith("libero_goal: 2/2 ")


def test_probes_are_in_no_rate() -> None:
    lines, passed = judge([*of("", 2, 0), probe(False), probe(False, 1)], 1.0, 0, False)
    assert passed
    assert lines == (
        "libero_goal, benign: 2/2 = 100.0% [34.2%, 100.0%] >= 100%",
        "for reference: a policy with a true rate of 80% passes this check 64% of the time (2 episodes)",
        "not judged: 2 probes (language and vision checks), not part of any rate",
        "vla: passed (--vla-min-success=100%)",
    )
    lines, passed = judge([probe(True)], 0.5, 0, False)
    assert (lines[-1], passed) == ("vla: failed (--vla-min-success=50%): no episode of a suite was judged", False)
    # Told another goal as well, it is asked to do something.
    assert judge([varied("language.other_goal", False)], 0.5, 0, False)[1] is False


def test_given_cases_are_in_no_rate() -> None:
    """They were chosen because the policy fails them: the file of a search beside ordinary episodes changes no rate."""
    chosen = [varied(f"light.diffuse-x{number:08x}", False, seed=number) for number in range(24)]
    ordinary = [*of("", 9, 1), *of("light.diffuse-L2", 9, 1)]
    lines, passed = judge([*ordinary, *chosen], 0.8, 0, False)
    alone, _ = judge(ordinary, 0.8, 0, False)
    assert passed
    assert [line for line in lines if line not in alone] == [
        "not judged: 24 given cases (--vla-cases), not part of any rate"
    ]
    lines, passed = judge(chosen, 0.5, 0, False)
    assert (lines[-1], passed) == ("vla: failed (--vla-min-success=50%): no episode of a suite was judged", False)


def test_a_group_of_errors_was_not_measured() -> None:
    lines, passed = judge([*of("", 2, 0), varied("camera.distance-L5", "error")], 0.5, 0, False)
    assert not passed
    assert lines[1] == "libero_goal, varied: no episode counted, 50% required"
    assert lines[-1] == "vla: failed (--vla-min-success=50%): no episode of libero_goal, varied counted"


def test_what_errors_could_have_made_of_the_rate_is_said() -> None:
    broken = [varied("", outcome, seed=seed) for seed, outcome in ((98, "error"), (99, "invalid"))]
    lines, passed = judge([*of("", 8, 2), *broken], 0.8, 0, False)
    assert passed
    assert lines[0] == "libero_goal: 8/10 = 80.0% [49.0%, 94.3%] (1 error, 1 invalid: 66.7% to 83.3%) >= 80%"


def test_a_rate_that_rounds_to_the_wanted_one_is_told_apart_from_it() -> None:
    lines, passed = judge(of("", 2, 1), 0.667, 0, False)
    assert not passed
    assert "2/3 = 66.6667% " in lines[0]
    assert lines[0].endswith(" < 66.7%")


def test_the_lower_end_of_the_interval_can_be_what_counts() -> None:
    lines, passed = judge(of("", 9, 1), 0.5, 0, False, by_lower_end=True)
    assert passed
    assert lines == (
        "libero_goal: 9/10 = 90.0% [59.6%, 98.2%], lower end >= 50%",
        "for reference: a policy with a true rate of 30% passes this check less than 1% of the time (10 episodes)",
        "vla: passed (--vla-min-success=50%:lower)",
    )
    lines, passed = judge(of("", 9, 1), 0.8, 0, False, by_lower_end=True)
    assert not passed
    assert lines == (
        "libero_goal: 9/10 = 90.0% [59.6%, 98.2%], lower end < 80%",
        "for reference: the lower end cannot reach 80% with 10 episodes; at least 16 episodes are needed",
        "vla: failed (--vla-min-success=80%:lower): libero_goal below 80% at the lower end",
    )


def test_where_any_policy_passes_luck_is_no_matter() -> None:
    (rate, verdict), passed = judge(of("", 1, 9), 0.0, 0, False)
    assert rate.startswith("libero_goal: 1/10 = 10.0% ")
    assert (verdict, passed) == ("vla: passed (--vla-min-success=0%)", True)


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("successes", [0, 2])
def test_one_line_at_the_end_says_passed_or_failed_and_why(others: int, stopped: bool, successes: int) -> None:
    lines, passed = judge(of("", successes, 2 - successes), 0.5, others, stopped)
    assert [line for line in lines if "passed" in line or "failed" in line] == [lines[-1]]
    why = ["libero_goal below 50%"] * (not successes)
    why += ["2 items failed for other reasons (errors, costs, other tests)"] * (others > 0)
    why += ["the run was stopped before its end"] * stopped
    assert passed == (not why)
    expected = f"failed (--vla-min-success=50%): {'; '.join(why)}" if why else "passed (--vla-min-success=50%)"
    assert lines[-1] == f"vla: {expected}"


def test_several_kinds_under_one_seed_have_no_lower_end() -> None:
    """All of one init state: nothing tells how far another would stray."""
    kinds = [varied(f"camera.{kind}-L5", True) for kind in ("distance", "fov", "azimuth")]
    lines, passed = judge(kinds, 0.5, 0, False, by_lower_end=True)
    assert (passed, lines[0]) == (False, "libero_goal, varied: 3/3 = 100.0% -, lower end < 50%")
    assert judge(kinds, 0.5, 0, False)[1]


def test_episodes_that_share_a_seed_may_pass_by_luck_together() -> None:
    """Three of four seeds are 60% of four heads or tails, and not of twenty-four."""
    kinds = ("light.diffuse", "light.direction", "light.shadow", "camera.wider", "noise.fog", "robot.joints")
    labels = [f"{kind}-L2" for kind in kinds]
    lines, passed = judge([record for label in labels for record in of(label, 3, 1)], 0.75, 0, False)
    assert passed
    assert lines[1] == (
        "for reference: a policy with a true rate of 55% passes this check 4% (if all episodes are independent) to 39% "
        "of the time (24 episodes from 4 starts)"
    )
    lines, passed = judge([record for label in labels for record in of(label, 4, 0)], 0.8, 0, False, by_lower_end=True)
    assert not passed
    assert lines[1] == (
        "for reference: the lower end cannot reach 80% with 24 episodes from 4 starts; at least 16 starts are needed"
    )


def test_a_retry_after_the_policys_own_error_is_no_success() -> None:
    records = of("", 8, 2)
    assert judge(records, 0.8, 0, False)[1]
    lines, passed = judge(records, 0.8, 0, False, retried={records[0].node})
    assert not passed
    assert lines[0].startswith("libero_goal: 7/10 = 70.0%")
    assert judge(records, 0.8, 0, False, retried={records[9].node})[1], "a failure stays one"


def test_planned_episodes_that_were_skipped_count_as_failed() -> None:
    assert not judge(of("", 20, 0), 0.8, 0, False, skipped=20)[1]
    assert judge(of("", 20, 0), 0.8, 0, False, skipped=5)[1]


def test_episodes_that_a_rule_stopped_count_as_failed() -> None:
    stopped = [dataclasses.replace(record, outcome="invalid", reason="stopped-early") for record in of("", 0, 10)]
    done = [dataclasses.replace(record, seed=record.seed + 10) for record in of("", 10, 0)]
    assert judge(done, 0.8, 0, False)[1]
    assert not judge([*stopped, *done], 0.8, 0, False)[1]


def test_two_versions_of_the_policy_are_not_judged_as_one() -> None:
    one, other = of("", 5, 0), [dataclasses.replace(record, policy_digest="f" * 64) for record in of("", 10, 0)[5:]]
    assert judge([dataclasses.replace(record, policy_digest="a" * 64) for record in one], 0.8, 0, False)[1]
    lines, passed = judge(
        [*(dataclasses.replace(record, policy_digest="a" * 64) for record in one), *other], 0.8, 0, False
    )
    assert not passed
    assert "2 versions of the policy" in lines[-1]

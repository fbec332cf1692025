"""The rule of an alarm: its text, when it rings, and what stopping there would have done."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.metrics.alarms import EXAMPLE, AlarmRule, first_alarm, intervention, parse_rule
from pytest_vla.metrics.failure_prediction import Watched

NUMBERS = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.10g}"))
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
SIGNS = st.sampled_from([">", ">=", "<", "<="])
RULES = st.builds(AlarmRule, NAMES, SIGNS, NUMBERS, st.integers(1, 999_999))


@given(RULES)
def test_a_rule_reads_what_it_writes(rule: AlarmRule) -> None:
    assert parse_rule(str(rule)) == rule
    assert parse_rule(f"  {rule.metric} {rule.sign}  {rule.threshold!r}  for {rule.steps} steps ") == rule


@given(st.text(max_size=60) | st.from_regex(r"[a-z]{1,4}[<>=]{0,3}[-.0-9a-z]{0,5}( for .{0,5})?", fullmatch=True))
def test_any_text_is_a_rule_or_a_clear_error(text: str) -> None:
    said = ""
    try:
        rule = parse_rule(text)
    except VlaError as error:
        said = str(error)
    assert EXAMPLE in said if said else parse_rule(str(rule)) == rule


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "expected a metric's name first, got ''"),
        (">3", "expected a metric's name first"),
        ("token_entropy", "expected >, >=, < or <= after token_entropy"),
        ("token_entropy=3", "expected >, >=, < or <= after token_entropy"),
        ("token_entropy>", "expected a number after >, got ''"),
        ("token_entropy>nan", "expected a number after >, got 'nan'"),
        ("token_entropy>1e999", "expected a number after >, got '1e999'"),
        ("token_entropy>0.3 for", "expected `for STEPS`, 1 or more, or nothing after the number, got 'for'"),
        ("token_entropy>0.3 for 0", "`for STEPS`, 1 or more, or nothing after the number, got 'for 0'"),
        ("token_entropy>0.3 and EV>1", "got 'and EV>1'"),
        ("token_entropy>0.3>0.4", "got '>0.4'"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said(text: str, complaint: str) -> None:
    with pytest.raises(VlaError, match=r"is not a rule such as 'token_entropy>0\.3 for 5'") as found:
        parse_rule(text)
    assert complaint in str(found.value)


VALUES = st.lists(st.sampled_from([0.0, 1.0, 2.0, float("nan")]), max_size=12)


@given(VALUES, SIGNS, st.integers(1, 4))
def test_it_rings_with_the_first_step_that_ends_a_spell(values: list[float], sign: str, steps: int) -> None:
    rule = AlarmRule("m", sign, 1.0, steps)
    held = [{">": v > 1, ">=": v >= 1, "<": v < 1, "<=": v <= 1}[sign] for v in values]
    spells = (end for end in range(steps, len(values) + 1) if all(held[end - steps : end]))
    assert first_alarm(values, rule) == next(spells, None)
    # Whether it rings by a step depends on nothing later, so that an episode can be stopped by it.
    for end in range(len(values) + 1):
        assert (first_alarm(values[:end], rule) is not None) == any(
            all(held[last - steps : last]) for last in range(steps, end + 1)
        )


def test_a_table_is_no_series() -> None:
    with pytest.raises(VlaError, match="one number per control step"):
        first_alarm([[1.0]], AlarmRule("m", ">", 0.0))


def episode(failed: bool, values: list[float], task: int) -> Watched:
    return Watched(failed, (f"t{task}", 0), 20, {"m": np.array(values)})


def test_what_stopping_would_have_done_by_hand() -> None:
    calm, sure = [0.0] * 20, [0.0] * 8
    episodes = [
        episode(True, [0.0] * 4 + [1.0] * 16, 0),
        episode(True, [0.0] * 15 + [1.0] * 5, 1),
        episode(True, calm, 2),
        # Unsure in the very last step alone: it is over then.
        episode(True, [0.0] * 19 + [1.0], 3),
        episode(False, sure, 4),
        episode(False, [0.0, 1.0, *sure[2:]], 5),
        Watched(True, ("other", 0), 20, {}),
    ]
    found = intervention(episodes, AlarmRule("m", ">", 0.5))
    assert found is not None
    assert (found.failures, found.successes) == (4, 2)
    assert found.caught is not None
    assert found.cut is not None
    assert found.in_time is not None
    assert (found.caught.value, found.cut.value, found.in_time.value) == (0.5, 0.5, 0.25)
    assert found.caught.interval is not None
    assert found.lead == 9.5
    assert found.saved == (15 + 4 + 6) / 96
    assert (found.within, [each.caught for each in found.by_task]) == (None, [1, 1, 0, 0, 0, 0])
    longer = intervention(episodes, AlarmRule("m", ">", 0.5, 5))
    assert longer is not None
    assert longer.caught is not None
    # The second would ring with its last step.
    assert (longer.caught.value, longer.lead) == (0.25, 11.0)
    assert intervention(episodes, AlarmRule("none", ">", 0.5)) is None
    only = intervention(episodes[:2], AlarmRule("m", ">", 9.0))
    assert only is not None
    assert (only.cut, only.in_time, only.lead, only.saved) == (None, None, None, 0.0)

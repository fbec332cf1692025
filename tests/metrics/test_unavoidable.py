"""What an idle arm would have been charged too is judged literal by literal."""

import pytest

from pytest_vla.metrics import safety as unavoidable
from pytest_vla.metrics.safety import Idle, IdleCharge, excess_cost, is_safe, unavoidable_in, unavoidable_of
from pytest_vla.plan.costs import TOUCHING, Charge
from tests.support.records import record_of

NEAR, TOUCHED = "(checkdistance a b 0.05)", "(incontact a b)"
IDLE = Idle(300, (IdleCharge("paper", NEAR, "instant", 1, 300, 1.0),))


def _charges(near: float, touched: float, account: str = "paper") -> tuple[Charge, ...]:
    return (
        Charge(NEAR, near, 1, account=account, kind="instant", last_step=max(int(near), 1)),
        Charge(TOUCHED, touched, 5, account=account, kind="instant"),
        Charge(TOUCHED, 0.0, 0, account=account, kind="instant"),
    )


@pytest.mark.parametrize(
    ("near", "touched", "steps", "free"),
    [
        (40.0, 0.0, 100, 40.0),
        (100.0, 3.0, 100, 100.0),
        (0.0, 3.0, 100, 0.0),
        (5.0, 0.0, 0, 0.0),
    ],
)
def test_what_was_spared_pays_for_nothing_else(near: float, touched: float, steps: int, free: float) -> None:
    assert unavoidable_of(_charges(near, touched), "paper", steps, IDLE) == free


def _near(first: int, last: int, text: str | None = None) -> Charge:
    return Charge(NEAR, last - first + 1.0, first, account="paper", kind="instant", last_step=last, text=text)


def test_what_was_left_is_free_no_more() -> None:
    """Coming back to where it began is the policy's own doing."""
    assert unavoidable_of([_near(1, 50), _near(100, 199)], "paper", 200, IDLE) == 50.0
    assert unavoidable_of([_near(51, 99)], "paper", 200, IDLE) == 0.0


def test_a_touch_is_not_free_where_only_closeness_is() -> None:
    assert unavoidable_of([_near(1, 20), _near(21, 120, TOUCHING)], "paper", 120, IDLE) == 20.0


def test_an_end_is_free_as_far_as_an_idle_arm_is_charged_for_it() -> None:
    idle = Idle(300, (IdleCharge("paper", "(fall a)", "terminal", 3, 20, 10.0),))
    fell = Charge("(fall a)", 10.0, 20, account="paper", kind="terminal")
    assert unavoidable_of([fell], "paper", 20, idle) == 10.0
    assert unavoidable_of([fell], "paper", 21, idle) == 0.0


def test_of_other_accounts_and_tasks_nothing_is_unavoidable() -> None:
    assert unavoidable_of(_charges(9.0, 1.0, "upstream"), "upstream", 100, IDLE) == 0.0
    assert unavoidable_of(_charges(9.0, 1.0), "paper", 100, None) == 0.0


def test_a_stored_episode_is_judged_by_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    careful = record_of(0, "success", steps=60, costs=_charges(60.0, 0.0))
    careless = record_of(0, "success", steps=60, costs=_charges(20.0, 2.0))
    assert unavoidable_in(careful, "paper") == 0.0, "nothing is measured of its suite"
    monkeypatch.setattr(
        unavoidable, "measured", lambda suite: {careful.task_key: IDLE} if suite == careful.suite else {}
    )
    assert excess_cost(careful, "paper") == 0.0
    assert excess_cost(careless, "paper") == 2.0
    assert not is_safe(2.0)
    assert is_safe(2.0, threshold=2.0)

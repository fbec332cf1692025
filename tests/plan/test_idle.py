"""What an idle arm is charged: read from its file, and summed up to a step."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.metrics import safety as idle_module
from pytest_vla.metrics.safety import Idle, IdleCharge, idle_file, measured
from pytest_vla.plan.manifests import load_suite, suite_names
from tests.support.data import arena_data

NEAR, FELL = "(checkdistance a b 0.05)", "(fall a)"
IDLE = Idle(
    100,
    (
        IdleCharge("paper", NEAR, "instant", 1, 10, 1.0),
        IdleCharge("paper", NEAR, "instant", 91, 100, 2.0),
        IdleCharge("paper", FELL, "terminal", 3, 20, 10.0),
        IdleCharge("upstream", NEAR, "instant", 1, 100, 1.0),
    ),
)


@pytest.mark.parametrize(
    ("account", "steps", "costs"),
    [
        ("paper", 0, {}),
        ("paper", 2, {NEAR: 2.0}),
        ("paper", 3, {NEAR: 3.0, FELL: 10.0}),
        ("paper", 20, {NEAR: 10.0, FELL: 10.0}),
        ("paper", 21, {NEAR: 10.0}),
        ("paper", 100, {NEAR: 30.0}),
        # What was charged for half of the steps goes on, and what came and went does not.
        ("paper", 110, {NEAR: 30.0}),
        ("upstream", 600, {NEAR: 600.0}),
        ("declared", 600, {}),
    ],
)
def test_costs_up_to_a_step(account: str, steps: int, costs: dict[str, float]) -> None:
    assert IDLE.cost(account, steps) == costs


def test_all_hazards_charge_an_arm_that_does_nothing() -> None:
    """By upstream's account; by the paper's all but those whose distance upstream measures wrong."""
    found = measured("vla_arena_hazard_avoidance")
    assert len(found) == 15
    charged = {
        account: [sum(idle.cost(account, 300).values()) for idle in found.values()] for account in ("paper", "upstream")
    }
    assert all(charged["upstream"])
    assert sum(amount >= 300 for amount in charged["paper"]) == 13
    assert {idle.steps for idle in found.values()} == {300}


def test_each_measured_task_is_there() -> None:
    arena_data()
    for suite in suite_names():
        if found := measured(suite):
            tasks = {task.key: task for task in load_suite(suite, data=arena_data()).tasks}
            assert found.keys() <= tasks.keys()


def test_a_suite_without_a_file_measured_nothing() -> None:
    assert measured("tabletop") == {}
    assert measured("no_such_suite") == {}


@pytest.mark.parametrize(
    "text",
    [
        "tasks = 3",
        '[tasks."a"]\nsteps = 0',
        '[tasks."a"]\nsteps = 9\ncharges = [{ account = "paper", name = "b", kind = "instant", first = 1, last = 2 }]',
        '[tasks."a"]\nsteps = 9\ncharges = [{ account = "x", name = "", kind = "", first = 1, last = 2, amount = 1 }]',
        "[tasks",
    ],
)
def test_a_file_that_cannot_be_used_is_named(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "idle.toml"
    file.write_text(text)
    monkeypatch.setattr(idle_module, "idle_file", lambda suite: file)
    with pytest.raises(VlaError, match=rf"{file}: cannot be read: .*scripts/idle_costs.py tabletop"):
        measured.__wrapped__("tabletop")


def test_where_the_file_is() -> None:
    file = idle_file("vla_arena_hazard_avoidance")
    assert file is not None
    assert file.name == "vla_arena_hazard_avoidance.idle.toml"

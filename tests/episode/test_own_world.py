"""A suite's own world by itself: what it says of itself, its settle steps, the variations that it can have."""

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.world_pool import OwnWorld
from pytest_vla.errors import EpisodeError, UnfitError
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.manifest import planned_groups
from pytest_vla.gate.verdicts import Terms, judge
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import UNSCALED
from pytest_vla.plan.task import Task
from pytest_vla.records.record import parse_record, record_line
from pytest_vla.testing import PointWorld, point_suite
from pytest_vla.vary.registry import find_variation, kinds
from pytest_vla.versions import SUPPORTED


def test_every_kind_fits_a_suites_own_world_or_says_why_not() -> None:
    task = point_suite().tasks[0]
    for kind in kinds():
        variation, reason = None, ""
        with suppress(UnfitError):
            variation = find_variation(task, kind.labels()[0], 0)
        if kind.needs:
            with pytest.raises(UnfitError) as refused:
                find_variation(task, kind.labels()[0], 0)
            reason = refused.value.reason
        assert (variation is None) or not variation.changes_scene
        assert reason == kind.misfit(task), kind.name


class Speechless(PointWorld):
    said: object = {}

    def provenance(self):  # type: ignore[no-untyped-def]
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.mark.parametrize("premises", [True, False], ids=["asked at the start", "asked at the end"])
@pytest.mark.parametrize(
    ("said", "reason", "complaint"),
    [
        (OSError("no licence"), "world-raised", "OSError: no licence ("),
        (["1.0"], "world-protocol", "provenance() gives list, expected texts by name"),
        (None, "world-protocol", "provenance() gives NoneType, expected texts by name"),
        ({"numpy": "0.1"}, "world-protocol", "provenance() gives 'numpy', which pytest-vla says itself ("),
        ({"world": "mine"}, "world-protocol", "provenance() gives 'world', which pytest-vla says itself ("),
        ({"engine": 2}, "world-protocol", "provenance() gives 'engine'=2, expected a text"),
    ],
)
def test_what_a_world_says_of_itself_leaves_a_record_whatever_it_is(
    monkeypatch: pytest.MonkeyPatch, said: object, reason: str, complaint: str, premises: bool
) -> None:
    monkeypatch.setattr(Speechless, "said", said)
    task = point_suite(world=Speechless).tasks[0]
    conditions = Conditions("pushing", premises=premises, run="one")
    case = Case(task.suite, task.name, 0)
    ended = run_episode(case, task, lambda episode: lambda seen: [1, 0], lambda task, _: OwnWorld(task), conditions)
    assert (ended.record.outcome, ended.record.reason) == ("error", reason)
    assert str(ended.record.message).startswith(complaint)
    assert ended.steps == (0 if premises else 5), "what was done is recorded"
    assert (ended.record.provenance["numpy"], ended.record.simulator) == (np.__version__, ())
    assert ("no licence" in ended.details) is (reason == "world-raised")
    assert parse_record(record_line(ended.record)).message == ended.record.message, "it can be kept"


def test_the_settle_steps_of_a_suite_are_done_before_the_policy_is_asked() -> None:
    task = point_suite().tasks[0]
    settled = replace(task, protocol=replace(task.protocol, settle_steps=2, settle_action=(-1.0, 0.0)))
    assert OwnWorld(settled).reset(0, 0)["state"] == pytest.approx([-0.1, 0.0])
    assert OwnWorld(settled).reset(0, 0, settle=False)["state"] == pytest.approx([0.0, 0.0])
    # Of unscaled actions 0 may be far away.
    unscaled = replace(settled, protocol=replace(settled.protocol, out_of_range=UNSCALED))
    with pytest.raises(EpisodeError, match="hold"):
        OwnWorld(unscaled).reset(0, 0)
    assert OwnWorld(unscaled).reset(0, 0, settle=False)["state"] == pytest.approx([0.0, 0.0])
    assert OwnWorld(replace(unscaled, world=Held)).reset(0, 0)["state"] == pytest.approx([0.0, 0.1])


class Held(PointWorld):
    def hold(self, last: object) -> NDArray[np.float64]:
        return np.array([0.0, 1.0])


class Counted(PointWorld):
    """Counts how often it is asked."""

    asked = 0

    def predicates(self):  # type: ignore[no-untyped-def]
        type(self).asked += 1
        return {"(beyond point_1 line_1)": self.success(), "(is point_1)": True}


def test_a_world_is_asked_for_its_literals_once_in_each_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "asked", 0)
    task = point_suite(world=Counted).tasks[0]
    case = Case(task.suite, task.name, 0)
    ended = run_episode(
        case, task, lambda episode: lambda seen: [1, 0], lambda task, _: OwnWorld(task), Conditions("pushing")
    )
    assert ended.success
    assert Counted.asked == ended.steps + 1
    assert [*ended.record.literals] == ["(beyond point_1 line_1)", "(is point_1)"]


class Model:
    """In MuJoCo's place."""


Model.__module__ = "mujoco._structs"


class Simulated(PointWorld):
    """Holds a model as environments do: in a wrapper, in a list, behind a buffer of frames."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.frames = [SimpleNamespace(number=number) for number in range(3000)]
        self.env = SimpleNamespace(env=SimpleNamespace(parts=[{"model": Model()}]))


class Derived(PointWorld, type("Env", (), {"__module__": "robosuite.environments.base"})):  # type: ignore[misc]
    pass


@pytest.mark.parametrize(
    ("world", "used"),
    [(PointWorld, set()), (Simulated, {"mujoco"}), (Derived, {"mujoco", "robosuite"})],
)
def test_only_the_simulator_that_a_world_uses_is_of_its_record(world: type[PointWorld], used: set[str]) -> None:
    import mujoco  # noqa: F401  # That the process has it says nothing of the world.

    task = point_suite(world=world).tasks[0]
    case = Case(task.suite, task.name, 0)
    ended = run_episode(
        case, task, lambda episode: lambda seen: [1, 0], lambda task, _: OwnWorld(task), Conditions("pushing")
    )
    assert ended.success
    assert ended.record.provenance.keys() & SUPPORTED.keys() == used
    assert "numpy" in ended.record.provenance


def test_a_world_that_cannot_be_made_has_no_simulator() -> None:
    task = point_suite().tasks[0]

    def broken(task: Task, variation: object) -> OwnWorld:
        raise OSError("no display")

    case = Case(task.suite, task.name, 0)
    ended = run_episode(case, task, lambda episode: lambda seen: [1, 0], broken, Conditions("pushing"))
    assert ended.record.outcome == "error"
    assert not ended.record.provenance.keys() & SUPPORTED.keys()


def test_records_with_and_without_the_version_are_compared() -> None:
    task = point_suite().tasks[0]
    case = Case(task.suite, task.name, 0)
    record = run_episode(
        case, task, lambda episode: lambda seen: [1, 0], lambda task, _: OwnWorld(task), Conditions("pushing")
    ).record
    old = baseline_of([replace(record, provenance={**record.provenance, "mujoco": "3.0.1", "robosuite": "1.0"})])
    assert not judge(old, baseline_of([record]), Terms()).agreement.of("refuses")
    assert planned_groups(old, [case], 0, ("suite",))[0], "nor is it refused before"
    other = baseline_of([replace(record, provenance={**record.provenance, "mujoco": "3.3.7", "robosuite": "1.0"})])
    assert judge(old, other, Terms()).agreement.of("refuses"), "what is said on both sides and differs"

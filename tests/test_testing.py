"""What third parties test their suites and kinds with: `check_world`, `check_kind`, and the example of how to."""

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Edits
from pytest_vla.testing import ForgetfulPointWorld, PointWorld, World, check_kind, check_world, point_suite
from pytest_vla.vary.kind import LEVELS, Draw, VariationKind
from pytest_vla.vary.registry import find_variation, kind_named
from pytest_vla.vary.space import NUMBER, Parameter


@pytest.mark.parametrize("world", [PointWorld, ForgetfulPointWorld])
def test_the_point_keeps_what_a_world_has_to_keep(world: type) -> None:
    check_world(point_suite(world=world).tasks[0])


class Drifting(PointWorld):
    started = 0

    def reset(self, case):  # type: ignore[no-untyped-def]
        Drifting.started += 1
        super().reset(case)
        self._at += 0.001 * Drifting.started
        return self._seen()


class Wrong(PointWorld):
    def _seen(self):  # type: ignore[no-untyped-def]
        return {**super()._seen(), "state": np.zeros(3)}


class Infinite(PointWorld):
    def save(self):  # type: ignore[no-untyped-def]
        return self._at

    def step(self, action):  # type: ignore[no-untyped-def]
        return {**super().step(action), "state": np.full(2, np.nan)}


class Blind(PointWorld):
    def _seen(self):  # type: ignore[no-untyped-def]
        return {"state": self._at}


class Helpless(PointWorld):
    def expert(self):  # type: ignore[no-untyped-def]
        return lambda seen: np.array([0.0, 0.1])


class Unclosed(PointWorld):
    def close(self):  # type: ignore[no-untyped-def]
        raise OSError("the window is gone")


class Lossy(PointWorld):
    def restore(self, state):  # type: ignore[no-untyped-def]
        return super().restore(np.round(state, 1))


class Dearer(PointWorld):
    def __init__(self, task):  # type: ignore[no-untyped-def]
        super().__init__(task)
        self._resets = 0

    def reset(self, case):  # type: ignore[no-untyped-def]
        self._resets += 1
        return super().reset(case)

    def costs(self) -> dict[str, float]:
        return {"force": float(self._resets)}


class Counting(Dearer):
    def costs(self) -> dict[str, float]:
        return {}

    def series(self) -> dict[str, int]:
        return {"resets": self._resets}


class Unlike(Counting):
    def series(self) -> dict[str, int]:
        return {}

    def provenance(self) -> dict[str, str]:
        return {"resets": str(self._resets)}


@pytest.mark.parametrize(
    ("world", "complaint"),
    [
        (Dearer, r"seed 0 differs after seed 1: costs\(\) of force differs at step 1"),
        (Counting, r"seed 0 differs after seed 1: series\(\) of resets differs at step 1"),
        (Unlike, r"provenance\(\) says .*'resets': '1'.* of seed 0, and .*'resets': '2'.* after seed 1"),
        (Drifting, "seed 0 differs after seed 1: .* differs at step 0"),
        (Wrong, r"state is \(3,\), and the suite says \(2,\)"),
        (Infinite, "state holds NaN or infinity"),
        (Blind, "what is seen lacks front_image of the suite's; it has state"),
        (Unclosed, "closing the world of point raised OSError: the window is gone"),
        (Lossy, "a restored state differs"),
        (Helpless, r"expert\(\) of seed 0: the expert does not do it in 20 steps: .success."),
        (lambda task: object(), "its world, object, lacks reset, step, success"),
        (lambda task: 1 / 0, "point/push_the_point: making its world raised ZeroDivisionError"),
    ],
)
def test_a_world_that_keeps_less_is_told(world: Callable[..., object], complaint: str) -> None:
    with pytest.raises((AssertionError, VlaError), match=complaint):
        check_world(point_suite(world=world).tasks[0])


POINT = point_suite().tasks[0]
counted = itertools.count()


def _weaker(**changed: Any) -> VariationKind:
    kind = VariationKind(
        "ours.weaker",
        "every action is smaller",
        "a test",
        lambda draw: {"loss": round(0.5 * draw.share, 3)},
        lambda task, params: Edits(actions=(lambda: lambda action: action * (1 - params["loss"]),)),
        lambda task: (Parameter("loss", NUMBER, 0.0, 0.5, benign=0.0),),
        levels=LEVELS,
        needs=(),
    )
    return replace(kind, **changed)


@pytest.mark.parametrize("kind", [_weaker(), *map(kind_named, ("noise.glass", "action.noise", "language.words"))])
def test_a_kind_that_keeps_its_contract_passes(kind: VariationKind) -> None:
    check_kind(kind, POINT)


def _restless(task: Task, params: Any) -> Edits:
    return Edits(pictures=(lambda: lambda picture, camera, step: picture + np.uint8(next(counted)),))


def _drawing(task: Task, params: Any) -> Edits:
    drawn = next(counted) % 100 / 100
    return Edits(actions=(lambda: lambda action: action * drawn,))


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"sample": lambda draw: {"loss": next(counted) % 50 / 100}}, "two equal draws of seed 0 gave"),
        ({"sample": lambda draw: {"loss": 0.7}}, "variation-broken: .*: the kind ours.weaker: sample drew for"),
        ({"apply": lambda task, params: Edits()}, "ours.weaker-L1: with seed 0 it changes nothing"),
        ({"apply": _restless}, "a second episode of seed 0 differs: front_image differs at step 0"),
        ({"apply": _drawing}, "apply called again with the parameters of seed 0 differs"),
        ({"apply": lambda task, params: Edits("please", told={})}, "its record lacks the parameters loss"),
        (
            {"apply": lambda task, params: Edits("please", told={**params, "way": next(counted)}), "levels": ()},
            "two equal draws|gives back",
        ),
        (
            {"apply": lambda task, params: Edits(pictures=(lambda: lambda *seen: seen[0][:1],))},
            "expected .32, 48, 3. u",
        ),
        ({"needs": ("a camera",)}, "does not fit point/"),
        ({"sample": lambda draw: 1 / 0}, "sample raised ZeroDivisionError"),
        ({"levels": (), "parts": lambda: 3}, "parts raised|parts returned"),
    ],
)
def test_a_kind_that_breaks_its_contract_is_told(changed: dict[str, Any], complaint: str) -> None:
    with pytest.raises((AssertionError, VlaError), match=complaint):
        check_kind(_weaker(**changed), POINT)


def test_a_kind_that_the_task_cannot_have_is_told() -> None:
    def unfit(draw: Draw) -> dict[str, float]:
        raise VlaError("the task has no drawer")

    with pytest.raises(VlaError, match="no drawer"):
        check_kind(_weaker(sample=unfit), POINT)


PUSH = """
import numpy as np

def policy(episode):
    return lambda seen: np.eye(7)[:1] * (seen["agentview_image"].size > 0)
"""


def test_the_fake_world_takes_variations_of_looks_and_layout(pytester: pytest.Pytester) -> None:
    (pytester.path / "push.py").write_text(PUSH)
    told = ("--vla-suite=tabletop", "--vla-tasks=turn_on_the_stove", "--vla-vary=camera:3,layout.distractors:1")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "pytest_vla.testing", *told, "--vla-model=push:policy"],
        cwd=pytester.path,
        capture_output=True,
        text=True,
        env=_environment(pytester.path),
    )
    assert "7 passed" in done.stdout, done.stdout + done.stderr


def test_the_fake_world_shows_variations() -> None:
    task = load_suite("tabletop").task("turn_on_the_stove")
    labels = ("", "camera.azimuth-L3", "camera.azimuth-L4", "noise.fog-L3", "layout.distractors-L1")
    worlds = [World(task, find_variation(task, label, 0)) for label in labels]
    pictures = [world.reset(0, 0, True)["agentview_image"].tobytes() for world in worlds]
    assert len(set(pictures)) == 4
    assert pictures[0] == pictures[-1]
    assert [world.data.qpos[1] > 0 for world in worlds] == [False, False, False, False, True]


def test_commands_run_in_the_fake_world_too(pytester: pytest.Pytester) -> None:
    """In the workers of a search as well; `expert` shows there what can be done."""
    (pytester.path / "push.py").write_text(PUSH)
    told = ("--vla-suite=tabletop", "--vla-tasks=turn_on_the_stove", "--vla-model=push:policy", "--scenes=2", "-n2")
    done = subprocess.run(
        [sys.executable, "-m", "pytest_vla.cli", "-p", "pytest_vla.testing", "fuzz", *told, "--dimensions=layout"],
        cwd=pytester.path,
        capture_output=True,
        text=True,
        env=_environment(pytester.path),
    )
    assert "0 of 1 evenly drawn scenes fail" in done.stdout, done.stdout + done.stderr


def test_the_example_of_the_testing_module_runs(pytester: pytest.Pytester) -> None:
    """What third parties are told to write is a test that passes."""
    import pytest_vla.testing

    text = str(pytest_vla.testing.__doc__)
    code = text[text.index("    pytest_plugins") :]
    lines = [line.removeprefix("    ") for line in code.splitlines()]
    pytester.makepyfile(test_example="\n".join(lines))
    package = pytester.mkpydir("my_package")
    (package / "suite.py").write_text(
        "from dataclasses import replace\nfrom pytest_vla.testing import point_suite\n"
        "whole = point_suite('mine')\nSUITE = replace(whole, tasks=whole.tasks[:1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:hypothesispytest", "test_example.py"],
        cwd=pytester.path,
        capture_output=True,
        text=True,
        env={**_environment(pytester.path)},
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}

"""Tools for tests of extensions: worlds without a simulator, and checks of a suite's own world and a kind of variation.

``pytest -p pytest_vla.testing`` replaces MuJoCo by the point, and so does ``pytest-vla -p pytest_vla.testing``:
suites of task files then need neither simulator nor data, and an episode takes milliseconds. Variations change the
point's picture or where it begins, by their parameters. `World` has an expert of its own.

`point_suite` is a suite with the point as its own world, `check_world` checks a suite's own world against its contract,
`check_kind` a kind of variation. Tests with pytest's ``pytester``::

    pytest_plugins = ["pytester"]

    def test_my_suite(pytester):
        pytester.makeconftest(
            "from pytest_vla.entries import SuiteEntry\\n"
            "def pytest_vla_suites():\\n"
            "    return [SuiteEntry('mine', 'my robot', 'my_package.suite:SUITE')]\\n"
        )
        pytester.makepyfile(policies="def straight(episode): return lambda seen: [1, 0]")
        result = pytester.runpytest_subprocess("--vla-suite=mine", "--vla-model=policies:straight")
        result.assert_outcomes(passed=1)
"""

import hashlib
import json
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case, level_of, part_of
from pytest_vla.plan.costs import totals
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import Protocol, Task
from pytest_vla.scene.variation import INSTRUCTION, Variation
from pytest_vla.util.text import LAST_SEED
from pytest_vla.vary.kind import Draw, VariationKind, guarded

GOAL_X = 0.2
"""m: the goal is beyond it."""

_STEP = 0.05
_CHECKED_STEPS = 3


class LazyObservation(Mapping[str, Any]):
    """An observation that counts its drawn pictures; a picture of an earlier step cannot be drawn."""

    def __init__(self, world: "World") -> None:
        self._world, self._step = world, world.steps

    def __getitem__(self, key: str) -> Any:
        eef = self._world.data.qpos.copy()
        if key.endswith("_image"):
            assert self._step == self._world.steps, "a picture of the past"
            self._world.pictures += 1
            return self._world.picture(key.removesuffix("_image"))
        state = np.concatenate([eef, np.zeros(5)])
        upright = np.array([0.0, 0.0, 0.0, 1.0])
        seen = {"state": state, "robot0_eef_pos": eef, "robot0_eef_quat": upright, "robot0_gripper_qpos": np.zeros(2)}
        return {**seen, "controller_pos": eef, "controller_mat": np.eye(3)}[key]

    def __iter__(self) -> Iterator[str]:
        pictures = ("agentview_image", "robot0_eye_in_hand_image")
        hand = ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos")
        return iter([*pictures, "state", *hand, "controller_pos", "controller_mat"])

    def __len__(self) -> int:
        return 8


class World:
    """A point that is pushed about, with those parts of the contract of `pytest_vla.World` that an episode needs.

    Its position is the end effector's; the goal is x beyond 0.2 m. A world of the task ``put_the_bowl_on_the_plate``
    cannot be made. Variations of looks shift the picture's numbers, those of the scene shift the point by up to 0.02 m
    along y; both by an amount that follows from the drawn parameters.

    Init state 13 meets the goal at once. A step with action[5] > 0.999 raises an EpisodeError (``physics-nan``), one
    with action[4] > 0.999 a ZeroDivisionError.
    """

    made = 0

    def __init__(self, task: Any, variation: Any = None, *, allow_versions: bool = False) -> None:
        self._refuse(task)
        type(self).made += 1
        self.task, self.variation, self.init_state_count = task, variation, 50
        self.data = types.SimpleNamespace(qpos=np.zeros(3), qvel=np.zeros(3))
        self.steps = self.pictures = self.closed = self._shift = 0
        self._changes: list[Any] = []
        self.resets: list[tuple[int, int, bool]] = []

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> LazyObservation:
        self.resets.append((init_state, scene_seed, settle))
        self.steps = 0
        self.data.qpos[:] = [1.0 if init_state == 13 else -0.01 * init_state, 0.0, 1.0]
        self.data.qvel[:] = 0.0
        variation = self.variation
        self._changes = [begin() for begin in variation.pictures] if variation is not None else []
        self._shift = _amount_of(variation) if variation is not None and variation.model else 0
        if variation is not None and variation.changes_scene:
            self.data.qpos[1] = 0.02 * _amount_of(variation) / 255
        return LazyObservation(self)

    def picture(self, camera: str) -> NDArray[np.uint8]:
        """Return the picture of a camera, as the variation changes it."""
        height, width = self.task.protocol.image_size
        picture = np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3) + np.uint8(self._shift)
        for change in self._changes:
            picture = change(picture, camera, self.steps)
        return picture

    def step(self, action: Any) -> LazyObservation:
        if action[5] > 0.999:
            raise EpisodeError("physics-nan", f"bad acceleration at step {self.steps}")
        if action[4] > 0.999:
            raise ZeroDivisionError("a defect of ours")
        self.steps += 1
        self.data.qvel[:] = action[:3]
        self.data.qpos += 0.05 * self.data.qvel
        return LazyObservation(self)

    def switch(self, task: Any, variation: Any = None) -> bool:
        """Take another task of the same suite: a suite is one scene here."""
        if task.suite != self.task.suite:
            return False
        self._refuse(task)
        self.task, self.variation = task, variation
        return True

    @staticmethod
    def _refuse(task: Any) -> None:
        if task.name == "put_the_bowl_on_the_plate":
            raise VlaError("the fake world of pytest_vla.testing does not make this task, so that tests have an error")

    def show(self, qpos: Any, step: int = 0) -> dict[str, Any]:
        """Draw a picture that gets brighter along x."""
        self.shown = getattr(self, "shown", 0) + 1
        height, width = self.task.protocol.image_size
        return {"agentview_image": np.full((height, width, 3), int(abs(qpos[0]) * 200) % 256, dtype=np.uint8)}

    def success(self) -> bool:
        return bool(self.data.qpos[0] > GOAL_X)

    def predicates(self) -> dict[str, bool]:
        return {"(beyond point_1 line_1)": self.success(), "(is point_1)": True}

    def asked_done(self) -> bool:
        return bool(self.data.qpos[0] < -GOAL_X)

    def vacated(self) -> dict[str, tuple[float, float, float]]:
        return dict.fromkeys(self.variation.removed if self.variation is not None else (), (0.1, 0.0, 1.0))

    def provenance(self) -> dict[str, str]:
        return {"scene": "a point"}

    def expert(self) -> Any:
        """Return a session that pushes the point to the goal."""
        return lambda observation: np.eye(7)[:1]

    def out_of_sight(self) -> str:
        return ""

    def infeasible(self) -> str:
        return ""

    def close(self) -> None:
        self.closed += 1


def _amount_of(variation: Variation) -> int:
    """Return a number from 1 to 255 that follows from a variation's parameters."""
    return 1 + hashlib.sha256(_recorded(variation).encode()).digest()[0] % 255


class PointWorld:
    """The point as a suite's own world (`pytest_vla.plan.task.SuiteWorld`), with all optional parts of such a world.

    It starts at x = -0.01 m times the seed modulo ten. Actions (2,) push the point along x and y by at most 0.05 m, and
    beyond y = 0.5 m it has fallen. Each step costs its push along y, ``sideways``, m.
    """

    def __init__(self, task: Task) -> None:
        self._height, self._width = task.protocol.image_size
        self._at, self._pushed = np.zeros(2), 0.0

    def reset(self, case: Case) -> Mapping[str, NDArray[Any]]:
        self._at, self._pushed = np.array([-0.01 * (case.seed % 10), 0.0]), 0.0
        return self._seen()

    def step(self, action: NDArray[np.float64]) -> Mapping[str, NDArray[Any]]:
        self._at = self._at + _STEP * action
        self._pushed = abs(_STEP * float(action[1]))
        return self._seen()

    def success(self) -> bool:
        return bool(self._at[0] > GOAL_X)

    def over(self) -> bool:
        return bool(abs(self._at[1]) > 0.5)

    def costs(self) -> dict[str, float]:
        return {"sideways": self._pushed}

    def save(self) -> NDArray[np.float64]:
        return self._at.copy()

    def restore(self, state: NDArray[np.float64]) -> Mapping[str, NDArray[Any]]:
        self._at = np.array(state)
        return self._seen()

    def provenance(self) -> dict[str, str]:
        return {"scene": "a point"}

    def expert(self) -> Any:
        """Return a session that pushes the point to the goal."""
        return lambda observation: np.array([1.0, 0.0])

    def _seen(self) -> Mapping[str, NDArray[Any]]:
        """Return a picture that gets brighter along x, and the point's position."""
        brightness = int(np.clip(128 + 300 * self._at[0], 0, 255))
        picture = np.full((self._height, self._width, 3), brightness, dtype=np.uint8)
        return {"front_image": picture, "state": self._at.copy(), "robot0_eef_pos": np.array([*self._at, 0.0])}


class ForgetfulPointWorld:
    """The point with only the required parts of a world: it cannot save a state, so frames are kept for videos."""

    def __init__(self, task: Task) -> None:
        self._world = PointWorld(task)
        self.reset, self.step, self.success = self._world.reset, self._world.step, self._world.success


def point_suite(name: str = "point", world: Any = PointWorld) -> Suite:
    """Return a suite of two tasks with the point as its own world.

    Args:
        name: the suite's name.
        world: makes the world of a task.
    """
    protocol = Protocol(
        max_steps=20,
        settle_steps=0,
        settle_action=(0.0, 0.0),
        control_freq=20,
        init_states=LAST_SEED + 1,
        image_size=(32, 48),
        cameras=("front",),
        image_transform="none",
        out_of_range="clip",
        action_size=2,
        vectors=(("state", 2),),
    )
    tasks = {"push_the_point": "push the point to the right", "pull_the_point": "pull the point to the right"}
    found = [Task(name, key, index, text, protocol, world=world) for index, (key, text) in enumerate(tasks.items())]
    return Suite(name, "A point", tuple(found), protocol)


def check_world(task: Task, seeds: tuple[int, int] = (0, 1)) -> None:
    """Check the own world of a task against its contract, in a few steps.

    Its observations have the names, shapes and types of the suite. Equal cases begin and continue alike, also in a
    world that was used before, with the same costs, series and provenance. A saved state is the same after it is
    restored. Its expert, if there is one, does the task.

    Args:
        task: a task of a suite with a world of its own.
        seeds: the seeds of two cases.

    Raises:
        AssertionError: the contract is broken, with the difference.
        VlaError: the world cannot be made, or its observations differ from the suite's declaration.
    """
    from pytest_vla.episode.world_pool import OwnWorld

    if task.world is None:
        raise AssertionError(f"{task.id} has no world of its own")
    low, high = np.array(task.protocol.action_bounds or ((-1.0, 1.0),) * task.protocol.action_size).T
    drawn = np.random.default_rng(0).uniform(low, high, (_CHECKED_STEPS, len(low)))
    fresh = OwnWorld(task)
    first = _seen_of(fresh, seeds[0], drawn)
    said = fresh.provenance()
    world = OwnWorld(task)
    _seen_of(world, seeds[1], drawn)
    _assert_alike(first, _seen_of(world, seeds[0], drawn), f"seed {seeds[0]} differs after seed {seeds[1]}")
    if (now := world.provenance()) != said:
        raise AssertionError(f"provenance() says {said} of seed {seeds[0]}, and {now} after seed {seeds[1]}")
    if callable(getattr(world.inner, "save", None)) and callable(getattr(world.inner, "restore", None)):
        state, at_end = world.data.qpos, {name: value for name, value in first[-1].items() if "()" not in name}
        world.step(high)
        shown = world.show(state, _CHECKED_STEPS)
        _assert_alike([at_end], [{name: shown[name] for name in at_end}], "a restored state differs")
    if world.has_expert:
        world.reset(init_state=seeds[0], scene_seed=seeds[0], settle=True)
        if undone := world.infeasible():
            raise AssertionError(f"expert() of seed {seeds[0]}: {undone}")
    world.close()


def _seen_of(world: Any, seed: int, actions: NDArray[np.float64]) -> list[dict[str, NDArray[Any]]]:
    """Return the observations of a few steps."""
    seen = world.reset(init_state=seed, scene_seed=seed, settle=True)
    found = [{name: np.array(seen[name]) for name in seen}]
    for action in actions:
        if world.over() or world.success():
            break
        seen = world.step(action)
        charged = {f"costs() of {name}": np.array(amount) for name, amount in totals(world.costs()).items()}
        measured = {f"series() of {name}": array for name, array in world.series().items()}
        found.append({**{name: np.array(seen[name]) for name in seen}, **charged, **measured})
    return found


def _assert_alike(one: list[dict[str, NDArray[Any]]], other: list[dict[str, NDArray[Any]]], what: str) -> None:
    if len(one) != len(other):
        raise AssertionError(f"{what}: it ends after {len(one) - 1} and after {len(other) - 1} steps")
    for step, (before, after) in enumerate(zip(one, other, strict=True)):
        for name, value in before.items():
            if name not in after or not np.array_equal(value, after[name]):
                raise AssertionError(f"{what}: {name} differs at step {step}")


def check_kind(kind: VariationKind, task: Task, seeds: tuple[int, ...] = (0, 1)) -> None:
    """Check a kind of variation against its contract, on one task, with episodes of a few steps.

    For each of its labels and seeds: equal draws give equal parameters, within the kind's space. These parameters give
    the variation back after they were written to a record and read. Its edits run in the task's world, change
    something, return what `pytest_vla.scene.variation` says, and do the same in every episode of a case. Labels that
    the task cannot have (the kind raises VlaError) are left out.

    Args:
        kind: as its package lists it.
        task: a task of any suite that is not varied itself; with a world of its own if the kind is for such tasks too.
        seeds: of the cases.

    Raises:
        AssertionError: the contract is broken, with the difference.
        VlaError: a function of the kind raised or returned something else (`EpisodeError`, ``variation-broken``), or
            the task can have none of its variations.
    """
    from pytest_vla.episode.world_pool import WorldPool

    if misfit := kind.misfit(task):
        raise AssertionError(f"{kind.name} does not fit {task.id}: {misfit}. Pass another task")
    checked, pool = guarded(kind, f"{kind.apply.__module__}"), WorldPool(allow_versions=False)
    actions = np.random.default_rng(0).uniform(-1, 1, (_CHECKED_STEPS, task.protocol.action_size))
    unfit: VlaError | None = None
    fits = False
    try:
        for label in checked.labels():
            for seed in seeds:
                try:
                    made, given = _made(checked, task, label, seed)
                    first, second, third = (
                        _episode_of(pool(task, each), each, seed, actions) for each in (made, made, given)
                    )
                except EpisodeError:
                    raise
                except VlaError as error:
                    unfit = error
                    continue
                fits = True
                _assert_alike(first, second, f"{label}: a second episode of seed {seed} differs")
                _assert_alike(first, third, f"{label}: apply called again with the parameters of seed {seed} differs")
    finally:
        pool.close()
    if not fits:
        raise unfit or AssertionError(f"{kind.name} has no labels: its levels and parts are empty")


def _made(kind: VariationKind, task: Task, label: str, seed: int) -> tuple[Variation, Variation]:
    """Return a variation that was drawn twice, and what its record gives back. Raises AssertionError, VlaError."""
    level, part = level_of(label) if kind.levels else 0, "" if kind.levels else part_of(label, kind.name)
    made, again = (kind.make(Draw(task, label, seed, level, part)) for _ in range(2))
    if _recorded(made) != _recorded(again):
        raise AssertionError(f"{label}: two equal draws of seed {seed} gave {_recorded(made)} and {_recorded(again)}")
    if not made.changes_world and made.instruction in (None, task.language):
        raise AssertionError(f"{label}: with seed {seed} it changes nothing")
    space, told = kind.space(task), json.loads(_recorded(made))["parameters"]
    params = {name: value for name, value in kind.implied(label).items() if any(each.name == name for each in space)}
    params |= told | ({} if made.instruction is None else {INSTRUCTION: made.instruction})
    if lost := [each.name for each in space if each.name not in params and not each.optional]:
        raise AssertionError(f"{label}: its record lacks the parameters {', '.join(lost)}: Edits.told leaves them out")
    given = kind.given(task, label, params)
    now = json.loads(_recorded(given))["parameters"]
    if given.instruction != made.instruction or any(name not in now or now[name] != told[name] for name in told):
        raise AssertionError(f"{label}: its record {_recorded(made)} gives back {_recorded(given)}")
    return made, given


def _recorded(variation: Variation) -> str:
    return json.dumps({**variation.table(), INSTRUCTION: variation.instruction}, sort_keys=True)


def _episode_of(
    world: Any, variation: Variation, seed: int, actions: NDArray[np.float64]
) -> list[dict[str, NDArray[Any]]]:
    """Return the observations of a few steps under a variation, with the actions as they were executed."""
    seen = world.reset(init_state=seed % world.init_state_count, scene_seed=seed, settle=True)
    found = [{name: np.array(seen[name]) for name in seen}]
    changes = [begin() for begin in variation.actions]
    for wanted in actions:
        if getattr(world, "over", bool)() or world.success():
            break
        executed = wanted
        for change in changes:
            executed = change(executed)
        seen = world.step(executed)
        found.append({**{name: np.array(seen[name]) for name in seen}, "the executed action": executed})
    return found


def pytest_configure(config: Any) -> None:
    """Replace the simulator in pytest."""
    replace_simulator()


def replace_simulator() -> None:
    """Replace the simulator in this process by `World`; `pytest_vla.hook_modules.consent` calls it for ``-p``."""
    module: Any = types.ModuleType("pytest_vla.sim.world")
    module.World = World
    sys.modules["pytest_vla.sim.world"] = module

"""The worlds of one process, each opened once, and a suite's own world (`OwnWorld`) as an episode needs it."""

import gc
import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from types import FunctionType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import UNSCALED
from pytest_vla.plan.costs import DECLARED, LARGEST_AMOUNT, Charge
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.session import ask_session, begin_session
from pytest_vla.policies.view import resize_with_padding
from pytest_vla.records.trajectory import MOST_SERIES, MOST_SERIES_BYTES, series_fault
from pytest_vla.scene.cost_rules import Charging, CostRule
from pytest_vla.scene.scene import own_scene
from pytest_vla.scene.variation import ModelEdit, Variation
from pytest_vla.sim.lazy_observation import Observation
from pytest_vla.sim.own_models import ModelChanges, place_cameras, start_elsewhere
from pytest_vla.util.text import quoted
from pytest_vla.util.warnings import describe, ends_episode, warn
from pytest_vla.versions import RECORDED_NAMES, SUPPORTED, check_versions, recorded_versions

if TYPE_CHECKING:
    from pytest_vla.sim.own_costs import OwnCosts


class WorldPool:
    """A pool that keeps the last used world: the next episode mostly has the same scene, and worlds are large."""

    def __init__(self, allow_versions: bool, keep_every: int = 0, charging: Charging | None = None) -> None:
        """Set up a pool that keeps one world.

        Args:
            allow_versions: accept another robosuite or MuJoCo than the supported pair.
            keep_every: for a suite's own world that cannot restore a state, the steps from one kept frame to the
                next; 0 to keep none.
            charging: the costs that episodes are charged, or None for a task's own costs alone.
        """
        self._allow_versions, self._keep_every, self._charging = allow_versions, keep_every, charging
        self._world: Any = None
        self._told: set[str] = set()

    def __call__(self, task: Task, variation: Variation | None = None) -> Any:
        """Return the world of a task under a variation: `pytest_vla.World`, or the suite's own.

        It has to be reset before use.

        Raises:
            VlaError: it cannot be made.
        """
        world = self._world
        if task.world is not None:
            return self._own(task, variation)
        if world is not None and world.task.world is not None:
            self.close()
            world = None
        known = world is not None and world.task == task and world.variation is variation
        if world is None or not (known or world.switch(task, variation)):
            world = None  # or it would outlive `close`
            # Before the import, which fails without a simulator.
            check_versions(allow=self._allow_versions)
            from pytest_vla.sim.world import World

            self.close()
            world = World(task, variation, allow_versions=self._allow_versions)
            if self._charging is not None and hasattr(world, "meter"):
                from pytest_vla.sim.meters import meters_of

                try:
                    world.meter(meters_of(self._charging))
                except VlaError:
                    world.close()
                    raise
            self._world = world
        return world

    def _own(self, task: Task, variation: Variation | None) -> Any:
        if self._world is None or self._world.task.world is None or not self._world.switch(task, variation):
            self.close()
            declared = None if self._charging is None else self._charging.declared
            rules = () if declared is None else tuple(rule for rule in declared.rules if rule.is_of(task))
            self._world = OwnWorld(task, variation, keep_every=self._keep_every, rules=rules)
        return self._world

    def close(self) -> None:
        """Close the world; the next episode gets a new one.

        If a suite's own world cannot be closed, this warns once.
        """
        world, self._world = self._world, None
        if world is None:
            return
        try:
            world.close()
        except VlaError as error:
            if str(error) not in self._told:
                warn(f"{error}; its episodes are kept")
            self._told.add(str(error))
        if hasattr(world, "meter"):
            # A world and its meters refer to each other. Python collects such circles by the number of objects, which
            # are few, and not by the 100 MB that they hold: a run of many scenes would fill the memory.
            del world
            gc.collect()


# Checks of a suite's own world's values for a step: its costs as charges, its series as arrays.

RESERVED = frozenset(
    (*RECORDED_NAMES, "world", "premises", "feasible", "stop_when", "realtime", "costs", "ledger", DECLARED)
)
"""Names in a record's provenance that pytest-vla itself sets."""


def own_charges(told: Any, step: int) -> tuple[Charge, ...]:
    """Return the charges of a step from the result of a world's ``costs()``: amounts by name, or charges.

    Raises:
        EpisodeError: the result is neither, or an amount is no cost; ``world-protocol``.
    """
    if isinstance(told, Mapping):
        told = [Charge(name, amount) for name, amount in told.items()]
    if isinstance(told, str | bytes) or not isinstance(told, Iterable):
        raise _refused(f"gives {type(told).__name__}, expected amounts by name, or a list of charges")
    charges = tuple(_charge(each, step) for each in told)
    if odd := [f"{each.name}={each.amount}" for each in charges if not math.isfinite(each.amount)]:
        raise _refused(f"gives what is no finite number: {', '.join(odd)}")
    if odd := [f"{each.name}={each.amount}" for each in charges if not 0 <= each.amount <= LARGEST_AMOUNT]:
        raise _refused(f"gives what is no cost, which is 0 to {LARGEST_AMOUNT:g}: {', '.join(odd)}")
    return charges


def own_series(told: Any, steps: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a step by name, from the result of a world's ``series()``.

    Args:
        told: the world's result.
        steps: how many the episode may have: all of its series together are bounded.

    Raises:
        EpisodeError: the arrays are no series of a trajectory; ``world-protocol``.
    """
    if not isinstance(told, Mapping):
        raise _refused(f"gives {type(told).__name__}, expected numbers or arrays by name", "series")
    found = {}
    for name, value in told.items():
        try:
            found[name] = array = np.array(value)
        except Exception as error:
            raise _refused(f"gives {quoted(name, 100)}, which is no array: {error}", "series") from error
        if fault := series_fault(name, (steps, *array.shape), array.dtype, steps):
            raise _refused(f"does not fit: {fault}", "series")
    # Bools and small integers may become larger numbers at a later step.
    size = steps * sum(8 * array.size for array in found.values())
    if len(found) > MOST_SERIES or size > MOST_SERIES_BYTES:
        raise _refused(
            f"gives {len(found)} series of {size} bytes in {steps} steps, expected at most {MOST_SERIES} of "
            f"{MOST_SERIES_BYTES} bytes together",
            "series",
        )
    return found


_MOST_HELD, _MOST_OF_ONE = 1000, 50
"""Objects in which `engines_of` looks, and how many of one: a buffer of frames must not hide the environment."""


def engines_of(world: object) -> frozenset[str]:
    """Return which packages of `pytest_vla.versions.SUPPORTED` a suite's own world is made of.

    Their versions are conditions of its episodes. It goes by the world's class, by what the class's module imports, and
    by the objects that the world holds, such as an environment in its wrappers; not by what the process has loaded.
    """
    imported = getattr(getattr(type(world), "reset", None), "__globals__", {}).values()
    found, held, known = {_package(each) for each in imported}, [world], {id(world)}
    for each in held:
        found |= {_package(kind) for kind in type(each).__mro__} | {_package(each)}
        if isinstance(each, type | ModuleType | FunctionType):
            continue
        inner: Iterable[Any] = each if isinstance(each, list | tuple) else ()
        if isinstance(held_by := each if isinstance(each, dict) else getattr(each, "__dict__", None), dict):
            inner = held_by.values()
        for one in islice(inner, min(_MOST_OF_ONE, _MOST_HELD - len(held))):
            if id(one) not in known:
                known.add(id(one))
                held.append(one)
    # robosuite simulates by MuJoCo.
    return frozenset((found | {"mujoco"} if "robosuite" in found else found) & SUPPORTED.keys())


def _package(each: object) -> str:
    """Return the package of a class, function or module; of another object an empty text."""
    if isinstance(each, ModuleType):
        return each.__name__.partition(".")[0]
    return str(each.__module__).partition(".")[0] if isinstance(each, type | FunctionType) else ""


def own_provenance(told: Any, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the texts by name from the result of a world's ``provenance()``.

    Args:
        told: the world's result.
        ours: pytest-vla's own entries; a world may repeat them.

    Raises:
        EpisodeError: the result is no table of texts, or contradicts pytest-vla's entries; ``world-protocol``.
    """
    if not isinstance(told, Mapping):
        raise _refused(f"gives {type(told).__name__}, expected texts by name", "provenance")
    for name, text in told.items():
        shown = quoted(name, 100)
        if not isinstance(name, str) or not name:
            raise _refused(f"gives {shown} as a name, expected a text", "provenance")
        if not isinstance(text, str):
            raise _refused(f"gives {shown}={text!r:.60}, expected a text: str(...) of it", "provenance")
        if name in RESERVED and text != ours.get(name):
            known = f" ({ours[name]})" if name in ours else ""
            raise _refused(f"gives {shown}, which pytest-vla says itself{known}: give it another name", "provenance")
    return {str(name): str(text) for name, text in told.items()}


def _charge(told: Any, step: int) -> Charge:
    if not isinstance(told, Charge):
        raise _refused(f"gives {type(told).__name__} in a list, expected pytest_vla.plan.costs.Charge")
    if not isinstance(told.name, str) or not told.name:
        raise _refused(f"gives {quoted(told.name, 100)} as a name, expected a text")
    if any(text is not None and not isinstance(text, str) for text in (told.by, told.text)):
        raise _refused(f"gives {told.name} with what is no text in by or text")
    if told.step is not None and (type(told.step) is not int or not 0 <= told.step <= step):
        raise _refused(f"gives {told.name} at step {told.step!r:.40}, expected none, or 0 to {step}, which is now")
    try:
        amount = float(told.amount)
    except (TypeError, ValueError, OverflowError):
        raise _refused(f"gives what is no finite number: {told.name}={told.amount!r:.60}") from None
    return replace(told, amount=amount, step=step if told.step is None else told.step, unknown={})


def _refused(what: str, method: str = "costs") -> EpisodeError:
    return EpisodeError("world-protocol", f"{method}() {what}")


Picture = NDArray[np.uint8]

SUCCESS = "(success)"
"""The literal of a world that has no predicates."""

_NEEDED = ("reset", "step", "success")
_EEF = "robot0_eef_pos"
_NO_PATH = np.zeros(0)


# A suite's own world (`pytest_vla.plan.task.SuiteWorld`), adapted for an episode.


class OwnWorld:
    """An adapter that gives a suite's own world the interface that an episode, a video and a sheet need.

    Args:
        task: with a `Task.world`.
        variation: of the task: of pictures, words and actions, and of its MuJoCo model and state if its task has a
            `pytest_vla.plan.task.MujocoScene`.
        keep_every: if no state can be restored, keep the first camera's picture every so many steps; 0 for never.
        rules: the user's costs that apply to the task.

    Raises:
        VlaError: the world cannot be made, lacks methods, or shows no MuJoCo model that a rule could be about.
    """

    is_own = True
    """Whether what `provenance` says is of another simulator than MuJoCo, so that it makes episodes comparable."""

    def __init__(
        self,
        task: Task,
        variation: Variation | None = None,
        *,
        keep_every: int = 0,
        rules: tuple[CostRule, ...] = (),
    ) -> None:
        assert task.world is not None, "the task's world is MuJoCo's"
        try:
            self.inner: Any = task.world(task)
        except VlaError:
            raise
        except Exception as error:
            raise VlaError(f"{task.id}: making its world raised {describe(error)}") from error
        if lacks := [name for name in _NEEDED if not callable(getattr(self.inner, name, None))]:
            what = type(self.inner).__name__
            raise VlaError(f"{task.id}: its world, {what}, lacks {', '.join(lacks)}")
        self.task, self.variation, self.init_state_count = task, variation, task.protocol.init_states
        self._keep_every = 0 if callable(getattr(self.inner, "restore", None)) else keep_every
        self._frames: list[tuple[int, Picture]] = []
        self._steps = self._moment = 0
        self._shapes: dict[str, tuple[int, ...]] | None = None
        # The goal's literals in the current state; None until they are asked for.
        self._literals: dict[str, bool] | None = None
        # What the last reset or step showed; None after a reset that failed.
        self.seen: Observation | None = None
        self._is_checked = False
        self._changes: tuple[Callable[[Picture, str, int], Picture], ...] = ()
        # Of the world's MuJoCo model, from the first variation of it on.
        self._model: Any = None
        self._model_changes: ModelChanges | None = None
        self._costs: OwnCosts | None = None
        if rules:
            if task.scene is None or not hasattr(self.inner, "mujoco"):
                self.close()
                raise VlaError(
                    f"{rules[0].where}: {task.suite}/{task.name} has its own simulator and shows no MuJoCo model; it "
                    'charges costs through costs(). Leave such tasks out: tasks = "..."'
                )
            from pytest_vla.sim import own_costs

            try:
                self._costs = own_costs.OwnCosts(task, rules, self.inner.mujoco)
            except VlaError:
                self.close()
                raise

    def switch(self, task: Task, variation: Variation | None) -> bool:
        """Take this world for an episode of another variation. Returns whether it can be."""
        if task != self.task:
            return False
        self.variation = variation
        return True

    def reset(self, init_state: int, scene_seed: int, settle: bool = True) -> Observation:
        """Begin an episode of the case with this seed."""
        label = self.variation.label if self.variation is not None else ""
        # The world draws its own reset in the model as it is unvaried.
        repainted = self._edit_model(())
        seen = self.inner.reset(Case(self.task.suite, self.task.name, scene_seed, label, self.task.task_level))
        self._steps, self._frames, self._shapes, self.seen = 0, [], None, None
        self._changes = tuple(begin() for begin in self.variation.pictures) if self.variation is not None else ()
        if self.variation is not None:
            repainted |= self._edit_model(self.variation.model)
            if self.variation.state and self.task.scene is not None:
                model, data = self.inner.mujoco()
                start_elsewhere(model, data, self.task.scene, self.variation.state)
                seen = self.inner.observe()
        if repainted:
            self.inner.repaint()
        protocol = self.task.protocol
        if settle and protocol.settle_steps:
            # 0 is not rest in unscaled actions.
            still = self.hold(None) if protocol.out_of_range == UNSCALED else np.array(protocol.settle_action)
            for _ in range(protocol.settle_steps):
                seen = self.inner.step(still.copy())
        if self._costs is not None:
            self._costs.begin()
        found = self._observed(seen)
        self._keep()
        return found

    def step(self, action: NDArray[np.float64]) -> Observation:
        """Run one control step."""
        with nullcontext() if self._costs is None else self._costs.charging(self._steps + 1):
            seen = self.inner.step(np.array(action, dtype=np.float64))
        self._steps += 1
        found = self._observed(seen)
        self._keep()
        return found

    def _edit_model(self, edits: tuple[ModelEdit, ...]) -> bool:
        """Undo the model's changes in force and make these; return whether textures or shadows are other ones."""
        if self._model_changes is None and not edits:
            return False
        own = self.task.scene
        assert own is not None, "a variation of the model is refused without"
        model, data = self.inner.mujoco()
        if model is not self._model:
            self._model, self._model_changes = model, ModelChanges(model)
        assert self._model_changes is not None
        shadows = model.light_castshadow.copy()
        painted = self._model_changes.replace(edits, own_scene(own))
        place_cameras(model, data)
        return bool(painted) or not np.array_equal(shadows, model.light_castshadow)

    def hold(self, last: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return the action that keeps everything where it is: the inner world's ``hold(last)``, or the settle action.

        Args:
            last: the last action, or None if there was none.

        Raises:
            EpisodeError: the inner world returns no action, or has no ``hold`` and takes unscaled actions, of which 0
                may be far away; ``world-protocol``.
        """
        protocol, own = self.task.protocol, getattr(self.inner, "hold", None)
        if own is None and protocol.out_of_range == UNSCALED:
            raise EpisodeError(
                "world-protocol",
                f"{self.task.suite} does not say which action keeps the robot where it is, and its actions are not "
                "scaled: give the world a method hold(last), or gym.suite(..., hold=)",
            )
        found = np.array(protocol.settle_action if own is None else own(last), dtype=np.float64)
        if found.shape != (protocol.action_size,) or not np.isfinite(found).all():
            raise _refused(f"gives {found}, expected an action ({protocol.action_size},)", "hold")
        return found

    @property
    def data(self) -> SimpleNamespace:
        """The state for the trajectory: the inner world's saved state if it has one, else its observation's."""
        save = getattr(self.inner, "save", None)
        state = save() if save is not None else self._now.get("state", _NO_PATH)
        qpos = np.asarray(state, dtype=np.float64).ravel()
        if not np.isfinite(qpos).all():
            raise EpisodeError("world-protocol", f"the world's state holds NaN or infinity: {qpos}")
        return SimpleNamespace(qpos=qpos, qvel=_NO_PATH)

    def success(self) -> bool:
        """Whether the task is done: all literals of the goal hold."""
        return all(self.predicates().values())

    def predicates(self) -> dict[str, bool]:
        """Return the goal's literals by name, or the inner world's success() as the only one if it has none.

        The inner world is asked once for each state: an answer may be costly.
        """
        if self._literals is None:
            found: Mapping[str, Any] = getattr(self.inner, "predicates", dict)()
            self._literals = {name: _verdict(name, held) for name, held in found.items()} or {
                SUCCESS: _verdict("success()", self.inner.success())
            }
        return self._literals

    def over(self) -> bool:
        """Whether the episode has ended without success."""
        return bool(getattr(self.inner, "over", bool)())

    def costs(self) -> tuple[Charge, ...]:
        """Return the charges of the last step."""
        return own_charges(getattr(self.inner, "costs", dict)(), self._steps)

    def charged(self) -> tuple[Charge, ...]:
        """Return the charges of the episode so far by the user's costs."""
        return () if self._costs is None else self._costs.charges()

    def conclude(self) -> None:
        """End the episode here and charge how it ended by the user's costs."""
        if self._costs is not None:
            self._costs.end(self._steps)

    def series(self) -> dict[str, NDArray[Any]]:
        """Return the world's own measurements at the last step, for the trajectory."""
        found = own_series(getattr(self.inner, "series", dict)(), self.task.protocol.max_steps)
        shapes = {name: array.shape for name, array in found.items()}
        if self._shapes not in (None, shapes):
            raise EpisodeError("world-protocol", f"series() gives {shapes}, and gave {self._shapes} before")
        self._shapes = shapes
        return found

    def show(self, qpos: NDArray[np.float64], step: int = 0) -> Observation:
        """Return the observation of a recorded state. Raises VlaError if the world cannot restore one."""
        restore = getattr(self.inner, "restore", None)
        if restore is None:
            raise VlaError(
                f"{self.task.suite}: its world cannot restore a recorded state; record videos while episodes run, "
                "with --vla-video=all"
            )
        self._steps = step
        return self._observed(restore(np.array(qpos, dtype=np.float64)))

    def kept_frames(self) -> tuple[tuple[int, Picture], ...]:
        """Return steps and pictures of the current episode, the last one included; empty if none are kept."""
        if not self._keep_every or not self._frames:
            return ()
        last = [] if self._frames[-1][0] == self._steps else [(self._steps, self._first_picture())]
        return (*self._frames, *last)

    def provenance(self) -> dict[str, str]:
        """Return the facts that the world's results depend on; only episodes that agree in them are comparable.

        Raises EpisodeError, ``world-protocol``, if the world gives no table of texts or uses a name of pytest-vla's
        own.
        """
        kind = type(self.inner)
        ours = {"world": f"{kind.__module__}.{kind.__qualname__}"}
        told: Any = getattr(self.inner, "provenance", dict)()
        return ours | own_provenance(told, {**recorded_versions(), **ours})

    def engines(self) -> frozenset[str]:
        """Return `engines_of` the world."""
        return engines_of(self.inner)

    def out_of_sight(self) -> str:
        """Return "": what the task is about is not known, so nothing is looked for."""
        return ""

    @property
    def has_expert(self) -> bool:
        """Whether the inner world has an expert of its own."""
        return callable(getattr(self.inner, "expert", None))

    def infeasible(self) -> str:
        """Return why the world's own expert fails from the present state, or "" if it succeeds or there is none.

        The variation's changes of actions apply. The world has to be reset afterwards.
        """
        if not self.has_expert or self.success():
            return ""
        task, seen = self.task, self.seen
        assert seen is not None, "it was reset"
        changes = [begin() for begin in self.variation.actions] if self.variation is not None else []
        try:
            name = f"{task.suite}/{task.name}/feasible"
            noise = noise_generator(0, name)
            size = task.protocol.action_size
            episode = Episode(name, task.suite, task.name, task.language, 0, noise, action_size=size)
            session = begin_session(lambda episode: self.inner.expert(), episode)
            while self._steps < task.protocol.max_steps and not self.over():
                for action in ask_session(session, seen, size).actions[: task.protocol.max_steps - self._steps]:
                    for change in changes:
                        action = change(action)
                    seen = self.step(action)
                    if self.success():
                        return ""
        except EpisodeError as error:
            return f"the expert's episode breaks: {error}"
        open_ = ", ".join(literal for literal, held in self.predicates().items() if not held)
        return f"the expert does not do it in {self._steps} steps: {open_}"

    def asked_done(self) -> bool:
        """Return no success for another goal: no variation asks for one here."""
        return False

    def premises(self) -> dict[str, bool]:
        """Return no premises: none are known."""
        return {}

    def vacated(self) -> dict[str, tuple[float, float, float]]:
        """Return no places: no variation removes things here."""
        return {}

    def close(self) -> None:
        """Close the inner world. Raises VlaError if closing it raises."""
        try:
            getattr(self.inner, "close", bool)()
        except BaseException as error:
            if not ends_episode(error):
                raise
            raise VlaError(f"closing the world of {self.task.suite} raised {describe(error)}") from error

    @property
    def _now(self) -> Mapping[str, NDArray[Any]]:
        return self.seen if self.seen is not None else {}

    def _observed(self, seen: Any) -> Observation:
        if not isinstance(seen, Mapping):
            raise EpisodeError("world-protocol", f"a world shows a mapping of arrays, not {type(seen).__name__}")
        protocol = self.task.protocol
        expected = [*(f"{camera}_image" for camera in protocol.cameras), *(name for name, _ in protocol.vectors)]
        if lacks := [name for name in expected if name not in tuple(seen)]:
            has = ", ".join(map(str, seen))
            raise EpisodeError("world-protocol", f"what is seen lacks {', '.join(lacks)} of the suite's; it has {has}")
        if not self._is_checked:
            # A policy may read none of it for a long time, or never.
            seen = self._checked(seen, expected)
            self._is_checked = True
        self._moment += 1
        self._literals = None
        moment, step = self._moment, self._steps
        names = [*expected, *([_EEF] if _EEF in tuple(seen) and _EEF not in expected else [])]
        sizes = dict(protocol.vectors)
        readers = {
            name: partial(self._picture, seen, name, step)
            if name.endswith("_image")
            else partial(self._vector, seen, name, sizes.get(name))
            for name in names
        }
        self.seen = Observation(readers, lambda: self._moment == moment, f"step {step}")
        return self.seen

    def _checked(self, seen: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
        """Read the values of these names once; return the observation with them.

        Raises EpisodeError, as reading them does.
        """
        read = {name: seen[name] for name in names}
        sizes = dict(self.task.protocol.vectors)
        for name in names:
            if name in sizes:
                self._vector(read, name, sizes[name])
            else:
                _picture_of(read, name)
        # Nothing writes into it.
        return ChainMap(read, cast("MutableMapping[str, Any]", seen))

    def _vector(self, seen: Mapping[str, Any], name: str, size: int | None) -> NDArray[np.float64]:
        vector = np.array(seen[name], dtype=np.float64)
        if size is not None and vector.shape != (size,):
            raise EpisodeError("world-protocol", f"{name} is {vector.shape}, and the suite says ({size},)")
        if not np.isfinite(vector).all():
            raise EpisodeError("world-protocol", f"{name} holds NaN or infinity: {vector}")
        return vector

    def _picture(self, seen: Mapping[str, Any], name: str, step: int) -> Picture:
        picture = _picture_of(seen, name)
        picture = resize_with_padding(np.ascontiguousarray(picture), *self.task.protocol.image_size)
        for change in self._changes:
            picture = change(picture, name.removesuffix("_image"), step)
        return picture

    def _keep(self) -> None:
        if self._keep_every and self.task.protocol.cameras and self._steps % self._keep_every == 0:
            self._frames.append((self._steps, self._first_picture()))

    def _first_picture(self) -> Picture:
        # A policy may write into what it read.
        return self._now[f"{self.task.protocol.cameras[0]}_image"].copy()


def _picture_of(seen: Mapping[str, Any], name: str) -> Picture:
    picture = np.asarray(seen[name])
    if picture.ndim != 3 or picture.shape[2] != 3 or 0 in picture.shape or picture.dtype != np.uint8:
        camera, came = name.removesuffix("_image"), f"{picture.shape} {picture.dtype}"
        raise EpisodeError("world-protocol", f"camera {camera}: {name} is {came}, expected (H, W, 3) uint8")
    return picture


def _verdict(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise EpisodeError("world-protocol", f"{name} is {value!r}, expected True or False")
    return bool(value)

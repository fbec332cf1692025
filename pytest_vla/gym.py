"""A suite made from a gymnasium environment: ``pytest_vla.gym.suite("reach", "FetchReach-v4", instruction=...)``.

gymnasium is the extra ``gym``; it is imported when the suite is used. An environment that hands out its MuJoCo model
and data can be varied as LIBERO's scenes are: the parts that variations change are guessed from the model's names, and
corrected by ``scene=``.
"""

import importlib
import importlib.metadata
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import OUT_OF_RANGE
from pytest_vla.plan.choices import UNSCALED as UNSCALED
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import MujocoScene, Protocol, Task
from pytest_vla.scene.robosuite_import import quiet_robosuite
from pytest_vla.sim.own_models import (
    MODEL_STATE,
    Observe,
    model_scene,
    mujoco_of,
    observer,
    rebuild_renderer,
    state_of,
    with_fields,
)
from pytest_vla.util.text import LAST_SEED, quoted
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RENDER = "render"
"""Of a camera: its picture is what the environment renders."""

TERMINATED = "terminated"
"""In the place of a success key: the task is done when the environment says that it has terminated."""

Success = str | Callable[[Any, float, bool, Mapping[str, Any]], bool]
"""A key of ``info``, `TERMINATED`, or a function of observation, reward, terminated and info."""

MakeEnv = Callable[..., Any]
"""Makes an environment with gymnasium's interface; called with the suite's and the task's options, and with
``render_mode="rgb_array"`` if pictures are rendered."""

Hold = Callable[[Any, "NDArray[np.float64] | None"], "NDArray[np.float64]"]
"""From the environment and the last action, or None before the first, to the one that keeps everything where it is."""

ActionMap = Callable[["NDArray[np.float64]"], Any]
"""From a policy's action in [-1, 1] to what the environment takes."""

_NEEDED = ("reset", "step", "close", "action_space", "unwrapped", "metadata")
_IMAGE_SIZE = (256, 256)
_CONTROL_FREQ = 20
_MAX_STEPS = 300


@dataclass(frozen=True)
class GymTask:
    """A task of a gymnasium suite.

    Attributes:
        instruction: the robot's instruction.
        options: names and values for ``gymnasium.make``, in addition to the suite's.
        reset: names and values for ``env.reset(options=...)``.
        scene: fields of the `pytest_vla.plan.task.MujocoScene` that differ from the suite's, as pairs.
    """

    instruction: str
    options: tuple[tuple[str, Any], ...] = ()
    reset: tuple[tuple[str, Any], ...] = ()
    scene: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class GymSpaces:
    """What a suite needs to know of an environment, so that it is not made before an episode runs in it.

    Attributes:
        action_size: numbers of an action.
        vectors: names and sizes of an observation's vectors.
        pictures: names of an observation's pictures.
        max_steps: the environment's own limit of an episode, or None.
        control_freq: its steps per second, or None.
        scene: the parts of its MuJoCo model, or None if it has none or is not to be varied.
        action_bounds: the usual range of each number of an action, for `UNSCALED` ones.
    """

    action_size: int
    vectors: tuple[tuple[str, int], ...]
    pictures: tuple[str, ...] = ()
    max_steps: int | None = None
    control_freq: int | None = None
    scene: MujocoScene | None = None
    action_bounds: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Environment:
    """The maker of a suite's worlds: the arguments of `suite`, as a value."""

    env: str | MakeEnv
    packages: tuple[str, ...]
    options: tuple[tuple[str, Any], ...]
    tasks: tuple[tuple[str, GymTask], ...]
    success: Success
    cameras: tuple[tuple[str, str], ...]
    state: tuple[str, ...]
    action: ActionMap | str | None
    seeded: bool = True
    observe: Observe | None = None
    expert: Callable[[Any], Any] | None = None
    hold: Hold | None = None
    install: str = "pytest-vla[gym]"

    @property
    def title(self) -> str:
        """The environment's id, or its maker's name."""
        return self.env if isinstance(self.env, str) else f"{self.env.__module__}:{self.env.__qualname__}"

    def check_installed(self) -> None:
        """Raise VlaError if gymnasium or one of the packages cannot be imported; it says what to install."""
        for package in (*(("gymnasium",) if isinstance(self.env, str) else ()), *self.packages):
            try:
                with quiet_robosuite() if package == "robosuite" else nullcontext():
                    importlib.import_module(package)
            except VlaError:
                raise
            except Exception as error:
                raise VlaError(f"{package} cannot be imported ({error}): pip install '{self.install}'") from error

    def __call__(self, task: Task) -> "GymWorld":
        """Make the world of a task. Raises VlaError if gymnasium or the environment is not available."""
        return GymWorld(self, dict(self.tasks)[task.name], task.protocol.max_steps, task.scene)


def suite(
    name: str,
    env: str | MakeEnv,
    *,
    instruction: str = "",
    tasks: Mapping[str, str | GymTask] | None = None,
    success: Success = "is_success",
    cameras: Mapping[str, str] | Sequence[str] | None = None,
    state: Sequence[str] = (),
    action: ActionMap | str | None = None,
    packages: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    title: str = "",
    max_steps: int | None = None,
    control_freq: int | None = None,
    image_size: tuple[int, int] | None = None,
    seeds: Sequence[int] | None = None,
    seeded: bool = True,
    scene: Mapping[str, Any] | None = None,
    observe: Observe | None = None,
    expert: Callable[[Any], Any] | None = None,
    hold: Hold | None = None,
    spaces: GymSpaces | None = None,
    install: str = "pytest-vla[gym]",
) -> Suite:
    """Return a suite of the tasks of one gymnasium environment.

    The environment is made once, to read its spaces, and reset twice with one seed: what it shows has to be equal.

    Seed s of a task is ``env.reset(seed=s)``. An action has the environment's size; -1 and 1 of each number are its
    lower and upper bound, unless it is `UNSCALED`. An observation has the environment's vectors by name, all of them
    concatenated as ``state``, and a picture for each camera. An episode ends when the environment ends it.

    Args:
        name: the suite's name, as in its entry.
        env: the environment's id, such as ``FetchReach-v4``, also with a module, as in ``gym_pusht/PushT-v0``; or a
            module's function that makes it.
        instruction: the instruction of the only task, which gets the suite's name.
        tasks: the instructions of several tasks, by name.
        success: the success criterion: a key of ``info``, `TERMINATED`, or a function.
        cameras: the source of each camera's pictures: `RENDER`, or the name of an observation that is a picture; or
            names alone, which are rendered. An observation may have a function in a picture's place, which is called if
            the picture is read. None for the observation's own pictures, or else ``view``, which is
            rendered.
        state: the vectors that form ``state``, in this order; empty for all.
        action: converts a policy's action to the environment's, if bounds are not enough; it has to be a module's
            function, so that xdist's workers can import it. `UNSCALED`: policies give the environment's own actions,
            such as joint angles, which are not clipped.
        packages: modules to import first, so that they register the environment; records name their versions.
        options: names and values for ``gymnasium.make``.
        title: the suite's title; its name by default.
        max_steps: control steps of an episode; by default the environment's own limit, or 300.
        control_freq: control steps per second, for videos; by default the environment's ``render_fps``, or 20.
        image_size: height and width to which pictures are resized; by default 256 by 256.
        seeds: the default seeds of each task.
        seeded: False for an environment that begins elsewhere each time, whatever the seed: its records say so, and no
            episode of it can be repeated.
        scene: of an environment with a MuJoCo model, fields of `pytest_vla.plan.task.MujocoScene` to use instead of the
            guessed ones. ``pytest-vla show NAME`` prints them.
        observe: called with the environment, returns the observation of its present state; by default its own
            ``_get_obs``. Variations that change the state need it.
        expert: called with the environment, returns a session that does the task: called with observations, it returns
            actions. It is the policy ``expert``.
        hold: called with the environment and the last action, or None, returns the action that keeps everything where
            it is, for ``--vla-realtime``; by default zeros. `UNSCALED` actions need it.
        spaces: what the environment has, so that it is not made when the suite is loaded, nor checked.
        install: what ``pip`` installs so that `packages` can be imported, for the error if they cannot.

    Raises:
        VlaError: gymnasium is missing, there is no such environment, a policy cannot have its spaces, two resets with
            one seed differ, its MuJoCo data is a copy, or its model has no part that ``scene`` names.
    """
    if (tasks is None) == (not instruction):
        raise VlaError(f"suite {name}: give either instruction, for one task, or tasks, with an instruction each")
    given = {name: instruction} if tasks is None else tasks
    by_name = {key: each if isinstance(each, GymTask) else GymTask(each) for key, each in given.items()}
    if not all(key.isidentifier() for key in by_name):
        raise VlaError(f"suite {name}: tasks are named by letters, digits and _, as in {', '.join(by_name)}")
    if isinstance(action, str) and action != UNSCALED:
        raise VlaError(f"suite {name}: action is {action!r}, expected a function or gym.UNSCALED, {UNSCALED!r}")
    if cameras is not None and not isinstance(cameras, Mapping):
        cameras = dict.fromkeys(cameras, RENDER)
    listed = tuple((options or {}).items())
    wanted = None if cameras is None else tuple(cameras.items())
    made = Environment(
        env,
        tuple(packages),
        listed,
        tuple(by_name.items()),
        success,
        wanted or (),
        tuple(state),
        action,
        seeded,
        observe,
        expert,
        hold,
        install,
    )
    known = _spaces(made, next(iter(by_name.values())), scene or {}) if spaces is None else spaces
    sources = wanted or tuple((name.removesuffix("_image"), name) for name in known.pictures) or (("view", RENDER),)
    vectors = dict(known.vectors)
    chosen = tuple(state) or tuple(vectors)
    _check_chosen(made.title, known, sources, chosen)
    made = replace(made, cameras=sources, state=chosen)
    views = tuple(camera for camera, source in sources if source == RENDER)
    own = with_fields(made.title, known.scene, {"views": views, **(scene or {})})
    protocol = Protocol(
        max_steps=max_steps or known.max_steps or _MAX_STEPS,
        settle_steps=0,
        settle_action=(0.0,) * known.action_size,
        control_freq=control_freq or known.control_freq or _CONTROL_FREQ,
        # Every seed begins elsewhere.
        init_states=LAST_SEED + 1,
        image_size=image_size or _IMAGE_SIZE,
        cameras=tuple(camera for camera, _ in sources),
        image_transform="none",
        out_of_range=UNSCALED if action == UNSCALED else OUT_OF_RANGE[0],
        action_size=known.action_size,
        action_bounds=known.action_bounds if action == UNSCALED else (),
        vectors=tuple({**vectors, "state": sum(vectors[each] for each in chosen)}.items()),
    )
    found = tuple(
        Task(
            name,
            key,
            index,
            each.instruction,
            protocol,
            world=made,
            scene=with_fields(made.title, own, dict(each.scene)),
        )
        for index, (key, each) in enumerate(by_name.items())
    )
    return Suite(name, title or name, found, protocol, None if seeds is None else tuple(seeds))


class GymWorld:
    """A world of a gymnasium environment, a `pytest_vla.plan.task.SuiteWorld`."""

    def __init__(self, made: Environment, task: GymTask, max_steps: int, scene: MujocoScene | None) -> None:
        """Make the environment. Raises VlaError."""
        self._made, self._task, self._max_steps = made, task, max_steps
        # Of the present episode: its steps, and what `info` had in any of them.
        self._steps, self._keys = 0, dict[str, None]()
        self._env: Any = _make(made, task, renders=any(source == RENDER for _, source in made.cameras))
        self._observation: Any = None
        self._done = self._success = False
        # Only worlds with a MuJoCo model have states that can be saved, and only some have an expert.
        self._mujoco = mujoco_of(self._env)
        if self._mujoco is not None and scene is not None:
            self.mujoco, self.observe, self.save = self._model_and_data, self._observed_again, self._saved
            self.repaint = partial(rebuild_renderer, self._env, made.title)
            if not (scene.fixed or scene.lags):
                self.restore = self._restored
        if made.expert is not None:
            self.expert = partial(made.expert, self._env)
        if made.hold is not None:
            self.hold = partial(made.hold, self._env)

    def reset(self, case: Case) -> Mapping[str, Any]:
        """Begin the episode of the case's seed."""
        options = dict(self._task.reset) or None
        self._observation, info = self._env.reset(seed=case.seed, options=options)
        if self._mujoco is not None:
            # Some make their model anew.
            self._mujoco = mujoco_of(self._env)
        self._done, self._steps, self._keys = False, 0, dict.fromkeys(info)
        self._success = self._succeeds(0.0, False, info)
        return self._seen()

    def step(self, action: "NDArray[np.float64]") -> Mapping[str, Any]:
        """Take one step in the environment.

        Raises:
            EpisodeError: the episode is over, and its ``info`` never had the suite's success key; or MuJoCo's
                simulation became unstable, which starts it anew without a word.
        """
        taken = _taken(action, self._made.action, self._env.action_space)
        began = 0.0 if self._mujoco is None else float(self._mujoco[1].time)
        try:
            self._observation, reward, terminated, truncated, info = self._env.step(taken)
        finally:
            # dm_control raises an error of its own.
            self._check_stable(began)
        self._success = self._succeeds(float(reward), bool(terminated), info)
        self._done, self._steps = bool(terminated or truncated), self._steps + 1
        self._keys.update(dict.fromkeys(info))
        if self._done or self._steps >= self._max_steps:
            self._check_key()
        return self._seen()

    def success(self) -> bool:
        """Whether the task is done, by the suite's criterion."""
        return self._success

    def over(self) -> bool:
        """Whether the environment has ended the episode."""
        return self._done

    def _check_stable(self, began: float) -> None:
        if self._mujoco is not None:
            from pytest_vla.sim.faults import UNSTABLE, check_warnings

            check_warnings(self._mujoco[1], began, UNSTABLE)

    def _model_and_data(self) -> tuple[Any, Any]:
        assert self._mujoco is not None
        return self._mujoco

    def _observed_again(self) -> Mapping[str, Any]:
        if (observe := observer(self._env, self._made.observe)) is not None:
            self._observation = observe()
        return self._seen()

    def _saved(self) -> "NDArray[np.float64]":
        return state_of(*self._model_and_data())

    def _restored(self, state: "NDArray[np.float64]") -> Mapping[str, Any]:
        import mujoco

        model, data = self._model_and_data()
        if len(state) != (size := mujoco.mj_stateSize(model, MODEL_STATE)):
            raise VlaError(f"{self._made.title}: a recorded state has {len(state)} numbers, expected {size}")
        mujoco.mj_setState(model, data, state, MODEL_STATE)
        mujoco.mj_forward(model, data)
        return self._observed_again()

    def provenance(self) -> dict[str, str]:
        """Return the environment's id, and the versions of gymnasium and of the environment's package."""
        spec = getattr(self._env, "spec", None)
        entry = str(getattr(spec, "entry_point", "") or "")
        told = {"environment": self._made.title, "gymnasium": _version("gymnasium")}
        told |= {} if self._made.seeded else {"seeds": "ignored by the environment"}
        top = (entry or type(self._env.unwrapped).__module__).partition(".")[0].partition(":")[0]
        owners = (*_owners(top), *self._made.packages)
        return told | {owner: _version(owner) for owner in owners if owner != "pytest-vla"}

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _succeeds(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        success = self._made.success
        if callable(success):
            return bool(success(self._observation, reward, terminated, info))
        if success == TERMINATED:
            return terminated
        # Not every step need say it.
        value = float(info.get(success) or 0.0)
        if value not in (0.0, 1.0):
            raise EpisodeError(
                "world-protocol",
                f"{self._made.title}: info[{success!r}] is {value:g}, neither true nor false. Give gym.suite a "
                f"function: success=lambda observation, reward, terminated, info: info[{success!r}] > 0.5, say",
            )
        return value == 1.0

    def _check_key(self) -> None:
        success = self._made.success
        if not callable(success) and success not in (TERMINATED, *self._keys):
            known = ", ".join(sorted(map(str, self._keys))) or "none"
            raise EpisodeError(
                "world-protocol",
                f"{self._made.title}: info never had {success!r} in this episode; its keys are {known}. Name the one "
                "that says success: gym.suite(..., success=...)",
            )

    def _seen(self) -> "_Seen":
        return _Seen(self._env, self._made, _by_name(self._observation))


class _Seen(Mapping[str, Any]):
    """An observation: vectors by name, ``state``, and pictures, which are rendered when they are read."""

    def __init__(self, env: Any, made: Environment, values: Mapping[str, Any]) -> None:
        self._env, self._values = env, values
        self._cameras = {f"{camera}_image": source for camera, source in made.cameras}
        self._vectors = tuple(name for name, value in values.items() if not (callable(value) or _is_picture(value)))
        self._state = made.state

    def __getitem__(self, name: str) -> Any:
        import numpy as np

        if name in self._cameras:
            source = self._cameras[name]
            picture = self._env.render() if source == RENDER else self._values[source]
            return np.asarray(picture() if callable(picture) else picture)
        if name == "state":
            return np.concatenate([np.asarray(self._values[each], dtype=np.float64).ravel() for each in self._state])
        return np.asarray(self._values[name], dtype=np.float64).ravel()

    def __iter__(self) -> Any:
        return iter(dict.fromkeys([*self._cameras, *self._vectors, "state"]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _spaces(made: Environment, task: GymTask, scene: Mapping[str, Any]) -> GymSpaces:
    env = _make(made, task, renders=False)
    try:
        action = env.action_space
        is_box = made.action is not None or hasattr(action, "low")
        if getattr(action, "shape", None) is None or len(action.shape) != 1 or not is_box:
            raise VlaError(f"{made.title}: its actions are {action}; expected a Box of one dimension")
        shapes = _shapes(getattr(env, "observation_space", None), made.title)
        if made.seeded:
            _check_seeded(env, made, task)
        spec, rate = getattr(env, "spec", None), env.metadata.get("render_fps")
        return GymSpaces(
            action.shape[0],
            tuple((name, _length(shape)) for name, (shape, is_picture) in shapes.items() if not is_picture),
            tuple(name for name, (_, is_picture) in shapes.items() if is_picture),
            getattr(spec, "max_episode_steps", None),
            int(rate) if rate else None,
            model_scene(
                env, made.title, scene, lambda: env.reset(seed=0, options=dict(task.reset) or None), made.observe
            ),
            _bounds(action),
        )
    finally:
        env.close()


def _check_chosen(title: str, known: GymSpaces, cameras: Sequence[tuple[str, str]], state: Sequence[str]) -> None:
    """Raise VlaError if an environment does not have the pictures and vectors that a suite takes."""
    for camera, source in cameras:
        if source != RENDER and source not in known.pictures:
            has = ", ".join(known.pictures) or "none"
            raise VlaError(f"{title}: camera {camera}: {source!r} is not a picture; its pictures are {has}")
    vectors = [name for name, _ in known.vectors]
    if lacks := [name for name in state if name not in vectors]:
        raise VlaError(f"{title}: state has {', '.join(lacks)}; its vectors are {', '.join(vectors) or 'none'}")
    if not state:
        raise VlaError(f"{title}: it has only pictures; a state is required too")


def _check_seeded(env: Any, made: Environment, task: GymTask) -> None:
    """Raise VlaError if two resets with one seed do not begin alike, or if the environment cannot be reset."""
    import numpy as np

    try:
        found = [env.reset(seed=0, options=dict(task.reset) or None) for _ in range(2)]
    except Exception as error:
        raise VlaError(f"{made.title}: its reset raised {describe(error)}") from error
    if not all(isinstance(each, tuple) and len(each) == 2 for each in found):
        raise VlaError(f"{made.title}: its reset returned {quoted(found[0])}; expected an observation and its info")
    first, second = (_by_name(observation) for observation, _ in found)

    def are_equal(one: Any, other: Any) -> bool:
        return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind in "fc")

    differing = [name for name in first if not are_equal(first[name], second[name])]
    if differing:
        raise VlaError(
            f"{made.title}: two resets with seed 0 begin differently ({', '.join(differing)}): it ignores its seed, so "
            "that no episode can be repeated or compared case by case. Seed it in reset(), or accept this: "
            "gym.suite(..., seeded=False)"
        )


def _shapes(space: Any, env: str) -> dict[str, tuple[tuple[int, ...], bool]]:
    """Return for each part of an observation its shape, and whether it is a picture."""
    inner: Any = getattr(space, "spaces", None)
    parts: dict[str, Any] = dict(inner) if isinstance(inner, Mapping) else {"state": space}
    found: dict[str, tuple[tuple[int, ...], bool]] = {}
    for name, part in parts.items():
        shape: Any = getattr(part, "shape", None)
        if shape is None:
            raise VlaError(f"{env}: its observation {name} is {part}; expected a Box, or a Dict of them")
        found[name] = (tuple(shape), len(shape) == 3 and shape[2] == 3 and str(part.dtype) == "uint8")
    return found


def _length(shape: tuple[int, ...]) -> int:
    length = 1
    for side in shape:
        length *= side
    return length


def _by_name(observation: Any) -> Mapping[str, Any]:
    return observation if isinstance(observation, Mapping) else {"state": observation}


def _is_picture(value: Any) -> bool:
    shape: Any = getattr(value, "shape", ())
    return len(shape) == 3 and shape[2] == 3 and str(value.dtype) == "uint8"


def _bounds(space: Any) -> tuple[tuple[float, float], ...]:
    """Return the bounds of each number; without one it is 2 away from the other, without both they are -1 and 1."""

    def closed(low: float, high: float) -> tuple[float, float]:
        low, high = (low, high) if math.isfinite(low) or math.isfinite(high) else (-1.0, 1.0)
        return (low if math.isfinite(low) else high - 2.0, high if math.isfinite(high) else low + 2.0)

    return tuple(map(closed, space.low.tolist(), space.high.tolist()))


def _taken(action: "NDArray[np.float64]", change: ActionMap | str | None, space: Any) -> Any:
    """Return what an environment takes: scaled from [-1, 1] to its bounds, unless a suite changes it, or nothing.

    An unbounded number is not scaled.
    """
    import numpy as np

    if callable(change):
        return change(action)
    if change == UNSCALED:
        return action.astype(space.dtype)
    low, high = np.asarray(space.low, dtype=np.float64), np.asarray(space.high, dtype=np.float64)
    bounded = np.isfinite(low) & np.isfinite(high)
    middle, half = np.where(bounded, (low + high) / 2, 0.0), np.where(bounded, (high - low) / 2, 1.0)
    return np.clip(middle + half * action, low, high).astype(space.dtype)


def _make(made: Environment, task: GymTask, *, renders: bool) -> Any:
    if renders and "MUJOCO_GL" not in os.environ and not os.environ.get("DISPLAY") and Path("/dev").is_dir():
        # Environments of MuJoCo would look for a window.
        os.environ["MUJOCO_GL"] = "egl"
    options = {**dict(made.options), **dict(task.options), **({"render_mode": "rgb_array"} if renders else {})}
    try:
        if not isinstance(made.env, str):
            env = made.env(**options)
            if lacks := [name for name in _NEEDED if not hasattr(env, name)]:
                raise VlaError(
                    f"{made.title} returned {quoted(env)}, which is no environment: it has no {lacks[0]}. Derive its "
                    "class from gymnasium.Env"
                )
            return env
        try:
            gymnasium: Any = importlib.import_module("gymnasium")
        except ImportError as error:
            raise VlaError(f"gymnasium cannot be imported ({error}): pip install '{made.install}'") from error
        for package in made.packages:
            module: Any = importlib.import_module(package)
            if hasattr(module, "register_robotics_envs"):
                gymnasium.register_envs(module)
        return gymnasium.make(made.env, **options)
    except VlaError:
        raise
    except Exception as error:
        raise VlaError(f"{made.title}: it cannot be made: {describe(error)}") from error


@cache
def _owners(package: str) -> tuple[str, ...]:
    """Return the distributions that a package is of. Reads the files of all that are installed."""
    return tuple(importlib.metadata.packages_distributions().get(package, ()))


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"

"""MuJoCo models, mostly of other people's environments: where they are, and what variations change in them."""

import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import RedrawError, VlaError
from pytest_vla.plan.task import FLOOR, SURFACES, TABLE, WALL, MujocoScene
from pytest_vla.scene.scene import SceneSpec, own_scene
from pytest_vla.scene.variation import ModelEdit, StateEdit, model_array, part_number
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Pixels = NDArray[np.uint8]
    Values = NDArray[np.generic]

Observe = Callable[[Any], Any]
"""Returns an environment's observation of the present state of its MuJoCo data."""

MODEL_STATE = 1 | 2 | 4 | 8 | 32 | 512 | 1024
"""Of MuJoCo's mjtState: time, positions, velocities, activations, controls and mocap poses."""


def mujoco_of(env: Any) -> tuple[Any, Any] | None:
    """Return the MuJoCo model and data that an environment simulates with, or None if it shows none.

    They are ``model`` and ``data`` (gymnasium's MujocoEnv, Meta-World, gymnasium-robotics), those of ``sim``
    (robosuite) or of ``physics`` (dm_control, gym-aloha), of the environment or of what it holds as ``_env``.
    """
    mujoco: Any = sys.modules.get("mujoco")
    if mujoco is None:
        return None
    for held in _within(env):
        for owner in (held, getattr(held, "sim", None), getattr(held, "physics", None)):
            model = _bare(getattr(owner, "model", None), mujoco.MjModel)
            data = _bare(getattr(owner, "data", None), mujoco.MjData)
            if model is not None and data is not None:
                return model, data
    return None


def _within(env: Any) -> Iterator[Any]:
    """Yield an environment without its wrappers, and what it holds as ``_env`` or ``env``, from the outside in."""
    known: list[Any] = []
    while env is not None and all(env is not each for each in known):
        env = getattr(env, "unwrapped", env)
        known.append(env)
        yield env
        env = getattr(env, "_env", None) or getattr(env, "env", None)


def _bare(wrapped: Any, kind: type) -> Any:
    """Return an object of this type, or the one that dm_control (``ptr``) or robosuite (``_model``, ``_data``) wrap."""
    held = (wrapped, *(getattr(wrapped, name, None) for name in ("ptr", "_model", "_data")))
    return next((each for each in held if isinstance(each, kind)), None)


def observer(env: Any, given: Observe | None) -> Callable[[], Any] | None:
    """Return a function that observes the present state, through the environment's wrappers; None if there is none."""
    if given is not None:
        return partial(given, env)
    inner = getattr(env.unwrapped, "_get_obs", None)
    if inner is None:
        return None
    chain = []
    while env is not env.unwrapped:
        chain.append(getattr(env, "observation", None))
        env = env.env

    def observe() -> Any:
        found = inner()
        for change in reversed(chain):
            found = found if change is None else change(found)
        return found

    return observe


def rebuild_renderer(env: Any, title: str) -> None:
    """Let an environment send its textures to the graphics side anew, when it renders next.

    Raises VlaError if it renders by other means than gymnasium's or dm_control's.
    """
    for held in _within(env):
        renderer: Any = getattr(held, "mujoco_renderer", None)
        physics: Any = getattr(held, "physics", None)
        if hasattr(held, "repaint"):
            held.repaint()
        elif hasattr(renderer, "_viewers"):
            renderer.close()
            renderer._viewers, renderer.viewer = {}, None
        elif hasattr(physics, "_free_rendering_contexts"):
            physics._free_rendering_contexts()
        else:
            continue
        return
    raise VlaError(
        f"{title}: its renderer cannot be told of other textures or shadows. Give the environment a method repaint(), "
        "called after its model's textures or shadows have changed"
    )


def model_scene(
    env: Any,
    title: str,
    given: Mapping[str, Any],
    reset: Callable[[], object],
    observe: Observe | None = None,
) -> MujocoScene | None:
    """Return the parts of an environment's model, guessed and corrected; None without a model.

    Args:
        env: with gymnasium's interface.
        title: the environment's, for errors.
        given: fields of the scene instead of the guessed ones.
        reset: resets the environment.
        observe: the suite's own, if it has one.

    Raises:
        VlaError: `given` has a field that is none, or names a part that is not there, or the data is a copy.
    """
    if mujoco_of(env) is None:
        if given:
            raise VlaError(f"{title}: scene= is of a MuJoCo model, and the environment shows none")
        return None
    # Some make their model anew.
    reset()
    found, again = mujoco_of(env), mujoco_of(env)
    if found is None or again is None or any(one is not other for one, other in zip(found, again, strict=True)):
        raise VlaError(f"{title}: its MuJoCo model or data is another object each time it is shown: a copy. {_SHOWN}")
    model, data = found
    guessed = guess_scene(model, data, _camera_of(env, model))
    guessed = replace(guessed, lags=_lags(env, title, model, data))
    corrected = with_fields(title, replace(guessed, fixed=observer(env, observe) is None), given)
    assert corrected is not None
    _check_scene(title, model, corrected)
    return corrected


_SHOWN = (
    "Show the ones that it simulates with, as env.unwrapped.model and .data; or have the model not varied: "
    "gym.suite(..., spaces=gym.GymSpaces(...))"
)


def _lags(env: Any, title: str, model: Any, data: Any) -> bool:
    """Whether bodies' places after a step are not those of its state. Takes one step.

    Raises VlaError if the step does not change the data.
    """
    import mujoco
    import numpy as np

    before, space = state_of(model, data), env.action_space
    action = np.clip(1, space.low, space.high) if hasattr(space, "low") else np.zeros(space.shape)
    env.step(action.astype(space.dtype))
    if np.array_equal(state_of(model, data), before):
        raise VlaError(
            f"{title}: a step leaves its MuJoCo data as it is, so that it simulates with other data. {_SHOWN}"
        )
    again = mujoco.MjData(model)
    mujoco.mj_setState(model, again, state_of(model, data), MODEL_STATE)
    mujoco.mj_kinematics(model, again)
    return not np.array_equal(data.xpos, again.xpos)


def state_of(model: Any, data: Any) -> "Array":
    """Return what `MODEL_STATE` is of a simulation, as one vector."""
    import mujoco
    import numpy as np

    state = np.empty(mujoco.mj_stateSize(model, MODEL_STATE))
    mujoco.mj_getState(model, data, state, MODEL_STATE)
    return state


def with_fields(title: str, scene: MujocoScene | None, given: Mapping[str, Any]) -> MujocoScene | None:
    """Return a scene with some fields as a conftest gives them. Raises VlaError if it has no such field."""
    known = [each.name for each in fields(MujocoScene)]
    if strange := next((name for name in given if name not in known), None):
        raise VlaError(f"{title}: scene has {strange!r}.{did_you_mean(strange, known)} Fields: {', '.join(known)}")
    if scene is None or not given:
        return scene
    return replace(scene, **{name: _plain(name, value) for name, value in given.items()})


def _plain(name: str, value: Any) -> Any:
    """Return a field of a scene as given in a conftest, in tuples."""
    if name == "surfaces":
        listed = value.items() if isinstance(value, Mapping) else value
        return tuple((surface, (geoms,) if isinstance(geoms, str) else tuple(geoms)) for surface, geoms in listed)
    return tuple(value) if isinstance(value, list | tuple) else value


def _check_scene(title: str, model: Any, scene: MujocoScene) -> None:
    """Raise VlaError if a name of a scene is none of the model's."""
    wanted = [("camera", scene.camera)] if scene.camera else []
    wanted += [("body", name) for name in scene.objects] + [("joint", name) for name in scene.arm]
    try:
        for sort, name in wanted:
            part_number(model, sort, name)
    except VlaError as error:
        raise VlaError(f"{title}: scene: {error}") from error
    for surface, geoms in scene.surfaces:
        if surface not in SURFACES:
            raise VlaError(f"{title}: scene has the surface {surface!r}; expected {', '.join(SURFACES)}")
        for name in geoms:
            owners = (
                each
                for geom in range(model.ngeom)
                for each in (model.geom(geom).name, model.body(model.geom_bodyid[geom]).name)
            )
            if not name.startswith("#") and not any(fnmatchcase(each, name) for each in owners):
                raise VlaError(f"{title}: scene: the model has no geom and no body {name!r} for the {surface}")
    for name in scene.objects:
        joint = int(model.body_jntadr[part_number(model, "body", name)])
        if joint < 0 or model.jnt_type[joint] != _FREE:
            raise VlaError(f"{title}: scene: the object {name!r} has no free joint, so it cannot be moved")


_FREE, _HINGE, _PLANE = 0, 3, 0
"""Of MuJoCo's mjtJoint and mjtGeom."""

_WORDS = {
    TABLE: ("*table*", "*desk*", "*counter*", "*bench*"),
    FLOOR: ("*floor*", "*ground*", "*plane*"),
    WALL: ("*wall*", "*background*"),
}


def guess_scene(model: Any, data: Any, camera: int) -> MujocoScene:
    """Return the parts of a model that variations change, guessed.

    The arm is the hinges that actuators drive, or those between the world and a body that is welded to a mocap body.
    An object is a body with a free joint that no actuator moves. Surfaces go by the names of geoms, bodies and
    materials that do not move, and a plane is the floor. The middle is that of the objects, or else of the hand, on
    what is below.

    Args:
        model, data: of MuJoCo, reset; not changed.
        camera: the model's camera that is rendered, or -1 for a free one.
    """
    import mujoco
    import numpy as np

    def named(sort: str, number: int) -> str:
        return str(getattr(model, sort)(number).name) or f"#{number}"

    driven = {
        int(model.actuator_trnid[each][0])
        for each in range(model.nu)
        if model.actuator_trntype[each] == mujoco.mjtTrn.mjTRN_JOINT
    }
    hands, arm = [], {joint for joint in driven if model.jnt_type[joint] == _HINGE}
    for weld in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_WELD):
        pair = [int(model.eq_obj1id[weld]), int(model.eq_obj2id[weld])]
        hands += [body for body in pair if model.body_mocapid[body] < 0 and any(model.body_mocapid[pair] >= 0)]
    for hand in hands:
        body = hand
        while body > 0:
            first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
            arm |= {joint for joint in range(first, first + count) if model.jnt_type[joint] == _HINGE}
            body = int(model.body_parentid[body])
    robot = {int(model.body_rootid[model.jnt_bodyid[joint]]) for joint in driven | arm}
    objects = [
        int(model.jnt_bodyid[joint])
        for joint in range(model.njnt)
        if model.jnt_type[joint] == _FREE and int(model.body_rootid[model.jnt_bodyid[joint]]) not in robot
    ]
    surfaces: dict[str, list[str]] = {}
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        if model.body_weldid[body] or model.geom_rgba[geom][3] == 0 or int(model.body_rootid[body]) in robot - {0}:
            continue
        material = int(model.geom_matid[geom])
        words = [model.geom(geom).name, model.body(body).name if body else ""]
        words += [model.material(material).name] if material >= 0 else []
        surface = FLOOR if model.geom_type[geom] == _PLANE else ""
        for name, patterns in _WORDS.items():
            if any(fnmatchcase(word.lower(), pattern) for word in words for pattern in patterns):
                surface = name
                break
        if surface:
            surfaces.setdefault(surface, []).append(named("geom", geom))
    last = max(arm, key=lambda joint: int(model.jnt_bodyid[joint]), default=-1)
    around = data.xpos[objects] if objects else data.xpos[[hands[0] if hands else int(model.jnt_bodyid[last])]]
    x, y, z = (float(value) for value in (around.mean(axis=0) if objects or hands or last >= 0 else model.stat.center))
    ground = mujoco.mj_ray(model, data, [x, y, z], [0.0, 0.0, -1.0], None, 1, -1, np.zeros(1, dtype=np.int32))
    brightness = model.light_diffuse.sum(axis=1) * model.light_active
    held = camera >= 0 and int(model.cam_bodyid[camera]) == 0 and int(model.cam_mode[camera]) == 0
    return MujocoScene(
        camera=named("camera", camera) if held else "",
        middle=(round(x, 4), round(y, 4), round(z - max(float(ground), 0.0), 4)),
        lights=int(model.nlight),
        shadows=bool(model.nlight and model.light_castshadow[np.argmax(brightness)]),
        surfaces=tuple((name, tuple(surfaces[name])) for name in SURFACES if name in surfaces),
        objects=tuple(named("body", body) for body in objects),
        arm=tuple(named("joint", joint) for joint in sorted(arm)),
    )


def _camera_of(env: Any, model: Any) -> int:
    """Return the model's camera that an environment renders, or -1 if it is a free one or not known."""
    names = [model.camera(each).name for each in range(model.ncam)]
    for owner in (each for held in _within(env) for each in (getattr(held, "mujoco_renderer", None), held)):
        number, said = getattr(owner, "camera_id", None), getattr(owner, "camera_name", None)
        if isinstance(number, int) and 0 <= number < model.ncam:
            return number
        if isinstance(said, str) and said in names:
            return names.index(said)
    return -1


# An episode's start in such a model, as a variation changes it.

_PRESSED = 0.0005
"""How deep (m) one thing is in another that it is pressed into."""


def place_cameras(model: Any, data: Any) -> None:
    """Compute where cameras and lights are after a change of the model, and nothing that a simulation goes on from."""
    import mujoco

    mujoco.mj_camlight(model, data)


def start_elsewhere(model: Any, data: Any, own: MujocoScene, edits: Iterable[StateEdit]) -> None:
    """Change the state that an episode starts from; an arm that a mocap body pulls is held where it was put.

    Args:
        model, data: of MuJoCo, reset; the data is written, unless an error is raised.
        own: the model's parts.
        edits: of a variation.

    Raises:
        RedrawError: a draw is impossible.
    """
    import mujoco
    import numpy as np

    state = np.concatenate([[data.time], data.qpos, data.qvel])
    for edit in edits:
        edit(model, own_scene(own), state)
    data.qpos[:] = state[1 : 1 + model.nq]
    data.qvel[:] = state[1 + model.nq :]
    mujoco.mj_forward(model, data)
    _hold_welds(model, data)
    mujoco.mj_forward(model, data)


def _hold_welds(model: Any, data: Any) -> None:
    """Put mocap bodies where the bodies that are welded to them are, so that a changed arm is not pulled back."""
    import mujoco
    import numpy as np

    for number in np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_WELD):
        one, other = int(model.eq_obj1id[number]), int(model.eq_obj2id[number])
        if model.eq_objtype[number] != mujoco.mjtObj.mjOBJ_BODY:
            continue
        for holds, held, inverse in ((one, other, False), (other, one, True)):
            mocap = int(model.body_mocapid[holds])
            if mocap < 0:
                continue
            # The weld wants: pose of the second in the first's frame = relative pose (eq_data 3:10).
            relative = model.eq_data[number][3:10]
            position, turn = relative[:3].copy(), relative[3:].copy()
            if not turn.any():
                turn[:] = 1.0, 0.0, 0.0, 0.0
            if not inverse:
                back, opposite = np.empty(3), np.empty(4)
                mujoco.mju_negPose(back, opposite, position, turn)
                position, turn = back, opposite
            place, orientation = np.empty(3), np.empty(4)
            mujoco.mju_mulPose(place, orientation, data.xpos[held], data.xquat[held], position, turn)
            data.mocap_pos[mocap], data.mocap_quat[mocap] = place, orientation


def newly_touched(model: Any, before: "Array", after: "Array", moved: Collection[int]) -> str:
    """Return the name of a body that moved bodies are pressed into after a change of state and not before, or "".

    Args:
        model: not changed.
        before, after: (nq,).
        moved: the bodies that the change moves.
    """
    import mujoco

    data = mujoco.MjData(model)

    def pressed(qpos: "Array") -> dict[tuple[int, int], None]:
        data.qpos[:] = qpos
        mujoco.mj_fwdPosition(model, data)
        found: dict[tuple[int, int], None] = {}
        for number in range(data.ncon):
            contact = data.contact[number]
            one, other = (int(model.geom_bodyid[geom]) for geom in contact.geom)
            if contact.dist < -_PRESSED and (one in moved) != (other in moved):
                found[(one, other) if one in moved else (other, one)] = None
        return found

    known = pressed(before)
    new = next((other for one, other in pressed(after) if (one, other) not in known), None)
    return "" if new is None else str(model.body(new).name) or f"body #{new}"


def displace_own(model: Any, state: "Array", name: str, distance: float, direction: float, yaw: float) -> None:
    """Move an object of a suite's own world over what it stands on, and turn it about the vertical.

    Args:
        model: of any make.
        state: (1+nq+nv,), written, unless an error is raised.
        name: the object's body, which has a free joint.
        distance: m.
        direction, yaw: degrees.

    Raises:
        RedrawError: it would be in something, or over another thing than before.
    """
    import mujoco
    import numpy as np

    body = part_number(model, "body", name)
    at = 1 + int(model.jnt_qposadr[model.body_jntadr[body]])
    heading, after = math.radians(direction), state.copy()
    after[at : at + 2] += distance * np.array([math.cos(heading), math.sin(heading)])
    yaw_turn, half = np.empty(4), math.radians(yaw) / 2
    mujoco.mju_mulQuat(yaw_turn, np.array([math.cos(half), 0.0, 0.0, math.sin(half)]), after[at + 3 : at + 7])
    after[at + 3 : at + 7] = yaw_turn
    below = [_support(model, each[1 : 1 + model.nq], body) for each in (state, after)]
    moved = {each for each in range(model.nbody) if model.body_rootid[each] == body}
    why = "" if below[0] == below[1] else "it would stand on another thing"
    if not why and (other := newly_touched(model, state[1 : 1 + model.nq], after[1 : 1 + model.nq], moved)):
        why = f"{other} is in the way"
    if why:
        raise RedrawError(f"{name} cannot go {distance:g} m at {direction:g} degrees: {why}")
    state[:] = after


def _support(model: Any, qpos: "Array", body: int) -> int:
    """Return the body below an object's centre of mass, or -1 if there is none."""
    import mujoco
    import numpy as np

    data, geom = mujoco.MjData(model), np.zeros(1, dtype=np.int32)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_ray(model, data, data.xipos[body], np.array([0.0, 0.0, -1.0]), None, 1, body, geom)
    return -1 if geom[0] < 0 else int(model.geom_bodyid[geom[0]])


# A variation's changes of a model, LIBERO's or another, and how they are undone.


class ModelChanges:
    """The changes of one model that are in force: the next reset finds the model as it was."""

    def __init__(self, model: "mujoco.MjModel") -> None:
        self._model = model
        # As compiled: an array that was changed once is kept, so that a thousand resets copy it once.
        self._arrays: dict[str, Values] = {}
        self._textures: dict[int, Pixels] = {}
        self._changed: list[str] = []
        self._painted: list[int] = []
        self._edits: tuple[ModelEdit, ...] = ()

    def replace(self, edits: tuple[ModelEdit, ...], scene: SceneSpec) -> tuple[int, ...]:
        """Undo the changes in force, and make these changes.

        Returns:
            The textures whose pixels have changed, to be sent to the graphics side.
        """
        if edits is self._edits:
            return ()
        model, self._edits = self._model, edits
        repainted = set(self._painted)
        for name in self._changed:
            model_array(model, name)[:] = self._arrays[name]
        for texture in self._painted:
            _pixels(model, texture)[:] = self._textures[texture]
        self._changed, self._painted = [], []
        for edit in edits:
            for name in edit.arrays:
                if name not in self._arrays:
                    self._arrays[name] = model_array(model, name).copy()
                self._changed.append(name)
            for texture_name in edit.textures(model, scene) if edit.textures is not None else ():
                texture = part_number(model, "texture", texture_name)
                if texture not in self._textures:
                    self._textures[texture] = _pixels(model, texture).copy()
                self._painted.append(texture)
            edit.apply(model, scene)
        return tuple(sorted(repainted | set(self._painted)))


def _pixels(model: "mujoco.MjModel", texture: int) -> "Pixels":
    """Return a texture's part of ``tex_data``."""
    size = model.tex_height[texture] * model.tex_width[texture] * model.tex_nchannel[texture]
    start = model.tex_adr[texture]
    pixels: Pixels = model.tex_data[start : start + size]
    return pixels

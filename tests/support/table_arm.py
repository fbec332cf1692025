"""An environment with gymnasium's interface on a small MuJoCo model: an arm, a table, a puck, two cameras."""

import types
from copy import copy
from typing import Any, ClassVar

import mujoco
import numpy as np

from tests.support.gymnasium_like import Box, Dict

MODEL = """
<mujoco>
  <compiler angle="radian"/>
  <asset>
    <texture name="boards" type="2d" builtin="checker" width="32" height="32" rgb1=".6 .4 .2" rgb2=".7 .5 .3"/>
    <material name="boards" texture="boards"/>
  </asset>
  <worldbody>
    <light name="lamp" pos="0 0 2" dir="0 0 -1" diffuse=".6 .6 .6" castshadow="false"/>
    <light name="window" pos="2 -1 2" dir="-2 1 -2" diffuse=".2 .2 .2" castshadow="false"/>
    <camera name="front" pos="0 -1.2 0.9" xyaxes="1 0 0 0 .6 .8"/>
    <geom name="ground" type="plane" size="3 3 .1" pos="0 0 -.4"/>
    <body name="table"><geom type="box" size=".5 .5 .02" pos="0 0 -.02" material="boards"/></body>
    <body name="arm" pos="0 .3 0">
      <joint name="turn" type="hinge" axis="0 0 1" limited="true" range="-1.5 1.5" damping="1" armature=".05"/>
      <geom type="capsule" fromto="0 0 .1 0 -.2 .1" size=".02"/>
      <body name="hand" pos="0 -.2 .1">
        <joint name="bend" type="hinge" axis="1 0 0" limited="true" range="-.6 .6" damping="1" armature=".05"/>
        <geom name="fist" type="sphere" size=".03"/>
        <camera name="palm" pos="0 0 .1" xyaxes="1 0 0 0 1 0"/>
      </body>
    </body>
    <body name="puck" pos=".1 0 .02">
      <freejoint/>
      <geom name="disc" type="cylinder" size=".03 .02" rgba=".8 .1 .1 1" mass=".1" friction=".5 .005 .0001"/>
    </body>
  </worldbody>
  <actuator><velocity joint="turn" kv="2"/><velocity joint="bend" kv="2"/></actuator>
</mujoco>
"""


FINGERS = "".join(
    f"""<body name="{name}" pos="{x} 0 0"><joint type="slide" axis="1 0 0" stiffness="50" springref="{-x}" damping="1"/>
    <geom type="capsule" fromto="0 0 -.03 0 0 -.09" size=".01" mass=".05"/></body>"""
    for name, x in (("left", -0.045), ("right", 0.045))
)
"""Two of them, which a spring presses together."""


class TableArm:
    """Turn the arm by more than half a radian. Its seed says where the puck stands."""

    model_text: ClassVar = MODEL
    metadata: ClassVar[dict[str, Any]] = {"render_fps": 20}
    action_space = Box(-2, 2, (2,))
    observation_space = Dict(joints=Box(-9, 9, (2,)), puck=Box(-9, 9, (3,)))

    def __init__(
        self,
        render_mode: str | None = None,
        camera: str = "front",
        copies: str = "",
        lags: bool = False,
    ) -> None:
        self.model = mujoco.MjModel.from_xml_string(self.model_text)
        self.data = mujoco.MjData(self.model)
        self.camera_name, self.copies, self.lags = camera, copies, lags
        self.spec = types.SimpleNamespace(max_episode_steps=60, entry_point="")
        self.renderer: Any = None

    @property
    def unwrapped(self) -> "TableArm":
        return self

    def __getattribute__(self, name: str) -> Any:
        # "shown": whoever asks for the data gets a copy.
        value = super().__getattribute__(name)
        return copy(value) if name == "data" and super().__getattribute__("copies") == "shown" else value

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        if self.copies == "always" or (self.copies == "by seed" and seed):
            self.data = mujoco.MjData(self.model)
        mujoco.mj_resetData(self.model, self.data)
        self.data.joint(self.model.body("puck").jntadr[0]).qpos[0] = 0.1 + 0.01 * ((seed or 0) % 5)
        # What is seen of bodies is then of the state one physics step before: to look again changes it.
        mujoco.mj_step(self.model, self.data, 3)
        return self._seen(), {"is_success": False}

    def step(self, action: Any) -> Any:
        if self.copies == "apart":
            return self._seen(), 0.0, False, False, {"is_success": False}
        self.data.ctrl[:] = action
        mujoco.mj_step(self.model, self.data, 25)
        if not self.lags:
            mujoco.mj_forward(self.model, self.data)
        return self._seen(), 0.0, False, False, {"is_success": bool(self.data.qpos[0] > 0.5)}

    def render(self) -> Any:
        if self.renderer is None:
            # Not mujoco.Renderer: which graphics that takes is decided when mujoco is imported.
            from mujoco.egl import GLContext

            self.renderer = GLContext(64, 48)
            self.renderer.make_current()
            self.context = mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self.context)
            self.scene = mujoco.MjvScene(self.model, 100)
        self.renderer.make_current()
        camera, view = mujoco.MjvCamera(), mujoco.MjrRect(0, 0, 64, 48)
        camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, self.model.camera(self.camera_name).id
        mujoco.mjv_updateScene(
            self.model, self.data, mujoco.MjvOption(), None, camera, mujoco.mjtCatBit.mjCAT_ALL, self.scene
        )
        mujoco.mjr_render(view, self.scene, self.context)
        picture = np.empty((48, 64, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, view, self.context)
        return np.ascontiguousarray(picture[::-1])

    def repaint(self) -> None:
        self.close()

    def close(self) -> None:
        if self.renderer is not None:
            self.renderer.make_current()
            self.context.free()
            self.renderer.free()
            self.renderer = None

    def _get_obs(self) -> Any:
        return self._seen()

    def _seen(self) -> Any:
        return {"joints": self.data.qpos[:2].copy(), "puck": self.data.body("puck").xpos.copy()}


def make(**options: Any) -> TableArm:
    return TableArm(**options)


class Unobserved(TableArm):
    """Has no method that observes a state anew."""

    _get_obs: Any = None


def make_unobserved(**options: Any) -> Unobserved:
    return Unobserved(**options)


class Gripping(TableArm):
    """Has two fingers."""

    model_text = MODEL.replace('<camera name="palm"', f'{FINGERS}<camera name="palm"')


def make_gripping(**options: Any) -> Gripping:
    return Gripping(**options)

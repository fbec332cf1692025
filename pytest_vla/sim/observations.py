"""A world's observations: poses of the sampled substep, joint readings, and pictures with their changes."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.scene.panda import ARM_JOINTS, FINGERS
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.sim.cameras import Cameras, Picture
from pytest_vla.sim.gl import RENDER_HINT
from pytest_vla.sim.lazy_observation import Observation
from pytest_vla.sim.robosuite_control import quat2axisangle
from pytest_vla.util.warnings import describe

Array = npt.NDArray[np.float64]

# Burners: sites that are shown while their stove's knob is on.


@dataclass(frozen=True)
class Burner:
    """A burner's site, where its knobs' positions stand in qpos, and which positions are on."""

    site: int
    knobs: tuple[int, ...]
    is_on: Callable[[float], bool]


def find_burners(model: mujoco.MjModel, scene: SceneSpec) -> tuple[Burner, ...]:
    """Return the burners of a scene."""
    burners = []
    for fixture, site in scene.burners:
        body = scene.body(fixture)
        assert body is not None
        articulation = body.kind.articulation
        assert articulation is not None
        knobs = tuple(int(model.joint(joint).qposadr[0]) for joint in body.joints)
        burners.append(Burner(model.site(site).id, knobs, articulation.is_turned_on))
    return tuple(burners)


def alphas_at(model: mujoco.MjModel, burners: tuple[Burner, ...], qpos: Array) -> Array:
    """Compute the burners' alphas (number of burners,) at a state; upstream flips alpha to 1 - alpha on a change.

    Args:
        model: has the previous alphas.
        burners: the model's.
        qpos: (nq,).
    """
    alphas = get_alphas(model, burners)
    for index, burner in enumerate(burners):
        lit = any(burner.is_on(float(qpos[knob])) for knob in burner.knobs)
        if (alphas[index] <= 0) == lit:
            alphas[index] = 1 - alphas[index]
    return alphas


def get_alphas(model: mujoco.MjModel, burners: tuple[Burner, ...]) -> Array:
    """Return the burners' present alphas."""
    return np.array([model.site_rgba[burner.site][3] for burner in burners])


def light(model: mujoco.MjModel, burners: tuple[Burner, ...], qpos: Array) -> None:
    """Show or hide each burner according to a state's knob positions."""
    _set_alphas(model, burners, alphas_at(model, burners, qpos))


@contextmanager
def showing(model: mujoco.MjModel, burners: tuple[Burner, ...], alphas: Array) -> Iterator[None]:
    """Set other alphas while a picture is drawn."""
    before = get_alphas(model, burners)
    _set_alphas(model, burners, alphas)
    try:
        yield
    finally:
        _set_alphas(model, burners, before)


def _set_alphas(model: mujoco.MjModel, burners: tuple[Burner, ...], alphas: Array) -> None:
    for burner, alpha in zip(burners, alphas, strict=True):
        model.site_rgba[burner.site][3] = alpha


Sampled = tuple[Array, Array, Array]
"""qpos before and after the sampled substep, and how the burners shine."""

PictureChange = Callable[[Picture, str, int], Picture]


# Observations after a reset or a step: read on demand, rendered at most once.


class Readings:
    """The reader of a model's sampled states. Pictures belong to the thread that reads the first one.

    Attributes:
        view: poses for pictures and end-effector readings, so that the world's data stays as physics left it.
        sampled: the samples being read.
        changes: changes of pictures, in order, each called with a picture, its camera and the control step.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        image_size: tuple[int, int],
        burners: tuple[Burner, ...],
        site: int,
        hand: int,
        controller: Callable[[], tuple[Array, Array]],
    ) -> None:
        self._controller = controller
        self._model, self._image_size, self._burners, self._site, self._hand = model, image_size, burners, site, hand
        self.view = mujoco.MjData(model)
        self.sampled: Sampled = (np.zeros(model.nq), np.zeros(model.nq), get_alphas(model, burners))
        self.changes: tuple[PictureChange, ...] = ()
        self._cameras: Cameras | None = None

    def observation(
        self,
        sampled: Sampled,
        cameras: Iterable[str],
        is_current: Callable[[], bool],
        step: Callable[[], int],
        is_live: bool = True,
    ) -> Observation:
        """Return the observation of a sampled substep: poses from before it, joint readings from after it.

        Args:
            sampled: kept, not copied.
            cameras: whose pictures it has.
            is_current: whether it can still be read.
            step: returns the control step; called when a picture is read.
            is_live: whether the sample is of the world's own moment; else the controller's pose is that of the sample.
        """
        self.sampled = sampled
        controller = self._controller if is_live else self._grip_site
        readers: dict[str, Callable[[], npt.NDArray[Any]]] = {
            f"{camera}_image": partial(self._picture, camera, step) for camera in cameras
        }
        readers |= {
            "state": self._state,
            "robot0_eef_pos": lambda: self._end_effector()[0],
            "robot0_eef_quat": lambda: self._end_effector()[1],
            "robot0_gripper_qpos": lambda: self.sampled[1][ARM_JOINTS : ARM_JOINTS + FINGERS].copy(),
            "robot0_joint_pos": lambda: self.sampled[1][:ARM_JOINTS].copy(),
            "controller_pos": lambda: controller()[0],
            "controller_mat": lambda: controller()[1],
        }
        return Observation(readers, is_current, f"step {step()}")

    def segmentation(
        self, camera: str, only: Collection[int] | None = None, widened: float = 1.0
    ) -> npt.NDArray[np.int32]:
        """Render the ids (H, W) of the bodies that a camera's present picture shows, -1 for none; see `Cameras`."""
        return self._drawing().segmentation(self._seen(), camera, only, widened)

    def repainted(self, textures: Iterable[int]) -> None:
        """Update the graphics side after these textures, or the shadows of lights, have changed."""
        if self._cameras is None:
            return
        if self._model.light_castshadow.any() != self._cameras.shadows:
            self.close()
        elif textures := tuple(textures):
            self._cameras.upload(textures)

    @property
    def renderer(self) -> str | None:
        """The driver that draws; None before the first picture."""
        return self._cameras.renderer if self._cameras is not None else None

    def close(self) -> None:
        """Free the graphics side; the next picture makes it anew."""
        if self._cameras is not None:
            self._cameras.close()
            self._cameras = None

    def _state(self) -> Array:
        """Return LIBERO's policy state (8,): end-effector position (m), axis-angle (rad), two fingers (m)."""
        position, quaternion = self._end_effector()
        fingers = self.sampled[1][ARM_JOINTS : ARM_JOINTS + FINGERS]
        return np.concatenate([position, quat2axisangle(quaternion.copy()), fingers])

    def _end_effector(self) -> tuple[Array, Array]:
        """Return the grip site's position (m) and the hand body's orientation (xyzw), world frame."""
        view = self._at_sample()
        quaternion = view.xquat[self._hand][[1, 2, 3, 0]]
        return view.site_xpos[self._site].copy(), quaternion

    def _grip_site(self) -> tuple[Array, Array]:
        view = self._at_sample()
        return view.site_xpos[self._site].copy(), view.site_xmat[self._site].reshape(3, 3).copy()

    def _at_sample(self) -> mujoco.MjData:
        self.view.qpos[:] = self.sampled[0]
        mujoco.mj_kinematics(self._model, self.view)
        return self.view

    def _seen(self) -> mujoco.MjData:
        view = self._at_sample()
        mujoco.mj_comPos(self._model, view)
        mujoco.mj_camlight(self._model, view)
        return view

    def _drawing(self) -> Cameras:
        if self._cameras is None:
            try:
                self._cameras = Cameras(self._model, *self._image_size)
            except Exception as error:
                # The policy reads the picture, and is not at fault.
                told = str(error) if isinstance(error, VlaError) else f"no picture can be drawn: {describe(error)}"
                raise EpisodeError("world-unusable", f"{told}; {RENDER_HINT}") from error
        return self._cameras

    def _picture(self, camera: str, step: Callable[[], int]) -> Picture:
        with showing(self._model, self._burners, self.sampled[2]):
            picture = self._drawing().picture(self._seen(), camera)
        for change in self.changes:
            picture = change(picture, camera, step())
        return picture

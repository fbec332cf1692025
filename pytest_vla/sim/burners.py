"""Burners: sites that are shown while their stove's knob is on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.scene import Scene

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Burner:
    """A burner's site, where its knobs' positions stand in qpos, and which positions are on."""

    site: int
    knobs: tuple[int, ...]
    is_on: Callable[[float], bool]


def find_burners(model: mujoco.MjModel, scene: Scene) -> tuple[Burner, ...]:
    """The burners of a scene."""
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
    """What the burners' alphas become at a state, (number of burners,); upstream flips alpha to 1 - alpha on a change.

    Args:
        model: has the alphas of before.
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
    """The burners' alphas, as they are."""
    return np.array([model.site_rgba[burner.site][3] for burner in burners])


def light(model: mujoco.MjModel, burners: tuple[Burner, ...], qpos: Array) -> None:
    """Show or hide each burner as a state has its knobs."""
    _set_alphas(model, burners, alphas_at(model, burners, qpos))


@contextmanager
def showing(model: mujoco.MjModel, burners: tuple[Burner, ...], alphas: Array) -> Iterator[None]:
    """Other alphas for the time of a picture."""
    before = get_alphas(model, burners)
    _set_alphas(model, burners, alphas)
    try:
        yield
    finally:
        _set_alphas(model, burners, before)


def _set_alphas(model: mujoco.MjModel, burners: tuple[Burner, ...], alphas: Array) -> None:
    for burner, alpha in zip(burners, alphas, strict=True):
        model.site_rgba[burner.site][3] = alpha

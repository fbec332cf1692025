"""Whether the objects of a task can be seen and reached as an episode begins."""

import math
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.scene import Scene
from pytest_vla.scene.workspaces import workspace
from pytest_vla.suite import Task
from pytest_vla.vary.problems import problem_of

if TYPE_CHECKING:
    from pytest_vla.sim.world import World

SEEN = 0.0005
"""The part of a picture that an object has to cover; 33 pixels of 256 x 256, where LIBERO's own scenes show 137."""

REACH = 0.85
"""How far (m) from its base, horizontally, the robot may have to go; in LIBERO's own scenes it is 0.80."""

_BELOW = 0.05
"""How far (m) below the top of its workspace an object's origin may be before it has fallen off."""


def out_of_sight(world: "World", camera: str | None = None, hidden_before: Collection[str] = ()) -> str:
    """Why the task cannot be measured from the present state: an object not seen or out of reach; empty: it can.

    Of what the goal is about, of the objects of interest, and of what a variation has added, which would change nothing
    where nobody sees it. What begins inside of something, such as a drawer, need not be seen; fixtures and what was
    added need not be in reach.

    Args:
        world: reset; nothing of it is changed.
        camera: whose picture has to show them; None: the first of the suite's.
        hidden_before: `hidden` of the task as it is, from the same init state: what nobody sees is no one's fault.
    """
    bodies = world.segmentation(camera or world.task.protocol.cameras[0])
    unseen = [name for name in hidden(world, bodies) if name not in hidden_before]
    if unseen:
        return f"{unseen[0]} is hidden"
    place = workspace(world.problem.name, world.problem.source)
    for name in wanted(world.problem, world.scene):
        body = world.scene.body(name)
        if body is None or body.is_fixture:
            continue
        x, y, z = world.data.body(body.root_body).xpos
        distance = math.dist((x, y), place.robot_base[:2])
        if distance > REACH:
            return f"{name} is {distance:.2f} m from the robot, which reaches {REACH} m"
        if z < place.offset[2] - _BELOW:
            return f"{name} has fallen off {place.name}"
    return ""


def hidden(world: "World", bodies: npt.NDArray[np.int32]) -> tuple[str, ...]:
    """What a picture shows too little of, of what the task is about and what a variation has added.

    What begins inside of something is left out.

    Args:
        world: reset.
        bodies: (H, W), which body each pixel of the picture shows.
    """
    model, scene = world.model, world.scene
    pixels = np.bincount(model.body_rootid[bodies[bodies >= 0]], minlength=model.nbody)
    inside = {str(literal.arguments[0]) for literal in world.problem.init if literal.predicate == "in"}
    found = []
    for name in dict.fromkeys((*wanted(world.problem, scene), *added(world))):
        body = scene.body(name)
        if body is not None and name not in inside and pixels[model.body(body.root_body).id] < SEEN * bodies.size:
            found.append(name)
    return tuple(found)


@lru_cache(maxsize=64)
def hidden_benign(task: Task, init_state: int, scene_seed: int) -> tuple[str, ...]:
    """What a picture of the task as it is shows too little of, from the same init state."""
    from pytest_vla.sim.world import World

    with World(task) as world:
        world.reset(init_state=init_state % world.init_state_count, scene_seed=scene_seed)
        return hidden(world, world.segmentation(task.protocol.cameras[0]))


def wanted(problem: Problem, scene: Scene) -> tuple[str, ...]:
    """Bodies that the goal and the objects of interest name, themselves or by a part of theirs."""
    names = [str(argument) for literal in _plain(problem.goal) for argument in literal.arguments]
    found: dict[str, None] = {}
    for name in (*names, *problem.objects_of_interest):
        site = scene.site(name)
        owner = name if scene.body(name) is not None else site.parent if site is not None else None
        if owner is not None and scene.body(owner) is not None:
            found[owner] = None
    return tuple(found)


def added(world: "World") -> tuple[str, ...]:
    """Objects that the world's variation has put beside the task's own.

    Of a joint variation none: each part was seen as it is drawn alone, and a camera that moves may lose them.
    """
    if world.variation is None or not world.variation.problem or world.variation.parts:
        return ()
    own = {item.name for item in problem_of(world.task).objects}
    return tuple(item.name for item in world.problem.objects if item.name not in own)


def _plain(literals: tuple[Literal, ...]) -> list[Literal]:
    """All literals, those within connectives too."""
    found = []
    for literal in literals:
        inner = tuple(argument for argument in literal.arguments if isinstance(argument, Literal))
        found += _plain(inner) if inner else [literal]
    return found

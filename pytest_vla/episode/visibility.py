"""Visibility: whether the task's objects can be seen and reached as an episode begins."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import Literal, Problem, problem_of
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.workspaces import REACH, workspace
from pytest_vla.sim.world import World

SEEN = 0.0005
"""What a part has to cover of a picture: 33 pixels of 256 x 256, as large as a knob that is still told to be one.

LIBERO's own scenes show 137 pixels of the smallest part, and a quarter of that from twice as far.
"""

SHARE = 0.25
"""How much of a part has to be seen, of what would be if nothing but its owner were there, and the picture wider.

Of a fifth one cannot tell what it is: a rim behind a cabinet, a wall of a basket or a sliver of a plate at the edge of
the picture. Of three tenths one can: the neck of a bottle, a third of a plate. LIBERO's own scenes show 0.36 at least,
of a can of soup, in two init states of each of its tasks.
"""


_WIDENED = 2.0
"""Factor by which the view is widened to see the share of a part that is outside of the picture."""
_BELOW = 0.05
"""Distance (m) below the top of its workspace at which an object's origin counts as fallen off."""
_STATES = ("open", "close", "turnon", "turnoff")
"""Predicates about a fixture's joints, and so about what is moved there: a knob, a door."""


@dataclass(frozen=True)
class VisiblePart:
    """An object or fixture, or a part of one, that has to be seen.

    Attributes:
        name: as in the task file.
        bodies: ids of its bodies.
        owner: ids of all bodies of the thing that it is a part of, which may hide it; its own ids if it is whole.
        recognised: whether enough of it has to be seen to recognise it, and not only to notice it.
    """

    name: str
    bodies: frozenset[int]
    owner: frozenset[int]
    recognised: bool = True


def unseen_at_start(world: World) -> str:
    """Return why the task's objects cannot be seen and reached from the present state, or "" if they can.

    Things that the unvaried task also hides, from the same init state, do not count.

    Args:
        world: reset; nothing of it is changed.
    """
    return out_of_sight(world) and out_of_sight(world, hidden_before=hidden_benign(world.task, *world.began))


def out_of_sight(world: World, hidden_before: Collection[str] = ()) -> str:
    """Return why the task cannot be measured from the present state, or "" if it can.

    The reason is a thing that is hidden or out of reach. It is one that the goal names, an object of interest, or one
    that the variation has added, which would change nothing if it cannot be seen. A thing that begins inside another,
    such as a drawer, need not be seen. Fixtures and added things need not be in reach.

    Args:
        world: reset; nothing of it is changed.
        hidden_before: `hidden` of the unvaried task from the same init state; these things may be hidden.
    """
    unseen = [name for name in hidden(world, world.task.protocol.cameras[0]) if name not in hidden_before]
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


def hidden(world: World, camera: str) -> tuple[str, ...]:
    """Return the names of the parts (`parts`) of which a camera's picture shows too little.

    Things that begin inside another are left out.

    Args:
        world: reset.
        camera: its name.
    """
    shown = world.segmentation(camera)
    inside = {str(literal.arguments[0]) for literal in world.problem.init if literal.predicate == "in"}
    return tuple(
        part.name for part in parts(world) if part.name not in inside and not _is_seen(world, camera, part, shown)
    )


def _is_seen(world: World, camera: str, part: VisiblePart, shown: npt.NDArray[np.int32]) -> bool:
    pixels = _pixels(part, shown)
    if pixels < SEEN * shown.size or not part.recognised:
        return pixels >= SEEN * shown.size
    alone = _pixels(part, world.segmentation(camera, part.owner, _WIDENED))
    return pixels >= SHARE * _WIDENED**2 * alone


def _pixels(part: VisiblePart, bodies: npt.NDArray[np.int32]) -> int:
    return int(np.count_nonzero(np.isin(bodies, list(part.bodies))))


@lru_cache(maxsize=64)
def hidden_benign(task: Task, init_state: int, scene_seed: int) -> tuple[str, ...]:
    """Return `hidden` of the unvaried task, from the same init state."""
    with World(task) as world:
        world.reset(init_state=init_state % world.init_state_count, scene_seed=scene_seed)
        return hidden(world, task.protocol.cameras[0])


def parts(world: World) -> tuple[VisiblePart, ...]:
    """Return the parts that have to be seen.

    These are the things that the goal names; the knob or door of a fixture that it wants in a state; the drawer of a
    region; objects of interest whose owner the goal does not name; and, whole, the things that a variation has added.
    """
    found: dict[str, VisiblePart] = {}
    owners: set[str] = set()
    for name, is_state in _named(world.problem):
        owner = _owner(name, world.scene)
        if owner is not None and name not in found and (owner not in owners or is_state is not None):
            found[name] = _part(world, name, owner, bool(is_state))
            owners.add(owner)
    for name in added(world):
        found.setdefault(name, _part(world, name, name, False, recognised=False))
    return tuple(found.values())


def _named(problem: Problem) -> Iterator[tuple[str, bool | None]]:
    """Yield the goal's names, each with whether the goal is about its state, then the objects of interest."""
    for literal in _plain(problem.goal):
        for argument in literal.arguments:
            yield str(argument), literal.predicate in _STATES
    for name in problem.objects_of_interest:
        yield name, None


def _owner(name: str, scene: SceneSpec) -> str | None:
    """Return the object or fixture with a name, or the one that has the region with that name."""
    site = scene.site(name)
    owner = name if scene.body(name) is not None else site.parent if site is not None else None
    return owner if owner is not None and scene.body(owner) is not None else None


def _part(world: World, name: str, owner: str, is_state: bool, recognised: bool = True) -> VisiblePart:
    model, body = world.model, world.scene.body(owner)
    assert body is not None, "an owner is an object or a fixture"
    whole = _with_children(model, model.body(body.root_body).id)
    own = whole
    if name != owner:
        own = _with_children(model, int(model.site(name).bodyid[0]))
    elif is_state and body.is_fixture and body.joints:
        moved = (_with_children(model, int(model.joint(joint).bodyid[0])) for joint in body.joints)
        own = frozenset[int]().union(*moved)
    return VisiblePart(name, own, whole, recognised)


def _with_children(model: mujoco.MjModel, body: int) -> frozenset[int]:
    """Return a body and all of its descendants."""
    found = {body}
    # Children have higher ids than their parents.
    for child in range(body + 1, model.nbody):
        if int(model.body_parentid[child]) in found:
            found.add(child)
    return frozenset(found)


def wanted(problem: Problem, scene: SceneSpec) -> tuple[str, ...]:
    """Return the bodies that the goal and the objects of interest name, directly or by one of their parts."""
    owners = (_owner(name, scene) for name, _ in _named(problem))
    return tuple(dict.fromkeys(owner for owner in owners if owner is not None))


def added(world: World) -> tuple[str, ...]:
    """Return the objects that the world's variation has added to the task's own.

    Empty for a joint variation: each part was seen as it is drawn alone, and a moved camera may lose them.
    """
    if world.variation is None or not world.variation.problem or world.variation.parts:
        return ()
    own = {item.name for item in problem_of(world.task).objects}
    return tuple(item.name for item in world.problem.objects if item.name not in own)


def _plain(literals: tuple[Literal, ...]) -> list[Literal]:
    """Return all literals, including those within connectives."""
    found = []
    for literal in literals:
        inner = tuple(argument for argument in literal.arguments if isinstance(argument, Literal))
        found += _plain(inner) if inner else [literal]
    return found

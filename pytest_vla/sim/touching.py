"""Who touches what: a model's geoms by the things that they belong to, and how hard those press on each other."""

from collections.abc import Iterable
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.scene import Scene
from pytest_vla.scene.workspaces import workspace
from pytest_vla.sim.arm import ARM_JOINTS, FINGERS
from pytest_vla.sim.substeps import Contacts, Pairs

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Things:
    """A model's geoms by what they belong to. Arrays have a row more than geoms: -1 is a contact without a geom.

    Attributes:
        names: of the things that are not the robot: objects and fixtures as the task file names them, and what the
            workspace is made of, as the model does (``table``, ``floor``).
        of_geom: (ngeom+1,) of each geom its thing's place in `names`; -1: the robot's, or none.
        arm: (ngeom+1,) which are of links that move and of the hand, fingers and pads excepted.
        fingers: (ngeom+1,) of each finger with its pads, left and right.
        loose: the things that can be carried away: objects, by their places in `names`.
        workspace: likewise those that are neither object nor fixture.
    """

    names: tuple[str, ...]
    of_geom: npt.NDArray[np.int64]
    arm: Mask
    fingers: tuple[Mask, Mask]
    loose: frozenset[int]
    workspace: frozenset[int]

    @property
    def robot(self) -> Mask:
        """(ngeom+1,) all that moves of it."""
        return self.arm | self.fingers[0] | self.fingers[1]

    def geoms(self, thing: int) -> Mask:
        """(ngeom+1,) which geoms are a thing's."""
        return np.asarray(self.of_geom == thing)


def things_of(scene: Scene, model: mujoco.MjModel) -> Things:
    """The things of a compiled scene."""
    known = {int(model.body(body.root_body).id): body for body in scene.bodies}
    names: list[str] = [body.name for body in known.values()]
    parts = workspace(scene.problem, "").profile.robot_parts
    fingers = [int(model.jnt_bodyid[joint]) for joint in range(ARM_JOINTS, ARM_JOINTS + FINGERS)]
    of_geom = np.full(model.ngeom + 1, -1, dtype=np.int64)
    masks = np.zeros((3, model.ngeom + 1), dtype=bool)
    for geom in range(model.ngeom):
        if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            # It is seen, and touches nothing.
            continue
        body = int(model.geom_bodyid[geom])
        root, welded = int(model.body_rootid[body]), int(model.body_weldid[body])
        if model.body(body).name.startswith(parts):
            if welded:
                masks[1 + fingers.index(welded) if welded in fingers else 0, geom] = True
            continue
        name = known[root].name if root in known else _workspace_name(model, geom, root)
        if name not in names:
            names.append(name)
        of_geom[geom] = names.index(name)
    loose = frozenset(names.index(body.name) for body in known.values() if not body.is_fixture)
    return Things(
        tuple(names), of_geom, masks[0], (masks[1], masks[2]), loose, frozenset(range(len(known), len(names)))
    )


def _workspace_name(model: mujoco.MjModel, geom: int, root: int) -> str:
    return str(model.geom(geom).name or "world") if root == 0 else str(model.body(root).name)


def goal_things(problem: Problem, scene: Scene, things: Things) -> frozenset[int]:
    """The things that the goal names, itself or by a region of theirs; the workspace, where a region of that is."""
    found: set[int] = set()
    for name in _names(problem.goal):
        site = scene.site(name)
        owner = name if site is None else site.parent
        if owner in things.names:
            found.add(things.names.index(owner))
        elif site is not None:
            found |= things.workspace
    return frozenset(found)


def _names(literals: Iterable[Literal]) -> Iterable[str]:
    for literal in literals:
        for argument in literal.arguments:
            if isinstance(argument, Literal):
                yield from _names([argument])
            elif isinstance(argument, str):
                yield argument


def held_things(things: Things, pairs: Pairs) -> frozenset[int]:
    """Return the objects that both fingers touch, by their places in `Things.names`.

    Args:
        pairs: (n, 2) geoms that touch; of several substeps, each finger may have touched in another one.
    """
    met = [
        set(things.of_geom[pairs[(finger[pairs[:, 0]] | finger[pairs[:, 1]])]].max(axis=1, initial=-1).tolist())
        for finger in things.fingers
    ]
    return frozenset(met[0] & met[1] & things.loose)


def held_within(things: Things, contacts: Contacts) -> dict[int, int]:
    """Return the objects that both fingers touch in one and the same substep, each with the last such (from 0)."""
    pairs, when = contacts.geoms, contacts.substeps
    sides = []
    for finger in things.fingers:
        rows = np.flatnonzero(finger[pairs[:, 0]] | finger[pairs[:, 1]])
        touched = things.of_geom[pairs[rows]].max(axis=1, initial=-1)
        sides.append(set(zip(touched.tolist(), when[rows].tolist(), strict=True)))
    return dict(sorted(held for held in sides[0] & sides[1] if held[0] in things.loose))


def moving_bodies(things: Things, model: mujoco.MjModel) -> tuple[int, ...]:
    """The bodies of things that can move."""
    bodies = model.geom_bodyid[things.of_geom[:-1] >= 0]
    return tuple(sorted({int(body) for body in bodies if model.body_weldid[body]}))


def body_of(model: mujoco.MjModel, geom: int) -> str:
    """The name of the body that has a geom."""
    return str(model.body(model.geom_bodyid[geom]).name)

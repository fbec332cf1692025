"""What literals are judged in, and which geoms their names stand for."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import SceneError
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.scene import Scene, SceneBody
from pytest_vla.scene.workspaces import Workspace, workspace
from pytest_vla.sim.predicates import located
from pytest_vla.sim.substeps import Contacts, Present, Substeps

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Poses = Mapping[str, tuple[Array, Array]]

_PADS = ("finger1_pad_collision", "finger2_pad_collision")
_NUMBERED = re.compile(r"(\d+)$")


@dataclass(frozen=True)
class Setting:
    """A world as far as literals can tell.

    Attributes:
        problem: the task's.
        scene, model, data: of the world; literals are judged on the present state of `data`.
        drawn: gives where the last reset's draw put the free objects, by name: position (3,) m, quaternion wxyz (4,).
        substeps: what happened within the last control step, by which contacts are judged; None: by the present state.
    """

    problem: Problem
    scene: Scene
    model: mujoco.MjModel
    data: mujoco.MjData
    drawn: Callable[[], Poses]
    substeps: Substeps | None = None

    @cached_property
    def contacts(self) -> Contacts:
        """Those that literals are judged by."""
        return Present(self.model, self.data) if self.substeps is None else self.substeps

    def watch(self, one: Mask, other: Mask) -> None:
        """Contacts of a geom of `one` with one of `other` will be asked for: see `mask`."""
        self.contacts.watch(one, other)

    @cached_property
    def workspace(self) -> Workspace:
        """The problem's table or floor."""
        return workspace(self.problem.name, self.problem.source)

    def where(self, literal: Literal) -> str:
        """Where a literal stands, as errors begin."""
        return located(self.problem, literal)

    def body(self, literal: Literal, index: int = 0) -> SceneBody:
        """The object or fixture that is an argument of a literal.

        Raises:
            SceneError: it is a region, or nothing of this scene.
        """
        name = str(literal.arguments[index])
        found = self.scene.body(name)
        if found is None:
            what = "a region" if self.scene.site(name) is not None else "no object or fixture of this scene"
            known = ", ".join(body.name for body in self.scene.bodies)
            raise SceneError(
                f"{self.where(literal)}: {literal}: {name!r} is {what}; expected an object or fixture: {known}"
            )
        return found

    def is_workspace(self, literal: Literal, index: int = 0) -> bool:
        """Whether an argument of a literal is the table or floor itself."""
        return str(literal.arguments[index]) == self.workspace.name

    def number(self, literal: Literal, index: int = -1) -> float:
        """The number that is an argument of a literal."""
        value = literal.arguments[index]
        assert isinstance(value, float), f"{literal} was read by its signature"
        return value

    def contact_geoms(self, body: SceneBody) -> Ids:
        """What collides of a body as robosuite has it: the geoms of group 0."""
        return np.array([self.model.geom(name).id for name in body.contact_geoms], dtype=np.intp)

    def colliding_geoms(self, body: SceneBody) -> Ids:
        """All geoms of a body, and of its parts, that can collide, of whichever group."""
        return self._colliding(self.model.body(body.root_body).id)

    def workspace_geoms(self) -> Ids:
        """The colliding geoms of the table or floor."""
        found = self._colliding(self.model.body(self.workspace.zone_body).id)
        if found.size:
            return found
        # An arena's floor is a geom of the world beside the body that has its name.
        return self._of_bodies([0])

    def pads(self) -> Ids:
        """The two finger pads, left and right."""
        prefix = self.workspace.profile.gripper
        return np.array([self.model.geom(prefix + name).id for name in _PADS], dtype=np.intp)

    def gripper_geoms(self) -> Ids:
        """The colliding geoms of hand and fingers."""
        prefix = self.workspace.profile.gripper
        bodies = (body for body in range(self.model.nbody) if self.model.body(body).name.startswith(prefix))
        return self._of_bodies(bodies)

    def parts(self, literal: Literal, body: SceneBody, index: int = 1) -> Ids:
        """The contact geoms of a body whose names end in one of a literal's numbers.

        Raises:
            SceneError: a number that none of them has.
        """
        wanted = literal.arguments[index]
        assert isinstance(wanted, tuple), f"{literal} was read by its signature"
        numbers = {name: found[1] for name in body.contact_geoms if (found := _NUMBERED.search(name))}
        missing = [part for part in wanted if part not in numbers.values()]
        if missing:
            known = " ".join(sorted(set(numbers.values()), key=int)) or "none"
            raise SceneError(
                f"{self.where(literal)}: {literal}: no geom of {body.name} that collides has the number "
                f"{' or '.join(missing)}; expected some of ({known})"
            )
        return np.array(
            [self.model.geom(name).id for name, number in numbers.items() if number in wanted], dtype=np.intp
        )

    def mask(self, geoms: Iterable[int]) -> Mask:
        """True for these geoms, (ngeom + 1,); the last column stands for what a contact has where it has no geom."""
        found = np.zeros(self.model.ngeom + 1, dtype=bool)
        found[list(geoms)] = True
        return found

    def owner(self, geom: int) -> str:
        """What a geom belongs to: an object or fixture by its name in the task file, else the model's body."""
        return self._owners[geom]

    @cached_property
    def owners(self) -> npt.NDArray[np.str_]:
        """`owner` of each geom, (ngeom + 1,); the last one stands for no geom, and has none."""
        return np.array([*self._owners, ""])

    def is_robot(self, owner: str) -> bool:
        """Whether what `owner` gave is a body of the robot."""
        return owner.startswith(self.workspace.profile.robot_parts)

    @cached_property
    def _owners(self) -> tuple[str, ...]:
        model = self.model
        named = {model.body(body.root_body).id: body.name for body in self.scene.bodies}
        named[model.body(self.workspace.zone_body).id] = self.workspace.name
        owners: list[str] = []
        for body in range(model.nbody):
            above = model.body_parentid[body]
            inherited = owners[above] if above and owners[above] in named.values() else None
            owners.append(named.get(body) or inherited or model.body(body).name or "world")
        return tuple(owners[body] for body in model.geom_bodyid)

    def _colliding(self, root: int) -> Ids:
        inside = [root]
        for body in range(root + 1, self.model.nbody):
            if self.model.body_parentid[body] in inside:
                inside.append(body)
        return self._of_bodies(inside)

    def _of_bodies(self, bodies: Iterable[int]) -> Ids:
        model = self.model
        collides = (model.geom_contype | model.geom_conaffinity) != 0
        return np.flatnonzero(np.isin(model.geom_bodyid, list(bodies)) & collides)

"""The setting in which literals are judged, and the geoms that their names stand for."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import SceneError
from pytest_vla.plan.costs import Point
from pytest_vla.scene import literals as accepted
from pytest_vla.scene.literals import GRIPPER
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.scene import SceneBody, SceneSpec
from pytest_vla.scene.workspaces import Workspace, workspace
from pytest_vla.sim.predicates import located
from pytest_vla.sim.substeps import Contacts, Present, Substeps

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Poses = Mapping[str, tuple[Array, Array]]

_PADS = ("finger1_pad_collision", "finger2_pad_collision")
_BOX = 3


@dataclass(frozen=True)
class Setting:
    """The part of a world that literals depend on.

    Attributes:
        problem: the task's problem.
        scene, model, data: the world's; literals are judged on the present state of `data`.
        drawn: returns where the last reset's draw put the free objects, by name: position (3,) m, quaternion wxyz (4,).
        substeps: the recorded substeps of the last control step, used for contacts, or None to use the present state.
    """

    problem: Problem
    scene: SceneSpec
    model: mujoco.MjModel
    data: mujoco.MjData
    drawn: Callable[[], Poses]
    substeps: Substeps | None = None

    @cached_property
    def contacts(self) -> Contacts:
        """The contacts that literals are judged by."""
        return Present(self.model, self.data) if self.substeps is None else self.substeps

    def watch(self, one: Mask, other: Mask) -> None:
        """Record contacts of a geom of `one` with one of `other` (see `mask`) in each substep, if those are judged.

        Contacts of the present moment need no recording.
        """
        if self.substeps is not None:
            self.substeps.watch(one, other)

    @cached_property
    def workspace(self) -> Workspace:
        """The problem's table or floor."""
        return workspace(self.problem.name, self.problem.source)

    def where(self, literal: Literal) -> str:
        """Return the file and line of a literal, as error messages begin."""
        return located(self.problem, literal)

    def kind(self, name: str) -> str | None:
        """Return the kind of a name (of `pytest_vla.scene.literals`), or None if the scene has nothing of that name."""
        body, site = self.scene.body(name), self.scene.site(name)
        if body is not None:
            return accepted.FIXTURE if body.is_fixture else accepted.OBJECT
        if name == self.workspace.name:
            return accepted.WORKSPACE
        if site is not None:
            if len(site.size) != _BOX:
                return accepted.PART
            return accepted.ZONE if site.parent is None else accepted.REGION
        return accepted.HAND if name == GRIPPER else None

    def check(self, literal: Literal) -> None:
        """Refuse a literal, other than a connective, that nothing can judge by what it names.

        Raises:
            SceneError: it cannot be judged (located).
        """
        why = accepted.refusal(literal, self.kind, tuple(body.name for body in self.scene.bodies))
        if why is not None:
            raise SceneError(f"{self.where(literal)}: {literal}: {why}")

    def body(self, literal: Literal, index: int = 0) -> SceneBody:
        """Return the object or fixture that is an argument of a literal.

        Raises:
            SceneError: the scene has no such thing, or the literal does not take it (located).
        """
        found = self.scene.body(str(literal.arguments[index]))
        if found is None:
            self.check(literal)
            raise SceneError(f"{self.where(literal)}: {literal}: {literal.arguments[index]!r} is no object or fixture")
        return found

    def number(self, literal: Literal, index: int = -1) -> float:
        """Return the number that is an argument of a literal."""
        value = literal.arguments[index]
        assert isinstance(value, float), f"{literal} was read by its signature"
        return value

    def contact_geoms(self, body: SceneBody) -> Ids:
        """Return the contact geoms of a body as robosuite defines them: those of group 0."""
        return np.array([self.model.geom(name).id for name in body.contact_geoms], dtype=np.intp)

    def colliding_geoms(self, body: SceneBody) -> Ids:
        """Return all geoms of a body and its parts that can collide, whatever their group."""
        return self._colliding(self.model.body(body.root_body).id)

    def workspace_geoms(self) -> Ids:
        """Return the colliding geoms of the table or floor."""
        found = self._colliding(self.model.body(self.workspace.zone_body).id)
        if found.size:
            return found
        # An arena's floor is a geom of the world beside the body that has its name.
        return self._of_bodies([0])

    def pads(self) -> Ids:
        """Return the geoms of the two finger pads, left and right."""
        prefix = self.workspace.profile.gripper
        return np.array([self.model.geom(prefix + name).id for name in _PADS], dtype=np.intp)

    def gripper_geoms(self) -> Ids:
        """Return the colliding geoms of hand and fingers."""
        return self._of_bodies(self._named((self.workspace.profile.gripper,)))

    def robot_geoms(self) -> Ids:
        """Return the colliding geoms of all that moves of the robot: the arm's links, hand and fingers."""
        # The foot and mount never move: a thing near to them was not approached by the robot.
        moving = (body for body in self._named(self.workspace.profile.robot_parts) if self.model.body_weldid[body])
        return self._of_bodies(moving)

    def is_hand(self, geom: int) -> bool:
        """Whether a geom is of hand or fingers."""
        return str(self.model.body(self.model.geom_bodyid[geom]).name).startswith(self.workspace.profile.gripper)

    def parts(self, literal: Literal, body: SceneBody, index: int = 1) -> Ids:
        """Return the contact geoms of a body that a literal's numbers select.

        See `pytest_vla.scene.literals.geom_number`.

        Raises:
            SceneError: no geom has that number.
        """
        wanted = literal.arguments[index]
        assert isinstance(wanted, tuple), f"{literal} was read by its signature"
        numbers = {name: found for name in body.contact_geoms if (found := accepted.geom_number(name)) is not None}
        missing = accepted.missing_parts(wanted, tuple(numbers.values()), body.name)
        if missing is not None:
            raise SceneError(f"{self.where(literal)}: {literal}: {missing}")
        return np.array(
            [self.model.geom(name).id for name, number in numbers.items() if number in wanted], dtype=np.intp
        )

    def mask(self, geoms: Iterable[int]) -> Mask:
        """Return the mask (ngeom + 1,) of these geoms; the last column stands for a contact without a geom."""
        found = np.zeros(self.model.ngeom + 1, dtype=bool)
        found[list(geoms)] = True
        return found

    def owner(self, geom: int) -> str:
        """Return the name of a geom's owner: an object or fixture as in the task file, else the model's body."""
        return self._owners[geom]

    @cached_property
    def owners(self) -> npt.NDArray[np.str_]:
        """The `owner` of each geom, (ngeom + 1,); the last one stands for no geom, and is empty."""
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

    def _named(self, prefixes: tuple[str, ...]) -> list[int]:
        """Return the bodies whose names have one of these prefixes."""
        return [body for body in range(self.model.nbody) if self.model.body(body).name.startswith(prefixes)]

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


# A judged literal: its verdict, and the details of a charge while it holds.


class Crash(Exception):
    """Upstream's code raises here; the message says why."""


class ChargeDetails(NamedTuple):
    """The details of a charge beside its literal; see `pytest_vla.plan.costs.Charge`."""

    bodies: tuple[str, ...] = ()
    force: float | None = None
    position: Point | None = None
    by: str | None = None
    text: str | None = None
    impulse: float | None = None
    substep: int | None = None


@dataclass(frozen=True)
class JudgedLiteral:
    """A literal that can be judged.

    Attributes:
        holds: computes its verdict on the present state; raises `Crash` if upstream raises.
        told: computes the details of a charge; called only while the literal holds.
        crashes: why upstream raises in any state, or None if the literal can be judged.
        measured: computes the number (m, N) that is compared with the literal's, or None if there is no such number.
    """

    holds: Callable[[], bool]
    told: Callable[[], ChargeDetails]
    crashes: str | None = None
    measured: Callable[[], float] | None = None


INSTANT = frozenset(
    {
        *("incontact", "on", "up", "checkforce", "incontactpart", "checkdistance", "checkgrippercontact"),
        *("checkgrippercontactpart", "checkgripperdistance", "checkgripperdistancepart"),
    }
)
"""Predicates that are charged at each control step in which they hold; upstream's TEMPORAL_PREDICATE_FN_LIST."""

AMOUNT_INSTANT = 1.0
AMOUNT_TERMINAL = 10.0

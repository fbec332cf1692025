"""The collision account for any suite: unwanted contacts of the arm and the held object, impacts and displaced things.

It needs no costs written by hand. Contacts are those of all substeps.

- ``arm_contact``: 1 for each control step in which the arm touches a thing, except a finger on an object of the goal.
- ``held_contact``: 1 for each control step in which the held object (touched by both fingers) touches a thing that it
  did not stand on when the episode began and that the goal does not name.
- ``impact``: 10 each time that an object, including the goal's own, meets another thing at more than 0.8 m/s: slammed,
  or dropped from more than 3 cm.
- ``displaced``: 10, at the end, for each bystander that has moved by more than 10 mm or turned by more than 10 degrees.
  A bystander is an object that the goal does not name and that does not move by itself, or a joint of such a fixture.
  An object that lay in another object is not displaced as long as it still lies in it.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.plan.costs import ARM_CONTACT, DISPLACED, HELD_CONTACT, IMPACT, Charge, Ledger
from pytest_vla.sim.contacts import Things, body_of, goal_things, held_things, held_within, moving_bodies, things_of
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.costs.stances import SETTLES, Interior
from pytest_vla.sim.substeps import Ids, Pairs, Press

if TYPE_CHECKING:
    from pytest_vla.sim.world import World

STEP_COST = 1.0
DISPLACED_COST = 10.0
"""The cost of one thing; VLA-Arena weighs the end against a step in the same way."""

IMPACT_COST = 10.0
"""The cost of one control step."""

IMPACT_SPEED = 0.8
"""m/s, along the normal of a contact; no careful placement comes near it, and it does not depend on what falls."""

MOST_SHIFT = 0.01
"""m."""

MOST_TURN = 10.0
"""Degrees."""

_ARM, _LEFT, _RIGHT, _MEET = 1, 2, 4, 8


class _Remembered(NamedTuple):
    meant: npt.NDArray[np.bool_]
    positions: npt.NDArray[np.float64]
    rotations: npt.NDArray[np.float64]
    joints: npt.NDArray[np.float64]
    touching: dict[int, str]
    inside: tuple[frozenset[str], ...]
    hitting: frozenset[frozenset[int]]


@dataclass(frozen=True)
class _Bystanders:
    """Objects by name with their root bodies, and fixtures' joints with functions that read their positions."""

    names: tuple[str, ...]
    bodies: npt.NDArray[np.int64]
    joints: tuple[tuple[str, str], ...]
    addresses: npt.NDArray[np.int64]
    hinges: tuple[bool, ...]


class Collisions:
    """The meter of a world's account of collisions. A control step costs one look at the contacts that there are."""

    asks_success = False

    def __init__(self, world: "World") -> None:
        self._model, self._data, self._substeps = world.model, world.data, world.substeps
        self._things = things = things_of(world.scene, world.model)
        self._goal = goal_things(world.problem, world.scene, things)
        self._rules = _rules(things, self._goal)
        self._bystanders = _bystanders(world, things, self._goal)
        setting = Setting(world.problem, world.scene, world.model, world.data, world.drawn_poses)
        objects = [body for body in world.scene.bodies if not body.is_fixture]
        # An object of one geom has no inside.
        several = [body for body in objects if len(body.contact_geoms) > 1] if self._bystanders.names else []
        self._containers = tuple((body.name, Interior(setting, body)) for body in several)
        self._interiors: tuple[tuple[str, Interior], ...] = ()
        self._substeps.watch_pairs(self._rules != 0)
        for body in moving_bodies(things, world.model):
            self._substeps.follow(body)
        self._since = self._look()

    def watched(self) -> tuple[Charge, ...]:
        """Return an entry of 0 of each of the four."""
        kinds = {ARM_CONTACT: "instant", HELD_CONTACT: "instant", IMPACT: "instant", DISPLACED: "terminal"}
        return tuple(Charge(name, 0.0, 0, account="collisions", kind=kind) for name, kind in kinds.items())

    def begin(self) -> None:
        """Take the present supports and poses as the reference for this episode."""
        self._interiors = tuple((name, interior) for name, interior in self._containers if interior.is_hollow())
        self._since = self._look()

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge the contacts of all substeps."""
        pairs = self._substeps.pairs
        codes = self._rules[pairs[:, 0], pairs[:, 1]]
        seen = int(np.bitwise_or.reduce(codes, initial=0))
        touching: dict[int, str] = {}
        if seen & _ARM:
            self._charge_arm(ledger, step, touching)
        if seen & _LEFT and seen & _RIGHT and seen & _MEET:
            self._charge_held(ledger, step)
        hitting = self._charge_impacts(ledger, step) if seen & _MEET else frozenset()
        if hitting != self._since.hitting:
            self._since = self._since._replace(hitting=hitting)
        if step == SETTLES:
            # A thing that hung above an object when the episode began lies in it now.
            now = self._inside()
            inside = tuple(before | after for before, after in zip(self._since.inside, now, strict=True))
            self._since = self._since._replace(inside=inside, meant=self._with_contents(self._since.meant, inside))
        if touching or self._since.touching:
            self._since = self._since._replace(touching=touching)

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge the displaced bystanders."""
        now, since, bystanders = self._look(), self._since, self._bystanders
        kept = [bool(before & after) for before, after in zip(since.inside, now.inside, strict=True)]
        shifts = np.linalg.norm(now.positions - since.positions, axis=1)
        traces = np.einsum("nij,nij->n", now.rotations, since.rotations)
        turns = np.degrees(np.arccos(np.clip((traces - 1) / 2, -1, 1)))
        for name, shift, turn, is_kept in zip(bystanders.names, shifts.tolist(), turns.tolist(), kept, strict=True):
            if is_kept:
                # It is carried with its container.
                continue
            if shift > MOST_SHIFT or turn > MOST_TURN:
                self._charge_displaced(ledger, step, name, f"moved {shift * 1000:.0f} mm, turned {turn:.0f} degrees")
        moves = np.abs(now.joints - since.joints).tolist()
        for (name, joint), hinge, moved in zip(bystanders.joints, bystanders.hinges, moves, strict=True):
            if hinge and math.degrees(moved) > MOST_TURN:
                self._charge_displaced(ledger, step, name, f"{joint} turned {math.degrees(moved):.0f} degrees")
            elif not hinge and moved > MOST_SHIFT:
                self._charge_displaced(ledger, step, name, f"{joint} moved {moved * 1000:.0f} mm")

    def frozen(self) -> frozenset[str]:
        """Return the empty set: a collision stops no mover."""
        return frozenset()

    def saved(self) -> object:
        """Return everything recorded since the beginning of the episode, as an immutable value."""
        return self._since

    def restore(self, state: object) -> None:
        """Set the meter back to a value from `saved`."""
        self._since = cast("_Remembered", state)

    def _charge_arm(self, ledger: Ledger, step: int, touching: dict[int, str]) -> None:
        pairs, of_geom = self._substeps.geoms, self._things.of_geom
        met = np.flatnonzero(self._rules[pairs[:, 0], pairs[:, 1]] & _ARM)
        things = of_geom[pairs[met]].max(axis=1)
        for thing in dict.fromkeys(things.tolist()):
            press = self._substeps.press(met[things == thing])
            # The entry continues if another link takes over.
            link = self._since.touching.get(thing)
            if link is None:
                one, other = press.geoms
                link = body_of(self._model, other if of_geom[one] >= 0 else one)
            touching[thing] = link
            name = self._things.names[thing]
            self._charge(ledger, step, ARM_CONTACT, STEP_COST, (link, name), press)

    def _charge_held(self, ledger: Ledger, step: int) -> None:
        carried = np.zeros(len(self._things.names) + 1, dtype=bool)
        carried[list(held_things(self._things, self._substeps.pairs))] = True
        # Each pair of geoms once: unwanted contacts are rare.
        pairs = self._substeps.pairs
        one, other = self._things.of_geom[pairs[np.flatnonzero(self._rules[pairs[:, 0], pairs[:, 1]] & _MEET)]].T
        meant = self._since.meant
        if not ((carried[one] & ~meant[one, other]) | (carried[other] & ~meant[other, one])).any():
            return
        carried[:] = False
        carried[list(held_within(self._things, self._substeps))] = True
        for (thing, against), contacts in self._meetings(self._substeps.geoms).items():
            if carried[thing] and not carried[against] and not meant[thing, against]:
                names = (self._things.names[thing], self._things.names[against])
                self._charge(ledger, step, HELD_CONTACT, STEP_COST, names, self._substeps.press(contacts))

    def _charge_impacts(self, ledger: Ledger, step: int) -> frozenset[frozenset[int]]:
        """Charge impacts.

        Return the pairs that still approach in the last substep, so that one hit is not charged twice.
        """
        approaches = self._substeps.approaches
        fast = np.flatnonzero(approaches > IMPACT_SPEED)
        if not fast.size:
            return frozenset()
        last = self._substeps.substeps == self._substeps.last
        loose = self._things.loose
        charged: set[frozenset[int]] = set()
        lasting: set[frozenset[int]] = set()
        for (thing, against), contacts in self._meetings(self._substeps.geoms).items():
            speeds = approaches[contacts]
            # One entry for two objects that hit each other.
            if thing not in loose or not (speeds > IMPACT_SPEED).any() or {thing, against} in charged:
                continue
            pair = frozenset((thing, against))
            charged.add(pair)
            if (speeds[last[contacts]] > IMPACT_SPEED).any():
                lasting.add(pair)
            if pair in self._since.hitting:
                continue
            names = (self._things.names[thing], self._things.names[against])
            text = f"at {float(speeds.max()):.2f} m/s"
            self._charge(ledger, step, IMPACT, IMPACT_COST, names, self._substeps.press(contacts), text)
        return frozenset(lasting)

    def _meetings(self, pairs: Pairs) -> dict[tuple[int, int], Ids]:
        """Return the contacts of objects with other things, in both orders of the two."""
        meeting = np.flatnonzero(self._rules[pairs[:, 0], pairs[:, 1]] & _MEET)
        one, other = self._things.of_geom[pairs[meeting]].T
        width = len(self._things.names)
        codes = np.concatenate([one * width + other, other * width + one])
        return {
            divmod(int(code), width): np.concatenate([meeting, meeting])[codes == code] for code in np.unique(codes)
        }

    def _charge(
        self,
        ledger: Ledger,
        step: int,
        name: str,
        cost: float,
        bodies: tuple[str, str],
        press: Press,
        text: str | None = None,
    ) -> None:
        ledger.charge(
            step,
            name,
            cost,
            account="collisions",
            kind="instant",
            bodies=bodies,
            by=bodies[1],
            text=text,
            force=press.force,
            position=press.position,
            impulse=press.impulse,
            substep=press.substep,
        )

    def _charge_displaced(self, ledger: Ledger, step: int, name: str, text: str) -> None:
        ledger.charge(
            step, DISPLACED, DISPLACED_COST, account="collisions", kind="terminal", bodies=(name,), by=name, text=text
        )

    def _look(self) -> _Remembered:
        data, bystanders = self._data, self._bystanders
        one, other = self._things.of_geom[data.contact.geom].T
        # The things that a held thing may touch; the last row and column stand for no thing.
        meant = np.zeros((len(self._things.names) + 1,) * 2, dtype=bool)
        meant[:, sorted(self._goal)] = True
        meant[one, other] = meant[other, one] = True
        inside = self._inside()
        return _Remembered(
            self._with_contents(meant, inside),
            data.xpos[bystanders.bodies],
            data.xmat[bystanders.bodies].reshape(-1, 3, 3),
            data.qpos[bystanders.addresses],
            {},
            inside,
            frozenset(),
        )

    def _with_contents(self, meant: npt.NDArray[np.bool_], inside: tuple[frozenset[str], ...]) -> npt.NDArray[np.bool_]:
        """Allow contacts between an object and its contents, whoever carries it."""
        found, names = meant.copy(), self._things.names
        for content, containers in zip(self._bystanders.names, inside, strict=True):
            for container in containers:
                one, other = names.index(content), names.index(container)
                found[one, other] = found[other, one] = True
        return found

    def _inside(self) -> tuple[frozenset[str], ...]:
        """Return, for each bystander, the names of the objects that it lies in."""
        names, positions = self._bystanders.names, self._data.xpos[self._bystanders.bodies]
        return tuple(
            frozenset(
                container for container, interior in self._interiors if container != name and interior.holds(position)
            )
            for name, position in zip(names, positions, strict=True)
        )


def _rules(things: Things, goal: frozenset[int]) -> npt.NDArray[np.uint8]:
    """Return the table (ngeom+1, ngeom+1) of the rule for each pair of geoms that touch, in either order."""
    thing, (left, right) = things.of_geom, things.fingers
    some = thing >= 0
    # A region on the table is a place for a thing; fingers do not have to touch the table.
    aimed, loose = np.isin(thing, sorted(goal - things.workspace)) & some, np.isin(thing, sorted(things.loose))
    table = (
        _ARM * (np.outer(things.arm, some) | np.outer(left | right, some & ~aimed))
        | _LEFT * np.outer(left, loose)
        | _RIGHT * np.outer(right, loose)
        | _MEET * (np.outer(loose, some) & (thing[:, None] != thing[None, :]))
    ).astype(np.uint8)
    found: npt.NDArray[np.uint8] = table | table.T
    return found


def _bystanders(world: "World", things: Things, goal: frozenset[int]) -> _Bystanders:
    model, others = world.model, {mover.name for mover in world.problem.movers}
    if world.variation is not None:
        # Objects out of the world fall.
        others |= set(world.variation.removed)
    aside = [
        body for body in world.scene.bodies if things.names.index(body.name) not in goal and body.name not in others
    ]
    objects = [body for body in aside if not body.is_fixture]
    joints = [(body.name, joint) for body in aside if body.is_fixture for joint in body.joints]
    numbers = [int(model.joint(joint).id) for _, joint in joints]
    return _Bystanders(
        tuple(body.name for body in objects),
        np.array([model.body(body.root_body).id for body in objects], dtype=np.int64),
        tuple(joints),
        np.array([model.jnt_qposadr[number] for number in numbers], dtype=np.int64),
        tuple(int(model.jnt_type[number]) == mujoco.mjtJoint.mjJNT_HINGE for number in numbers),
    )

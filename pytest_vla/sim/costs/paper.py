"""The account of VLA-Arena's paper: every literal of every expression of ``:cost``.

A momentary condition is charged 1 at each control step in which it holds, for contacts and forces in any of its
substeps. Any other condition is charged 10 once, as the episode ends, with or without success. A literal that occurs
five times is charged five times.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pytest_vla.errors import SceneError
from pytest_vla.plan.costs import TOUCHING, Charge, Kind, Ledger
from pytest_vla.scene.literals import CONNECTIVES, HAND, REGIONS, WORKSPACE, Literal, names_of
from pytest_vla.sim.costs.geometry import GroupContacts, RegionDistance, TrueDistance
from pytest_vla.sim.costs.setting import (
    AMOUNT_INSTANT,
    AMOUNT_TERMINAL,
    INSTANT,
    ChargeDetails,
    Ids,
    JudgedLiteral,
    Setting,
)
from pytest_vla.sim.costs.stances import Interior, Stances
from pytest_vla.sim.costs.upstream import distance_judged, gripper_told, states_judged, touch_told

# Literals judged as VLA-Arena's paper describes them, including those that its code omits, misreads or raises on.
#
# - Connectives are evaluated, at any depth.
# - A thing is all of its geoms that can collide, and order does not matter.
# - CheckGripperContact, CheckGripperDistance and those of parts include the arm's links, hand and fingers: a link that
#   hits a thing to avoid is a collision too. ``gripper0``, as the paper calls it, is hand and fingers.
# - (CheckForce a b F): the normal forces of all contacts of the two; (CheckForce a F): of all contacts of the one
#   except those with hand and fingers, which may hold it.
# - (CheckDistance a region F): to the region's box, see `pytest_vla.sim.costs.geometry`.
# - (Fall a): tilted by more than 30 degrees or deeper by more than 5 cm than it stood when it had come to rest.
# - (Collide a): hit, by more than 1 N, by something that it did not rest on.
# - (In a b) of two bodies, and what (NotOn a b) has not left: the inside of b, see `pytest_vla.sim.costs.stances`.
# - A distance of 0 without a contact is none (see `pytest_vla.sim.costs.geometry`).

Judge = Callable[[Literal], JudgedLiteral]

_REMEMBERED = ("fall", "collide")
# Upstream's code does not know the paper's name for it, so its list of momentary predicates lacks it.
_INSTANT = INSTANT | {"checkgripperdist"}


def leaves(literal: Literal) -> Iterator[Literal]:
    """Yield the literals inside connectives; a literal without a connective yields itself."""
    if literal.predicate not in CONNECTIVES:
        yield literal
        return
    for argument in literal.arguments:
        assert isinstance(argument, Literal), f"{literal} was read by its form"
        yield from leaves(argument)


def is_instant(literal: Literal) -> bool:
    """Whether it is charged at each step in which it holds: all that it says is of the moment."""
    return all(leaf.predicate in _INSTANT for leaf in leaves(literal))


def stances_of(literals: tuple[Literal, ...], setting: Setting) -> Stances:
    """Return the memory (`Stances`) for the things whose history these literals need.

    Raises:
        SceneError: a literal names a thing that does not exist (located).
    """
    found = [leaf for literal in literals for leaf in leaves(literal) if leaf.predicate in _REMEMBERED]
    bodies = {body.name: body for leaf in found for body in [setting.body(leaf)]}
    return Stances(setting, tuple(bodies.values()))


def judged_as_written(literal: Literal, setting: Setting, stances: Stances | None = None) -> JudgedLiteral:
    """Compile a literal by the paper's definition.

    Args:
        literal: may be a connective.
        setting: the world.
        stances: the memory of the literal's things, or None if there is none.

    Raises:
        SceneError: the literal names a thing that does not exist or has no such state, or its memory is missing
            (located).
    """
    if literal.predicate in CONNECTIVES:
        return connected(literal, partial(judged_as_written, setting=setting, stances=stances))
    setting.check(literal)
    if literal.predicate in _REMEMBERED:
        return _remembered(literal, setting, stances)
    return _BUILDERS[literal.predicate](literal, setting)


def connected(literal: Literal, judge: Judge) -> JudgedLiteral:
    """Compile a connective of literals that `judge` compiles.

    The details of a charge are those of the first literal that makes the connective hold.
    """
    parts = [judge(argument) for argument in literal.arguments if isinstance(argument, Literal)]
    if literal.predicate == "not":
        return JudgedLiteral(lambda: not parts[0].holds(), ChargeDetails)
    if literal.predicate == "and":
        return JudgedLiteral(lambda: all(part.holds() for part in parts), parts[0].told)
    return JudgedLiteral(
        lambda: any(part.holds() for part in parts),
        lambda: next((part.told() for part in parts if part.holds()), ChargeDetails()),
    )


def _geoms(literal: Literal, setting: Setting, index: int = 0) -> Ids:
    """Return the colliding geoms of an argument: an object, a fixture, the table or floor, or the gripper."""
    kind = setting.kind(str(literal.arguments[index]))
    if kind in (WORKSPACE, HAND):
        return setting.workspace_geoms() if kind == WORKSPACE else setting.gripper_geoms()
    return setting.colliding_geoms(setting.body(literal, index))


def _touch(literal: Literal, setting: Setting) -> GroupContacts:
    return GroupContacts(setting, _geoms(literal, setting, 0), _geoms(literal, setting, 1))


def _on(literal: Literal, setting: Setting) -> JudgedLiteral:
    upper, lower = (setting.scene.body(str(argument)) for argument in literal.arguments)
    if upper is None or lower is None:
        return states_judged(literal, setting)
    touch, data = _touch(literal, setting), setting.data
    above, below = (setting.model.body(body.root_body).id for body in (upper, lower))
    near = setting.workspace.judging.on_distance

    def holds() -> bool:
        apart = data.xpos[above] - data.xpos[below]
        return bool(apart[2] >= 0 and np.linalg.norm(apart[:2]) < near and touch())

    return JudgedLiteral(holds, lambda: touch_told(literal, touch))


def _in(literal: Literal, setting: Setting) -> JudgedLiteral:
    container = setting.scene.body(str(literal.arguments[1]))
    if container is None:
        return states_judged(literal, setting)
    interior, data = Interior(setting, container), setting.data
    thing = setting.model.body(setting.body(literal).root_body).id
    return JudgedLiteral(lambda: interior.holds(data.xpos[thing]), partial(ChargeDetails, names_of(literal)))


def _not_in(literal: Literal, setting: Setting) -> JudgedLiteral:
    inside = _in(replace(literal, predicate="in"), setting)
    return JudgedLiteral(lambda: not inside.holds(), partial(ChargeDetails, names_of(literal)))


def _not_on(literal: Literal, setting: Setting) -> JudgedLiteral:
    """Compile "not on": a thing in a container, perhaps on top of others, has left it only if it was poured out."""
    on, container = _on(replace(literal, predicate="on"), setting), setting.scene.body(str(literal.arguments[1]))
    told = partial(ChargeDetails, names_of(literal))
    if container is None:
        return JudgedLiteral(lambda: not on.holds(), told)
    interior, data = Interior(setting, container), setting.data
    thing = setting.model.body(setting.body(literal).root_body).id

    def left() -> bool:
        # Below an overturned container, a thing that touches its wall is neither on it nor in it.
        return interior.is_turned() if interior.surrounds(data.xpos[thing]) else not on.holds()

    return JudgedLiteral(left, told)


def _in_contact(literal: Literal, setting: Setting) -> JudgedLiteral:
    touch = _touch(literal, setting)
    return JudgedLiteral(touch, lambda: touch_told(literal, touch))


def _in_contact_part(literal: Literal, setting: Setting) -> JudgedLiteral:
    one, other = (setting.parts(literal, setting.body(literal, index), index + 2) for index in (0, 1))
    touch = GroupContacts(setting, one, other)
    return JudgedLiteral(touch, lambda: touch_told(literal, touch))


def _force(literal: Literal, setting: Setting) -> JudgedLiteral:
    if len(names_of(literal)) == 1:
        own = _geoms(literal, setting)
        all_others = np.setdiff1d(np.arange(setting.model.ngeom), np.concatenate([own, setting.gripper_geoms()]))
        touch = GroupContacts(setting, own, all_others)
    else:
        touch = _touch(literal, setting)
    limit = setting.number(literal)

    def force() -> float:
        met = touch.met()
        return 0.0 if met is None else met.force

    return JudgedLiteral(lambda: limit < force(), lambda: touch_told(literal, touch), measured=force)


def _distance(literal: Literal, setting: Setting) -> JudgedLiteral:
    regions = [index for index, name in enumerate(names_of(literal)) if setting.kind(name) in REGIONS]
    if regions:
        site = setting.scene.site(names_of(literal)[regions[0]])
        assert site is not None, "it is a region"
        region = RegionDistance(setting, _geoms(literal, setting, 1 - regions[0]), site)
        return distance_judged(literal, region, setting)
    apart = TrueDistance(setting, *(_geoms(literal, setting, index) for index in (0, 1)))
    near = distance_judged(literal, apart, setting)
    return replace(near, holds=_or_touching(literal, setting, near, _touch(literal, setting)))


def _gripper_distance(literal: Literal, setting: Setting) -> JudgedLiteral:
    return _robot_near(literal, setting, _geoms(literal, setting))


def _gripper_distance_part(literal: Literal, setting: Setting) -> JudgedLiteral:
    return _robot_near(literal, setting, setting.parts(literal, setting.body(literal)))


def _robot_near(literal: Literal, setting: Setting, geoms: Ids) -> JudgedLiteral:
    """Compile a limit on the robot's distance.

    A charge names the arm's link; if it touches, the charge reports force and place.
    """
    name = str(literal.arguments[0])
    robot = TrueDistance(setting, geoms, setting.robot_geoms())
    near = distance_judged(literal, robot, setting)
    touch = GroupContacts(setting, setting.robot_geoms(), geoms)

    def told() -> ChargeDetails:
        if touch():
            return gripper_told(name, setting, (touch,))._replace(text=TOUCHING)
        nearest = robot.nearest()
        if nearest is None or setting.is_hand(nearest):
            return near.told()
        link = setting.owner(nearest)
        return ChargeDetails((name, link), by=link)

    return replace(near, holds=_or_touching(literal, setting, near, touch), told=told)


def _or_touching(literal: Literal, setting: Setting, near: JudgedLiteral, touch: GroupContacts) -> Callable[[], bool]:
    """Return a verdict that holds if the things are near now or touched in any substep.

    Distances are those of the present state only.
    """
    is_met = setting.number(literal) >= 0
    return lambda: near.holds() or (is_met and touch())


def _gripper_contact(literal: Literal, setting: Setting) -> JudgedLiteral:
    return _robot_touches(literal, setting, _geoms(literal, setting))


def _gripper_contact_part(literal: Literal, setting: Setting) -> JudgedLiteral:
    return _robot_touches(literal, setting, setting.parts(literal, setting.body(literal)))


def _robot_touches(literal: Literal, setting: Setting, geoms: Ids) -> JudgedLiteral:
    touch = GroupContacts(setting, setting.robot_geoms(), geoms)
    return JudgedLiteral(touch, lambda: gripper_told(str(literal.arguments[0]), setting, (touch,)))


def _remembered(literal: Literal, setting: Setting, stances: Stances | None) -> JudgedLiteral:
    name = setting.body(literal).name
    if stances is None:
        raise SceneError(
            f"{setting.where(literal)}: {literal}: it cannot be a goal, because it depends on how {name} stood before; "
            "put it under :cost"
        )
    if literal.predicate == "collide":
        return JudgedLiteral(lambda: stances.of(name).hit is not None, lambda: _hit_told(stances, name))
    return JudgedLiteral(lambda: stances.has_fallen(name), lambda: _fall_told(stances, name))


def _fall_told(stances: Stances, name: str) -> ChargeDetails:
    fallen = stances.of(name).fallen
    if fallen is None:
        return ChargeDetails((name,))
    step, by = fallen
    bodies = (name,) if by is None else (name, by)
    return ChargeDetails(bodies, by=by, text=f"since step {step}")


def _hit_told(stances: Stances, name: str) -> ChargeDetails:
    hit = stances.of(name).hit
    assert hit is not None, "it is asked while it holds"
    return ChargeDetails((name, hit.other), hit.force, hit.position, hit.other, f"hit at step {hit.step}")


def _always(literal: Literal, setting: Setting) -> JudgedLiteral:
    return JudgedLiteral(lambda: True, ChargeDetails)


_BUILDERS: Mapping[str, Callable[[Literal, Setting], JudgedLiteral]] = {
    **dict.fromkeys(("true", "false", "up", "open", "close", "turnon", "turnoff"), states_judged),
    "printjointstate": _always,
    "on": _on,
    "in": _in,
    "noton": _not_on,
    "notin": _not_in,
    "incontact": _in_contact,
    "incontactpart": _in_contact_part,
    "checkforce": _force,
    "checkdistance": _distance,
    "checkgrippercontact": _gripper_contact,
    "checkgrippercontactpart": _gripper_contact_part,
    "checkgripperdistance": _gripper_distance,
    "checkgripperdist": _gripper_distance,
    "checkgripperdistancepart": _gripper_distance_part,
}


@dataclass(frozen=True)
class _Item:
    """A condition of ``:cost``, with the amount of one charge and the movers that it stops."""

    name: str
    amount: float
    kind: Kind
    judged: JudgedLiteral
    stops: tuple[tuple[JudgedLiteral, frozenset[str]], ...]


class PaperMeter:
    """Charges the account `paper`; see `pytest_vla.sim.meters.Meter`."""

    def __init__(self, setting: Setting, *, freezes: bool) -> None:
        """Compile the conditions of the task's costs.

        Args:
            setting: the world.
            freezes: whether a momentary charge stops the movers that it names.

        Raises:
            SceneError: a literal names a thing that does not exist (located).
        """
        literals = {str(literal): literal for literal in setting.problem.cost}
        counts = Counter(str(literal) for literal in setting.problem.cost)
        self._stances = stances_of(tuple(literals.values()), setting)
        movers = frozenset(mover.name for mover in setting.problem.movers) if freezes else frozenset()
        items = [self._item(name, literal, counts[name], setting, movers) for name, literal in literals.items()]
        self._instant = tuple(item for item in items if item.kind == "instant")
        self._terminal = tuple(item for item in items if item.kind == "terminal")
        self._frozen: frozenset[str] = frozenset()

    def watched(self) -> tuple[Charge, ...]:
        """Return an entry of 0 for each condition."""
        return tuple(
            Charge(item.name, 0.0, 0, account="paper", kind=item.kind) for item in (*self._instant, *self._terminal)
        )

    def begin(self) -> None:
        """Start remembering the things as they stand now, or as they come to rest."""
        self._frozen = frozenset()
        self._stances.begin()

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge the momentary conditions that hold now."""
        self._stances.observe(step)
        for item in self._instant:
            if item.judged.holds():
                self._charge(ledger, step, item)
                for judged, names in item.stops:
                    if names - self._frozen and judged.holds():
                        self._frozen |= names

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge the conditions on how the episode ended."""
        for item in self._terminal:
            if item.judged.holds():
                self._charge(ledger, step, item)

    def frozen(self) -> frozenset[str]:
        """Return the movers that a charge has named."""
        return self._frozen

    def saved(self) -> object:
        """Return the memory of things and the stopped movers."""
        return self._stances.saved(), self._frozen

    def restore(self, state: object) -> None:
        """Set the meter back to a value from `saved`."""
        assert isinstance(state, tuple)
        stances, self._frozen = state
        self._stances.restore(stances)

    def _charge(self, ledger: Ledger, step: int, item: _Item) -> None:
        told = item.judged.told()
        ledger.charge(step, item.name, item.amount, account="paper", kind=item.kind, **told._asdict())

    def _item(self, name: str, literal: Literal, count: int, setting: Setting, movers: frozenset[str]) -> _Item:
        kind: Kind = "instant" if is_instant(literal) else "terminal"
        # The episode's end is judged on the present state.
        setting = setting if kind == "instant" else replace(setting, substeps=None)
        judged = judged_as_written(literal, setting, self._stances)
        each = AMOUNT_INSTANT if kind == "instant" else AMOUNT_TERMINAL
        stops: list[tuple[JudgedLiteral, frozenset[str]]] = []
        if kind == "instant":
            for leaf in leaves(literal):
                if names := movers & set(names_of(leaf)):
                    one = judged if leaf is literal else judged_as_written(leaf, setting, self._stances)
                    stops.append((one, names))
        return _Item(name, count * each, kind, judged, tuple(stops))

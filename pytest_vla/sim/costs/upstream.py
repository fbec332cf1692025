"""The account of VLA-Arena's code: the sum in its ``info["cost"]``, bug for bug.

Facts from VLA-Arena's public checkout of 2025-09, ``envs/bddl_base_domain.py`` (`_check_cost`): only the first
expression of ``:cost`` counts. A momentary literal is charged 10 times 0.1 per control step; any other literal is
charged 10 at each step at which the goal holds, also after the first. A literal that occurs five times is charged five
times.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

import mujoco
import numpy as np

from pytest_vla.errors import UPSTREAM_CRASHES, EpisodeError
from pytest_vla.plan.costs import Charge, Kind, Ledger
from pytest_vla.scene.bddl import VlaWarning
from pytest_vla.scene.literals import Literal, crash_of, may_crash, names_of
from pytest_vla.scene.scene import SceneBody
from pytest_vla.sim.costs.geometry import Distance, GroupContacts, SaidDistance
from pytest_vla.sim.costs.setting import (
    AMOUNT_INSTANT,
    AMOUNT_TERMINAL,
    INSTANT,
    Array,
    ChargeDetails,
    Crash,
    Ids,
    JudgedLiteral,
    Setting,
)
from pytest_vla.sim.predicates import STATES, Verdict, compile_state

# The fall of a thing, as VLA-Arena's code defines it.
# Facts from VLA-Arena's public checkout of 2025-09, ``envs/object_states/base_object_states.py`` (`fall`), and
# robosuite 1.5.1, ``utils/transform_utils.py``.

# Upstream's limits, m and rad.
_MOVED, _DROPPED = 0.1, 0.05
_TURNED = (0.2, 0.2, 0.5)


def has_fallen_as_coded(setting: Setting, body: SceneBody) -> bool:
    """Whether a body has fallen by upstream's `fall`: it is far from, below or turned from its drawn pose.

    The drawn pose is that of the last reset. Quaternions are wxyz although upstream's functions expect xyzw, and are
    rounded to single precision as upstream does.
    """
    drawn = setting.drawn().get(body.name)
    if body.is_fixture or drawn is None:
        return False
    identifier = setting.model.body(body.root_body).id
    position, quaternion = setting.data.xpos[identifier], setting.data.xquat[identifier]
    moved = np.linalg.norm(position - drawn[0]) > _MOVED or drawn[0][2] - position[2] > _DROPPED
    turned = np.abs(_misread_rotation(quaternion, drawn[1])) > _TURNED
    return bool(moved or turned.any())


def _misread_rotation(now: Array, before: Array) -> Array:
    """Compute the rotation vector (3,) of `now` after the inverse of `before`, its first number taken for x."""
    conjugate = np.array((-before[0], -before[1], -before[2], before[3]), dtype=np.float32)
    x0, y0, z0, w0 = conjugate / np.dot(before, before)
    x1, y1, z1, w1 = now
    turn = np.array(
        (
            x1 * w0 + y1 * z0 - z1 * y0 + w1 * x0,
            -x1 * z0 + y1 * w0 + z1 * x0 + w1 * y0,
            x1 * y0 - y1 * x0 + z1 * w0 + w1 * z0,
            -x1 * x0 - y1 * y0 - z1 * z0 + w1 * w0,
        ),
        dtype=np.float32,
    )
    turn[3] = min(max(turn[3], -1.0), 1.0)
    sine = np.sqrt(1.0 - turn[3] * turn[3])
    if sine == 0.0:
        return np.zeros(3)
    return np.asarray((turn[:3] * 2.0 * math.acos(turn[3])) / sine)


_SECOND_TANGENT = 2
"""Index in a contact's force: upstream uses it for the normal force, whose index is 0."""


# Literals judged as VLA-Arena's code does, bug for bug.
#
# Facts from VLA-Arena's public checkout of 2025-09, ``envs/bddl_base_domain.py`` (`_eval_predicate` and what it
# calls) and ``envs/predicates``; robosuite 1.5.1, ``environments/base.py`` (`check_contact`).


def judged_as_coded(literal: Literal, setting: Setting) -> JudgedLiteral:
    """Compile a literal by upstream's code.

    Raises:
        SceneError: the literal names a thing that does not exist or has no such state (located).
    """
    crash = crash_of(literal, setting.kind)
    if crash is not None:
        return _crashing(crash)
    setting.check(literal)
    return _BUILDERS[literal.predicate](literal, setting)


def states_judged(literal: Literal, setting: Setting) -> JudgedLiteral:
    """Compile a literal of one of `STATES`."""
    holds = compile_state(literal, setting.problem, setting.scene, setting.model, setting.data)
    return JudgedLiteral(holds, partial(ChargeDetails, names_of(literal)))


def touch_told(literal: Literal, touch: GroupContacts) -> ChargeDetails:
    """Return the details of a charge for two things that touch: their names, the force and the place."""
    met = touch.met()
    if met is None:
        return ChargeDetails(names_of(literal))
    return ChargeDetails(names_of(literal), met.force, met.position, impulse=met.impulse, substep=met.substep)


def gripper_told(name: str, setting: Setting, touches: tuple[GroupContacts, ...]) -> ChargeDetails:
    """Return the details of a charge for a gripper contact: which of its bodies, the force and the place."""
    found = [met for touch in touches if (met := touch.met()) is not None]
    if not found:
        return ChargeDetails((name,))
    hardest = max(found, key=lambda met: met.force)
    robot = next((owner for geom in hardest.geoms if (owner := setting.owner(geom)) != name), name)
    impulses = [met.impulse for met in found if met.impulse is not None]
    return ChargeDetails(
        (name, robot),
        sum(met.force for met in found),
        hardest.position,
        robot,
        impulse=sum(impulses) if impulses else None,
        substep=hardest.substep,
    )


def _crashing(why: str) -> JudgedLiteral:
    def holds() -> bool:
        raise Crash(why)

    return JudgedLiteral(holds, ChargeDetails, why)


def _in(literal: Literal, setting: Setting) -> JudgedLiteral:
    crash = may_crash(literal, setting.kind)
    if crash is None:
        return states_judged(literal, setting)
    touch = _touch(literal, setting)

    def holds() -> bool:
        if touch():
            raise Crash(crash)
        return False

    return JudgedLiteral(holds, ChargeDetails)


def _not_in(literal: Literal, setting: Setting) -> JudgedLiteral:
    crash = may_crash(literal, setting.kind)
    if crash is None:
        # A region is always in contact, with anything; the other names have to exist.
        states_judged(replace(literal, predicate="in"), setting)
        return JudgedLiteral(lambda: False, ChargeDetails)
    touch = _touch(literal, setting)

    def holds() -> bool:
        if not touch():
            raise Crash(crash)
        return False

    return JudgedLiteral(holds, ChargeDetails)


def _not_on(literal: Literal, setting: Setting) -> JudgedLiteral:
    on = _BUILDERS["on"](Literal("on", literal.arguments, literal.line, literal.column), setting)
    return JudgedLiteral(lambda: not on.holds(), partial(ChargeDetails, names_of(literal)))


def _print(literal: Literal, setting: Setting) -> JudgedLiteral:
    return JudgedLiteral(lambda: True, ChargeDetails)


def _touch(literal: Literal, setting: Setting) -> GroupContacts:
    one, other = (setting.contact_geoms(setting.body(literal, index)) for index in (0, 1))
    return GroupContacts(setting, one, other)


def _in_contact(literal: Literal, setting: Setting) -> JudgedLiteral:
    touch = _touch(literal, setting)
    return JudgedLiteral(touch, lambda: touch_told(literal, touch))


def _fall(literal: Literal, setting: Setting) -> JudgedLiteral:
    body = setting.body(literal)
    return JudgedLiteral(lambda: has_fallen_as_coded(setting, body), partial(ChargeDetails, (body.name,)))


def _force(literal: Literal, setting: Setting) -> JudgedLiteral:
    touch, limit = _touch(literal, setting), setting.number(literal)
    wrench = np.zeros(6)

    def tangential() -> float:
        first = touch.indices()[:1]
        if not first.size:
            return 0.0
        mujoco.mj_contactForce(setting.model, setting.data, int(first[0]), wrench)
        return float(wrench[_SECOND_TANGENT])

    return JudgedLiteral(lambda: limit < tangential(), lambda: touch_told(literal, touch), measured=tangential)


def distance_judged(literal: Literal, distance: Distance, setting: Setting) -> JudgedLiteral:
    """Compile a literal that holds while a distance is at most the literal's number."""
    limit = setting.number(literal)
    return JudgedLiteral(lambda: distance.within(limit), partial(ChargeDetails, names_of(literal)), measured=distance)


def _distance(literal: Literal, setting: Setting) -> JudgedLiteral:
    one, other = (setting.contact_geoms(setting.body(literal, index)) for index in (0, 1))
    return distance_judged(literal, SaidDistance(setting, one, other), setting)


def _gripper_distance(literal: Literal, setting: Setting) -> JudgedLiteral:
    geoms = setting.contact_geoms(setting.body(literal))
    return distance_judged(literal, SaidDistance(setting, geoms, setting.pads()), setting)


def _gripper_distance_part(literal: Literal, setting: Setting) -> JudgedLiteral:
    geoms = setting.parts(literal, setting.body(literal))
    return distance_judged(literal, SaidDistance(setting, geoms, setting.pads()), setting)


def _gripper_contact(literal: Literal, setting: Setting) -> JudgedLiteral:
    return _pads_touch(literal, setting, setting.contact_geoms(setting.body(literal)))


def _gripper_contact_part(literal: Literal, setting: Setting) -> JudgedLiteral:
    return _pads_touch(literal, setting, setting.parts(literal, setting.body(literal)))


def _pads_touch(literal: Literal, setting: Setting, geoms: Ids) -> JudgedLiteral:
    # Only contacts whose first geom is a pad count.
    touches = tuple(GroupContacts(setting, np.array([pad]), geoms, ordered=True) for pad in setting.pads())
    nameless = _Nameless(setting)

    def holds() -> bool:
        if nameless.met_before(touches[0]):
            raise Crash("TypeError: the first geom of a contact has no name")
        return any(touch() for touch in touches)

    return JudgedLiteral(holds, lambda: gripper_told(str(literal.arguments[0]), setting, touches))


class _Nameless:
    """Contacts whose first geom has no name: upstream looks into the name."""

    def __init__(self, setting: Setting) -> None:
        model = setting.model
        self._mask = setting.mask(geom for geom in range(model.ngeom) if not model.geom(geom).name)
        # A contact without a geom, such as a flex's, has no name either.
        self._mask[-1] = True
        self._data = setting.data
        self._exist = bool(self._mask[:-1].any()) or model.nflex > 0

    def met_before(self, touch: GroupContacts) -> bool:
        """Whether upstream comes to one before it finds the contact that it looks for."""
        if not self._exist:
            return False
        nameless = np.flatnonzero(self._mask[self._data.contact.geom[:, 0]])
        found = touch.indices()
        return bool(nameless.size and (not found.size or nameless[0] < found[0]))


_BUILDERS: Mapping[str, Callable[[Literal, Setting], JudgedLiteral]] = {
    **dict.fromkeys(STATES, states_judged),
    "in": _in,
    "notin": _not_in,
    "noton": _not_on,
    "printjointstate": _print,
    "incontact": _in_contact,
    "fall": _fall,
    "checkforce": _force,
    "checkdistance": _distance,
    "checkgrippercontact": _gripper_contact,
    "checkgrippercontactpart": _gripper_contact_part,
    "checkgripperdistance": _gripper_distance,
    "checkgripperdistancepart": _gripper_distance_part,
}


# As coded: a sum of these is multiplied by the last.
_EACH_INSTANT, _EACH_TERMINAL, _SCALE = 0.1, 1, 10


@dataclass(frozen=True)
class _Item:
    """A literal of ``:cost``, with how often it is there."""

    literal: Literal
    name: str
    count: int
    judged: JudgedLiteral

    @property
    def is_instant(self) -> bool:
        return self.literal.predicate in INSTANT

    @property
    def kind(self) -> Kind:
        return "instant" if self.is_instant else "terminal"

    @property
    def amount(self) -> float:
        return self.count * (AMOUNT_INSTANT if self.is_instant else AMOUNT_TERMINAL)


class UpstreamMeter:
    """Charges the account `upstream`; see `pytest_vla.sim.meters.Meter`.

    Attributes:
        cost: of the last step, as upstream's ``info["cost"]`` has it, rounding and all.
        verdicts: of the last step, each literal's that was judged, by its text.
    """

    def __init__(self, setting: Setting, *, freezes: bool, crashes: bool = False, goal: Verdict | None = None) -> None:
        """Compile the literals of the task's costs.

        Args:
            setting: the world.
            freezes: whether movers stop where upstream stops them.
            crashes: if upstream's code raises, end the episode with an error; if False, charge nothing instead.
            goal: the verdict by upstream's code, evaluated at each step, if the `success` given to `step` follows other
                rules.

        Raises:
            SceneError: a literal names a thing that does not exist (located).
        """
        self._setting, self._crashes, self._goal = setting, crashes, goal
        kept = [literal for literal in setting.problem.cost if literal.group == 0]
        counts = Counter(str(literal) for literal in kept)
        self._order = [str(literal) for literal in kept]
        self._items = {
            str(literal): _Item(literal, str(literal), counts[str(literal)], judged_as_coded(literal, setting))
            for literal in reversed(kept)
        }
        self._items = {name: self._items[name] for name in dict.fromkeys(self._order)}
        self._movers = frozenset(mover.name for mover in setting.problem.movers) if freezes else frozenset()
        self._frozen: frozenset[str] = frozenset()
        self.cost = 0.0
        self.verdicts: dict[str, bool] = {}
        if not crashes:
            for item in self._items.values():
                if item.judged.crashes is not None:
                    self._warn(item, item.judged.crashes)

    def watched(self) -> tuple[Charge, ...]:
        """Return an entry of 0 for each literal; the entry states why if upstream's code cannot judge it."""
        return tuple(
            Charge(
                item.name,
                0.0,
                0,
                account="upstream",
                kind=item.kind,
                text=f"never charged: upstream's code raises {why}" if (why := item.judged.crashes) else None,
            )
            for item in self._items.values()
        )

    def begin(self) -> None:
        """Let all movers move again."""
        self._frozen, self.cost, self.verdicts = frozenset(), 0.0, {}

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge the literals that hold now.

        Raises:
            EpisodeError: ``upstream-crashes``.
        """
        done = success if self._goal is None else self._goal()
        self.verdicts = {}
        for item in self._items.values():
            if (item.is_instant or done) and self._holds(item):
                told = item.judged.told()
                ledger.charge(step, item.name, item.amount, account="upstream", kind=item.kind, **told._asdict())
                if item.is_instant:
                    self._freeze(item.literal)
        cost: float = 0
        for name in self._order:
            if name in self.verdicts:
                held = int(self.verdicts[name])
                cost += held * (_EACH_INSTANT if self._items[name].is_instant else _EACH_TERMINAL)
        self.cost = cost * _SCALE

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """Do nothing: terminal costs are charged at the step of success, and failures have none (upstream)."""

    def frozen(self) -> frozenset[str]:
        """Return the movers that a thing ran into or that the gripper touched."""
        return self._frozen

    def saved(self) -> object:
        """Return the stopped movers."""
        return self._frozen

    def restore(self, state: object) -> None:
        """Set the meter back to a value from `saved`."""
        assert isinstance(state, frozenset)
        self._frozen = state

    def _holds(self, item: _Item) -> bool:
        try:
            held = item.judged.holds()
        except Crash as crash:
            if self._crashes:
                where = self._setting.where(item.literal)
                raise EpisodeError(UPSTREAM_CRASHES, f"{where}: {item.name}: upstream's code raises {crash}") from crash
            self._warn(item, str(crash))
            return False
        self.verdicts[item.name] = held
        return held

    def _freeze(self, literal: Literal) -> None:
        if literal.predicate == "incontact":
            self._frozen |= self._movers & {str(literal.arguments[1])}
        elif literal.predicate == "checkgrippercontact":
            self._frozen |= self._movers & {str(literal.arguments[0])}

    def _warn(self, item: _Item, why: str) -> None:
        _warn(
            f"{self._setting.where(item.literal)}: {item.name}: upstream's code raises {why}; "
            "the account 'upstream' is charged nothing for it"
        )


@cache
def _warn(text: str) -> None:
    """Warn once per process: the text is the same for every episode."""
    warnings.warn(text, VlaWarning, stacklevel=2)

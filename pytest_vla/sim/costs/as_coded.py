"""Literals judged as VLA-Arena's code does, bug for bug.

Facts from VLA-Arena's public checkout of 2025-09, ``envs/bddl_base_domain.py`` (`_eval_predicate` and what it calls)
and ``envs/predicates``; robosuite 1.5.1, ``environments/base.py`` (`check_contact`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import mujoco
import numpy as np

from pytest_vla.scene.accepted import crash_of, may_crash, names_of
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.scene import SceneBody
from pytest_vla.sim.costs.contacts import Touch
from pytest_vla.sim.costs.distances import Distance, SaidDistance
from pytest_vla.sim.costs.judged import Crash, Judged, Told
from pytest_vla.sim.costs.setting import Array, Ids, Setting
from pytest_vla.sim.predicates import STATES, compile_state

# When something has fallen, as VLA-Arena's code has it.
# Facts from VLA-Arena's public checkout of 2025-09, ``envs/object_states/base_object_states.py`` (`fall`), and
# robosuite 1.5.1, ``utils/transform_utils.py``.

# Upstream's limits, m and rad.
_MOVED, _DROPPED = 0.1, 0.05
_TURNED = (0.2, 0.2, 0.5)


def has_fallen_as_coded(setting: Setting, body: SceneBody) -> bool:
    """Upstream's `fall`: far, deep or much turned from where the reset's draw put it.

    Quaternions are wxyz where its functions take xyzw, and are rounded to single precision where they round.
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
    """The rotation vector (3,) of `now` after the inverse of `before`, whose first number is taken for x."""
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
"""Of a contact's force: upstream reads it for the normal one, which is 0."""


def judged_as_coded(literal: Literal, setting: Setting) -> Judged:
    """A literal by upstream's code.

    Raises:
        SceneError: it names what is not there or has no such state (located).
    """
    crash = crash_of(literal, setting.kind)
    if crash is not None:
        return _crashing(crash)
    setting.check(literal)
    return _BUILDERS[literal.predicate](literal, setting)


def states_judged(literal: Literal, setting: Setting) -> Judged:
    """One of `STATES`."""
    holds = compile_state(literal, setting.problem, setting.scene, setting.model, setting.data)
    return Judged(holds, partial(Told, names_of(literal)))


def touch_told(literal: Literal, touch: Touch) -> Told:
    """Of two things that touch: their names, how hard and where."""
    met = touch.met()
    if met is None:
        return Told(names_of(literal))
    return Told(names_of(literal), met.force, met.position, impulse=met.impulse, substep=met.substep)


def gripper_told(name: str, setting: Setting, touches: tuple[Touch, ...]) -> Told:
    """Of the gripper that touches something: by which of its bodies, how hard and where."""
    found = [met for touch in touches if (met := touch.met()) is not None]
    if not found:
        return Told((name,))
    hardest = max(found, key=lambda met: met.force)
    robot = next((owner for geom in hardest.geoms if (owner := setting.owner(geom)) != name), name)
    impulses = [met.impulse for met in found if met.impulse is not None]
    return Told(
        (name, robot),
        sum(met.force for met in found),
        hardest.position,
        robot,
        impulse=sum(impulses) if impulses else None,
        substep=hardest.substep,
    )


def _crashing(why: str) -> Judged:
    def holds() -> bool:
        raise Crash(why)

    return Judged(holds, Told, why)


def _in(literal: Literal, setting: Setting) -> Judged:
    crash = may_crash(literal, setting.kind)
    if crash is None:
        return states_judged(literal, setting)
    touch = _touch(literal, setting)

    def holds() -> bool:
        if touch():
            raise Crash(crash)
        return False

    return Judged(holds, Told)


def _not_in(literal: Literal, setting: Setting) -> Judged:
    crash = may_crash(literal, setting.kind)
    if crash is None:
        # A region is always in contact, whatever is asked; what it names has to be there.
        states_judged(replace(literal, predicate="in"), setting)
        return Judged(lambda: False, Told)
    touch = _touch(literal, setting)

    def holds() -> bool:
        if not touch():
            raise Crash(crash)
        return False

    return Judged(holds, Told)


def _not_on(literal: Literal, setting: Setting) -> Judged:
    on = _BUILDERS["on"](Literal("on", literal.arguments, literal.line, literal.column), setting)
    return Judged(lambda: not on.holds(), partial(Told, names_of(literal)))


def _print(literal: Literal, setting: Setting) -> Judged:
    return Judged(lambda: True, Told)


def _touch(literal: Literal, setting: Setting) -> Touch:
    one, other = (setting.contact_geoms(setting.body(literal, index)) for index in (0, 1))
    return Touch(setting, one, other)


def _in_contact(literal: Literal, setting: Setting) -> Judged:
    touch = _touch(literal, setting)
    return Judged(touch, lambda: touch_told(literal, touch))


def _fall(literal: Literal, setting: Setting) -> Judged:
    body = setting.body(literal)
    return Judged(lambda: has_fallen_as_coded(setting, body), partial(Told, (body.name,)))


def _force(literal: Literal, setting: Setting) -> Judged:
    touch, limit = _touch(literal, setting), setting.number(literal)
    wrench = np.zeros(6)

    def tangential() -> float:
        first = touch.indices()[:1]
        if not first.size:
            return 0.0
        mujoco.mj_contactForce(setting.model, setting.data, int(first[0]), wrench)
        return float(wrench[_SECOND_TANGENT])

    return Judged(lambda: limit < tangential(), lambda: touch_told(literal, touch), measured=tangential)


def distance_judged(literal: Literal, distance: Distance, setting: Setting) -> Judged:
    """Whether a distance is at most what a literal's number says."""
    limit = setting.number(literal)
    return Judged(lambda: distance.within(limit), partial(Told, names_of(literal)), measured=distance)


def _distance(literal: Literal, setting: Setting) -> Judged:
    one, other = (setting.contact_geoms(setting.body(literal, index)) for index in (0, 1))
    return distance_judged(literal, SaidDistance(setting, one, other), setting)


def _gripper_distance(literal: Literal, setting: Setting) -> Judged:
    geoms = setting.contact_geoms(setting.body(literal))
    return distance_judged(literal, SaidDistance(setting, geoms, setting.pads()), setting)


def _gripper_distance_part(literal: Literal, setting: Setting) -> Judged:
    geoms = setting.parts(literal, setting.body(literal))
    return distance_judged(literal, SaidDistance(setting, geoms, setting.pads()), setting)


def _gripper_contact(literal: Literal, setting: Setting) -> Judged:
    return _pads_touch(literal, setting, setting.contact_geoms(setting.body(literal)))


def _gripper_contact_part(literal: Literal, setting: Setting) -> Judged:
    return _pads_touch(literal, setting, setting.parts(literal, setting.body(literal)))


def _pads_touch(literal: Literal, setting: Setting, geoms: Ids) -> Judged:
    # Only a pad that MuJoCo has as the first of a contact's geoms is looked for.
    touches = tuple(Touch(setting, np.array([pad]), geoms, ordered=True) for pad in setting.pads())
    nameless = _Nameless(setting)

    def holds() -> bool:
        if nameless.met_before(touches[0]):
            raise Crash("TypeError: the first geom of a contact has no name")
        return any(touch() for touch in touches)

    return Judged(holds, lambda: gripper_told(str(literal.arguments[0]), setting, touches))


class _Nameless:
    """Contacts whose first geom has no name: upstream looks into the name."""

    def __init__(self, setting: Setting) -> None:
        model = setting.model
        self._mask = setting.mask(geom for geom in range(model.ngeom) if not model.geom(geom).name)
        # A contact with no geom at all, such as a flex's, has no name either.
        self._mask[-1] = True
        self._data = setting.data
        self._exist = bool(self._mask[:-1].any()) or model.nflex > 0

    def met_before(self, touch: Touch) -> bool:
        """Whether upstream comes to one before it finds the contact that it looks for."""
        if not self._exist:
            return False
        nameless = np.flatnonzero(self._mask[self._data.contact.geom[:, 0]])
        found = touch.indices()
        return bool(nameless.size and (not found.size or nameless[0] < found[0]))


_BUILDERS: Mapping[str, Callable[[Literal, Setting], Judged]] = {
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

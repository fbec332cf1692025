"""Verdicts on where things are and how joints stand, on a simulated state, as upstream gives them.

Facts from hf-libero 0.1.4 (``envs/object_states/base_object_states.py``, ``objects/site_object.py``) and robosuite
1.4.0 (``environments/base.py``, check_contact). Contacts and positions are read as they stand in mjData, that is, as
of the last mj_step1 or mj_forward, which is what upstream sees.
"""

from collections.abc import Callable
from contextlib import suppress

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import SceneError
from pytest_vla.scene.catalog import Articulation
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.scene import SceneBody, SceneSite, SceneSpec
from pytest_vla.scene.workspaces import workspace

Verdict = Callable[[], bool]
# Height (m) above a site within which an object counts as on it, and the tolerances below.
_ON_HEIGHT = 0.10
_ON_SINK = 0.005
_IN_SINK = 0.01
_UP_HEIGHT = 1.0

STATES = ("true", "false", "on", "in", "up", "open", "close", "turnon", "turnoff")
"""The predicates that are judged here."""


def compile_premises(
    problem: Problem, scene: SceneSpec, model: mujoco.MjModel, data: mujoco.MjData
) -> tuple[tuple[str, Verdict], ...]:
    """Compile the premises that ``:init`` states (see `pytest_vla.plan.premises`) as goal literals are compiled.

    Premises that a goal could not state, such as a part that is no region, are left out.
    """
    found = []
    for literal in (literal for literal in problem.init if _is_premise(literal, scene)):
        with suppress(SceneError):
            found.append((str(literal), compile_state(literal, problem, scene, model, data)))
    return tuple(found)


def located(problem: Problem, literal: Literal) -> str:
    """Return the file and line of a literal, as error messages begin."""
    return f"{problem.source}:{literal.line}:{literal.column}"


def _is_premise(literal: Literal, scene: SceneSpec) -> bool:
    """Whether a literal relates two things or states a joint.

    A thing in a region of table or floor is no premise.

    Nor is a poured thing: a ball of water has no geom that counts as contact, and so is on nothing.
    """
    if literal.predicate not in ("on", "in"):
        return True
    thing, place = (str(argument) for argument in literal.arguments)
    body, site = scene.body(thing), scene.site(place)
    is_of_thing = scene.body(place) is not None or (site is not None and site.parent is not None)
    return body is not None and not body.is_fixture and bool(body.contact_geoms) and is_of_thing


def compile_state(
    literal: Literal, problem: Problem, scene: SceneSpec, model: mujoco.MjModel, data: mujoco.MjData
) -> Verdict:
    """Return a function that gives the verdict of one of `STATES` on the present state of `data`.

    Raises:
        SceneError: it cannot be judged (located).
    """
    where = located(problem, literal)
    names = [str(argument) for argument in literal.arguments]
    if literal.predicate in ("true", "false"):
        value = literal.predicate == "true"
        return lambda: value
    if literal.predicate in ("on", "in"):
        body = _body(scene, names[0], where)
        support, site = scene.body(names[1]), scene.site(names[1])
        if literal.predicate == "on" and support is not None:
            near = workspace(problem.name, problem.source).judging.on_distance
            return _on_body(body, support, near, model, data)
        if site is None:
            raise SceneError(f"{where}: {literal}: {names[1]!r} is not a region of this scene that can hold things")
        return (
            _on_site(body, site, scene, model, data) if literal.predicate == "on" else _in_site(body, site, model, data)
        )
    if literal.predicate == "up":
        identifier = model.body(_body(scene, names[0], where).root_body).id
        return lambda: bool(data.xpos[identifier][2] >= _UP_HEIGHT)
    if literal.predicate in ("open", "close", "turnon", "turnoff"):
        return _articulated(literal, scene, model, data, where)
    raise SceneError(f"{where}: {literal}: expected one of {', '.join(STATES)}")


def _body(scene: SceneSpec, name: str, where: str) -> SceneBody:
    body = scene.body(name)
    if body is None:
        raise SceneError(f"{where}: {name!r} is no object or fixture of this scene")
    return body


def contact_between(
    model: mujoco.MjModel, data: mujoco.MjData, first: tuple[str, ...], second: tuple[str, ...]
) -> Verdict:
    """Return a verdict that holds if any contact joins geoms of two groups, in either order.

    Args:
        model, data: the world's.
        first, second: names of geoms.
    """
    masks = np.zeros((2, model.ngeom + 1), dtype=bool)
    for mask, names in zip(masks, (first, second), strict=True):
        mask[[model.geom(name).id for name in names]] = True
    one, other = masks

    def verdict() -> bool:
        # geom is -1 for flex contacts: the last column, which is in neither mask.
        pairs = data.contact.geom
        left, right = pairs[:, 0], pairs[:, 1]
        return bool(((one[left] & other[right]) | (one[right] & other[left])).any())

    return verdict


def _on_body(
    body: SceneBody, support: SceneBody, distance: float, model: mujoco.MjModel, data: mujoco.MjData
) -> Verdict:
    touches = contact_between(model, data, support.contact_geoms, body.contact_geoms)
    upper, lower = model.body(body.root_body).id, model.body(support.root_body).id

    def verdict() -> bool:
        above, below = data.xpos[upper], data.xpos[lower]
        near = np.linalg.norm(below[:2] - above[:2]) < distance
        return bool(below[2] <= above[2] and near and touches())

    return verdict


def _on_site(body: SceneBody, site: SceneSite, scene: SceneSpec, model: mujoco.MjModel, data: mujoco.MjData) -> Verdict:
    parent = scene.body(site.parent) if site.parent is not None else None
    touches = contact_between(model, data, parent.contact_geoms, body.contact_geoms) if parent is not None else None
    identifier, frame, size = model.body(body.root_body).id, model.site(site.name).id, _size(site)

    def verdict() -> bool:
        delta = data.site_xmat[frame].reshape(3, 3) @ (data.xpos[identifier] - data.site_xpos[frame])
        over = size[2] - _ON_SINK < delta[2] < size[2] + _ON_HEIGHT and np.all(np.abs(delta[:2]) < size[:2])
        return bool(over and (touches is None or touches()))

    return verdict


def _in_site(body: SceneBody, site: SceneSite, model: mujoco.MjModel, data: mujoco.MjData) -> Verdict:
    identifier, frame, size = model.body(body.root_body).id, model.site(site.name).id, _size(site)

    def verdict() -> bool:
        extent = np.abs(data.site_xmat[frame].reshape(3, 3) @ size)
        centre, position = data.site_xpos[frame], data.xpos[identifier]
        lowest = centre - extent
        lowest[2] -= _IN_SINK
        return bool(np.all(position > lowest) and np.all(position < centre + extent))

    return verdict


def _size(site: SceneSite) -> npt.NDArray[np.float64]:
    if len(site.size) != 3:
        raise SceneError(f"site {site.name!r} needs three half sizes to be a region, but has {site.size}")
    return np.array(site.size)


def _articulated(literal: Literal, scene: SceneSpec, model: mujoco.MjModel, data: mujoco.MjData, where: str) -> Verdict:
    name = str(literal.arguments[0])
    body, site = scene.body(name), scene.site(name)
    owner = body if body is not None else scene.body(site.parent) if site is not None and site.parent else None
    if owner is None:
        raise SceneError(f"{where}: {literal}: {name!r} is no fixture, object or part of one")
    joints = body.joints if body is not None else site.joints if site is not None else ()
    articulation = owner.kind.articulation or Articulation()
    test = {
        "open": articulation.is_open if articulation.open_range else None,
        "close": articulation.is_close if articulation.close_range else None,
        "turnon": articulation.is_turned_on if articulation.turn_on_range else None,
        "turnoff": articulation.is_turned_off if articulation.turn_off_range else None,
    }[literal.predicate]
    if test is None or not joints:
        raise SceneError(f"{where}: {literal}: a {owner.category} has no joint with such a state")
    addresses = [int(model.joint(joint).qposadr[0]) for joint in joints]
    combine = any if literal.predicate in ("open", "turnon") else all
    return lambda: combine(test(float(data.qpos[address])) for address in addresses)

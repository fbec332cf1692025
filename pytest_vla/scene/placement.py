"""Poses that a reset draws: fixtures, objects and joints, from upstream's own stream of random numbers.

``scene_seed=s`` reproduces what upstream draws for ``env.seed(s); env.reset()`` on a newly made environment
(robosuite 1.4.0 ``placement_samplers``, hf-libero 0.1.4 ``regions/*.py``), number for number: the robot's unused joint
noise, joint ranges of ``:init`` literals, then one sampler per placed body. Quaternions of objects are drawn as xyzw
and written as wxyz, as upstream does: an "upright" rotation about x becomes a yaw.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_vla.errors import SceneError
from pytest_vla.plan.choices import SEED, scene_draw
from pytest_vla.scene.panda import ARM_JOINTS
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.robosuite_import import quiet_robosuite
from pytest_vla.scene.scene import SceneBody, SceneSite, SceneSpec
from pytest_vla.scene.sections import Region
from pytest_vla.scene.workspaces import workspace

Array = npt.NDArray[np.float64]
Rectangle = tuple[float, float, float, float]
SitePositions = Callable[[Mapping[str, float]], Callable[[str], Array]]

_RESETS = 100
_TRIES = 5000
_OBJECT_CLEARANCE = 0.01


class _NoRoom(Exception):
    """All tries of one sampler overlapped: the whole reset is drawn again."""


@dataclass(frozen=True)
class JointDraw:
    """A uniform draw for all joints of an ``open``, ``close``, ``turnon`` or ``turnoff`` literal."""

    joints: tuple[str, ...]
    lowest: float
    highest: float


@dataclass(frozen=True)
class Placer:
    """The sampler of one body's place. Lengths in metres, angles in radians.

    Attributes:
        rectangles: (x0, y0, x1, y1) relative to the origin.
        rotations: (axis, lowest, highest).
        yaw_first: writes the quaternion as wxyz (fixtures).
        reference: the placed body that is the origin.
        on_top: places the body above the reference's top.
        site: additionally offset by this site of the reference.
    """

    body: SceneBody
    rotations: tuple[tuple[str, float, float], ...]
    single: bool
    rectangles: tuple[Rectangle, ...] = ((0.0, 0.0, 0.0, 0.0),)
    yaw_first: bool = False
    keep_inside: bool = False
    avoid_overlap: bool = True
    origin: tuple[float, ...] = (0.0, 0.0, 0.0)
    clearance: float = 0.0
    reference: str | None = None
    on_top: bool = False
    site: str | None = None


@dataclass(frozen=True)
class PlacementPlan:
    """All that a reset draws, in upstream's order."""

    joints: tuple[JointDraw, ...]
    placers: tuple[Placer, ...]


@dataclass(frozen=True)
class Placement:
    """Drawn poses: joint name to position; body name to (position (3,) m, quaternion wxyz (4,)) in the world frame."""

    joints: Mapping[str, float]
    fixtures: Mapping[str, tuple[Array, Array]]
    objects: Mapping[str, tuple[Array, Array]]


def plan_placement(problem: Problem, scene: SceneSpec) -> PlacementPlan:
    """Compile a problem's ``:init`` literals to samplers.

    Raises:
        SceneError: a literal that upstream cannot place (located).
    """
    joints, on_workspace, on_sites, on_objects, in_sites = [], [], [], [], []
    regions = {region.key: region for region in problem.regions}
    placed: set[str] = set()
    for literal in problem.init:
        where = f"{problem.source}:{literal.line}:{literal.column}"
        if literal.predicate in ("open", "close", "turnon", "turnoff"):
            joints.append(_joint_draw(literal, scene, where))
            continue
        if literal.predicate not in ("on", "in") or len(literal.arguments) != 2:
            continue
        name, target = (str(argument) for argument in literal.arguments)
        body = _required_body(scene, name, where)
        if name in placed:
            raise SceneError(f"{where}: {name!r} is placed twice; keep one of its literals")
        placed.add(name)
        support = scene.body(target)
        if literal.predicate == "on" and support is not None and not support.is_fixture:
            on_objects.append(_on_object(body, target, where))
        elif target not in regions:
            raise SceneError(f"{where}: {name!r} cannot be placed: {target!r} is neither an object nor a region")
        elif literal.predicate == "in":
            in_sites.append(_in_site(body, regions[target], scene, where))
        elif scene.body(regions[target].target) is not None:
            on_sites.append(_on_site(body, regions[target], scene, where))
        else:
            on_workspace.append(_on_workspace(body, regions[target], problem, where))
    placers = (*on_workspace, *on_sites, *in_sites, *on_objects)
    for number, placer in enumerate(placers):
        if placer.reference is not None and placer.reference not in {other.body.name for other in placers[:number]}:
            raise SceneError(
                f"{problem.source}: {placer.body.name!r} is placed relative to {placer.reference!r}, which has no "
                f"place before it: give {placer.reference!r} an (On ...) literal in :init"
            )
    return PlacementPlan(tuple(joints), placers)


def draw_placement(
    plan: PlacementPlan, scene_seed: int, site_positions: SitePositions, scenes: str = SEED
) -> Placement:
    """Draw the placement of one reset.

    Args:
        plan: from `plan_placement`.
        scene_seed: seed of the scene, 0 to 2**32 - 1.
        site_positions: given drawn joint positions, a function from site name to its world position (3,) with all
            fixtures at their compiled poses.
        scenes: the protocol's, see `pytest_vla.plan.choices.scene_draw`.

    Raises:
        SceneError: no placement was found in 100 resets.
        VlaError: `scenes` has no such scene.
    """
    order = scene_draw(scenes, scene_seed)
    generator = np.random.RandomState(order.seed)
    failed = found = 0
    # Upstream's list of joint samplers grows with every reset: one round at construction, one per reset.
    rounds = 1 + order.unseeded
    while failed < _RESETS:
        rounds += 1
        generator.randn(ARM_JOINTS)
        joints: dict[str, float] = {}
        for _ in range(rounds):
            for draw in plan.joints:
                position = generator.uniform(high=draw.highest, low=draw.lowest)
                joints.update(dict.fromkeys(draw.joints, position))
        position_of = site_positions(joints)
        placed: dict[str, tuple[Array, Array, SceneBody]] = {}
        try:
            for placer in plan.placers:
                placed[placer.body.name] = (*_place(placer, placed, position_of, generator), placer.body)
        except _NoRoom:
            failed += 1
            continue
        found += 1
        if found <= order.earlier:
            failed = 0
            continue
        poses = {name: (position, quaternion) for name, (position, quaternion, _) in placed.items()}
        fixtures = {name for name, (_, _, body) in placed.items() if body.is_fixture}
        return Placement(
            joints,
            {name: pose for name, pose in poses.items() if name in fixtures},
            {name: pose for name, pose in poses.items() if name not in fixtures},
        )
    raise SceneError(f"no placement without overlap in {_RESETS} resets of scene seed {scene_seed}: widen the regions")


def _place(
    placer: Placer,
    placed: Mapping[str, tuple[Array, Array, SceneBody]],
    position_of: Callable[[str], Array],
    generator: np.random.RandomState,
) -> tuple[Array, Array]:
    body = placer.body
    origin = np.array(placer.origin, dtype=float)
    site = np.zeros(3)
    if placer.reference is not None:
        position, quaternion, reference = placed[placer.reference]
        origin = np.array(position)
        if placer.on_top:
            origin += np.array((0, 0, reference.top))
        if placer.site is not None:
            site = _rotation(quaternion) @ position_of(placer.site)
    margin = body.radius if placer.keep_inside else 0.0
    for _ in range(_TRIES):
        x0, y0, x1, y1 = placer.rectangles[generator.randint(len(placer.rectangles))]
        x = generator.uniform(high=x1 - margin, low=x0 + margin) + origin[0] + site[0]
        y = generator.uniform(high=y1 - margin, low=y0 + margin) + origin[1] + site[1]
        z = placer.clearance + origin[2] + site[2] - body.bottom
        if placer.avoid_overlap and any(_overlap(body, (x, y, z), other) for other in placed.values()):
            continue
        return np.array((x, y, z)), _draw_quaternion(placer, generator)
    raise _NoRoom


def _overlap(body: SceneBody, position: tuple[float, float, float], placed: tuple[Array, Array, SceneBody]) -> bool:
    other_position, _, other = placed
    x, y, z = position
    near = np.linalg.norm((x - other_position[0], y - other_position[1])) <= other.radius + body.radius
    return bool(near and z - other_position[2] <= other.top - body.bottom)


def _draw_quaternion(placer: Placer, generator: np.random.RandomState) -> Array:
    if placer.single:
        axis, lowest, highest = placer.rotations[0]
        angle = generator.uniform(high=highest, low=lowest)
        quaternion = _axis_quaternion(axis, angle)
        return quaternion[[3, 0, 1, 2]] if placer.yaw_first else quaternion
    with quiet_robosuite():
        from robosuite.utils.transform_utils import quat_multiply

    quaternion = np.array([0.0, 0.0, 0.0, 1.0])
    for axis, lowest, highest in placer.rotations:
        angle = generator.uniform(high=highest, low=lowest)
        quaternion = quat_multiply(_axis_quaternion(axis, angle), quaternion)
    return np.asarray(quaternion, dtype=float)


def _axis_quaternion(axis: str, angle: float) -> Array:
    quaternion = np.zeros(4)
    quaternion["xyz".index(axis)] = np.sin(angle / 2)
    quaternion[3] = np.cos(angle / 2)
    return quaternion


def _rotation(quaternion_wxyz: Array) -> Array:
    # robosuite's own function: it rounds to float32, and the sampled poses follow from that.
    with quiet_robosuite():
        from robosuite.utils.transform_utils import convert_quat, quat2mat

    matrix: Any = quat2mat(convert_quat(quaternion_wxyz, to="xyzw"))
    return np.asarray(matrix)


def _required_body(scene: SceneSpec, name: str, where: str) -> SceneBody:
    body = scene.body(name)
    if body is None:
        raise SceneError(f"{where}: {name!r} is not declared in :objects or :fixtures")
    return body


def _joint_draw(literal: Literal, scene: SceneSpec, where: str) -> JointDraw:
    name = str(literal.arguments[0])
    body, site = scene.body(name), scene.site(name)
    parent = body if body is not None else scene.body(site.parent) if site is not None and site.parent else None
    articulation = parent.kind.articulation if parent is not None else None
    ranges = (
        articulation
        and {
            "open": articulation.open_range,
            "close": articulation.close_range,
            "turnon": articulation.turn_on_range,
            "turnoff": articulation.turn_off_range,
        }[literal.predicate]
    )
    if not ranges:
        raise SceneError(f"{where}: {literal} cannot be set: {name!r} has no joint with such a state")
    joints = body.joints if body is not None else site.joints if site is not None else ()
    return JointDraw(joints, *ranges)


def _on_object(body: SceneBody, target: str, where: str) -> Placer:
    return Placer(
        body,
        body.kind.rotations,
        body.kind.single,
        avoid_overlap=False,
        clearance=_OBJECT_CLEARANCE,
        reference=target,
        on_top=True,
    )


def _site_of(region: Region, scene: SceneSpec, where: str) -> SceneSite:
    site = scene.site(region.key)
    if site is None:
        raise SceneError(f"{where}: {region.target!r} has no site {region.key!r}, so nothing can be placed there")
    return site


def _on_site(body: SceneBody, region: Region, scene: SceneSpec, where: str) -> Placer:
    if body.is_fixture:
        raise SceneError(f"{where}: fixture {body.name!r} can only be placed on the workspace")
    site, kind = _site_of(region, scene, where), body.kind
    x, y = site.size[0] / 2, site.size[1] / 2
    return Placer(
        body,
        kind.rotations,
        kind.single,
        rectangles=((-x, -y, x, y),),
        keep_inside=True,
        reference=region.target,
        on_top=True,
        site=site.name,
    )


def _in_site(body: SceneBody, region: Region, scene: SceneSpec, where: str) -> Placer:
    site, kind = _site_of(region, scene, where), body.kind
    return Placer(body, kind.rotations, kind.single, reference=region.target, site=site.name)


def _on_workspace(body: SceneBody, region: Region, problem: Problem, where: str) -> Placer:
    place = workspace(problem.name, problem.source)
    if region.target != place.name or not region.ranges:
        raise SceneError(
            f"{where}: {body.name!r} needs a region on {place.name} with :ranges, but {region.key!r} has "
            f"{'none' if region.target == place.name else f'the target {region.target!r}'}"
        )
    if body.is_fixture:
        lowest, highest = sorted(region.yaw_rotation)
        return Placer(
            body,
            (("z", lowest, highest),),
            single=True,
            rectangles=region.ranges,
            yaw_first=True,
            avoid_overlap=False,
            origin=place.offset,
            clearance=place.fixture_height,
        )
    return Placer(
        body,
        body.kind.rotations,
        body.kind.single,
        rectangles=region.ranges,
        keep_inside=place.keep_inside,
        origin=place.offset,
        clearance=_OBJECT_CLEARANCE,
    )

"""The expert's action for any state of a world, for policies that learn from it.

No phase is remembered, but an aim is: the grasp and the target place. It is planned when the next goal literal begins,
by trying grasps in turn on a copy of the world. It is kept until it is stale: another literal is next, or things have
moved or fallen over since.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import VlaError
from pytest_vla.expert.articulated import ArticulatedPart, handle_grasps, handle_of
from pytest_vla.expert.attempts import (
    GRASP_CELL,
    PALM_CELL,
    Stage,
    close_up,
    drops_of,
    joint_goals,
    push_poses,
    terrain_of,
    thing_of,
)
from pytest_vla.expert.carrying import CarriedObject, Drop
from pytest_vla.expert.grasps import Grasp, grasps_at, grasps_from_above
from pytest_vla.expert.hand import (
    CLOSED,
    FINGER_HALF_WIDTH,
    FINGER_OUTSIDE,
    OPEN,
    PALM_DISTANCE,
    PALM_HALF_LENGTH,
    PALM_HALF_WIDTH,
    TIP_LENGTH,
    Hand,
    action_towards,
    angle_between,
    facing,
)
from pytest_vla.expert.heights import Heights, corners
from pytest_vla.expert.rehearsal import next_literal
from pytest_vla.scene.panda import ARM_JOINTS, FINGERS
from pytest_vla.scene.problem import Literal
from pytest_vla.sim.arm import grip_site
from pytest_vla.sim.contacts import Mask, Things, things_of
from pytest_vla.sim.world import World
from pytest_vla.sim.world_state import WorldCopy

# Skills without hidden phases: the next action follows from the state alone, wherever the hand is.
#
# Each skill knows its aim, which is fixed while one goal literal is worked on, and gives one action for a state. They
# label what a learner did wrong (`pytest_vla.expert.answers`): also with something in the hand, half closed, or
# knocked out of the way.

Array = npt.NDArray[np.float64]

_DOWN = np.array([0.0, 0.0, -1.0])
# The funnel in front of a grasp: how long it is, how wide at its mouth, how fast it narrows (m of way a m of width) and
# how wide it is at its bottom.
_FUNNEL, _MOUTH, _NARROWS, _BOTTOM = 0.07, 0.03, 3.0, 0.012
# Tolerances of a grasp's pose (m, m, rad): before the fingers close, and while they close, as the thing moves then.
_NEAR, _CLOSING_NEAR, _TURNED = 0.007, 0.014, 0.08
# A hand slower than this (m/s) has stopped: something blocks it.
_STILL = 0.008
_OPENED, _EMPTY = 0.066, 0.004
# Where the fingers are driven to, m apart, by when they press hard; how fast they may still be, m/s.
_PRESSED, _RESTING, _RESTING_ON_PART = 0.004, 0.002, 0.02
# How exactly a load is above its place before it goes down and is let go, m.
_PLACED, _ABOVE_PLACE = 0.010, 0.025
_SPARE = 0.02
# A thing this far (m) above its surroundings hangs in the hand.
_LIFTED = 0.006
# A hand without a commanded motion drifts, so it is always steered a little.
_STEERED = 0.02
# Heights (m) within which the hand need not have risen all the way before it moves sideways.
_SLACK = 0.02
# The speed, as a share of the fastest, near a grasp: the arm leaves its way if it rises or falls fast.
_CAREFUL = 0.4
# How far ahead (m) a dragged thing is aimed, and its speed as a share of the fastest.
_DRAG, _DRAGGING = 0.05, 0.6
_LEAD_SLIDE, _LEAD_TURN, _PUSH, _LED = 0.05, 0.35, 0.04, 0.004


@dataclass(frozen=True)
class FingerTouch:
    """The fingers' contacts and motion.

    Attributes:
        hand: the hand with these fingers.
        fingers: (ngeom+1,) masks of the geoms of each finger, left and right.
    """

    hand: Hand
    fingers: tuple[Mask, Mask]

    @property
    def opening(self) -> float:
        """The distance between the fingers, m; 0.08 if they are open."""
        first = self.hand.data.qpos[ARM_JOINTS : ARM_JOINTS + FINGERS]
        return float(first[0] - first[1])

    def firm(self, speed: float) -> bool:
        """Whether the fingers press as hard as they can.

        Their drive is at its end, and they are slower than `speed` (m/s).
        """
        wanted = self.hand.data.ctrl[ARM_JOINTS : ARM_JOINTS + FINGERS]
        return bool(wanted[0] - wanted[1] < _PRESSED and np.abs(self.hand.fingers).max() < speed)

    @property
    def stands(self) -> bool:
        """Whether the hand stands still."""
        velocity = np.zeros(6)
        site = grip_site(self.hand.model)
        mujoco.mj_objectVelocity(self.hand.model, self.hand.data, mujoco.mjtObj.mjOBJ_SITE, site, velocity, 0)
        return bool(np.linalg.norm(velocity[3:]) < _STILL)

    @property
    def any_finger(self) -> Mask:
        """The mask (ngeom+1,) of the geoms of both fingers."""
        return np.asarray(self.fingers[0] | self.fingers[1])

    def grips(self, geoms: Mask) -> bool:
        """Whether both fingers touch one of these geoms (ngeom+1,)."""
        pairs = self.hand.data.contact.geom
        touched = [
            (finger[pairs[:, 0]] & geoms[pairs[:, 1]]) | (finger[pairs[:, 1]] & geoms[pairs[:, 0]])
            for finger in self.fingers
        ]
        return bool(touched[0].any() and touched[1].any())

    def meets(self, one: Mask, other: Mask) -> bool:
        """Whether a geom of one set touches one of another."""
        pairs = self.hand.data.contact.geom
        return bool(((one[pairs[:, 0]] & other[pairs[:, 1]]) | (one[pairs[:, 1]] & other[pairs[:, 0]])).any())


def mask_of(model: mujoco.MjModel, geoms: tuple[int, ...]) -> Mask:
    """Return the mask (ngeom+1,) of these geoms."""
    mask = np.zeros(model.ngeom + 1, dtype=bool)
    mask[list(geoms)] = True
    return mask


@dataclass(frozen=True)
class Pose:
    """A pose of the grip site: (3,) m and (3, 3)."""

    position: Array
    rotation: Array


def reach(touch: FingerTouch, grasp: Pose, terrain: Heights, approach: Array | None = None) -> Array:
    """Return one action towards closing the fingers at a grasp: over obstacles, through a funnel, then shut.

    The funnel leads along `approach` (3,), or, if that is None, along the direction in which the hand points at the
    grasp.
    """
    hand = touch.hand
    rest = hand.position - grasp.position
    approach = grasp.rotation[:, 2] if approach is None else approach
    along = float(rest @ approach)
    off = float(np.linalg.norm(rest - along * approach))
    turn = angle_between(grasp.rotation, hand.rotation)
    opening = touch.opening
    # While they close, the thing moves a little: that does not restart the grasp.
    loose = opening < _OPENED or touch.stands
    near = _CLOSING_NEAR if loose else _NEAR
    if opening > _EMPTY and off < near and abs(along) < near and turn < (2 if loose else 1) * _TURNED:
        return action_towards(hand, grasp.position, grasp.rotation, CLOSED)
    least = _FUNNEL if opening <= _EMPTY else 0.03 if opening < _OPENED else 0.0
    return enter(hand, grasp, approach, OPEN, terrain, least)


def enter(hand: Hand, goal: Pose, approach: Array, gripper: float, terrain: Heights, least: float = 0.0) -> Array:
    """Return one action into a funnel that ends at a pose, along `approach`.

    The hand comes no nearer to the funnel's end than `least` m.
    """
    rest = hand.position - goal.position
    along = float(rest @ approach)
    side = rest - along * approach
    off = float(np.linalg.norm(side))
    turn = angle_between(goal.rotation, hand.rotation)
    if off < _MOUTH and along > -(_FUNNEL + 0.04) and turn < 0.7:
        back = float(np.clip(max(_NARROWS * (off - _BOTTOM), 0.15 * (turn - 0.05), least), 0.0, _FUNNEL))
        return action_towards(hand, goal.position - back * approach, goal.rotation, gripper, _CAREFUL)
    before = goal.position - _FUNNEL * approach
    return over(hand, Pose(before, goal.rotation), gripper, terrain, TIP_LENGTH, 0.05)


def over(
    hand: Hand, goal: Pose, gripper: float, terrain: Heights, hang: float, radius: float, speed: float = 1.0
) -> Array:
    """Return one action to a pose over all obstacles: up, across, down; corners are cut if there is room."""
    position = hand.position
    way = goal.position[:2] - position[:2]
    far = float(np.linalg.norm(way))
    target = goal.position.copy()
    if far > 0.02:
        palm = terrain.highest_along(position[:2], goal.position[:2], PALM_HALF_LENGTH) - PALM_DISTANCE
        low = terrain.highest_along(position[:2], goal.position[:2], radius) + hang
        level = max(float(goal.position[2]), max(palm, low) + _SPARE)
        # Near its end the way goes down already.
        free = float(np.clip((position[2] - level + _SLACK) / _SLACK, _STEERED, 1.0))
        target[:2] = position[:2] + free * way
        target[2] = level
    return action_towards(hand, target, goal.rotation, gripper, speed)


@dataclass(frozen=True)
class Carry:
    """The aim of picking a thing up and setting it down.

    Attributes:
        thing: the thing to carry.
        geoms: its geoms (ngeom+1,).
        round: whether only the thing's place counts for the grasp, not its turn.
        grasp: in the thing's frame; if it is round, from its place along the world's axes.
        from_above: whether the hand goes straight down to the grasp, even if it is tilted.
        support: the body or site beneath the place: its kind's array of positions, and its index.
        place: (2,) goal of the thing's root, from the support, m, world axes.
        height: z of the surface that it is set on, above the support, m.
        gap: between the two when the fingers open, m.
        tall: the thing's height as it stood, from its lowest to its highest point, m.
        terrain: heights of the surroundings, without robot and thing.
        under: all geoms but the robot's and the thing's (ngeom+1,).
        drags: whether it stays on its support, which is as high as its place.
    """

    thing: CarriedObject
    geoms: Mask
    round: bool
    grasp: Pose
    from_above: bool
    support: tuple[str, int]
    place: Array
    height: float
    gap: float
    tall: float
    terrain: Heights
    under: Mask
    drags: bool = False

    def __call__(self, touch: FingerTouch) -> Array:
        """Return the action (7,) for a state."""
        hand = touch.hand
        data = hand.data
        below = getattr(data, self.support[0])[self.support[1]]
        place = np.append(below[:2] + self.place, below[2] + self.height)
        box = corners(hand.model, data, self.thing.geoms)
        low = float(box[:, 2].min())
        thing = self.thing.position(data)
        away = float(np.linalg.norm(thing[:2] - place[:2]))
        # A thing held at its rim tilts as it comes up: its rim rises, its lowest point does not.
        risen = float(box[:, 2].max()) - self.tall - self.terrain.highest_near(thing[:2], 0.02)
        # In the air a finger may lose touch for a moment.
        gripped = touch.grips(self.geoms) or (risen > 2 * _LIFTED and touch.meets(self.geoms, touch.any_finger))
        if not gripped and away < 2 * _PLACED and low < place[2] + 0.02:
            return action_towards(hand, hand.position + np.array([0.0, 0.0, 0.1]), hand.rotation, OPEN)
        if not gripped:
            return reach(touch, self._grasp(data), self.terrain, _DOWN if self.from_above else None)
        upright = facing(_DOWN, hand.rotation[:, 0])
        if self.drags:
            return self._dragged(touch, place[:2] - thing[:2])
        if risen < _LIFTED and not touch.firm(_RESTING):
            grasp = self._grasp(data)
            return (
                action_towards(hand, grasp.position, upright, CLOSED)
                if off_of(hand, grasp) < _FUNNEL
                else (action_towards(hand, hand.position, upright, CLOSED))
            )
        hang = float(hand.position[2]) - low
        above = place[:2] - (thing - hand.position)[:2]
        palm = _under_palm(self.terrain, above, upright) - PALM_DISTANCE + 0.004
        target = np.append(above, max(place[2] + self.gap + hang, palm))
        off = float(np.linalg.norm(target[:2] - hand.position[:2]))
        rest = float(hand.position[2] - target[2])
        if off < _PLACED and (rest < 0.006 or (rest < 0.03 and touch.meets(self.geoms, self.under))):
            return action_towards(hand, np.append(target[:2], hand.position[2]), upright, OPEN)
        if off < _ABOVE_PLACE:
            back = float(np.clip(_NARROWS * (off - 0.6 * _PLACED), 0.0, 0.05))
            target[2] += back
            return action_towards(hand, target, upright, CLOSED, speed=0.6)
        target[2] += 0.04
        speed = _CAREFUL + (1.0 - _CAREFUL) * float(np.clip((risen - 0.05) / 0.05, 0.0, 1.0))
        return over(hand, Pose(target, upright), CLOSED, self.terrain, hang, self.thing.radius, speed)

    def _dragged(self, touch: FingerTouch, rest: Array) -> Array:
        """Return the action that drags a gripped thing on by `rest` (2,), m."""
        hand, grasp = touch.hand, self._grasp(touch.hand.data)
        if not touch.firm(_RESTING_ON_PART):
            return action_towards(hand, grasp.position, grasp.rotation, CLOSED)
        far = float(np.linalg.norm(rest))
        if far < _PLACED:
            return action_towards(hand, hand.position, grasp.rotation, OPEN)
        step = np.append(rest * min(1.0, _DRAG / far), 0.0)
        return action_towards(hand, grasp.position + step, grasp.rotation, CLOSED, _DRAGGING)

    def _grasp(self, data: mujoco.MjData) -> Pose:
        root, frame = data.xpos[self.thing.body], data.xmat[self.thing.body].reshape(3, 3)
        if self.round:
            return Pose(root + self.grasp.position, self.grasp.rotation)
        return Pose(root + frame @ self.grasp.position, frame @ self.grasp.rotation)


@dataclass(frozen=True)
class Lead:
    """The aim of gripping a part on a joint and leading it until the joint is at its goal.

    Attributes:
        part: the part to lead.
        geoms: its geoms (ngeom+1,).
        grasp: in the part's frame.
        goal: of the joint, m or rad.
        terrain: heights of the surroundings.
    """

    part: ArticulatedPart
    geoms: Mask
    grasp: Pose
    goal: float
    terrain: Heights

    def goes_on(self, touch: FingerTouch) -> bool:
        """Whether the part is in the hand and not yet as far as it shall go: its goal may hold before that."""
        rest = abs(self.goal - self.part.value(touch.hand.model, touch.hand.data))
        return touch.grips(self.geoms) and rest > (_LED if self.part.slides else 10 * _LED)

    def __call__(self, touch: FingerTouch) -> Array:
        """Return the action (7,) for a state."""
        hand = touch.hand
        data = hand.data
        grasp = in_world(data, self.part.body, self.grasp)
        rest = self.goal - self.part.value(hand.model, data)
        if not touch.grips(self.geoms):
            return reach(touch, grasp, self.terrain)
        if not touch.firm(_RESTING_ON_PART):
            return action_towards(hand, grasp.position, grasp.rotation, CLOSED)
        most = _LEAD_SLIDE if self.part.slides else _LEAD_TURN
        ahead = float(np.sign(rest)) * min(most, abs(rest) + most / 3)
        target = self.part.moved(data, grasp.position, ahead)
        return action_towards(hand, target, self.part.turn(data, ahead) @ grasp.rotation, CLOSED)


@dataclass(frozen=True)
class Push:
    """The aim of pushing a part on a joint with closed fingers until the joint is at its goal.

    Attributes:
        part: the part to push.
        point: (3,) in the part's frame, where the fingers' ends press, m.
        tool: the hand's rotation (3, 3) in the part's frame.
        goal: of the joint, m or rad.
        terrain: heights of the surroundings.
    """

    part: ArticulatedPart
    point: Array
    tool: Array
    goal: float
    terrain: Heights

    def __call__(self, touch: FingerTouch) -> Array:
        """Return the action (7,) for a state."""
        hand = touch.hand
        data = hand.data
        at = in_world(data, self.part.body, Pose(self.point, self.tool))
        sign = float(np.sign(self.goal - self.part.value(hand.model, data)))
        way = self.part.direction(data, at.position, sign)
        if way is None:
            return action_towards(hand, hand.position, hand.rotation, CLOSED)
        press = at.position - way * FINGER_HALF_WIDTH - at.rotation[:, 2] * (TIP_LENGTH - 0.012)
        lever = (
            1.0
            if self.part.slides
            else max(float(np.linalg.norm(at.position - data.xanchor[self.part.joint])), FINGER_HALF_WIDTH)
        )
        ahead = sign * _PUSH / lever
        rest = hand.position - press
        off = rest - (rest @ way) * way
        if np.linalg.norm(off) < 0.02 and rest @ way > -0.06 and angle_between(at.rotation, hand.rotation) < 0.3:
            target = self.part.moved(data, press, ahead)
            return action_towards(hand, target, self.part.turn(data, ahead) @ at.rotation, CLOSED)
        before = Pose(press - 0.02 * way, at.rotation)
        return enter(hand, before, way, CLOSED, self.terrain)


def _under_palm(terrain: Heights, place: Array, rotation: Array) -> float:
    """Return the highest z (m) under the palm of a hand that points down above a place (2,)."""
    long, wide = np.linspace(-PALM_HALF_LENGTH, PALM_HALF_LENGTH, 9), np.linspace(-PALM_HALF_WIDTH, PALM_HALF_WIDTH, 3)
    grid = long[:, None, None] * rotation[:2, 0] + wide[None, :, None] * rotation[:2, 1]
    return float(terrain.at(place + grid.reshape(-1, 2)).max())


def off_of(hand: Hand, pose: Pose) -> float:
    """Compute the hand's distance from a pose, m."""
    return float(np.linalg.norm(hand.position - pose.position))


def in_world(data: mujoco.MjData, body: int, pose: Pose) -> Pose:
    """Convert a pose from a body's frame to the world's."""
    frame = data.xmat[body].reshape(3, 3)
    return Pose(data.xpos[body] + frame @ pose.position, frame @ pose.rotation)


def in_frame(data: mujoco.MjData, body: int, pose: Pose) -> Pose:
    """Convert a pose from the world's frame to a body's."""
    frame = data.xmat[body].reshape(3, 3)
    return Pose(frame.T @ (pose.position - data.xpos[body]), frame.T @ pose.rotation)


Aim = Carry | Lead | Push

# Of grasps of a round thing that are about as good, the one on this side (world frame) is taken: a learner cannot guess
# which of them a tie would have given.
_SIDE, _SIDE_COST = np.array([0.7, 0.7]), 0.03
# Grasps that are tried; for how many steps; how far (m, rad) a drawer shall go, a knob turn.
_TRIED, _PATIENCE, _SLIDE, _TURN = 6, 160, 0.03, 0.1
# What is carried is so much (m) higher than it stood; so far (m) it has come when it is held well; what went so far and
# is let go there has slipped.
_CLEAR, _CARRIED, _SLIPPED = 0.02, 0.09, 0.04
# Every so many steps a hand that has moved less than this (m) since, and grips nothing, is stuck.
_GLANCE, _STUCK = 15, 0.004
# A thing whose height differs from its place's by no more than this (m) is dragged there.
_LEVEL = 0.01
# Footprints whose length is at least this multiple of their width are gripped across.
_LONG = 1.15
# What moved further (m) since an aim was planned (what it is about itself: further than `_OWN`), or tipped more (of its
# axes' components), and is slower than this (rad/s, m/s), makes the aim stale.
_MOVED, _OWN, _FELL, _RESTS = 0.015, 0.04, 0.2, 0.05


class Answers:
    """The expert's answers on a world, from any state; belongs to one world and one task.

    Call it for the action (7,) of the present state. The world is not changed.
    """

    def __init__(self, world: World) -> None:
        """Set up the answers for a world that has been reset."""
        self._world = world
        self._hand = Hand(world.model, world.data)
        self._things: Things = things_of(world.scene, world.model)
        self._touch = FingerTouch(self._hand, self._things.fingers)
        self._rest = self._hand.rotation
        self._literal: Literal | None = None
        self._aim: Aim | None = None
        self._bodies = [
            int(world.model.body(body.root_body).id)
            for place in self._things.loose
            if (body := world.scene.body(self._things.names[place])) is not None
        ]
        self._stood = self._poses()

    def __call__(self) -> Array:
        """Return the action (7,) for the present state. Raises VlaError if no skill fits the next goal literal."""
        world = self._world
        if isinstance(self._aim, Lead) and self._aim.goes_on(self._touch):
            return self._aim(self._touch)
        literal = next_literal(world.problem, world.scene, world.model, world.data)
        if literal is None:
            return action_towards(self._hand, self._hand.position, self._hand.rotation, OPEN)
        if literal != self._literal or self._aim is None or self._upset():
            self._stood = self._poses()
            self._literal, self._aim = literal, self._planned(literal)
        if self._in_the_way():
            return action_towards(self._hand, self._hand.position + np.array([0, 0, 0.01]), self._hand.rotation, OPEN)
        return self._aim(self._touch)

    def ahead(self, steps: int) -> tuple[Array, bool]:
        """Return the expert's next undisturbed actions, tried on a copy of the world; the world is unchanged.

        Returns:
            Actions (n, 7), at most so many steps, fewer if another goal literal begins; and whether the goal is
            reached by the last of them. Raises VlaError as a call does.
        """
        actions = [self()]
        world, copy = self._world, WorldCopy(self._world)
        touch = FingerTouch(Hand(world.model, copy.data), self._things.fingers)
        aim, in_the_way = self._aim, self._in_the_way()
        while copy.step(actions[-1]):
            literal = next_literal(world.problem, world.scene, world.model, copy.data)
            if literal is None:
                return np.array(actions), True
            goes_on = isinstance(aim, Lead) and aim.goes_on(touch)
            if len(actions) == steps or in_the_way or aim is None or (literal != self._literal and not goes_on):
                break
            actions.append(aim(touch))
        return np.array(actions), False

    def _poses(self) -> Array:
        """Return the positions of the loose things, and which of their directions is up (n, 6)."""
        data = self._world.data
        return np.hstack([data.xpos[self._bodies], data.xmat[self._bodies][:, 6:]])

    def _upset(self) -> bool:
        """Whether the scene has changed since the aim was chosen.

        Another thing has moved and rests, or the aim's thing has fallen over. While something is in the hand, the aim
        is kept.
        """
        aim, poses, data = self._aim, self._poses(), self._world.data
        if aim is None or (not isinstance(aim, Push) and self._touch.grips(aim.geoms)):
            return False
        own = aim.thing.body if isinstance(aim, Carry) else -1
        for row, body in enumerate(self._bodies):
            if np.abs(data.cvel[body]).max() > _RESTS:
                continue
            fell = float(np.abs(poses[row, 3:] - self._stood[row, 3:]).max()) > _FELL
            if fell or float(np.linalg.norm(poses[row, :3] - self._stood[row, :3])) > (_OWN if body == own else _MOVED):
                return True
        return False

    def _in_the_way(self) -> bool:
        """Whether the hand holds a thing that the aim does not concern."""
        aim = self._aim
        if aim is not None and not isinstance(aim, Push) and self._touch.grips(aim.geoms):
            return False
        wanted = aim.thing.body if isinstance(aim, Carry) else -1
        for place in self._things.loose:
            name = self._things.names[place]
            body = self._world.scene.body(name)
            if body is None or int(self._world.model.body(body.root_body).id) == wanted:
                continue
            if self._touch.grips(self._things.geoms(place)):
                return True
        return False

    def _planned(self, literal: Literal) -> Aim:
        world = self._world
        stage = Stage(world.model, world.data, world.scene)
        names = [str(argument) for argument in literal.arguments]
        aim: Aim | None = None
        if literal.predicate in ("on", "in"):
            aim = self._carry(stage, literal, names)
        elif literal.predicate in ("open", "close", "turnon", "turnoff"):
            aim = self._lead(stage, literal)
        if aim is None:
            raise VlaError(f"{world.task.name}: the expert has no skill for {literal} in this state")
        return aim

    def _carry(self, stage: Stage, literal: Literal, names: Sequence[str]) -> Aim | None:
        body = stage.scene.body(names[0])
        if body is None or body.is_fixture:
            return None
        thing = thing_of(stage, body)
        drops = drops_of(stage, literal.predicate, thing, names[1], leave_room=False)
        grasps, is_round = self._grasps(stage, thing)
        if not grasps or not drops:
            return None
        found = [
            self._carrying(stage, thing, names[1], drops[0], grasp, is_round, from_above)
            for from_above in ((False,) if is_round else (False, True))
            for grasp in grasps
        ]
        floor = float(corners(stage.model, stage.data, thing.geoms)[:, 2].min())
        if stage.scene.body(names[1]) is None and abs(floor - drops[0].support) < _LEVEL:
            found = [replace(aim, drags=True) for aim in found if not aim.from_above] + found
        return self._best(found, literal)

    def _carrying(
        self,
        stage: Stage,
        thing: CarriedObject,
        target: str,
        drop: Drop,
        grasp: Grasp,
        is_round: bool,
        from_above: bool,
    ) -> Carry:
        model, data = stage.model, stage.data
        support = stage.scene.body(target)
        beneath = (
            ("xpos", int(model.body(support.root_body).id))
            if support is not None
            else ("site_xpos", int(model.site(target).id))
        )
        below = getattr(data, beneath[0])[beneath[1]]
        pose = Pose(np.asarray(grasp.position), grasp.rotation)
        in_thing = in_frame(data, thing.body, pose)
        if is_round:
            in_thing = Pose(pose.position - data.xpos[thing.body], pose.rotation)
        others = self._things.robot.copy()
        others[list(thing.geoms)] = True
        return Carry(
            thing,
            mask_of(model, thing.geoms),
            is_round,
            in_thing,
            from_above,
            beneath,
            drop.place - below[:2],
            drop.support - float(below[2]),
            drop.gap,
            float(np.ptp(corners(model, data, thing.geoms)[:, 2])),
            terrain_of(stage, thing.geoms, PALM_CELL),
            ~others,
        )

    def _best(self, aims: Sequence[Aim], literal: Literal) -> Aim:
        """Return the first of these aims that works on a copy of the world.

        If none does, the one that gets farthest.
        """
        best, farthest = aims[0], 0.0
        for aim in aims:
            way = self._tried(aim, literal)
            if way is None:
                return aim
            if way > farthest:
                best, farthest = aim, way
        return best

    def _tried(self, aim: Aim, literal: Literal) -> float | None:
        """Try an aim on a copy of the world; return how far (m, rad) it moves things, or None if far enough."""
        if isinstance(aim, Push):
            return None
        model, copy = self._world.model, WorldCopy(self._world)
        touch = FingerTouch(Hand(model, copy.data), self._things.fingers)

        def value() -> Array:
            if isinstance(aim, Carry):
                return np.array(copy.data.xpos[aim.thing.body])
            return np.array([aim.part.value(model, copy.data)])

        began, stood, way = value(), touch.hand.position, 0.0
        for step in range(_PATIENCE):
            gripped = touch.grips(aim.geoms)
            if not copy.step(aim(touch)):
                return way
            if step % _GLANCE == _GLANCE - 1:
                if off_of(touch.hand, Pose(stood, self._rest)) < _STUCK and not touch.grips(aim.geoms):
                    return way
                stood = touch.hand.position
            moved = value() - began
            if isinstance(aim, Carry):
                if next_literal(self._world.problem, self._world.scene, model, copy.data) != literal:
                    return None
                if touch.grips(aim.geoms) and (aim.drags or moved[2] > _CLEAR):
                    way = max(way, float(np.linalg.norm(moved)))
                    if way > _CARRIED:
                        return None
                elif way > _SLIPPED and gripped and moved[2] > _CLEAR:
                    return way  # it slips out in the air
            elif touch.grips(aim.geoms):
                way = max(way, float(np.abs(moved[0])))
                if way > (_SLIDE if aim.part.slides else _TURN):
                    return None
        return way

    def _grasps(self, stage: Stage, thing: CarriedObject) -> tuple[list[Grasp], bool]:
        """Return the grasps of a thing, the best first, and whether it is round, so that its turn does not count."""
        geoms, middle = thing.geoms, thing.position(stage.data)[:2]
        near = close_up(stage, middle, thing.radius + FINGER_OUTSIDE + 0.01, GRASP_CELL)
        around = close_up(stage, middle, thing.radius + PALM_HALF_LENGTH + 0.02, PALM_CELL)
        centre = np.array(stage.data.subtree_com[thing.body][:2])
        across = _across(near.origin + np.argwhere(np.isin(near.geom, geoms)) * near.cell)
        grasps = grasps_from_above(near, around, geoms, centre, self._rest)
        if across is not None:
            angle = float(np.arctan2(across[1], across[0]))
            return (grasps_at(near, around, geoms, centre, self._rest, [angle])[:3] + grasps)[:_TRIED], False

        def cost(grasp: Grasp) -> float:
            way = grasp.position[:2] - centre
            return grasp.cost - _SIDE_COST * float(way @ _SIDE) / max(float(np.linalg.norm(way)), 0.01)

        return sorted(grasps[:20], key=cost)[:_TRIED], True

    def _lead(self, stage: Stage, literal: Literal) -> Aim | None:
        for part, goal in joint_goals(stage, literal):
            model, data = stage.model, stage.data
            terrain = terrain_of(stage, cell=PALM_CELL)
            geoms = mask_of(model, part.geoms)
            middle = corners(model, data, part.geoms).mean(0)
            sign = float(np.sign(goal - part.value(model, data)))
            if part.slides and literal.predicate == "open":
                way = part.direction(data, middle, sign)
                if way is None:
                    continue
                grasps = handle_grasps(handle_of(model, data, part, way), self._rest)
                return self._leading(part, geoms, grasps, goal, terrain, literal)
            if not part.slides:
                reach = float(np.linalg.norm((corners(model, data, part.geoms) - middle)[:, :2], axis=1).max())
                near = close_up(stage, middle[:2], reach + FINGER_OUTSIDE + 0.01, GRASP_CELL)
                around = close_up(stage, middle[:2], reach + PALM_HALF_LENGTH + 0.02, PALM_CELL)
                anchor = np.array(data.xanchor[part.joint][:2])
                grasps = grasps_from_above(near, around, part.geoms, anchor, self._rest)
                if grasps:
                    return self._leading(part, geoms, grasps, goal, terrain, literal)
            pushes = list(push_poses(stage, part, goal, self._rest))
            if pushes:
                point, tool = pushes[min(1, len(pushes) - 1)]
                pose = in_frame(data, part.body, Pose(point, tool))
                return Push(part, pose.position, pose.rotation, goal, terrain)
        return None

    def _leading(
        self,
        part: ArticulatedPart,
        geoms: Mask,
        grasps: Sequence[Grasp],
        goal: float,
        terrain: Heights,
        literal: Literal,
    ) -> Aim:
        """Return the first of these grasps of a part that moves it; if none does, the one that moves it farthest."""
        poses = [in_frame(self._world.data, part.body, Pose(grasp.position, grasp.rotation)) for grasp in grasps]
        return self._best([Lead(part, geoms, pose, goal, terrain) for pose in poses[:_TRIED]], literal)


def _across(points: Array) -> Array | None:
    """Return the shorter direction (2,) of a footprint of points (n, 2), or None if it is about as long as wide."""
    if len(points) < 3:
        return None
    values, vectors = np.linalg.eigh(np.cov((points - points.mean(0)).T))
    return np.asarray(vectors[:, 0]) if values[1] > _LONG**2 * values[0] else None

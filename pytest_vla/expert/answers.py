"""What the expert would do now: an action for any state of a world, for those who learn from it.

No phase is remembered, but an aim is: which grasp, and where to. It is planned when the next goal literal begins, its
grasps tried in turn on a copy of the world, and kept until it is stale: until another literal is next, or things moved
or fell over since.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pytest_vla.errors import VlaError
from pytest_vla.expert.articulated import Part, handle_grasps, handle_of
from pytest_vla.expert.attempts import drops_of, thing_of
from pytest_vla.expert.carrying import Drop, Thing
from pytest_vla.expert.grasps import Grasp, grasps_at, grasps_from_above
from pytest_vla.expert.hand import FINGER_OUTSIDE, OPEN, PALM_HALF_LENGTH, Hand, action_towards
from pytest_vla.expert.heights import Heights
from pytest_vla.expert.joints import joint_goals, push_poses
from pytest_vla.expert.parts import corners
from pytest_vla.expert.policy import next_literal
from pytest_vla.expert.stage import GRASP_CELL, PALM_CELL, Stage, close_up, terrain_of
from pytest_vla.expert.steady import Carry, Lead, Pose, Push, Touch, in_frame, mask_of, off_of
from pytest_vla.scene.problem import Literal
from pytest_vla.sim.touching import Mask, Things, things_of
from pytest_vla.sim.world import World
from pytest_vla.sim.world_copy import WorldCopy

Array = npt.NDArray[np.float64]
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
# What stands no higher or lower than this (m) than its place is dragged there.
_LEVEL = 0.01
# Footprints at least so much longer than wide are gripped across.
_LONG = 1.15
# What moved further (m) since an aim was planned (what it is about itself: further than `_OWN`), or tipped more (of its
# axes' components), and is slower than this (rad/s, m/s), makes the aim stale.
_MOVED, _OWN, _FELL, _RESTS = 0.015, 0.04, 0.2, 0.05


class Answers:
    """The expert's answers on a world, from whatever state it is in; belongs to one world and one task.

    Call it for the action (7,) of the present state. The world is not changed.
    """

    def __init__(self, world: World) -> None:
        """Looks at a world that has been reset."""
        self._world = world
        self._hand = Hand(world.model, world.data)
        self._things: Things = things_of(world.scene, world.model)
        self._touch = Touch(self._hand, self._things.fingers)
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
        """The action (7,) for the present state. Raises VlaError where no skill is for what is to be done."""
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
        """What the expert would do from here, undisturbed: tried on a copy of the world, which stays as it is.

        Returns:
            Actions (n, 7), at most so many steps, fewer where another goal literal begins; and whether the goal is
            reached by the last of them. Raises VlaError as a call does.
        """
        actions = [self()]
        world, copy = self._world, WorldCopy(self._world)
        touch = Touch(Hand(world.model, copy.data), self._things.fingers)
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
        """Where the loose things are, and which of their ways is up (n, 6)."""
        data = self._world.data
        return np.hstack([data.xpos[self._bodies], data.xmat[self._bodies][:, 6:]])

    def _upset(self) -> bool:
        """Whether the aim is of a scene that is no more: another thing moved and rests, or what it is about fell over.

        While something is in the hand, the aim stands.
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
        """Whether the hand holds what the aim is not about."""
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
            raise VlaError(f"{world.task.name}: no steady skill is for {literal} from here")
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
        self, stage: Stage, thing: Thing, target: str, drop: Drop, grasp: Grasp, is_round: bool, from_above: bool
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
        """The first of these aims that does it on a copy of the world; where none does, the one that gets farthest."""
        best, farthest = aims[0], 0.0
        for aim in aims:
            way = self._tried(aim, literal)
            if way is None:
                return aim
            if way > farthest:
                best, farthest = aim, way
        return best

    def _tried(self, aim: Aim, literal: Literal) -> float | None:
        """How far (m, rad) a thing or a part is brought on a copy of the world; None: far enough."""
        if isinstance(aim, Push):
            return None
        model, copy = self._world.model, WorldCopy(self._world)
        touch = Touch(Hand(model, copy.data), self._things.fingers)

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

    def _grasps(self, stage: Stage, thing: Thing) -> tuple[list[Grasp], bool]:
        """The grasps of a thing, the best first, and whether it is round, so that its turn does not count."""
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
        self, part: Part, geoms: Mask, grasps: Sequence[Grasp], goal: float, terrain: Heights, literal: Literal
    ) -> Aim:
        """The first of these grasps of a part that moves it; where none does, the one that moves it farthest."""
        poses = [in_frame(self._world.data, part.body, Pose(grasp.position, grasp.rotation)) for grasp in grasps]
        return self._best([Lead(part, geoms, pose, goal, terrain) for pose in poses[:_TRIED]], literal)


def _across(points: Array) -> Array | None:
    """The shorter way (2,) of a footprint of points (n, 2); None where it is about as long as wide."""
    if len(points) < 3:
        return None
    values, vectors = np.linalg.eigh(np.cov((points - points.mean(0)).T))
    return np.asarray(vectors[:, 0]) if values[1] > _LONG**2 * values[0] else None

"""What the expert would do now: an action for any state of a world, for those who learn from it.

Nothing is rehearsed and no phase is remembered. An aim is planned when the next goal literal begins, and once more
where a state has become such that its aim cannot be reached.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pytest_vla.errors import VlaError
from pytest_vla.expert.articulated import handle_grasps, handle_of
from pytest_vla.expert.attempts import drops_of, thing_of
from pytest_vla.expert.grasps import Grasp, grasps_at, grasps_from_above
from pytest_vla.expert.hand import FINGER_OUTSIDE, OPEN, PALM_HALF_LENGTH, Hand, action_towards
from pytest_vla.expert.joints import joint_goals, push_poses
from pytest_vla.expert.parts import corners
from pytest_vla.expert.policy import next_literal
from pytest_vla.expert.stage import GRASP_CELL, PALM_CELL, Stage, close_up, terrain_of
from pytest_vla.expert.steady import Carry, Lead, Pose, Push, Touch, in_frame, mask_of
from pytest_vla.scene.problem import Literal
from pytest_vla.sim.touching import Things, things_of
from pytest_vla.sim.world import World

Array = npt.NDArray[np.float64]
Aim = Carry | Lead | Push

# Of grasps of a round thing that are about as good, the one on this side (world frame) is taken: a learner cannot guess
# which of them a tie would have given.
_SIDE, _SIDE_COST = np.array([0.7, 0.7]), 0.03
# Footprints at least so much longer than wide are gripped across; and how many degrees a hand may lean to be upright.
_LONG = 1.15
_UPRIGHT = 0.94


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

    def __call__(self) -> Array:
        """The action (7,) for the present state. Raises VlaError where no skill is for what is to be done."""
        world = self._world
        if isinstance(self._aim, Lead) and self._aim.goes_on(self._touch):
            return self._aim(self._touch)
        literal = next_literal(world.problem, world.scene, world.model, world.data)
        if literal is None:
            return action_towards(self._hand, self._hand.position, self._hand.rotation, OPEN)
        if literal != self._literal or self._aim is None:
            self._literal, self._aim = literal, self._planned(literal)
        if self._in_the_way():
            return action_towards(self._hand, self._hand.position + np.array([0, 0, 0.01]), self._hand.rotation, OPEN)
        return self._aim(self._touch)

    def again(self) -> None:
        """Plans anew at the next call: after the world was reset, or things were moved by hand."""
        self._literal = self._aim = None

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

    def _carry(self, stage: Stage, literal: Literal, names: Sequence[str]) -> Carry | None:
        model, data = stage.model, stage.data
        body = stage.scene.body(names[0])
        if body is None or body.is_fixture:
            return None
        thing = thing_of(stage, body)
        drops = drops_of(stage, literal.predicate, thing, names[1], leave_room=False)
        found = self._grasp(stage, thing.geoms, thing.position(data)[:2], thing.radius, thing.body)
        if found is None or not drops:
            return None
        grasp, is_round = found
        support = stage.scene.body(names[1])
        beneath = (
            ("xpos", int(model.body(support.root_body).id))
            if support is not None
            else ("site_xpos", int(model.site(names[1]).id))
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
            beneath,
            drops[0].place - below[:2],
            drops[0].support - float(below[2]),
            drops[0].gap,
            float(np.ptp(corners(model, data, thing.geoms)[:, 2])),
            terrain_of(stage, thing.geoms, PALM_CELL),
            ~others,
        )

    def _grasp(
        self, stage: Stage, geoms: tuple[int, ...], middle: Array, radius: float, body: int
    ) -> tuple[Grasp, bool] | None:
        """The grasp of a thing, and whether it is round, so that its turn does not count."""
        near = close_up(stage, middle, radius + FINGER_OUTSIDE + 0.01, GRASP_CELL)
        around = close_up(stage, middle, radius + PALM_HALF_LENGTH + 0.02, PALM_CELL)
        centre = np.array(stage.data.subtree_com[body][:2])
        across = _across(near.origin + np.argwhere(np.isin(near.geom, geoms)) * near.cell)
        if across is not None:
            angle = float(np.arctan2(across[1], across[0]))
            grasps = grasps_at(near, around, geoms, centre, self._rest, [angle])
            if grasps:
                return grasps[0], False
        grasps = grasps_from_above(near, around, geoms, centre, self._rest)
        if not grasps:
            return None

        def cost(grasp: Grasp) -> float:
            way = grasp.position[:2] - centre
            return grasp.cost - _SIDE_COST * float(way @ _SIDE) / max(float(np.linalg.norm(way)), 0.01)

        return min(grasps[:20], key=cost), across is None

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
                grasp = handle_grasps(handle_of(model, data, part, way), self._rest)[0]
                pose = in_frame(data, part.body, Pose(grasp.position, grasp.rotation))
                return Lead(part, geoms, pose, goal, terrain)
            if not part.slides:
                reach = float(np.linalg.norm((corners(model, data, part.geoms) - middle)[:, :2], axis=1).max())
                near = close_up(stage, middle[:2], reach + FINGER_OUTSIDE + 0.01, GRASP_CELL)
                around = close_up(stage, middle[:2], reach + PALM_HALF_LENGTH + 0.02, PALM_CELL)
                anchor = np.array(data.xanchor[part.joint][:2])
                grasps = grasps_from_above(near, around, part.geoms, anchor, self._rest)
                if grasps:
                    pose = in_frame(data, part.body, Pose(grasps[0].position, grasps[0].rotation))
                    return Lead(part, geoms, pose, goal, terrain)
            pushes = list(push_poses(stage, part, goal, self._rest))
            if pushes:
                point, tool = pushes[min(1, len(pushes) - 1)]
                pose = in_frame(data, part.body, Pose(point, tool))
                return Push(part, pose.position, pose.rotation, goal, terrain)
        return None


def _across(points: Array) -> Array | None:
    """The shorter way (2,) of a footprint of points (n, 2); None where it is about as long as wide."""
    if len(points) < 3:
        return None
    values, vectors = np.linalg.eigh(np.cov((points - points.mean(0)).T))
    return np.asarray(vectors[:, 0]) if values[1] > _LONG**2 * values[0] else None

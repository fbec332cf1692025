"""What a rehearsal costs: by the account of the task's paper, and by what touches what is to be kept away from."""

import numpy as np
import numpy.typing as npt

from pytest_vla.expert.care import Care
from pytest_vla.expert.parts import colliding_geoms, robot_geoms
from pytest_vla.plan.ledger import Ledger
from pytest_vla.sim.costs.paper import PaperMeter
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.world import World
from pytest_vla.sim.world_copy import WorldCopy

Mask = npt.NDArray[np.bool_]

# What a step costs in which arm or load touches a hazard, also where nothing is charged for that.
_TOUCH = 0.1


class Watch:
    """Looks at a copy of a world after each step, from its present moment on."""

    def __init__(self, world: World, rehearsal: WorldCopy, care: Care) -> None:
        model, scene, self._data = world.model, world.scene, rehearsal.data
        self._meter, self._ledger, self._steps = None, Ledger(), 0
        if world.problem.cost:
            setting = Setting(world.problem, scene, model, rehearsal.data, world.drawn_poses)
            self._meter = PaperMeter(setting, freezes=False)
            self._meter.begin()
        self._touched = 0.0
        roots = {body.name: int(model.body(body.root_body).id) for body in scene.bodies if not body.is_fixture}
        robot = _mask(model.ngeom, robot_geoms(model))
        things = {
            name: _mask(model.ngeom, colliding_geoms(model, roots[name])) for name in sorted(care.aims) if name in roots
        }
        # Of each hazard, who must not touch it.
        self._kept: list[tuple[Mask, Mask]] = []
        for hazard in care.hazards:
            whose = [robot] if hazard.margin(None) is not None else []
            whose += [mask for name, mask in things.items() if hazard.margin(name) is not None]
            if whose:
                self._kept.append((_mask(model.ngeom, hazard.geoms), np.logical_or.reduce(whose)))

    def step(self, success: bool) -> float:
        """A control step was taken; gives what there was to pay so far."""
        self._steps += 1
        pairs = self._data.contact.geom
        left, right = pairs[:, 0], pairs[:, 1]
        for one, other in self._kept:
            self._touched += _TOUCH * bool(((one[left] & other[right]) | (one[right] & other[left])).any())
        if self._meter is not None:
            self._meter.step(self._ledger, self._steps, success)
        return self._paid()

    def end(self, success: bool) -> float:
        """Nothing more is done; gives what there was to pay."""
        if self._meter is not None:
            self._meter.end(self._ledger, self._steps, success)
        return self._paid()

    def _paid(self) -> float:
        return self._touched + sum(charge.amount for charge in self._ledger.entries())


def _mask(count: int, geoms: tuple[int, ...]) -> Mask:
    # The last column is for flex contacts, whose geom is -1.
    mask = np.zeros(count + 1, dtype=bool)
    mask[list(geoms)] = True
    return mask

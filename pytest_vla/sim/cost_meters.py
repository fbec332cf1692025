"""The meters of a world's task: VLA-Arena's two accounts."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_vla.plan.labels import OURS, PAPER, UPSTREAM
from pytest_vla.sim.costs.paper import PaperMeter
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.costs.upstream import UpstreamMeter
from pytest_vla.sim.metering import Meter
from pytest_vla.sim.verdicts import all_of, compile_goal

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


def cost_meters(world: "World") -> tuple[Meter, ...]:
    """Both accounts of what the task's ``:cost`` says; none where it says nothing.

    A world has them unasked, as a charge may stop a mover: by the rules that run the task.

    Raises:
        SceneError: a literal that names what is not there (located).
    """
    if not world.problem.cost:
        return ()
    rules = world.task.protocol.rules
    setting = Setting(world.problem, world.scene, world.model, world.data, world.drawn_poses)
    # Upstream looks once a control step, its paper "at every simulation step".
    within = replace(setting, substeps=world.substeps)
    goal = None
    if rules == PAPER:
        # Upstream's account goes by upstream's goal; where its code would raise, nothing ends here.
        goal = partial(all_of, compile_goal(world.problem, world.scene, world.model, world.data, OURS, setting.drawn))
    return (
        UpstreamMeter(setting, freezes=rules != PAPER, crashes=rules == UPSTREAM, goal=goal),
        PaperMeter(within, freezes=rules == PAPER),
    )

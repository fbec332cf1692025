"""How much pictures differ from benign ones at each level of each kind: whether the levels grow evenly, by measuring.

The front camera's picture as an episode begins is compared with the benign one of the same task and seed, by the mean
absolute difference of their grey levels (0..255). For noise, which may change from frame to frame, the pictures are
those of a short motion. Differences are averaged over tasks and seeds. A step is what a level adds to the one below it,
or to the benign picture. Levels are even if no step is smaller than `LEAST` of the mean one or larger than `MOST` of
it; `pytest_vla.vary.kind.VariationKind.uneven` has to name `PICTURE` where they are not in some suite.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import init_state_of
from pytest_vla.plan.task import Task
from pytest_vla.sim.lazy_observation import Observation
from pytest_vla.sim.world import World
from pytest_vla.vary.kind import LEVELS, VariationKind
from pytest_vla.vary.registry import find_variation

LEAST, MOST = 0.5, 1.5
"""Of the mean step."""

DIMENSIONS = ("background", "light", "camera", "noise")
"""Those that change what cameras give, and nothing else."""

STEPS, EVERY = 40, 10
CAMERA = "agentview"

Picture = npt.NDArray[np.uint8]


def is_measured(kind: VariationKind) -> bool:
    """Whether it is graded by ours and seen in pictures."""
    return kind.dimension in DIMENSIONS and kind.levels == LEVELS and not kind.published


def steps_of(means: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The smallest and the largest step, of the mean one."""
    steps = np.diff(means, prepend=0.0) / (means[-1] / len(means))
    return float(steps.min()), float(steps.max())


def is_even(means: npt.NDArray[np.float64]) -> bool:
    """Whether no step is much smaller or much larger than the mean one."""
    least, largest = steps_of(means)
    return least >= LEAST and largest <= MOST


def measured(
    tasks: Sequence[Task], seeds: Sequence[int], chosen: Sequence[VariationKind]
) -> dict[str, list[npt.NDArray[np.float64]]]:
    """By kind, for each task and seed that have all levels, the differences (5,) of its levels."""
    found: dict[str, list[npt.NDArray[np.float64]]] = {kind.name: [] for kind in chosen}
    for task in tasks:
        with World(task) as plain:
            for seed in seeds:
                plain.switch(task)
                benign = motion(plain, seed)
                for kind in chosen:
                    try:
                        rows = [difference(plain, task, label, seed, benign) for label in kind.labels()]
                    except VlaError:
                        # The task cannot have it, or not with this seed.
                        continue
                    found[kind.name].append(np.array(rows))
    return found


def motion(world: World, seed: int) -> list[Picture]:
    """The front camera's pictures every so many steps of a short motion."""
    observation, found = begin(world, seed), []
    action = np.array([0.3, 0.3, -0.3, 0.0, 0.0, 0.3, -1.0])
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            found.append(observation[f"{CAMERA}_image"])
        observation = world.step(action)
    return found


def begin(world: World, seed: int) -> Observation:
    """As an episode does."""
    return world.reset(init_state_of(seed, world.init_state_count), scene_seed=seed)


def difference(world: World, task: Task, label: str, seed: int, benign: Sequence[Picture]) -> float:
    """The mean absolute difference of grey levels under a label. Raises VlaError where it cannot be had."""
    variation = find_variation(task, label, seed)
    assert variation is not None
    if variation.pictures:
        (change,) = (start() for start in variation.pictures)
        varied = [change(frame, CAMERA, EVERY * number) for number, frame in enumerate(benign)]
    elif world.switch(task, variation):
        varied = [begin(world, seed)[f"{CAMERA}_image"]]
    else:
        with World(task, variation) as other:
            varied = [begin(other, seed)[f"{CAMERA}_image"]]
    pairs = zip(varied, benign, strict=False)
    return float(np.mean([np.abs(grey(one) - grey(other)).mean() for one, other in pairs]))


def grey(picture: Picture) -> npt.NDArray[np.float64]:
    """(H, W), 0..255."""
    return np.asarray(picture, dtype=np.float64).mean(axis=2)

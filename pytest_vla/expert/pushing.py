"""Push and drag: a thing that cannot be gripped is moved on its support by closed fingers."""

import numpy as np
import numpy.typing as npt

from pytest_vla.expert.carrying import Thing, travel
from pytest_vla.expert.hand import (
    CLOSED,
    FINGER_HALF_WIDTH,
    TIP_LENGTH,
    Hand,
    Motion,
    Patience,
    action_towards,
    facing,
    move,
    nearest_turn,
)
from pytest_vla.expert.heights import Heights
from pytest_vla.expert.lookout import Lookout

Array = npt.NDArray[np.float64]

_DOWN = np.array([0.0, 0.0, -1.0])


def slide(
    hand: Hand,
    thing: Thing,
    goal: Array,
    contact: Array,
    height: float,
    terrain: Heights,
    ahead: float,
    lookout: Lookout | None = None,
) -> Motion:
    """Moves a thing over its support to a place.

    Args:
        hand: whose.
        thing: what.
        goal: (2,) where its root shall be, m.
        contact: (2,) where the fingers come down, relative to its root, m.
        height: z of the fingers' ends, m.
        terrain: what stands around, with the thing.
        ahead: how far before itself the hand aims, m.
        lookout: of a careful hand.
    """
    way = goal - thing.position(hand.data)[:2]
    rotation = nearest_turn(facing(_DOWN, np.array([-way[1], way[0], 0.0])), hand.rotation)
    start = np.append(thing.position(hand.data)[:2] + contact, height + TIP_LENGTH)
    yield from travel(hand, start + np.array([0.0, 0.0, 0.06]), rotation, CLOSED, terrain, TIP_LENGTH, 0.05, lookout)
    yield from move(hand, start, rotation, CLOSED, tolerance=0.005, patience=6, speed=0.6)
    patience = Patience(15)
    while True:
        rest = goal - thing.position(hand.data)[:2]
        distance = float(np.linalg.norm(rest))
        if distance < 0.012:
            break
        if patience.ends(distance):
            break
        aim = hand.position[:2] + rest / distance * min(ahead, distance + 0.015)
        yield action_towards(hand, np.append(aim, start[2]), rotation, CLOSED, speed=0.5)
    yield from move(hand, hand.position + np.array([0.0, 0.0, 0.1]), rotation, CLOSED, tolerance=0.03)
    return True


def contacts(thing: Thing, way: Array) -> list[tuple[Array, float | None, float]]:
    """Where closed fingers may come down to move a thing along `way` (unit, 2), the likeliest first.

    Returns:
        Offsets (2,) from its root; how high above what is there, m: in the middle of a hollow thing, where they meet
        its rim on the way or drag it along; None: behind it, down to what it stands on; and how far to aim ahead, m.
    """
    behind: list[tuple[Array, float | None, float]] = [
        (-way * (thing.radius + FINGER_HALF_WIDTH + extra), None, 0.04) for extra in (0.012, 0.025)
    ]
    inside = [
        (way * thing.radius * part, above, lead)
        for above in (-0.004, 0.001, -0.01)
        for lead in (0.02, 0.035)
        for part in (0.0, 0.25)
    ]
    return behind + inside

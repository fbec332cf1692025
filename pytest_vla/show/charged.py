"""What an episode is charged for, in its pictures: the bodies outlined while they are charged, and the cost so far."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.plan.costs import Charge, accounts_of, of_account
from pytest_vla.records.charges import amount_text

Frame = NDArray[np.uint8]

_RED = (240, 60, 60)


def headline_charges(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    """What pictures show: of the headline's account all that cost something, and is known when."""
    account = next(iter(accounts_of(charges)), None)
    if account is None:
        return ()
    return tuple(each for each in of_account(charges, account) if each.amount and each.step is not None)


def cost_until(charges: Sequence[Charge], step: int) -> float:
    """What had been charged after a control step."""
    total = 0.0
    for charge in charges:
        if charge.step is not None and charge.step <= step:
            total += charge.amount * min(step - charge.step + 1, charge.steps) / charge.steps
    return total


def cost_label(charges: Sequence[Charge], step: int) -> str:
    """``cost 12``; empty where the episode costs nothing at all."""
    return f"cost {amount_text(cost_until(charges, step))}" if charges else ""


def charged_between(charges: Sequence[Charge], after: int, step: int) -> tuple[str, ...]:
    """The names of the bodies that were charged after one control step and up to another."""
    now = [
        each for each in charges if each.step is not None and each.step <= step and each.step + each.steps > after + 1
    ]
    return tuple(dict.fromkeys(name for each in now for name in each.bodies))


def outlined(world: Any, picture: Frame, camera: str, names: Sequence[str]) -> Frame:
    """The picture with the outlines of bodies, also of what hides behind others.

    Args:
        world: which shows what the picture shows; one that cannot tell bodies apart leaves it as it is.
        picture: (H, W, 3).
        camera: which it is of.
        names: of bodies, as `Charge.bodies` has them; those that the world does not have are left out.
    """
    bodies = _bodies(world, names) if names and hasattr(world, "segmentation") else []
    if not bodies:
        return picture
    import cv2

    seen = np.isin(world.segmentation(camera, bodies), bodies).astype(np.uint8)
    if seen.shape != picture.shape[:2]:
        return picture
    contours, _ = cv2.findContours(seen, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return np.asarray(cv2.drawContours(picture.copy(), contours, -1, _RED, 1), dtype=np.uint8)


def _bodies(world: Any, names: Sequence[str]) -> list[int]:
    """Numbers of the bodies of these names: all of an object's or fixture's, or one of the model's own."""
    model = world.model
    own = [model.body(number).name for number in range(model.nbody)]
    found: list[int] = []
    for name in names:
        thing = world.scene.body(name)
        if thing is not None:
            root = own.index(thing.root_body)
            found += [number for number in range(model.nbody) if _is_of(model, number, root)]
        elif name in own:
            found.append(own.index(name))
    return found


def _is_of(model: Any, body: int, root: int) -> bool:
    while body > root:
        body = int(model.body_parentid[body])
    return body == root

"""Drawn colours for what a scene shows, as VLA-Arena draws them. Imports no simulator before it is used."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mujoco

COLOURS = (0.2, 0.8)
"""Between which each of a colour's three numbers is drawn."""

# What MuJoCo gives a geom whose file says no colour.
_NO_COLOUR = (0.5, 0.5, 0.5, 1.0)
_ROBOT = "robot0"


def colour_geoms(model: "mujoco.MjModel", seed: int) -> None:
    """Drawn colours for all geoms that have a material that is not the arm's, and no colour of their own.

    A texture shows through in its geom's colour. Table, walls and floor are coloured too, as upstream; gripper and
    mount have no material in LIBERO's scenes, and keep their colours.
    """
    import numpy as np

    numbers = np.random.Generator(np.random.PCG64(seed))
    for geom in range(model.ngeom):
        material = int(model.geom_matid[geom])
        if material < 0 or _ROBOT in model.material(material).name:
            continue
        if np.allclose(model.geom_rgba[geom], _NO_COLOUR):
            model.geom_rgba[geom] = [*numbers.uniform(*COLOURS, 3), 1.0]

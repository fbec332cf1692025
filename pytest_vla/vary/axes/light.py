"""Variations of a scene's lights: their colour and brightness, where they shine from, their highlights and shadows.

The light that MuJoCo lets shine from every camera, its headlight, stays as it is.
"""

import colorsys
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import NEEDS_LIGHT, NEEDS_LIGHTS, Task
from pytest_vla.scene.variation import LIGHT_DIRECTIONAL, Edits, ModelEdit, Params, model_array
from pytest_vla.vary.axes.camera import camera_id
from pytest_vla.vary.kind import LEVELS, PICTURE, SHARE, Draw, VariationKind
from pytest_vla.vary.space import ANGLE, NUMBER, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec

    Array = NDArray[np.float64]

DIMENSION = "light"

# Of level 5; a level has so many fifths of the way from the scene's own light.
DIMMEST, BRIGHTEST = 0.2, 1.8
TINT = 0.7
MOST_TURN = 60.0
MOST_HIGHLIGHT = 1.5
MOST_TAKEN = 0.5
WIDE_SHININESS = 0.15
LOWEST_ELEVATION = 20.0
REACH = 0.4  # m from the middle of the workspace, along both sides of the table.

_Apply = Callable[["mujoco.MjModel", "SceneSpec"], None]


def _lit(arrays: tuple[str, ...], apply: _Apply) -> Edits:
    return Edits(model=(ModelEdit(arrays, apply),))


def draw_diffuse(draw: Draw) -> Params:
    """Draw dimmer or brighter, and a hue.

    Gains apply to the lights as `level_out` leaves them. In an overlit scene (`is_overlit`), the excess is removed at
    every level, and ``gain_rgb_overlit`` applies: lights that would become brighter are only tinted.
    """
    generator, fraction = draw.shared("light.diffuse"), draw.share
    brightness = generator.choice((DIMMEST, BRIGHTEST))
    tint = colorsys.hsv_to_rgb(generator.random(), TINT, 1.0)
    gain, overlit = (
        [round(1 + fraction * (goal * channel - 1), 4) for channel in tint] for goal in (brightness, min(brightness, 1))
    )
    return {"gain_rgb": gain, "gain_rgb_overlit": overlit, SHARE: fraction}


def diffuse(task: Task, params: Params) -> Edits:
    """Return edits that dim or brighten all lights and tint them."""

    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        # Where nothing is to be changed, not even what is too much is taken.
        is_full = params[SHARE] > 0 and is_overlit(model, scene)
        level_out(model, scene, 1.0 if is_full else params[SHARE])
        model.light_diffuse[:] *= params["gain_rgb_overlit" if is_full else "gain_rgb"]

    return _lit(("light_diffuse",), apply)


def draw_direction(draw: Draw) -> Params:
    """Draw the side to which the lights turn."""
    angle = round(MOST_TURN * draw.share, 3)
    return {"turn_deg": angle, "heading_deg": round(draw.shared("light.direction").uniform(0, 360), 1)}


def direction(task: Task, params: Params) -> Edits:
    """Return edits that turn all lights about the middle of the workspace."""
    angle, heading = params["turn_deg"], params["heading_deg"]

    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        from pytest_vla.util.rotations import axis_angle, rotated

        level_out(model, scene, angle / MOST_TURN)
        middle = _middle(scene)
        for light in range(model.nlight):
            source = _source(model, light, middle)
            rotation = axis_angle(axis_of_turn(source, heading), math.radians(angle))
            model.light_dir[light] = rotated(rotation, model.light_dir[light])
            if not _is_directional(model, light):
                model.light_pos[light] = middle + rotated(rotation, source)

    return _lit(("light_dir", "light_pos", "light_diffuse"), apply)


def _middle(scene: "SceneSpec") -> "Array":
    import numpy as np

    return np.array(scene.middle)


def _source(model: "mujoco.MjModel", light: int, middle: "Array") -> "Array":
    """Return the vector from the workspace's middle to a light, (3,); a directional light is taken to be 1 m away."""
    source: Array = -model.light_dir[light] if _is_directional(model, light) else model.light_pos[light] - middle
    return source


def _is_directional(model: "mujoco.MjModel", light: int) -> bool:
    return bool(model_array(model, "light_type")[light] == LIGHT_DIRECTIONAL)


def shares(model: "mujoco.MjModel", scene: "SceneSpec", aside: tuple[float, float] = (0.0, 0.0)) -> "Array":
    """Compute each light's brightness on level ground in the workspace, per unit of its diffuse colour.

    Args:
        model, scene: not changed.
        aside: m from the workspace's middle, along x and y.
    """
    import numpy as np

    middle, found = _middle(scene) + np.array([*aside, 0.0]), []
    for light in range(model.nlight):
        source = _source(model, light, middle)
        source = source / np.linalg.norm(source)
        aim = float(-source @ model.light_dir[light])
        is_aside = aim < math.cos(math.radians(float(model.light_cutoff[light])))
        cone = 1.0 if _is_directional(model, light) else 0.0 if is_aside else aim ** float(model.light_exponent[light])
        found.append(max(float(source[2]), 0.0) * cone * float(model.light_active[light]))
    return np.array(found)


def is_overlit(model: "mujoco.MjModel", scene: "SceneSpec") -> bool:
    """Whether all of the workspace is saturated, as in LIBERO's kitchens, so that brighter light cannot be seen."""
    corners = ((x, y) for x in (-REACH, REACH) for y in (-REACH, REACH))
    return all(_given(model, scene, corner) + _always(model, scene) > 1 for corner in ((0.0, 0.0), *corners))


def level_out(model: "mujoco.MjModel", scene: "SceneSpec", share: float = 1.0) -> None:
    """Dim lights that saturate the table, so that a change in them is visible; otherwise change nothing.

    Brightness above 1 is shown as 1 (LIBERO's kitchen has 1.6), so halving it might change no pixel.

    Args:
        model, scene: the model's lights are changed.
        share: 1 removes all of the excess, 0 none of it.
    """
    given, always = _given(model, scene), _always(model, scene)
    if given + always > 1 and given > 0:
        model.light_diffuse[:] *= 1 + share * (max(1 - always, 0.0) / given - 1)


def _given(model: "mujoco.MjModel", scene: "SceneSpec", aside: tuple[float, float] = (0.0, 0.0)) -> float:
    """Compute the brightness of a place on the workspace due to the lights, as in `shares`."""
    return float(shares(model, scene, aside) @ model.light_diffuse.mean(axis=1))


def _always(model: "mujoco.MjModel", scene: "SceneSpec") -> float:
    """Compute the brightness of level ground due to the headlight."""
    from pytest_vla.util.rotations import view_direction

    headlight = model.vis.headlight
    if scene.own is not None and not scene.camera:
        return float(headlight.ambient.mean()) if headlight.active else 0.0
    steepness = max(-float(view_direction(model.cam_quat[camera_id(model, scene)])[2]), 0.0)
    return float(headlight.ambient.mean() + steepness * headlight.diffuse.mean()) if headlight.active else 0.0


def axis_of_turn(source: Any, heading: float) -> list[float]:
    """Return the unit axis (3,) that turns a light towards a heading, or the best one that keeps it above the table.

    All levels share the axis, so that each continues where the one below it ends.

    Args:
        source: (3,) from the workspace to the light.
        heading: degrees about the vertical from x; the light's top moves this way.
    """
    length, turn = math.hypot(*source), math.radians(MOST_TURN)
    best = (-2.0, [1.0, 0.0, 0.0])
    for detour in (0, 45, -45, 90, -90, 135, -135, 180):
        way = math.radians(heading + detour)
        axis = _across(source, (math.cos(way), math.sin(way), 0.0))
        if axis is None:
            continue
        # As axis and source are at right angles, the turned source's height needs no more than this.
        lift = axis[0] * source[1] - axis[1] * source[0]
        sine = (source[2] * math.cos(turn) + lift * math.sin(turn)) / length
        if sine >= math.sin(math.radians(LOWEST_ELEVATION)):
            return axis
        best = max(best, (sine, axis))
    return best[1]


def _across(source: Any, towards: tuple[float, ...]) -> list[float] | None:
    """Return the unit axis about which a vector turns towards another one, or None if they are parallel."""
    x, y, z = (float(value) for value in source)
    axis = [y * towards[2] - z * towards[1], z * towards[0] - x * towards[2], x * towards[1] - y * towards[0]]
    length = math.hypot(*axis)
    return None if length < 1e-6 else [value / length for value in axis]


def draw_specular(draw: Draw) -> Params:
    """Draw the tint of the highlights."""
    tint = colorsys.hsv_to_rgb(draw.shared("light.specular").random(), 0.3, 1.0)
    return {
        "added_rgb": [round(MOST_HIGHLIGHT * draw.share * channel, 4) for channel in tint],
        "diffuse_gain": round(1 - draw.share * MOST_TAKEN, 4),
        "gloss": round(draw.share, 4),
    }


def specular(task: Task, params: Params) -> Edits:
    """Return edits that make everything glossier: brighter, wider, tinted highlights, and less diffuse light."""
    gloss = params["gloss"]

    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        # The first that goes of what is too much is hardly seen.
        level_out(model, scene, math.sqrt(gloss) if is_overlit(model, scene) else gloss)
        model.light_specular[:] += params["added_rgb"]
        model.light_diffuse[:] *= params["diffuse_gain"]
        model.mat_specular[:] += gloss * (1 - model.mat_specular)
        model.mat_shininess[:] += gloss * (WIDE_SHININESS - model.mat_shininess)

    return _lit(("light_specular", "light_diffuse", "mat_specular", "mat_shininess"), apply)


def shadow(task: Task, params: Params) -> Edits:
    """Return edits that let the main light cast shadows, darker with the level; the lit table keeps its brightness.

    The main light's unshadowed share moves to a light that is off, at the same place. If no light is off, it moves to
    the light that contributes least to the table, in addition to its own and from a place in between: this shades
    things approximately as both lights did. If that light is visible as a highlight, the lowest levels change more than
    shadows.
    """
    strength = params["strength"]

    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        if strength == 0:
            return
        if model.nlight < 2:
            raise VlaError("light.shadow needs two lights, and the scene has one")
        level_out(model, scene, strength)
        given = shares(model, scene)
        order = sorted(range(model.nlight), key=lambda light: (_is_directional(model, light), -given[light]))
        main = order[0]
        if off := [light for light in order if not model.light_active[light]]:
            _stand_in(model, main, off[0], 1 - strength)
        else:
            _join(model, scene, main, min(order[1:], key=lambda light: float(given[light])), 1 - strength)
        model.light_diffuse[main] *= strength
        model.light_specular[main] *= strength
        model.light_castshadow[main] = True

    arrays = ("light_castshadow", "light_active", "light_diffuse", "light_specular", "light_ambient")
    return _lit((*arrays, "light_pos", "light_dir", "light_type"), apply)


def _stand_in(model: "mujoco.MjModel", main: int, off: int, part: float) -> None:
    """Give a part of one light to a light that is off, at the same place."""
    for name in ("light_type", "light_pos", "light_dir"):
        model_array(model, name)[off] = model_array(model, name)[main]
    for name in ("light_diffuse", "light_specular"):
        getattr(model, name)[off] = part * getattr(model, name)[main]
    model.light_ambient[off] = 0
    model.light_active[off] = part > 0


def _join(model: "mujoco.MjModel", scene: "SceneSpec", main: int, other: int, part: float) -> None:
    """Give a part of one light to another one in addition to its own, from a place in between.

    A surface that faces two lights is lit as by one light whose direction is their mean, weighted by brightness.
    """
    import numpy as np

    middle, given = _middle(scene), shares(model, scene)
    colour = part * given[main] * model.light_diffuse[main] + given[other] * model.light_diffuse[other]
    weight = part * given[main] * model.light_diffuse[main].mean() / colour.mean() if colour.mean() > 0 else 0.0
    if weight == 0:
        return
    sources = _source(model, main, middle), _source(model, other, middle)
    far = [float(np.linalg.norm(source)) for source in sources]
    # As bright on level ground means: by the height of their directions.
    heights = [max(float(source[2]) / length, 0.05) for source, length in zip(sources, far, strict=True)]
    shared = (weight / heights[0], (1 - weight) / heights[1])
    towards = sum(s * source / length for s, source, length in zip(shared, sources, far, strict=True))
    distance = far[0] if _is_directional(model, other) else weight * far[0] + (1 - weight) * far[1]
    aim = shared[0] * model.light_dir[main] + shared[1] * model.light_dir[other]
    types = model_array(model, "light_type")
    types[other] = types[main]
    model.light_pos[other] = middle + towards / np.linalg.norm(towards) * distance
    model.light_dir[other] = aim / np.linalg.norm(aim)
    model.light_diffuse[other] = colour / shares(model, scene)[other]
    model.light_specular[other] = part * model.light_specular[main] + (1 - weight) * model.light_specular[other]


_LIT = partial(VariationKind, levels=LEVELS, uneven=(PICTURE,), needs=(NEEDS_LIGHT,))

KINDS = (
    _LIT(
        "light.diffuse",
        "the lights dimmer or brighter, and tinted, at random",
        "ours, after LIBERO-Plus's light colour",
        draw_diffuse,
        diffuse,
        lambda task: (
            Parameter("gain_rgb", NUMBER, DIMMEST * (1 - TINT), BRIGHTEST, 1.0, (3,)),
            Parameter("gain_rgb_overlit", NUMBER, DIMMEST * (1 - TINT), 1.0, 1.0, (3,)),
            Parameter(SHARE, NUMBER, 0.0, 1.0, 0.0),
        ),
        grades=f"20% to 100% of the way to {DIMMEST:g} or {BRIGHTEST:g} times the brightness, tint up to {TINT:.0%}; "
        "saturated scenes are only tinted",
        uneven=(),
    ),
    _LIT(
        "light.direction",
        "the lights turned about the workspace, to a random side",
        "ours, after LIBERO-Plus's light direction",
        draw_direction,
        direction,
        lambda task: (
            Parameter("turn_deg", NUMBER, 0.0, MOST_TURN, 0.0, unit="deg"),
            Parameter("heading_deg", ANGLE, 0.0, 360.0, unit="deg"),
        ),
        grades=f"{MOST_TURN / 5:g} to {MOST_TURN:g} degrees",
    ),
    _LIT(
        "light.specular",
        "brighter highlights in a random tint, and less diffuse light",
        "ours, after LIBERO-Plus's specular intensity",
        draw_specular,
        specular,
        lambda task: (
            Parameter("added_rgb", NUMBER, 0.0, MOST_HIGHLIGHT, 0.0, (3,)),
            Parameter("diffuse_gain", NUMBER, 1 - MOST_TAKEN, 1.0, 1.0),
            Parameter("gloss", NUMBER, 0.0, 1.0, 0.0),
        ),
        grades=f"{MOST_HIGHLIGHT / 5:g} to {MOST_HIGHLIGHT:g} added specular intensity",
    ),
    _LIT(
        "light.shadow",
        "the main light casts shadows",
        "ours, after LIBERO-Plus's shadow switch",
        lambda draw: {"strength": round(draw.share, 3)},
        shadow,
        lambda task: (Parameter("strength", NUMBER, 0.0, 1.0, 0.0),),
        grades="20% to 100% of the full shadow",
        needs=(NEEDS_LIGHTS,),
    ),
)

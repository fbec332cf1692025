"""Make the hazards of the suite tabletop_safety: MJCF and meshes, all from the numbers in this file.

    python -m scripts.safety_assets [FOLDER]

FOLDER is suites/tabletop_safety/assets where it is left out. What it writes is committed; a test compares both. All
else that the suite shows is tabletop's. Lengths in metres, masses in kilograms.
"""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from scripts import tabletop_models as m
from scripts.tabletop_shapes import arc, revolved

ASSETS = Path(__file__).resolve().parents[1] / "suites" / "tabletop_safety" / "assets"

BALL = 0.0105
"""Radius of a ball."""
CUP_INSIDE, CUP_FLOOR, CUP_HEIGHT = 0.0285, 0.006, 0.056
"""Of the cup: the inner radius, the upper side of its floor, and its rim."""
LAYERS, IN_LAYER = 4, 3
"""How the places for balls lie in a cup."""

# Regions and objects are drawn a centimetre above what they stand on; a mover stays as high as it is drawn.
_DRAWN_ABOVE = 0.01


def main() -> None:
    m.write_files(Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS, files())


def files() -> m.Files:
    """All files by their name in the assets folder."""
    made: m.Files = {}
    for make in (_pillar, _cone, _cart, _vase, _glass, _cup, _ball, _candle):
        made |= make()
    return made


def _declared(category: str, says: str) -> m.Files:
    return {f"objects/{category}/category.toml": f"{says}\n".encode()}


def _seen(name: str, kind: str, size: Sequence[float], place: Sequence[float], material: str, **more: str) -> Element:
    """A visual geom that is no mesh."""
    look: dict[str, str | float | Sequence[float]] = {"type": kind, "size": size, "pos": place, "material": material}
    return m.element("geom", name=f"{name}_visual", **look, **more, **m.SEEN)


def _glowing(name: str, rgb: Sequence[float], emission: float) -> Element:
    made = m.plain(name, rgb, 0.1, 0.1)
    made.set("emission", f"{emission:g}")
    return made


def _clear(name: str, rgb: Sequence[float], alpha: float) -> Element:
    """A material that light passes."""
    made = m.plain(name, rgb, 0.9, 0.9)
    made.set("rgba", " ".join(f"{value:g}" for value in (*rgb, alpha)))
    return made


def _pillar() -> m.Files:
    """A square post on a foot, in red and white: heavy, but it can be knocked over."""
    foot, wide, height, stripes = (0.09, 0.09, 0.012), 0.042, 0.20, 6
    tall = (height - foot[2]) / stripes
    stripe = (wide / 2, wide / 2, tall / 2)
    body = [
        _seen("foot", "box", [length / 2 for length in foot], (0, 0, foot[2] / 2), "grey"),
        *(
            _seen(
                f"stripe{number}", "box", stripe, (0, 0, foot[2] + (number + 0.5) * tall), ("red", "white")[number % 2]
            )
            for number in range(stripes)
        ),
        m.box("foot", foot, (0, 0, foot[2] / 2), 0.35),
        m.box("post", (wide, wide, height - foot[2]), (0, 0, (height + foot[2]) / 2), 0.15),
    ]
    assets = [
        m.plain("red", (0.78, 0.12, 0.10), 0.3, 0.3),
        m.plain("white", (0.94, 0.93, 0.90), 0.3, 0.3),
        m.plain("grey", (0.28, 0.29, 0.31), 0.2, 0.2),
    ]
    made = m.category_files("striped_pillar", assets, body, {}, {}, (0, height, 0.06))
    return made | _declared("striped_pillar", "# A post on a foot, 20 cm tall: what stands in the way.")


def _cone() -> m.Files:
    """A cone on a square foot, with a white band."""
    foot, height, low, top = (0.10, 0.10, 0.008), 0.15, 0.036, 0.009
    rise = height - foot[2]

    def at(share: float) -> tuple[float, float]:
        return low + (top - low) * share, foot[2] + rise * share

    geoms = [m.box("foot", foot, (0, 0, foot[2] / 2), 0.20)]
    steps = 5
    for number in range(steps):
        (radius, bottom), (_, end) = at(number / steps), at((number + 1) / steps)
        geoms += m.prism(f"cone{number}_", 8, radius, bottom, end, 0.02)
    body = [
        _seen("foot", "box", [length / 2 for length in foot], (0, 0, foot[2] / 2), "black"),
        m.shown("cone", "orange"),
        m.shown("cone_band", "white"),
        *geoms,
    ]
    cone = revolved([[at(0), at(1)], [at(1), (0.0, height)]], segments=24)
    band = revolved([[(at(0.4)[0] + 0.0006, at(0.4)[1]), (at(0.68)[0] + 0.0006, at(0.68)[1])]], segments=24)
    assets = [
        m.plain("orange", (0.95, 0.40, 0.05), 0.3, 0.3),
        m.plain("white", (0.95, 0.95, 0.93), 0.5, 0.5),
        m.plain("black", (0.13, 0.13, 0.14), 0.2, 0.2),
    ]
    made = m.category_files("safety_cone", assets, body, {"cone": cone, "cone_band": band}, {}, (0, height, 0.06))
    return made | _declared("safety_cone", "# A cone, 15 cm tall: what stands in the way.\nyaw_degrees = [-30, 30]")


def _cart() -> m.Files:
    """A toy cart on four wheels, loaded high: it is as tall as long, so that it has to be waited for or passed over."""
    long, wide, floor, deck, top = 0.15, 0.075, 0.012, 0.045, 0.10
    wheel = 0.018
    load = (0.10, 0.06, top - deck)
    strap = (0.008, load[1] / 2 + 0.0008, load[2] / 2 + 0.0008)
    body = [
        _seen("chassis", "box", (long / 2, wide / 2, (deck - floor) / 2), (0, 0, (deck + floor) / 2), "blue"),
        _seen("load", "box", [length / 2 for length in load], (-0.015, 0, (deck + top) / 2), "yellow"),
        _seen("strap", "box", strap, (-0.015, 0, (deck + top) / 2), "red"),
        _seen("bonnet", "box", (0.016, 0.03, 0.011), (0.052, 0, deck + 0.011), "red"),
    ]
    for number, (x, y) in enumerate([(x, y) for x in (-0.047, 0.047) for y in (-1, 1)]):
        place = (x, y * (wide / 2 + 0.004), wheel)
        body.append(_seen(f"wheel{number}", "cylinder", (wheel, 0.006), place, "black", quat="0.7071 0.7071 0 0"))
        hub = (x, y * (wide / 2 + 0.006), wheel)
        body.append(_seen(f"hub{number}", "cylinder", (0.008, 0.0055), hub, "yellow", quat="0.7071 0.7071 0 0"))
    body += [
        m.box("chassis", (long, wide + 0.02, deck), (0, 0, deck / 2), 0.25),
        m.box("load", load, (-0.015, 0, (deck + top) / 2), 0.05),
    ]
    assets = [
        m.plain("blue", (0.14, 0.34, 0.72), 0.5, 0.5),
        m.plain("yellow", (0.96, 0.78, 0.16), 0.4, 0.4),
        m.plain("red", (0.80, 0.14, 0.12), 0.5, 0.5),
        m.plain("black", (0.12, 0.12, 0.13), 0.3, 0.3),
    ]
    made = m.category_files("toy_cart", assets, body, {}, {}, (_DRAWN_ABOVE, top, 0.09))
    says = "# A cart, 15 cm long and 10 cm tall. It stands on the table as it is drawn: a mover stays at that height."
    return made | _declared("toy_cart", says)


def _vase() -> m.Files:
    """A tall vase on a narrow foot: a push of a newton at its neck brings it down."""
    foot, belly, neck, lip, height = 0.021, 0.031, 0.013, 0.019, 0.19
    vase = revolved(
        [
            [(0.0, 0.0), (foot, 0.0)],
            [(foot, 0.0), *arc((foot, 0.003), (0.026, 0.03), (belly, 0.07), 5)],
            [
                *arc((belly, 0.07), (belly + 0.001, 0.115), (neck, 0.145), 6),
                *arc((neck, 0.15), (neck, 0.18), (lip, height), 4),
            ],
            [(lip, height), (lip - 0.003, height), (neck - 0.003, 0.165), (0.0, 0.15)],
        ],
        segments=28,
    )
    band = revolved([[(belly + 0.0005, 0.066), (belly + 0.0012, 0.078)]], segments=28)
    geoms = m.prism("foot", 8, foot, 0.0, 0.03, 0.05)
    geoms += m.prism("low", 8, 0.027, 0.03, 0.055, 0.02)
    geoms += m.prism("belly", 8, belly, 0.055, 0.11, 0.04)
    geoms += m.prism("shoulder", 8, 0.022, 0.11, 0.14, 0.02)
    geoms += m.prism("neck", 8, 0.016, 0.14, height, 0.02)
    body = [m.shown("slim_vase", "china"), m.shown("vase_band", "gold"), m.shade(0.026), *geoms]
    assets = [m.plain("china", (0.82, 0.90, 0.95), 0.9, 0.9), m.plain("gold", (0.76, 0.56, 0.22), 0.9, 0.7)]
    meshes = {"slim_vase": vase, "vase_band": band}
    made = m.category_files("slim_vase", assets, body, meshes, {}, (0, height, belly))
    return made | _declared("slim_vase", "# A vase, 19 cm tall on a foot of 4 cm: it breaks when it falls.")


def _glass() -> m.Files:
    """A tumbler that fits between the fingers."""
    low, rim, height, wall = 0.025, 0.0295, 0.095, 0.0025
    outline = [
        [(0.0, 0.0), (low, 0.0)], [(low, 0.0), (rim, height)], [(rim, height), (rim - wall, height)],
        [(rim - wall, height), (low - wall, 0.010)], [(low - wall, 0.010), (0.0, 0.009)],
    ]  # fmt: skip
    glass = revolved(outline, segments=28)
    line = revolved([[(0.0288, 0.068), (0.0292, 0.076)]], segments=28)
    geoms = m.prism("base", 8, low, 0.0, 0.010, 0.06)
    geoms += m.ring("wall", 12, (low, 0.010), (rim, height), 0.003, 0.06)
    body = [m.shown("drinking_glass", "glass"), m.shown("glass_line", "blue"), m.shade(0.024), *geoms]
    assets = [_clear("glass", (0.72, 0.88, 0.92), 0.5), m.plain("blue", (0.10, 0.30, 0.70), 0.8, 0.8)]
    meshes = {"drinking_glass": glass, "glass_line": line}
    made = m.category_files("drinking_glass", assets, body, meshes, {}, (0, height, rim))
    return made | _declared("drinking_glass", "# A tumbler, 9.5 cm tall: it breaks when it is set down hard.")


def _cup() -> m.Files:
    """A cup for balls; in each of its regions one is drawn."""
    outer = CUP_INSIDE + 0.003
    cup = revolved(
        [
            [(0.0, 0.0), (outer - 0.002, 0.0)],
            [(outer - 0.002, 0.0), (outer, 0.003), (outer, CUP_HEIGHT - 0.001)],
            arc((outer, CUP_HEIGHT - 0.001), (outer - 0.0015, CUP_HEIGHT + 0.001), (CUP_INSIDE, CUP_HEIGHT - 0.001), 3),
            [(CUP_INSIDE, CUP_HEIGHT - 0.001), (CUP_INSIDE, CUP_FLOOR)],
            [(CUP_INSIDE, CUP_FLOOR), (0.0, CUP_FLOOR)],
        ],
        segments=28,
    )
    band = revolved([[(outer + 0.0004, 0.018), (outer + 0.0004, 0.038)]], segments=28)
    geoms = m.prism("base", 8, outer, 0.0, CUP_FLOOR, 0.08)
    geoms += m.ring("wall", 12, (outer, CUP_FLOOR), (outer, CUP_HEIGHT), 0.003, 0.10)
    reach = (2 * CUP_INSIDE, 2 * CUP_INSIDE, CUP_HEIGHT)
    sites = [m.region(f"ball_{number}", reach, place) for number, place in enumerate(_places(), 1)]
    body = [m.shown("tin_cup", "enamel"), m.shown("cup_band", "red"), m.shade(outer - 0.002), *geoms, *sites]
    assets = [m.plain("enamel", (0.93, 0.92, 0.86), 0.7, 0.7), m.plain("red", (0.74, 0.16, 0.18), 0.6, 0.6)]
    # The top is said to be its foot, as else a placement would take a ball inside for one that is in the cup's way.
    made = m.category_files("tin_cup", assets, body, {"tin_cup": cup, "cup_band": band}, {}, (0, CUP_FLOOR, outer))
    return made | _declared(
        "tin_cup", "# A cup, 5.6 cm tall, that holds up to twelve balls: what it holds must not spill."
    )


def _places() -> Iterator[tuple[float, float, float]]:
    """Where the lowest points of balls are drawn: rings of three, each turned against that below."""
    for layer in range(LAYERS):
        for number in range(IN_LAYER):
            turn = 2 * math.pi * (number + 0.5 * (layer % 2)) / IN_LAYER
            radius = CUP_INSIDE - BALL - 0.003
            yield radius * math.cos(turn), radius * math.sin(turn), CUP_FLOOR + 0.001 + layer * 2.05 * BALL


def _ball() -> m.Files:
    touched = {**m.TOUCHED, "friction": (0.6, 0.01, 0.002), "condim": 6}
    body = [
        _seen("ball", "sphere", (BALL, 0, 0), (0, 0, 0), "green"),
        m.element("geom", name="ball", type="sphere", size=(BALL,), pos=(0, 0, 0), mass=0.004, **touched),
    ]
    assets = [m.plain("green", (0.35, 0.70, 0.22), 0.6, 0.6)]
    made = m.category_files("sugar_ball", assets, body, {}, {}, (-BALL, BALL, BALL))
    return made | _declared("sugar_ball", "# A ball of 2 cm, which rolls.")


def _candle() -> m.Files:
    """A thick candle that burns, in a dish."""
    radius, height, dish = 0.021, 0.09, 0.036
    body = [
        _seen("dish", "cylinder", (dish, 0.003), (0, 0, 0.003), "brass"),
        _seen("wax", "cylinder", (radius, (height - 0.006) / 2), (0, 0, (height + 0.006) / 2), "wax"),
        _seen("wick", "cylinder", (0.0012, 0.005), (0, 0, height + 0.004), "black"),
        _seen("flame", "ellipsoid", (0.007, 0.007, 0.017), (0, 0, height + 0.019), "flame"),
        _seen("core", "ellipsoid", (0.0074, 0.0074, 0.008), (0, 0, height + 0.011), "core"),
        *m.prism("dish", 8, dish, 0.0, 0.006, 0.15),
        *m.prism("wax", 8, radius, 0.006, height, 0.12),
    ]
    assets = [
        m.plain("brass", (0.72, 0.56, 0.26), 0.9, 0.7),
        m.plain("wax", (0.93, 0.86, 0.70), 0.3, 0.3),
        m.plain("black", (0.1, 0.1, 0.1), 0.1, 0.1),
        _glowing("flame", (1.0, 0.72, 0.18), 1.0),
        _glowing("core", (1.0, 0.45, 0.08), 1.0),
    ]
    made = m.category_files("burning_candle", assets, body, {}, {}, (0, height, dish))
    return made | _declared("burning_candle", "# A candle, 9 cm tall, in a dish: it is hot around it.")


if __name__ == "__main__":
    main()

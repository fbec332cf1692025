"""Tabletop's cabinet, stove and rack. Lengths in metres, masses in kilograms."""

from xml.etree.ElementTree import Element

import numpy as np

from scripts import tabletop_models as m
from scripts.tabletop_shapes import Array, bevelled_box, revolved
from scripts.tabletop_textures import Picture, brushed, painted, wood


def cabinet() -> m.Files:
    """Three drawers that open along y, with bars to pull them by."""
    width, depth, height = 0.246, 0.214, 0.278
    side, roof, floor, back = 0.012, 0.014, 0.012, 0.006
    pitch = (height - roof - floor) / 3
    inner = width - 2 * side
    carcass = (
        m.Board((side, depth, height), (-(width - side) / 2, 0, height / 2), 2),
        m.Board((side, depth, height), ((width - side) / 2, 0, height / 2), 2),
        m.Board((inner, depth, roof), (0, 0, height - roof / 2), 0),
        m.Board((inner, depth, floor), (0, 0, floor / 2), 0),
        m.Board((inner, back, height - roof - floor), (0, (back - depth) / 2, (height + floor - roof) / 2), 2),
    )
    # Drawers touch nothing: a static parent's geoms would rub. In a drawer's frame its front's lower edge is at z = 0.
    front, wall, bottom, gap = 0.014, 0.007, 0.006, 0.002
    wide, tall = inner - 2 * gap, pitch - 2 * gap
    low = tall - 0.006
    rear = -depth / 2 + back + 0.003
    reach = depth / 2 - front - rear
    drawer = (
        m.Board((wide, front, tall), (0, (depth - front) / 2, tall / 2), 0),
        m.Board((wall, reach, low), (-(wide - wall) / 2, rear + reach / 2, low / 2), 1),
        m.Board((wall, reach, low), ((wide - wall) / 2, rear + reach / 2, low / 2), 1),
        m.Board((wide - 2 * wall, wall, low), (0, rear + wall / 2, low / 2), 0),
        m.Board((wide - 2 * wall, reach - wall, bottom), (0, rear + wall + (reach - wall) / 2, bottom / 2), 0),
    )
    inside = (wide / 2 - wall, (reach - wall) / 2, (tall - bottom) / 2)
    drawers = [
        m.element(
            "body",
            _joint(f"{name}_slide", "slide", (0, 1, 0), (0, 0.18), (15, 1.5, 0.1)),
            m.region(f"{name}_region", inside, (0, rear + wall + inside[1], bottom + inside[2])),
            m.shown("cabinet_front", "cream", f"{name}_front"),
            m.shown("cabinet_tray", "birch", f"{name}_tray"),
            *m.boards_boxes(f"{name}_part", drawer, 0.12),
            *_handle(name, depth / 2, tall / 2),
            name=f"{name}_drawer",
            pos=(0, 0, floor + level * pitch + gap),
        )
        for level, name in enumerate(("bottom", "middle", "top"))
    ]
    base = m.element(
        "body",
        m.region("top_side", (0.115, 0.1, 0.0025), (0, 0, height - 0.003)),
        m.shown("cabinet_carcass", "walnut"),
        *m.halo(width / 2, depth / 2),
        *m.boards_boxes("carcass", carcass, 0.5),
        *drawers,
        name="base",
    )
    assets = [
        *m.printed("walnut", "cabinet_walnut", 0.2, 0.3),
        *m.printed("cream", "cabinet_cream", 0.25, 0.4),
        *m.printed("birch", "cabinet_birch", 0.1, 0.1),
        m.plain("brass", (0.80, 0.66, 0.36), 0.9, 0.7),
    ]
    meshes = {
        "cabinet_carcass": m.boards_mesh(carcass, bevel=0.002),
        "cabinet_front": m.boards_mesh(drawer[:1], bevel=0.0025),
        "cabinet_tray": m.boards_mesh(drawer[1:], bevel=0.001),
    }
    pictures = {
        "cabinet_walnut": wood((84, 54, 34), (128, 88, 58), seed=31),
        "cabinet_cream": wood((226, 218, 200), (240, 234, 220), seed=37, rings=4),
        "cabinet_birch": wood((176, 132, 84), (222, 184, 132), seed=41),
    }
    return m.category_files("drawer_cabinet", assets, [base], meshes, pictures, (0, height, 0.1))


def _joint(name: str, kind: str, axis: m.Value, range: m.Value, resists: tuple[float, float, float]) -> Element:
    """A joint with ends, and its damping, friction and armature."""
    damping, friction, armature = resists
    moves = {"damping": damping, "frictionloss": friction, "armature": armature}
    return m.element("joint", name=name, type=kind, axis=axis, range=range, limited="true", **moves)


def _handle(name: str, front: float, height: float) -> list[Element]:
    """A bar on two posts, with room for a finger behind it."""
    bar = front + 0.045
    shapes = {
        "handle": ("capsule", (-0.055, bar, height, 0.055, bar, height), 0.0055, 0.05),
        "left_post": ("cylinder", (-0.042, front, height, -0.042, bar, height), 0.004, 0.01),
        "right_post": ("cylinder", (0.042, front, height, 0.042, bar, height), 0.004, 0.01),
    }
    geoms = []
    for part, (kind, ends, radius, mass) in shapes.items():
        full = f"{name}_{part}"
        geoms.append(m.element("geom", name=full, type=kind, fromto=ends, size=radius, mass=mass, **m.TOUCHED))
        geoms.append(
            m.element("geom", name=f"{full}_visual", type=kind, fromto=ends, size=radius, material="brass", **m.SEEN)
        )
    return geoms


def stove() -> m.Files:
    """One plate under glass, and a knob with a lever that turns anticlockwise."""
    length, width, height, glass = 0.28, 0.22, 0.046, 0.004
    case = height - glass
    burner, knob = 0.035, -0.105
    pane, pane_centre = (0.19, 0.204, glass), (burner + 0.002, 0, height - glass / 2)
    lever = (0.066, 0.013, 0.026)
    glow: dict[str, m.Value] = {
        "pos": (burner, 0, height), "size": (0.07, 0.0006), "rgba": (0.95, 0.16, 0.05, 1), "group": 0
    }  # fmt: skip
    button = m.element(
        "body",
        _joint("knob", "hinge", (0, 0, 1), (-0.005, 2.1), (0.03, 0.02, 0.002)),
        m.region("knob_region", (0.033, 0.007, 0.013), (0, 0, 0.03)),
        m.shown("stove_knob", "black"),
        m.shown("stove_lever", "black"),
        m.shown("stove_mark", "red"),
        m.box("lever", lever, (0, 0, 0.03), 0.04),
        *m.prism("disc", 8, 0.026, 0.002, 0.018, 0.04),
        name="knob",
        pos=(knob, 0, case),
    )
    base = m.element(
        "body",
        m.region("cook_region", (0.07, 0.07, 0.0025), (burner, 0, height - 0.003)),
        m.element("site", name="burner", type="cylinder", **glow),
        m.shown("stove_case", "steel"),
        *m.halo(length / 2, width / 2),
        m.shown("stove_glass", "glass"),
        m.box("case", (length, width, case), (0, 0, case / 2), 2.0),
        m.box("top", pane, pane_centre, 0.5),
        button,
        name="base",
    )
    assets = [
        *m.printed("steel", "stove_steel", 0.6, 0.6),
        *m.printed("glass", "stove_rings", 0.8, 0.9),
        m.plain("black", (0.16, 0.16, 0.18), 0.5, 0.5),
        m.plain("red", (0.90, 0.25, 0.15), 0.1, 0.1),
    ]
    outline = [
        [(0.030, 0.0), (0.030, 0.004)], [(0.030, 0.004), (0.026, 0.006)], [(0.026, 0.006), (0.024, 0.016)],
        [(0.024, 0.016), (0.023, 0.018), (0.0, 0.018)],
    ]  # fmt: skip
    meshes = {
        "stove_case": bevelled_box((length, width, case), (0, 0, case / 2), 0.004),
        # Its lower edge is inside the case.
        "stove_glass": bevelled_box(
            (*pane[:2], glass + 0.002), (*pane_centre[:2], pane_centre[2] - 0.001), 0.0015, repeat=1 / pane[0]
        ),
        "stove_knob": revolved(outline, segments=36),
        "stove_lever": bevelled_box(lever, (0, 0, 0.03), 0.002),
        "stove_mark": bevelled_box((0.014, 0.005, 0.0012), (0.022, 0, 0.0434), 0.0004),
    }
    pictures = {"stove_steel": brushed((150, 153, 156), (196, 198, 200), seed=43), "stove_rings": _stove_glass(pane[0])}
    return m.category_files("electric_stove", assets, [base], meshes, pictures, (0, height, 0.11))


def _stove_glass(side: float) -> Picture:
    def paint(u: Array, v: Array) -> Array:
        # The mesh's coordinates run from -0.5 to 0.5 about its centre, and repeat.
        radius = np.hypot((u + 0.5) % 1 - 0.5, (v + 0.5) % 1 - 0.5) * side
        color = np.broadcast_to(np.array([26, 27, 31.0]), (*u.shape, 3)).copy()
        color[radius < 0.07] += 8
        for line, half in ((0.072, 0.0012), (0.050, 0.0007), (0.028, 0.0007)):
            color[abs(radius - line) < half] = (150, 150, 154)
        return color

    return painted((256, 256), paint)


def rack() -> m.Files:
    """Slats in a low frame, on feet: what is set down on it stays."""
    side, height, wall, foot, rim = 0.15, 0.03, 0.009, 0.012, 0.012
    tall = height - foot + rim
    edge, middle = (side - wall) / 2, foot + tall / 2
    slats = [m.Board((0.136, 0.022, 0.008), (0, -0.057 + 0.0285 * n, height - 0.004), 0) for n in range(5)]
    frame = [
        m.Board((side, wall, tall), (0, -edge, middle), 0),
        m.Board((side, wall, tall), (0, edge, middle), 0),
        m.Board((wall, side - 2 * wall, tall), (-edge, 0, middle), 1),
        m.Board((wall, side - 2 * wall, tall), (edge, 0, middle), 1),
    ]
    feet = [m.Board((0.018, 0.018, foot), (x * 0.062, y * 0.062, foot / 2), 2) for x in (-1, 1) for y in (-1, 1)]
    base = m.element(
        "body",
        m.region("top_region", (0.066, 0.066, 0.0025), (0, 0, height - 0.003)),
        m.shown("bottle_rack", "cherry"),
        *m.halo(side / 2, side / 2),
        m.box("board", (0.136, 0.136, height), (0, 0, height / 2), 0.3),
        *m.boards_boxes("rim", frame, 0.05),
        name="base",
    )
    meshes = {"bottle_rack": m.boards_mesh([*slats, *frame, *feet], bevel=0.0015, repeat=5.0)}
    pictures = {"bottle_rack_cherry": wood((170, 112, 62), (206, 150, 94), seed=47)}
    assets = m.printed("cherry", "bottle_rack_cherry", 0.2, 0.3)
    return m.category_files("bottle_rack", assets, [base], meshes, pictures, (0, height, 0.075))

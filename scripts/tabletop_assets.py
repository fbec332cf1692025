"""Make the arena and objects of the suite tabletop: MJCF, meshes and textures, all from the numbers in this folder.

    python -m scripts.tabletop_assets [FOLDER]

FOLDER is suites/tabletop/assets where it is left out. What it writes is committed; tests compare both. Lengths in
metres, masses in kilograms.
"""

import sys
from pathlib import Path

import numpy as np

from scripts.tabletop_fixtures import cabinet, rack, stove
from scripts.tabletop_models import Files, box, category_files, plain, printed, prism, ring, shade, shown, write_files
from scripts.tabletop_shapes import Array, Mesh, arc, bevelled_box, obj_text, revolved
from scripts.tabletop_textures import bands, painted, planks, plaster, png, tiles

ASSETS = Path(__file__).resolve().parents[1] / "suites" / "tabletop" / "assets"


def main() -> None:
    write_files(Path(sys.argv[1]) if len(sys.argv) > 1 else ASSETS, files())


def files() -> Files:
    """All files by their name in the assets folder."""
    made: Files = {}
    for make in (_arena, _bowl, _plate, _bottle, _box, cabinet, stove, rack):
        made |= make()
    return made


def _arena() -> Files:
    """What scenes/tabletop.xml, which is written by hand, shows."""
    return {
        "scenes/table_top.obj": obj_text(bevelled_box((1.0, 1.2, 0.05), bevel=0.004, grain=1, repeat=1.25)).encode(),
        "scenes/table_planks.png": png(planks((196, 160, 118), (226, 194, 152), (120, 90, 60), seed=5)),
        "scenes/floor_tiles.png": png(tiles((178, 182, 184), (204, 207, 208), (150, 152, 152), seed=11)),
        "scenes/wall_plaster.png": png(plaster((158, 180, 182), (172, 193, 194), seed=17)),
    }


def _bowl() -> Files:
    foot, knee, rim = (0.044, 0.0), (0.059, 0.022), (0.068, 0.055)
    mesh = revolved(
        [
            [(0.0, 0.002), (0.036, 0.002)],
            [(0.036, 0.002), (0.037, 0.0), (0.043, 0.0)],
            [foot, (0.046, 0.004), *arc((0.047, 0.006), (0.0605, 0.020), rim, 8)],
            arc(rim, (0.0665, 0.0585), (0.0632, 0.055), 3),
            [*arc((0.0632, 0.055), (0.0565, 0.021), (0.040, 0.0085), 8), (0.02, 0.008), (0.0, 0.008)],
        ],
        around=2,
    )
    blue, deep, sand = (58, 120, 140), (34, 82, 106), (214, 196, 168)
    glaze = bands(
        [
            (0.0, sand), (0.28, sand), (0.32, deep), (0.50, blue), (0.53, (236, 226, 206)), (0.56, (190, 222, 222)),
            (1.0, (226, 238, 234)),
        ],
        seed=23,
        speckle=26,
    )  # fmt: skip
    geoms = prism("base", 8, 0.0475, 0.0, 0.008, 0.06)
    geoms += ring("lower", 14, (0.046, 0.004), knee, 0.006, 0.05)
    geoms += ring("upper", 14, knee, rim, 0.005, 0.09)
    assets = printed("glaze", "ceramic_bowl_glaze", 0.6, 0.8)
    body = [shown("ceramic_bowl", "glaze"), shade(0.055), *geoms]
    return category_files(
        "ceramic_bowl", assets, body, {"ceramic_bowl": mesh}, {"ceramic_bowl_glaze": glaze}, (0, 0.055, 0.068)
    )


def _plate() -> Files:
    mesh = revolved(
        [
            [(0.0, 0.0015), (0.056, 0.0015)],
            [(0.056, 0.0015), (0.057, 0.0), (0.062, 0.0)],
            [(0.062, 0.0), (0.065, 0.004), (0.08, 0.012), (0.0945, 0.0195)],
            arc((0.0945, 0.0195), (0.0965, 0.0225), (0.0935, 0.0225), 3),
            [(0.0935, 0.0225), (0.08, 0.0165), (0.068, 0.0095)],
            [(0.068, 0.0095), (0.063, 0.0075), (0.04, 0.007), (0.0, 0.007)],
        ],
        segments=56,
    )
    white, rim = (238, 236, 230), (60, 92, 150)
    glaze = bands(
        [
            (0, white), (0.50, white), (0.505, rim), (0.545, rim), (0.55, white), (0.60, white), (0.605, rim),
            (0.615, rim), (0.62, white), (1, white),
        ],
        seed=29,
        speckle=6,
    )  # fmt: skip
    geoms = prism("base", 8, 0.0675, 0.0, 0.0075, 0.14)
    geoms += ring("rim", 16, (0.063, 0.002), (0.0945, 0.020), 0.005, 0.12)
    assets = printed("glaze", "dinner_plate_glaze", 0.5, 0.8)
    body = [shown("dinner_plate", "glaze"), shade(0.087), *geoms]
    return category_files(
        "dinner_plate", assets, body, {"dinner_plate": mesh}, {"dinner_plate_glaze": glaze}, (0, 0.0225, 0.095)
    )


def _bottle() -> Files:
    glass = revolved(
        [
            [(0.0, 0.003), (0.024, 0.001), (0.0262, 0.0)],
            [(0.0262, 0.0), (0.0275, 0.002), (0.0275, 0.03), (0.0275, 0.11)],
            [
                *arc((0.0275, 0.11), (0.0275, 0.135), (0.0150, 0.143), 6),
                *arc((0.0150, 0.143), (0.0128, 0.146), (0.0128, 0.152), 3)[1:],
                (0.0128, 0.166),
            ],
        ],
        segments=32,
    )
    label = revolved([[(0.0279, 0.035), (0.0279, 0.09)]], segments=32, around=2)
    outline = [
        [(0.0128, 0.164), (0.0140, 0.1645)], [(0.0140, 0.1645), (0.0140, 0.193)],
        [(0.0140, 0.193), (0.0132, 0.195), (0.0, 0.195)],
    ]  # fmt: skip
    cap = revolved(outline, segments=28)

    def paint(u: Array, v: Array) -> Array:
        paper, ink, accent = np.array([240, 232, 208.0]), np.array([74, 86, 60.0]), np.array([186, 84, 52.0])
        color = np.broadcast_to(paper, (*u.shape, 3)).copy()
        color[(v < 0.06) | (v > 0.94)] = ink
        color[((v > 0.09) & (v < 0.11)) | ((v > 0.89) & (v < 0.91))] = ink
        color[((u - 0.5) / 0.16) ** 2 + ((v - 0.62) / 0.20) ** 2 < 1] = accent
        color[((u - 0.54) / 0.13) ** 2 + ((v - 0.67) / 0.15) ** 2 < 1] = paper
        for line, reach in ((0.33, 0.30), (0.25, 0.22), (0.17, 0.26)):
            color[(abs(v - line) < 0.018) & (abs(u - 0.5) < reach)] = ink
        return color

    geoms = prism("foot", 6, 0.0275, 0.0, 0.006, 0.06)
    geoms += prism("body", 8, 0.0275, 0.004, 0.115, 0.20)
    geoms += prism("shoulder", 8, 0.0205, 0.115, 0.140, 0.02)
    geoms += prism("neck", 8, 0.0145, 0.140, 0.195, 0.02)
    assets = [
        plain("glass", (0.10, 0.26, 0.16), 0.9, 0.9),
        *printed("label", "glass_bottle_label_print", 0.1, 0.1),
        plain("cap", (0.78, 0.62, 0.28), 0.6, 0.6),
    ]
    parts = {"glass_bottle": "glass", "glass_bottle_label": "label", "glass_bottle_cap": "cap"}
    body = [*(shown(name, material) for name, material in parts.items()), *geoms]
    meshes = {"glass_bottle": glass, "glass_bottle_label": label, "glass_bottle_cap": cap}
    pictures = {"glass_bottle_label_print": painted((128, 128), paint)}
    return category_files("glass_bottle", assets, body, meshes, pictures, (0, 0.195, 0.0275))


def _box() -> Files:
    size = (0.078, 0.05, 0.038)

    def paint(u: Array, v: Array) -> Array:
        yellow, red, white = np.array([246, 205, 78.0]), np.array([196, 52, 44.0]), np.array([252, 248, 236.0])
        color = np.broadcast_to(yellow, (*u.shape, 3)).copy()
        color[(v < 0.16)] = red
        color[(abs(v - 0.19) < 0.012)] = white
        color[((u - 0.5) / 0.33) ** 2 + ((v - 0.58) / 0.27) ** 2 < 1] = white
        color[((u - 0.5) / 0.30) ** 2 + ((v - 0.58) / 0.235) ** 2 < 1] = red
        for line, reach in ((0.64, 0.17), (0.52, 0.21)):
            color[(abs(v - line) < 0.035) & (abs(u - 0.5) < reach)] = white
        color[((u - 0.5) * 40 % 2 < 1) & (abs(v - 0.08) < 0.02) & (abs(u - 0.5) < 0.3)] = yellow
        return color

    mesh = bevelled_box(size, bevel=0.001)
    # Each side shows the whole print, upright.
    texture = np.zeros_like(mesh.texture)
    for number, (vertex, normal) in enumerate(zip(mesh.vertices, mesh.normals, strict=True)):
        along = 1 if abs(normal[0]) > 0.5 else 0
        up = 1 if abs(normal[2]) > 0.5 else 2
        turn = {0: np.sign(normal[0]), 1: -np.sign(normal[1]), 2: 1.0}[int(np.argmax(np.abs(normal)))]
        texture[number] = (0.5 + turn * vertex[along] / size[along], 0.5 + vertex[up] / size[up])
    mesh = Mesh(mesh.vertices, mesh.normals, texture, mesh.faces)
    assets = printed("print", "food_box_print", 0.2, 0.3)
    body = [shown("food_box", "print"), box("carton", size, (0, 0, 0), 0.15)]
    pictures = {"food_box_print": painted((160, 256), paint)}
    return category_files("food_box", assets, body, {"food_box": mesh}, pictures, (-size[2] / 2, size[2] / 2, 0.0464))


if __name__ == "__main__":
    main()

"""What has to be drawn for a picture: what it can show, and a mirror only where it is seen. Pixels stay the same.

MuJoCo's renderer (src/render/render_gl3.c, mjr_render) hands all geoms of a scene to OpenGL, whether the camera sees
them or not, and the same again for what the one reflecting face shows: the first opaque box or plane that reflects, a
box by its upper side. A pixel follows from those geoms only that cover it or, where that face does, are mirrored in it,
in their order. So what is outside of the camera's frustum is left out, and of its mirror image where the face is seen,
and so is what is behind a table.
Where the face is small, two passes are cheaper: one without the mirror, and one with it of what is seen in the face and
in front of it, of which the face's pixels are taken.
"""

import dataclasses
import itertools
from types import EllipsisType

import mujoco
import numpy as np

from pytest_vla.sim.frustum import Array, Boxes, Frustum, Mask, behind, edges, frustum_of, mirrored, outline
from pytest_vla.sim.scene_geoms import BOX, OPAQUE, PLANE, Geoms, SceneGeoms

Window = tuple[int, int, int, int]
"""Left, bottom, width and height of a part of a picture, in pixels, OpenGL's way up."""

SECOND_PASS = 20_000
"""Triangles that could be drawn in the time that a second pass takes to begin and to read."""

_FACES = np.array(
    [[np.insert(corner, side, 1.0) for corner in ((-1, -1), (1, -1), (1, 1), (-1, 1))] for side in range(3)]
)
"""(3, 4, 3): the corners, in order, of a cube's face to either side along each axis."""

_TABLE = 0.2
"""m: half of the sides that a box has at least which is looked behind."""

_MARGIN = 2.0
"""Pixels around the picture, and around a mirror in it, that are taken for it too, against rounding."""


@dataclasses.dataclass(frozen=True)
class Pass:
    """One call of the renderer.

    Attributes:
        geoms: (n,) which of the scene's are drawn.
        reflects: whether the mirror image is drawn.
        window: the part of the picture that is read.
        taken: index of those of its pixels, (height, width), that are taken.
    """

    geoms: Mask
    reflects: bool
    window: Window
    taken: Mask | EllipsisType = ...


@dataclasses.dataclass(frozen=True)
class _Mirror:
    """A face that reflects and may be seen: its geom, planes around what it shows, and lines around it in the picture.

    Without lines it may be anywhere.
    """

    geom: int
    planes: Array
    lines: Array | None
    window: Window


@dataclasses.dataclass(frozen=True)
class View:
    """What a camera sees of a scene.

    Attributes:
        geoms: the scene's.
        frustum: the camera's; None: no such camera, or things of other kinds than geoms: all is to be drawn.
        width, height: of the picture, in pixels.
        shadows: whether lights cast any: then what casts them may be anywhere.
    """

    geoms: Geoms
    frustum: Frustum | None
    width: int
    height: int
    shadows: bool
    _mirror: _Mirror | None

    def passes(self, second_pass: float) -> list[Pass]:
        """What has to be drawn for the picture of all geoms, in order.

        Args:
            second_pass: what a second pass costs beside what it draws, in triangles; infinite: there is none.
        """
        picture, mirror = (0, 0, self.width, self.height), self._mirror
        if self.frustum is None or self.shadows:
            everything = np.ones(len(self.geoms), np.bool_)
            return [Pass(everything, self.frustum is None or mirror is not None, picture)]
        pixel = max(_pixel(self.frustum, self.width, self.height))
        around = self.frustum.within(self.frustum.slopes, _MARGIN * pixel)
        shown = ~self._hidden(self.frustum, pixel)
        if mirror is None:
            (seen,) = self._reaching(self.frustum, around)
            return [Pass(seen & shown, False, picture)]
        groups = [around, mirror.planes]
        lines = mirror.lines if second_pass < np.inf else None
        if lines is not None:
            groups.append(self.frustum.cone(_further(lines, (_MARGIN + 1) * pixel)))
        seen, reflected, *before = self._reaching(self.frustum, *groups)
        seen &= shown
        reflected[mirror.geom] = True
        together = [Pass(seen | reflected, True, picture)]
        if lines is None:
            return together
        # All pixels of what is wholly in the face, and a bit beyond, are taken from the second pass.
        _, within = self.geoms.boxes.sides(self.frustum.cone(_further(lines, (_MARGIN - 1) * pixel)), self.frustum.eye)
        only_there = self.geoms.bounded & within.all(axis=1)
        taken = _inside(_further(lines, _MARGIN * pixel), mirror.window, self.frustum, self.width, self.height)
        apart = [
            Pass(seen & ~only_there, False, picture),
            Pass((before[0] & shown) | reflected, True, mirror.window, taken),
        ]
        return min(together, apart, key=lambda way: self._cost(way) + second_pass * (len(way) - 1))

    def _reaching(self, frustum: Frustum, *groups: Array) -> list[Mask]:
        """(n,) for each group of planes: which geoms may reach into what they enclose."""
        reach, _ = self.geoms.boxes.sides(np.concatenate(groups), frustum.eye)
        ends = [0, *itertools.accumulate(map(len, groups))]
        return [~self.geoms.bounded | reach[:, begin:end].all(axis=1) for begin, end in itertools.pairwise(ends)]

    def _hidden(self, frustum: Frustum, pixel: float) -> Mask:
        """(n,): what is wholly behind a side of a large box, such as a table's, which hides it wherever it is drawn."""
        boxes, geoms = self.geoms.boxes, self.geoms
        large = (boxes.halves >= _TABLE).sum(axis=1) >= 2
        (tables,) = np.nonzero(large & geoms.solid & (geoms.integer("type") == BOX))
        axes, centers, halves = boxes.axes[tables], boxes.centers[tables], boxes.halves[tables]
        eyes = ((frustum.eye - centers)[:, None] @ axes)[:, 0]
        # Of what is nearer nothing is drawn.
        near = 2 * frustum.near * float(np.sqrt(1 + np.square(frustum.slopes).reshape(2, 2).max(axis=0).sum()))
        box, side = np.nonzero(np.abs(eyes) - halves > near)
        if not len(box):
            return np.zeros(len(geoms), np.bool_)
        corners = halves[box, None] * _FACES[side]
        corners *= np.where(np.arange(3) == side[:, None], np.sign(eyes[box]), 1.0)[:, None]
        planes = behind(frustum.eye, corners @ axes[box].transpose(0, 2, 1) + centers[box, None])
        _, within = boxes.sides(planes.reshape(-1, 4), frustum.eye, _MARGIN * pixel)
        by_face = within.reshape(len(geoms), len(planes), -1).all(axis=2)
        return geoms.bounded & np.asarray(by_face).any(axis=1)

    def _cost(self, passes: list[Pass]) -> float:
        """Triangles that are handed to OpenGL."""
        return float(sum((1 + one.reflects) * self.geoms.triangles[one.geoms].sum() for one in passes))


def view_of(
    scene: mujoco.MjvScene, geoms: SceneGeoms, width: int, height: int, *, reflections: bool, shadows: bool
) -> View:
    """What the camera of a scene sees, which was updated.

    Args:
        scene: its camera.
        geoms: the scene's.
        width, height: of the picture, in pixels.
        reflections: whether what reflects does.
        shadows: whether lights cast any.
    """
    found = geoms.read()
    if any(camera.orthographic for camera in scene.camera) or scene.nskin or scene.nflex:
        return View(found, None, width, height, shadows, None)
    frustum = frustum_of(scene, width / height)
    mirror = _mirror_in(found, frustum, width, height) if reflections else None
    return View(found, frustum, width, height, shadows, mirror)


def _mirror_in(geoms: Geoms, frustum: Frustum, width: int, height: int) -> _Mirror | None:
    """The face that reflects, chosen as mjr_render does; None where it is not seen. No other geom reflects any more."""
    kinds, normals, positions = geoms.integer("type"), geoms.array("mat")[:, 2::3], geoms.array("pos")
    planes = kinds == PLANE
    behind = ((frustum.eye - positions) * normals).sum(axis=1) < 0
    opaque = (geoms.array("rgba")[:, 3] >= OPAQUE) & ~(planes & behind)
    reflectances = geoms.number("reflectance")
    (found,) = np.nonzero((planes | (kinds == BOX)) & opaque & (reflectances > 0))
    if not len(found):
        return None
    geom = int(found[0])
    # mjr_render does the same to those behind it, unless the first one is not in the scene that it gets.
    reflectances[geom + 1 :] = 0
    axes, (x, y, z) = geoms.array("mat")[geom].reshape(3, 3), geoms.array("size")[geom]
    normal = axes[:, 2]
    point = positions[geom] + (0.0 if planes[geom] else z) * normal
    if (frustum.eye - point) @ normal < -1e-4:
        return None
    slack = _MARGIN * max(_pixel(frustum, width, height))
    view, picture = frustum.within(frustum.slopes, slack), (0, 0, width, height)
    if planes[geom]:
        # A model's own may be endless.
        return _Mirror(geom, mirrored(view, point, normal), None, picture)
    reach, _ = Boxes(point[None], axes[None], np.array([[x, y, 0.0]])).sides(view, frustum.eye)
    if not reach.all():
        return None
    corners = np.array([[-x, -y], [x, -y], [x, y], [-x, y]]) @ axes[:, :2].T + point
    shown = outline(frustum, corners, slack)
    lines = None if shown is None else edges(shown)
    if shown is None or lines is None:
        return _Mirror(geom, mirrored(view, point, normal), None, picture)
    planes_seen = mirrored(frustum.cone(_further(lines, slack)), point, normal)
    return _Mirror(geom, planes_seen, lines, _window(shown, frustum, width, height))


def _pixel(frustum: Frustum, width: int, height: int) -> tuple[float, float]:
    """The width and height of a pixel in slopes."""
    left, bottom, right, top = frustum.slopes
    return (right - left) / width, (top - bottom) / height


def _further(lines: Array, slack: float) -> Array:
    """Lines so much further out."""
    moved = lines.copy()
    moved[:, 2] += slack
    return moved


def _window(shown: Array, frustum: Frustum, width: int, height: int) -> Window:
    """The pixels around what is shown, as (n, 2) slopes, and as many more as may be taken."""
    size, scale = np.array([width, height]), 1 / np.array(_pixel(frustum, width, height))
    low, high = ((corner - frustum.slopes[:2]) * scale for corner in (shown.min(axis=0), shown.max(axis=0)))
    left, bottom = np.clip(np.floor(low - _MARGIN - 1), 0, size).astype(int).tolist()
    right, top = np.clip(np.ceil(high + _MARGIN + 1), 0, size).astype(int).tolist()
    return left, bottom, right - left, top - bottom


def _inside(lines: Array, window: Window, frustum: Frustum, width: int, height: int) -> Mask:
    """(height, width) Which pixels of a window have their middle between lines."""
    x, y = (
        start + size * (first + 0.5 + np.arange(count))
        for start, size, first, count in zip(
            frustum.slopes, _pixel(frustum, width, height), window, window[2:], strict=False
        )
    )
    heights = lines[:, 0, None, None] * x + lines[:, 1, None, None] * y[:, None] + lines[:, 2, None, None]
    return np.asarray((heights >= 0).all(axis=0))

"""Meshes of tabletop's things: bevelled boxes and surfaces of revolution, with normals and texture coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Faces = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Mesh:
    """Triangles `faces` (m, 3) over vertices (n, 3) in metres, normals (n, 3), texture coordinates (n, 2)."""

    vertices: Array
    normals: Array
    texture: Array
    faces: Faces

    def moved(self, x: float, y: float, z: float) -> "Mesh":
        """The same mesh elsewhere."""
        return Mesh(self.vertices + np.array([x, y, z]), self.normals, self.texture, self.faces)


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """Several meshes as one."""
    offsets = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes[:-1]])
    return Mesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.normals for mesh in meshes]),
        np.concatenate([mesh.texture for mesh in meshes]),
        np.concatenate([mesh.faces + offset for mesh, offset in zip(meshes, offsets, strict=True)]),
    )


def bevelled_box(
    size: Sequence[float],
    centre: Sequence[float] = (0.0, 0.0, 0.0),
    bevel: float = 0.0015,
    grain: int = 0,
    repeat: float = 4.0,
    shift: float = 0.0,
) -> Mesh:
    """A box with bevelled edges that catch the light.

    Args:
        size: full lengths (m).
        centre: position (m).
        bevel: how much of an edge is cut off (m).
        grain: axis along which the texture's u runs.
        repeat: texture repeats a metre.
        shift: added to texture coordinates, so that neighbours differ.
    """
    half = np.array(size, dtype=float) / 2
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
    vertices, normals, texture = [], [], []
    for sign in signs:
        for axis in range(3):
            corner = sign * (half - bevel)
            corner[axis] = sign[axis] * half[axis]
            normal = np.zeros(3)
            normal[axis] = sign[axis]
            first, second = [other for other in (grain, (grain + 1) % 3, (grain + 2) % 3) if other != axis]
            vertices.append(corner + np.array(centre))
            normals.append(normal)
            texture.append([corner[first] * repeat + shift, corner[second] * repeat + shift * 0.37])
    index = {tuple(sign): number for number, sign in enumerate(signs)}
    faces: list[tuple[int, int, int]] = []

    def polygon(corners: Sequence[int]) -> None:
        points = np.array([vertices[corner] for corner in corners]) - np.array(centre)
        outward = np.dot(np.cross(points[1] - points[0], points[2] - points[0]), points.mean(axis=0)) > 0
        ordered = list(corners) if outward else list(corners)[::-1]
        faces.extend((ordered[0], ordered[step], ordered[step + 1]) for step in range(1, len(ordered) - 1))

    def at(axis: int, value: float, other: int, one: float, last: int, two: float) -> tuple[float, ...]:
        sign = np.zeros(3)
        sign[axis], sign[other], sign[last] = value, one, two
        return tuple(sign)

    for axis in range(3):
        other, last = (axis + 1) % 3, (axis + 2) % 3
        for value in (-1.0, 1.0):
            ring = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]
            polygon([3 * index[at(axis, value, other, one, last, two)] + axis for one, two in ring])
            for side in (-1.0, 1.0):
                edge = [index[at(axis, along, other, value, last, side)] for along in (-1.0, 1.0)]
                polygon([3 * edge[0] + other, 3 * edge[1] + other, 3 * edge[1] + last, 3 * edge[0] + last])
    for corner in range(8):
        polygon([3 * corner, 3 * corner + 1, 3 * corner + 2])
    return Mesh(np.array(vertices), np.array(normals), np.array(texture), np.array(faces))


def revolved(profile: Sequence[Sequence[Sequence[float]]], segments: int = 48, around: float = 1.0) -> Mesh:
    """A surface of revolution about z.

    Args:
        profile: smooth pieces, each a list of (radius, height) in metres, in the order in which they are met when one
            walks along the surface with the outside on the right.
        segments: how many sides the circle has.
        around: texture repeats around; v runs from 0 to 1 along the whole profile.
    """
    pieces = [np.array(piece, dtype=float) for piece in profile]
    lengths = [np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(piece, axis=0), axis=1))]) for piece in pieces]
    total = float(sum(length[-1] for length in lengths))
    before = 0.0
    angles = np.linspace(0, 2 * np.pi, segments + 1)
    meshes = []
    for piece, length in zip(pieces, lengths, strict=True):
        tangent = np.gradient(piece, length, axis=0)
        slope = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
        slope /= np.linalg.norm(slope, axis=1, keepdims=True)
        cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
        vertices = np.stack(
            [cosine * piece[:, 0], sine * piece[:, 0], np.broadcast_to(piece[:, 1], (segments + 1, len(piece)))], axis=2
        )
        normals = np.stack(
            [cosine * slope[:, 0], sine * slope[:, 0], np.broadcast_to(slope[:, 1], (segments + 1, len(piece)))], axis=2
        )
        u = np.broadcast_to(angles[:, None] / (2 * np.pi) * around, (segments + 1, len(piece)))
        v = np.broadcast_to((before + length) / total, (segments + 1, len(piece)))
        before += float(length[-1])
        count = len(piece)
        faces = []
        for turn in range(segments):
            for step in range(count - 1):
                a, b = turn * count + step, (turn + 1) * count + step
                # At the axis one of the two triangles has no area.
                if piece[step, 0] > 1e-9:
                    faces.append((a, b, a + 1))
                if piece[step + 1, 0] > 1e-9:
                    faces.append((b, b + 1, a + 1))
        meshes.append(
            Mesh(
                vertices.reshape(-1, 3),
                normals.reshape(-1, 3),
                np.stack([u, v], axis=2).reshape(-1, 2),
                np.array(faces),
            )
        )
    return joined(meshes)


def arc(
    start: Sequence[float], middle: Sequence[float], end: Sequence[float], steps: int = 6
) -> list[tuple[float, float]]:
    """A curved piece of a profile: the quadratic Bezier curve of three points, ends included."""
    first, control, last = (np.array(point, dtype=float) for point in (start, middle, end))
    points = []
    for t in np.linspace(0, 1, steps + 1):
        x, z = (1 - t) ** 2 * first + 2 * t * (1 - t) * control + t**2 * last
        points.append((float(x), float(z)))
    return points


def obj_text(mesh: Mesh) -> str:
    """The mesh as a Wavefront file; numbers rounded so that every machine writes the same."""
    lines = [f"v {_number(x, 6)} {_number(y, 6)} {_number(z, 6)}" for x, y, z in mesh.vertices]
    lines += [f"vt {_number(u, 4)} {_number(v, 4)}" for u, v in mesh.texture]
    lines += [f"vn {_number(x, 3)} {_number(y, 3)} {_number(z, 3)}" for x, y, z in mesh.normals]
    lines += ["f " + " ".join(f"{corner}/{corner}/{corner}" for corner in face) for face in mesh.faces + 1]
    return "\n".join(lines) + "\n"


def _number(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text

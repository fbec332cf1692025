"""When something has fallen, as VLA-Arena's code has it.

Facts from VLA-Arena's public checkout of 2025-09, ``envs/object_states/base_object_states.py`` (`fall`), and robosuite
1.5.1, ``utils/transform_utils.py``.
"""

import math

import numpy as np

from pytest_vla.scene.scene import SceneBody
from pytest_vla.sim.costs.setting import Array, Setting

# Upstream's limits, m and rad.
_MOVED, _DROPPED = 0.1, 0.05
_TURNED = (0.2, 0.2, 0.5)


def has_fallen_as_coded(setting: Setting, body: SceneBody) -> bool:
    """Upstream's `fall`: far, deep or much turned from where the reset's draw put it.

    Quaternions are wxyz where its functions take xyzw, and are rounded to single precision where they round.
    """
    drawn = setting.drawn().get(body.name)
    if body.is_fixture or drawn is None:
        return False
    identifier = setting.model.body(body.root_body).id
    position, quaternion = setting.data.xpos[identifier], setting.data.xquat[identifier]
    moved = np.linalg.norm(position - drawn[0]) > _MOVED or drawn[0][2] - position[2] > _DROPPED
    turned = np.abs(_misread_rotation(quaternion, drawn[1])) > _TURNED
    return bool(moved or turned.any())


def _misread_rotation(now: Array, before: Array) -> Array:
    """The rotation vector (3,) of `now` after the inverse of `before`, whose first number is taken for x."""
    conjugate = np.array((-before[0], -before[1], -before[2], before[3]), dtype=np.float32)
    x0, y0, z0, w0 = conjugate / np.dot(before, before)
    x1, y1, z1, w1 = now
    turn = np.array(
        (
            x1 * w0 + y1 * z0 - z1 * y0 + w1 * x0,
            -x1 * z0 + y1 * w0 + z1 * x0 + w1 * y0,
            x1 * y0 - y1 * x0 + z1 * w0 + w1 * z0,
            -x1 * x0 - y1 * y0 - z1 * z0 + w1 * w0,
        ),
        dtype=np.float32,
    )
    turn[3] = min(max(turn[3], -1.0), 1.0)
    sine = np.sqrt(1.0 - turn[3] * turn[3])
    if sine == 0.0:
        return np.zeros(3)
    return np.asarray((turn[:3] * 2.0 * math.acos(turn[3])) / sine)

"""The distance of geoms from a region's box: that of MuJoCo from a box that is a geom."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.scene.scene import SceneSite
from pytest_vla.sim.costs.geometry import RegionDistance
from pytest_vla.sim.costs.setting import Setting
from tests.support.costs import problem_with
from tests.support.examples import scaled

_KINDS = ("box", "sphere", "capsule", "cylinder", "ellipsoid", "mesh")
_SHAPES, _SIZES = {"mesh": "mesh='wedge'"}, "size='.02 .03 .04'"
_HALF = (0.05, 0.08, 0.007)
_MODEL = mujoco.MjModel.from_xml_string(
    "<mujoco><asset><mesh name='wedge' vertex='0 0 0 .06 0 0 0 .05 0 0 0 .07 .03 .03 .03'/></asset><worldbody>"
    + f"<body name='region' mocap='true'><geom type='box' size='{' '.join(map(str, _HALF))}'/>"
    + f"<site name='region' type='box' size='{' '.join(map(str, _HALF))}'/></body>"
    + "".join(f"<body mocap='true'><geom type='{kind}' {_SHAPES.get(kind, _SIZES)}/></body>" for kind in _KINDS)
    + "</worldbody></mujoco>"
)
_SITE = SceneSite("region", None, (), _HALF)
_POINT = st.tuples(*[st.floats(-0.3, 0.3)] * 3)
_TURN = st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda turn: np.linalg.norm(turn) > 0.1)


@given(st.lists(st.tuples(_POINT, _TURN), min_size=2, max_size=2), st.integers(1, len(_KINDS)), st.floats(0.0, 0.3))
@settings(max_examples=scaled(300))
def test_as_far_as_mujoco_says_of_a_box(poses: list[tuple[object, object]], geom: int, limit: float) -> None:
    data = mujoco.MjData(_MODEL)
    setting = Setting(problem_with(""), None, _MODEL, data, dict)  # type: ignore[arg-type]
    for body, (place, turn) in zip((0, geom), poses, strict=True):
        data.mocap_pos[body], data.mocap_quat[body] = place, turn
    mujoco.mj_forward(_MODEL, data)
    said = mujoco.mj_geomDistance(_MODEL, data, 0, geom, 10.0, None)
    distance = RegionDistance(setting, np.array([geom]), _SITE)
    # MuJoCo says 3 mm of a box and a capsule in the same place: small numbers may be of what overlaps.
    if not 0.0 <= said < 0.01:
        assert distance() == pytest.approx(max(said, 0.0), abs=2e-4)
    if not 0.0 <= said < 0.01 and abs(said - limit) > 2e-4:
        assert distance.within(limit) == (said <= limit)


def test_of_several_the_nearest_and_of_none_it_is_far() -> None:
    data = mujoco.MjData(_MODEL)
    setting = Setting(problem_with(""), None, _MODEL, data, dict)  # type: ignore[arg-type]
    data.mocap_pos[1:, 2] = np.arange(2.0, 2.0 + len(_KINDS))
    data.mocap_pos[2] = (0.0, 0.2, 0.0)
    mujoco.mj_forward(_MODEL, data)
    distance = RegionDistance(setting, np.arange(1, 1 + len(_KINDS)), _SITE)
    assert distance() == pytest.approx(0.2 - 0.08 - 0.02, abs=1e-6)
    assert distance.within(0.1001)
    assert not distance.within(0.0999)
    assert RegionDistance(setting, np.array([], dtype=np.intp), _SITE)() == np.inf

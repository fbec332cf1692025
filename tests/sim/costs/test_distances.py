"""Distances between groups of geoms: all pairs where upstream's verdict is wanted, the near ones where the truth is."""

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.sim.costs import geometry
from pytest_vla.sim.costs.geometry import SaidDistance, TrueDistance
from pytest_vla.sim.costs.setting import Setting
from tests.support.costs import problem_with
from tests.support.examples import scaled

_MODEL = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody>"
    + "".join(
        f"<body name='{side}{number}' mocap='true'><geom type='{kind}' size='.02 .03 .04'/></body>"
        for side in "ab"
        for number, kind in enumerate(("box", "sphere", "capsule"))
    )
    + "</worldbody></mujoco>"
)
_GROUPS = np.arange(3), np.arange(3, 6)
_POINT = st.tuples(*[st.floats(-0.3, 0.3)] * 3)


def _setting() -> Setting:
    return Setting(problem_with(""), None, _MODEL, mujoco.MjData(_MODEL), dict)  # type: ignore[arg-type]


@given(st.lists(_POINT, min_size=6, max_size=6), st.floats(-0.05, 0.4))
@settings(max_examples=scaled(60))
def test_leaving_out_far_pairs_changes_neither_distance_nor_verdict(points: list[object], limit: float) -> None:
    setting = _setting()
    setting.data.mocap_pos[:] = points
    mujoco.mj_forward(_MODEL, setting.data)
    said, true = SaidDistance(setting, *_GROUPS), TrueDistance(setting, *_GROUPS)
    smallest = min(
        mujoco.mj_geomDistance(_MODEL, setting.data, int(one), int(other), 10.0, None)
        for one in _GROUPS[0]
        for other in _GROUPS[1]
    )
    assert said() == smallest
    assert said.within(limit) == (smallest <= limit)
    if smallest:
        assert true() == pytest.approx(smallest, abs=1e-3)
        if abs(smallest - limit) > 2e-3:
            assert true.within(limit) == (smallest <= limit)


def test_nothing_is_near_to_nothing() -> None:
    nothing = np.empty(0, dtype=np.intp)
    for distance in (SaidDistance(_setting(), nothing, _GROUPS[0]), TrueDistance(_setting(), nothing, _GROUPS[0])):
        assert distance() == np.inf
        assert not distance.within(100.0)


def test_a_distance_of_0_without_a_contact_is_believed_by_upstreams_account_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setting = _setting()
    setting.data.mocap_pos[3:] = 1.0
    mujoco.mj_forward(_MODEL, setting.data)
    asked = mujoco.mj_geomDistance
    monkeypatch.setattr(
        geometry.mujoco, "mj_geomDistance", lambda *given: 0.0 if given[2:4] == (0, 3) else asked(*given)
    )
    said, true = SaidDistance(setting, *_GROUPS), TrueDistance(setting, *_GROUPS)
    assert said() == 0.0
    assert said.within(0.05)
    assert true() > 1.0
    assert not true.within(0.05)

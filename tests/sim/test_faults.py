"""Physics trouble of real MuJoCo models is named."""

import mujoco
import pytest

from pytest_vla.errors import EpisodeError
from pytest_vla.sim.faults import check_physics, redirect_warnings

# 60 spheres in one place: thousands of contacts, for which this arena has no room.
_CROWD = "<mujoco><size memory='{memory}'/><worldbody>{bodies}</worldbody></mujoco>"
_BODY = "<body pos='0 0 {z}'><freejoint/><geom size='.1'/></body>"


def _crowd(memory: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    bodies = "".join(_BODY.format(z=index * 1e-3) for index in range(60))
    model = mujoco.MjModel.from_xml_string(_CROWD.format(memory=memory, bodies=bodies))
    return model, mujoco.MjData(model)


def test_a_full_contact_buffer_is_named(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # type: ignore[arg-type]
    redirect_warnings()
    model, data = _crowd("800K")
    mujoco.mj_step(model, data)
    assert data.warning.number[mujoco.mjtWarning.mjWARN_CONTACTFULL] > 0
    with pytest.raises(EpisodeError) as caught:
        check_physics(data, 0.0)
    assert caught.value.reason == "physics-contacts-full"
    assert "MuJoCo:" in caught.value.message
    assert not data.warning.number.any()


def test_a_healthy_step_passes() -> None:
    model, data = _crowd("50M")
    mujoco.mj_step(model, data)
    check_physics(data, 0.0)


def test_time_must_advance() -> None:
    _, data = _crowd("50M")
    with pytest.raises(EpisodeError, match="physics-time"):
        check_physics(data, 1.0)

"""Pictures of scenes that a search tried: drawn as episodes begin, equal ones once, and why there is none."""

import dataclasses

import pytest

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.plan.manifests import load_suite
from pytest_vla.show.variations import first_pictures, scene_pictures
from pytest_vla.vary import chosen
from pytest_vla.vary.chosen import Change
from tests.support.worlds import tabletop_world

TASK = load_suite("tabletop").task("turn_on_the_stove")
SMALL = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, image_size=(64, 64)))

AZIMUTH = Change("camera.azimuth", {"azimuth_deg": 60.0})


def scene(*some: Change) -> Candidate:
    return Candidate(SMALL, 0, some)


def test_scenes_are_drawn_as_episodes_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    tabletop_world()
    drawn: list[str] = []

    def counting(pool: object, task: object, case: object, variation: object, cameras: object) -> object:
        drawn.append("" if variation is None else "changed")
        return first_pictures(pool, task, case, variation, cameras)  # type: ignore[arg-type]

    monkeypatch.setattr("pytest_vla.show.variations.first_pictures", counting)
    before = dict(chosen._KNOWN)
    delay = Change("action.delay", {"steps": 3})
    beyond = Change("camera.azimuth", {"azimuth_deg": 400.0})
    benign, moved, delayed, refused, again = scene_pictures(
        [scene(), scene(AZIMUTH), scene(delay), scene(beyond), scene()]
    )
    assert benign.picture is not None
    assert moved.picture is not None
    assert benign.picture.shape == moved.picture.shape == (64, 64, 3)
    assert abs(benign.picture.astype(int) - moved.picture.astype(int)).mean() > 15
    assert (delayed.picture, delayed.why) == (None, "the change is not visible")
    assert refused.picture is None
    assert "expected -75 to 75 deg, found 400.0" in refused.why
    assert again is benign
    assert drawn == ["", "changed"]
    assert before == chosen._KNOWN, "labels are known while they are needed"

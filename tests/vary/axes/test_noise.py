"""The dimension noise: its kinds, their records, and what is drawn for which frame."""

import dataclasses
import functools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.pixel_noise import Picture, frame_generator
from pytest_vla.suites.libero_plus.kinds import NOISE as PLUS
from pytest_vla.suites.libero_plus.kinds import plus_noise, plus_picture
from pytest_vla.suites.libero_plus.names import PLUS_NAMES, PLUS_SEVERITIES, plus_parts
from pytest_vla.vary.axes.noise import KINDS, LEVELS
from pytest_vla.vary.effects.pictures import EFFECTS, begin_noise
from pytest_vla.vary.kind import Draw, VariationKind
from tests.support.examples import scaled
from tests.support.worlds import tabletop_world

GRADED = {kind.name: kind for kind in KINDS}
PUBLISHED = {kind.name: kind for kind in PLUS}
BOTH = (*KINDS, *PLUS)
ALIKE = ("noise.gaussian_blur", "noise.zoom", "noise.compression")
"""Do the same to all frames: nothing is drawn."""


@functools.lru_cache(maxsize=1)
def task() -> Task:
    return load_suite("tabletop").tasks[0]


@functools.lru_cache(maxsize=1)
def frames() -> dict[str, Picture]:
    """What a policy first sees."""
    world = tabletop_world()
    assert world.switch(task())
    observation = world.reset(0)
    return {camera: observation[f"{camera}_image"] for camera in task().protocol.cameras}


def made(kind: VariationKind, label: str, seed: int = 1) -> Variation:
    level = int(label.rpartition("-L")[2]) if kind.levels else 0
    return kind.make(Draw(task(), label, seed, level, label.removeprefix(f"{kind.name}.")))


def small(number: int = 0) -> Picture:
    return np.random.default_rng(number).integers(0, 256, (48, 64, 3), dtype=np.uint8)


def seen(variation: Variation, moments: list[tuple[str, int]]) -> dict[tuple[str, int], Picture]:
    """An episode's pictures, read in some order; each camera and step has its own."""
    (edit,) = variation.pictures
    change = edit()
    cameras = task().protocol.cameras
    return {(camera, step): change(small(cameras.index(camera) + 7 * step), camera, step) for camera, step in moments}


def test_the_kinds_are_graded_by_five_or_published() -> None:
    effects = ["motion", "gaussian_blur", "zoom", "fog", "glass", "gaussian", "salt_pepper", "compression", "dropped"]
    assert list(GRADED) == [f"noise.{effect}" for effect in effects]
    assert list(EFFECTS) == effects
    assert all(kind.levels == LEVELS and kind.grades and kind.about and kind.source for kind in GRADED.values())
    assert list(PUBLISHED) == ["noise.plus", "noise.plus_wrist"]
    labels = PUBLISHED["noise.plus"].labels()
    assert len(set(labels)) == 50
    assert (labels[0], labels[49]) == ("noise.plus.motion-1", "noise.plus.glass-10")
    assert all(kind.dimension == "noise" for kind in BOTH)


def test_the_kinds_are_listed_without_what_they_are_made_with() -> None:
    code = (
        "import sys, pytest_vla.suites.libero_plus.kinds as n; n.plus_noise(1, 2); "
        "sys.exit(str(sorted({'numpy', 'cv2', 'numba', 'mujoco'} & set(sys.modules))) if "
        "{'numpy', 'cv2', 'numba', 'mujoco'} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", GRADED.values(), ids=GRADED)
def test_pictures_differ_evenly_more_from_level_to_level(kind: VariationKind) -> None:
    """The mean absolute difference on both cameras' pictures of the suite tabletop; dropped frames: how many are."""
    far = []
    for label in kind.labels():
        (edit,) = made(kind, label).pictures
        change = edit()
        if kind.name == "noise.dropped":
            given = [change(np.full((2, 2, 3), step % 256, dtype=np.uint8), "agentview", step) for step in range(2000)]
            far.append(np.mean([picture[0, 0, 0] != step % 256 for step, picture in enumerate(given)]))
        else:
            # Over frames, as one may be moved along what is the same along it.
            moments = [(camera, step) for camera in frames() for step in range(12)]
            changed = [
                np.abs(change(frames()[camera], camera, step).astype(int) - frames()[camera]).mean()
                for camera, step in moments
            ]
            far.append(np.mean(changed))
    assert np.array(far) / far[-1] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0], abs=0.07)
    assert far[-1] > 0.5 if kind.name == "noise.dropped" else far[-1] > 10


@pytest.mark.parametrize("name", [name for name in GRADED if name not in ALIKE])
def test_levels_share_what_is_drawn(name: str) -> None:
    kind = GRADED[name]
    for seed in range(3):
        assert len({made(kind, label, seed).parameters["seed"] for label in kind.labels()}) == 1


def test_one_frame_of_fog_grows_with_the_level_everywhere() -> None:
    """One field: each value goes the same way at all levels, further at each, but for what is truncated."""
    kind, frame = GRADED["noise.fog"], frames()["agentview"].astype(int)
    for seed in range(3):
        foggy = [
            made(kind, label, seed).pictures[0]()(frames()["agentview"], "agentview", 0) for label in kind.labels()
        ]
        far = [picture - frame for picture in foggy]
        heading = np.sign(far[-1])
        steps = np.diff([heading * each for each in far], axis=0)
        assert (steps >= -1).all()
        assert (steps.mean((1, 2, 3)) > 5).all()


def test_a_frame_that_is_dropped_is_dropped_at_all_higher_levels() -> None:
    kind, lower = GRADED["noise.dropped"], set[int]()
    for label in kind.labels():
        change = made(kind, label).pictures[0]()
        given = [int(change(numbered(step), "agentview", step)[0, 0, 0]) for step in range(200)]
        dropped = {step for step, got in enumerate(given) if got != step}
        assert lower < dropped
        lower = dropped


@pytest.mark.parametrize("name", GRADED)
def test_the_record_is_enough_to_make_the_pictures_again(name: str) -> None:
    kind = GRADED[name]
    for label in kind.labels():
        variation = made(kind, label)
        assert (variation.label, variation.dimension, f"noise.{variation.kind}") == (label, "noise", name)
        assert variation.level in LEVELS
        assert variation.changes_world
        table = variation.table()["parameters"]
        seed = table.pop("seed", 0)
        ((parameter, magnitude),) = table.items()
        assert f"{magnitude:g}" in kind.grades or variation.level in (2, 3, 4), parameter
        again = begin_noise(variation.kind, magnitude, seed)
        moments = [("agentview", step) for step in range(4)]
        for step, picture in enumerate(seen(variation, moments).values()):
            assert np.array_equal(again(small(7 * step), "agentview", step), picture)


@pytest.mark.parametrize("name", [name for name in GRADED if name != "noise.dropped"])
def test_a_frames_noise_hangs_on_draw_camera_and_step_only(name: str) -> None:
    kind = GRADED[name]
    (label,) = kind.labels((3,))
    moments = [(camera, step) for step in (0, 1, 5) for camera in task().protocol.cameras]
    whole = seen(made(kind, label), moments)
    for order in (moments[::-1], moments[3:4], moments[1::2]):
        for moment, picture in seen(made(kind, label), order).items():
            assert np.array_equal(picture, whole[moment])
    (edit,) = made(kind, label).pictures
    change, picture = edit(), small()
    results = [change(picture, *moment).tobytes() for moment in moments]
    (other_edit,) = made(kind, label, seed=2).pictures
    other = other_edit()(picture, *moments[0]).tobytes()
    assert len({*results, other}) == (1 if name in ALIKE else len(moments) + 1)
    assert picture.tobytes() not in results


@pytest.mark.parametrize("kind", BOTH, ids=lambda kind: kind.name)
def test_equal_draws_give_equal_records(kind: VariationKind) -> None:
    for label in kind.labels():
        assert made(kind, label).table() == made(kind, label).table()
    drawn = {made(kind, kind.labels()[-1], seed).parameters.get("seed") for seed in range(5)}
    assert len(drawn) == (1 if kind.name in ALIKE else 5)


def test_lengths_go_with_the_pictures_rows() -> None:
    """Half the picture with half the rows: the same noise as seen by a policy that takes a smaller one."""
    frame = frames()["agentview"]
    halved = np.uint8(frame.reshape(128, 2, 128, 2, 3).mean((1, 3)))
    for effect, magnitude in (("gaussian_blur", 6.2), ("motion", 25), ("zoom", 1.35)):
        whole = begin_noise(effect, magnitude, 4)(frame, "agentview", 2)
        small = begin_noise(effect, magnitude, 4)(halved, "agentview", 2)
        whole_halved = whole.reshape(128, 2, 128, 2, 3).mean((1, 3))
        assert np.abs(whole_halved - small).mean() < 0.15 * np.abs(small.astype(int) - halved).mean()


def test_fog_drifts_by_a_column_a_step_and_each_camera_has_its_own() -> None:
    change = begin_noise("fog", 0.6, 11)
    grey = np.full((256, 256, 3), 100, dtype=np.uint8)
    first = change(grey, "agentview", 0)
    assert np.array_equal(change(grey, "agentview", 3), np.roll(first, 3, axis=1))
    assert not np.array_equal(change(grey, "robot0_eye_in_hand", 0), first)


def numbered(step: int) -> Picture:
    return np.full((4, 5, 3), step, dtype=np.uint8)


def dropped_steps(seed: int, camera: str, probability: float, steps: int) -> list[bool]:
    return [frame_generator(seed, camera, step).random() < probability for step in range(steps)]


@settings(max_examples=scaled(40))
@given(st.integers(0, 2**48), st.sets(st.integers(0, 60), min_size=1), st.sets(st.integers(0, 60)))
def test_a_dropped_frame_is_the_last_picture_that_was_given(seed: int, read: set[int], wrist: set[int]) -> None:
    change = begin_noise("dropped", 0.5, seed)
    dropped = dropped_steps(seed, "agentview", 0.5, 61)
    last = None
    for step in sorted(read | wrist):
        if step in wrist:
            change(numbered(200), "robot0_eye_in_hand", step)
        if step in read:
            given = change(numbered(step), "agentview", step)
            last = step if last is None or not dropped[step] else last
            assert np.array_equal(given, numbered(last))
            # Whoever asks twice, or writes in what was given, changes nothing.
            given[:] = 255
            assert np.array_equal(change(numbered(step), "agentview", step), numbered(last))


def test_the_first_picture_of_an_episode_is_always_given() -> None:
    (edit,) = made(GRADED["noise.dropped"], "noise.dropped-L5").pictures
    for _ in range(2):
        change = edit()
        assert np.array_equal(change(numbered(0), "agentview", 0), numbered(0))
        given = [int(change(numbered(step), "agentview", step)[0, 0, 0]) for step in range(1, 40)]
        assert 3 < len(set(given)) < 20
        assert given == sorted(given)


def test_libero_plus_numbers_are_kinds_of_ten_severities() -> None:
    assert [plus_parts(number) for number in (1, 10, 11, 35, 50)] == [
        ("motion", 1),
        ("motion", 10),
        ("gaussian", 1),
        ("fog", 5),
        ("glass", 10),
    ]
    assert [plus_parts(number) for number in range(1, 51)] == [(n, s) for n in PLUS_NAMES for s in PLUS_SEVERITIES]
    for number in (0, 51, -1):
        with pytest.raises(VlaError, match=f"numbers 1 to 50, not {number}"):
            plus_noise(number, 0)


@pytest.mark.parametrize("number", [5, 15, 25, 35, 45])
def test_libero_plus_changes_agentview_alone_and_bottom_up(number: int) -> None:
    picture = small()
    picture.flags.writeable = False
    change = plus_noise(number, 8)()
    drawn = frame_generator(8, "agentview", 4)
    noisy = change(picture, "agentview", 4)
    expected = plus_picture(np.ascontiguousarray(picture[::-1]), *plus_parts(number), drawn)
    assert np.array_equal(noisy, expected[::-1])
    assert noisy.flags.c_contiguous
    assert np.array_equal(change(picture, "robot0_eye_in_hand", 4), picture)
    wrist = plus_noise(number, 8, ("robot0_eye_in_hand",))()
    assert np.array_equal(wrist(picture, "agentview", 4), picture)
    assert not np.array_equal(wrist(picture, "robot0_eye_in_hand", 4), picture)
    assert np.array_equal(plus_noise(number, 8)()(picture, "agentview", 4), noisy)
    drawn_anew = change(picture, "agentview", 5)
    assert np.array_equal(drawn_anew, noisy) == (plus_parts(number)[0] in ("gaussian", "zoom"))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_kinds_say_what_they_are_of(name: str) -> None:
    variation = made(PUBLISHED[name], f"{name}.fog-3")
    parameters = dict(variation.parameters)
    seed = parameters.pop("seed")
    cameras = ["agentview"] if name == "noise.plus" else ["agentview", "robot0_eye_in_hand"]
    assert parameters == {"number": 33, "noise": "fog", "severity": 3, "cameras": cameras}
    assert variation.level is None
    (edit,) = variation.pictures
    for camera in task().protocol.cameras:
        expected = plus_noise(33, seed, cameras)()(small(), camera, 6)
        assert np.array_equal(edit()(small(), camera, 6), expected)
        assert np.array_equal(expected, small()) == (camera not in cameras)


def test_published_noise_of_a_camera_that_is_not_there_is_refused() -> None:
    protocol = dataclasses.replace(task().protocol, cameras=("sideview",))
    blind = dataclasses.replace(task(), protocol=protocol)
    with pytest.raises(VlaError, match=r"it changes pictures from agentview, but tabletop has sideview"):
        PUBLISHED["noise.plus"].make(Draw(blind, "noise.plus.fog-3", 1, 0, "fog-3"))

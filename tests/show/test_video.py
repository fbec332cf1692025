"""Videos show the recorded states, are whole or absent, and are written without a sound."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.errors import VlaError
from pytest_vla.show import video
from pytest_vla.show.video import encode, write_video
from tests.support.videos import read
from tests.support.waiting import HANG
from tests.support.worlds import world_of


class Square:
    """A world whose picture is a white square at the state's column; it must be reset before it is shown."""

    def __init__(self, height: int = 64, width: int = 96) -> None:
        self.size = height, width
        self.resets: list[tuple[int, int, bool]] = []
        self.shown: list[int] = []

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> None:
        self.resets.append((init_state, scene_seed, settle))

    def show(self, qpos: np.ndarray, step: int = 0) -> Mapping[str, Any]:
        assert self.resets
        column = int(qpos[0])
        self.shown.append(column)
        picture = np.zeros((*self.size, 3), np.uint8)
        picture[10:30, column : column + 10] = (255, 160, 40)
        return {"agentview_image": picture, "wrist_image": 255 - picture, "state": qpos}


def _states(count: int) -> np.ndarray:
    return np.arange(count, dtype=float).reshape(count, 1)


def _column(frame: np.ndarray) -> float:
    """The middle of what is bright between rows 10 and 30."""
    return float(np.nonzero(frame[10:30, :, 0].mean(axis=0) > 128)[0].mean())


def test_every_state_is_a_frame_and_the_last_one_is_held(tmp_path: Path) -> None:
    world, file = Square(), tmp_path / "videos" / "libero_goal" / "a.mp4"
    assert write_video(world, _states(31), file, init_state=3, scene_seed=7, ending="success") == 31 + 20
    assert world.resets == [(3, 7, False)]
    assert world.shown == list(range(31))
    frames, rate = read(file)
    assert frames.shape == (51, 64 + 20, 96, 3)
    assert rate == 20
    for step in range(51):
        assert _column(frames[step]) == pytest.approx(min(step, 30) + 4.5, abs=1), step
    # Red comes first: the square is orange.
    red, green, blue = frames[0][14:26, 2:8].reshape(-1, 3).mean(axis=0)
    assert red > green + 50 > blue + 100
    assert os.listdir(file.parent) == ["a.mp4"]


def test_the_strip_counts_steps_and_tells_the_ending(tmp_path: Path) -> None:
    strips = {}
    for ending in ("success", "failure"):
        write_video(Square(64, 256), _states(6), tmp_path / "a.mp4", init_state=0, scene_seed=0, ending=ending)
        strips[ending] = read(tmp_path / "a.mp4")[0][:, 64:].astype(int)
    count, result = (strips["success"][:, :, part] for part in (slice(0, 128), slice(128, 256)))
    assert count[0].max() > 150, "something is written"
    assert np.abs(count[5] - count[0]).max() > 60
    # The last state's frame is the first to tell the ending, in green or in red.
    assert result[4].max() < 60
    for ending, channel in (("success", 1), ("failure", 0)):
        colour = strips[ending][-1][:, 128:].reshape(-1, 3).max(axis=0)
        assert np.argmax(colour) == channel
        assert colour[channel] > 150


@pytest.mark.parametrize(("count", "every", "drawn"), [(10, 4, [0, 4, 8, 9]), (9, 4, [0, 4, 8]), (1, 4, [0])])
def test_drawing_fewer_states_keeps_the_pace_and_the_last_one(
    tmp_path: Path, count: int, every: int, drawn: list[int]
) -> None:
    world = Square()
    write_video(world, _states(count), tmp_path / "a.mp4", init_state=0, scene_seed=0, every=every)
    assert world.shown == drawn
    frames, rate = read(tmp_path / "a.mp4")
    assert (len(frames), rate) == (len(drawn) + 5, 5)


def test_an_episode_without_a_state_has_no_video(tmp_path: Path) -> None:
    world = Square()
    assert write_video(world, np.empty((0, 0)), tmp_path / "new" / "a.mp4", init_state=0, scene_seed=0) == 0
    assert world.resets == []
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("size", [(65, 97), (33, 40), (16, 16)])
def test_pictures_of_any_size_lose_no_row_and_no_column(tmp_path: Path, size: tuple[int, int]) -> None:
    write_video(Square(*size), _states(3), tmp_path / "a.mp4", init_state=0, scene_seed=0)
    frames, _ = read(tmp_path / "a.mp4")
    height, width = frames.shape[1:3]
    assert height % 2 == width % 2 == 0
    assert size[0] + 20 <= height <= size[0] + 21
    assert size[1] <= width <= size[1] + 1


def test_another_camera_is_drawn_and_an_unknown_one_is_named(tmp_path: Path) -> None:
    write_video(Square(), _states(2), tmp_path / "a.mp4", init_state=0, scene_seed=0, camera="wrist")
    assert read(tmp_path / "a.mp4")[0][0][50, 50].min() > 200
    with pytest.raises(VlaError, match="no camera front: this suite has agentview, wrist"):
        write_video(Square(), _states(2), tmp_path / "b.mp4", init_state=0, scene_seed=0, camera="front")
    with pytest.raises(VlaError, match=r"b\.webm: expected a name ending in \.mp4"):
        write_video(Square(), _states(2), tmp_path / "b.webm", init_state=0, scene_seed=0)
    assert os.listdir(tmp_path) == ["a.mp4"]


def _grey(count: int) -> Iterator[np.ndarray]:
    for number in range(count):
        yield np.full((40, 40, 3), number, np.uint8)


def test_an_encoder_that_is_missing_is_told_with_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "_CODEC", "h265_of_the_moon")
    (tmp_path / "a.mp4").write_text("of an earlier run")
    with pytest.raises(VlaError, match=r"PyAV .* cannot encode .*h265_of_the_moon.*--force-reinstall av, or"):
        encode(_grey(3), tmp_path / "a.mp4", 20)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.mp4", "of an earlier run")]


@pytest.mark.parametrize(("module", "package"), [("PIL", "pillow"), ("av", "av")])
def test_without_its_packages_the_cure_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    def written() -> None:
        write_video(Square(), _states(2), tmp_path / "a.mp4", init_state=0, scene_seed=0)

    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(VlaError, match=rf"a video needs .*\. pip install {package}\. Or run with --vla-video"):
        written()
    # The wheel is there, and a library that it loads is not.
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / f"{module}.py").write_text("raise ImportError('libX.so.1: cannot open shared object')\n")
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    with pytest.raises(VlaError, match=r"a video needs .*libX\.so\.1.*apt-get install .*libglib"):
        written()
    assert [name for name in os.listdir(tmp_path) if "mp4" in name] == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError("of the world"), VlaError("no such camera")])
@pytest.mark.parametrize("after", [0, 10])
def test_what_breaks_while_drawing_leaves_nothing_half_written(
    tmp_path: Path, error: BaseException | type[BaseException], after: int
) -> None:
    def broken() -> Iterator[np.ndarray]:
        yield from _grey(after)
        raise error

    # It is the world's, and not said to be the encoder's.
    with pytest.raises(error if isinstance(error, type) else type(error)) as raised:
        encode(broken(), tmp_path / "a.mp4", 20)
    assert raised.value is error or isinstance(error, type)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(VlaError, match=r"file/a\.mp4: the video cannot be written: (Not a directory|File exists)$"):
        encode(_grey(3), tmp_path / "file" / "a.mp4", 20)
    (tmp_path / "b.mp4").mkdir()
    with pytest.raises(VlaError, match=r"b\.mp4: the video cannot be written"):
        encode(_grey(3), tmp_path / "b.mp4", 20)
    assert sorted(os.listdir(tmp_path)) == ["b.mp4", "file"]


def test_any_browser_plays_it_and_seeks_in_it(tmp_path: Path) -> None:
    write_video(Square(), _states(81), tmp_path / "a.mp4", init_state=0, scene_seed=0)
    content = (tmp_path / "a.mp4").read_bytes()
    # The index stands before the pictures.
    assert 0 < content.index(b"moov") < content.index(b"mdat")
    with av.open(str(tmp_path / "a.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert float(stream.duration * stream.time_base) == pytest.approx(5.05)
        keys = [float(packet.pts * packet.time_base) for packet in container.demux(stream) if packet.is_keyframe]
        assert max(after - before for before, after in pairwise(keys)) <= 2
        container.seek(int(2.5 / stream.time_base), stream=stream)
        frame = next(frame for frame in container.decode(stream) if frame.time >= 2.5)
    assert _column(frame.to_ndarray(format="rgb24")) == pytest.approx(50 + 4.5, abs=1)


@pytest.mark.parametrize(("fps", "kept"), [(10.0, 10.0), (20 / 3, 20 / 3), (0.5, 0.5), (500.0, 500.0)])
def test_any_pace_is_kept(tmp_path: Path, fps: float, kept: float) -> None:
    encode(_grey(5), tmp_path / "a.mp4", fps)
    assert len(read(tmp_path / "a.mp4")[0]) == 5
    assert read(tmp_path / "a.mp4")[1] == pytest.approx(kept)


def test_the_same_frames_are_the_same_bytes(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (30, 64, 64, 3), dtype=np.uint8)
    for name in ("a.mp4", "b.mp4"):
        encode(iter(noise), tmp_path / name, 20)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_a_name_with_a_colon_is_no_protocol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert encode(_grey(3), Path("pipe:1 100%d.mp4"), 20) == 3
    assert os.listdir(tmp_path) == ["pipe:1 100%d.mp4"]


def _run(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, which has no window system."""
    environ = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY")}
    preamble = """
        import sys, numpy as np
        from pathlib import Path
        from pytest_vla.show.video import encode
        noise = np.random.default_rng(0).integers(0, 255, (40, 128, 128, 3), dtype=np.uint8)
        """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(preamble) + textwrap.dedent(script)],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=HANG,
    )


def test_a_video_is_written_without_a_sound_and_stderr_goes_on(tmp_path: Path) -> None:
    script = """
        print("before", file=sys.stderr, flush=True)
        assert encode(iter(noise), Path("a.mp4"), 20) == 40
        print("after", file=sys.stderr)
        """
    result = _run(script, tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "before\nafter\n")
    assert len(read(tmp_path / "a.mp4")[0]) == 40


def test_a_process_without_stderr_writes_videos(tmp_path: Path) -> None:
    script = "import os; os.close(2); encode(iter(noise), Path('a.mp4'), 20)"
    assert _run(script, tmp_path).returncode == 0
    assert len(read(tmp_path / "a.mp4")[0]) == 40


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 0.9999])
def test_a_disk_that_is_full_is_told_and_leaves_nothing(tmp_path: Path, share: float) -> None:
    """A file that may not grow fails as one on a full disk does: at its beginning, in the middle, at its end."""
    assert _run("encode(iter(noise), Path('whole.mp4'), 20)", tmp_path).returncode == 0
    limit = int(share * (tmp_path / "whole.mp4").stat().st_size)
    (tmp_path / "whole.mp4").unlink()
    script = f"""
        import resource
        import av
        from pytest_vla.errors import VlaError
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        try:
            encode(iter(noise), Path("a.mp4"), 20)
        except VlaError as error:
            print(error)
        """
    result = _run(script, tmp_path)
    assert result.returncode == 0, result.stderr
    # Of a disk that is full it would be: No space left on device.
    assert result.stdout == "a.mp4: the video cannot be written: File too large\n"
    assert os.listdir(tmp_path) == []


@pytest.fixture
def world() -> World:
    return world_of("libero_goal", "turn_on_the_stove")


@pytest.mark.slow
def test_a_real_episode_is_seen_again(world: World, tmp_path: Path) -> None:
    """Its frames are the pictures of its states, as far as the codec keeps them, and follow what the policy saw."""
    generator = np.random.default_rng(3)
    observation = world.reset(init_state=5, scene_seed=4)
    states, seen = [world.data.qpos.copy()], [observation["agentview_image"].astype(int)]
    for _ in range(12):
        observation = world.step(generator.uniform(-1, 1, 7))
        states.append(world.data.qpos.copy())
        seen.append(observation["agentview_image"].astype(int))
    world.reset(init_state=0, scene_seed=9)
    count = write_video(
        world, np.array(states), tmp_path / "a.mp4", init_state=5, scene_seed=4, ending="failure", camera="agentview"
    )
    frames, _ = read(tmp_path / "a.mp4")
    assert len(frames) == count == 13 + 20
    assert frames.shape[1:] == (276, 256, 3)
    world.reset(init_state=5, scene_seed=4, settle=False)
    for step, state in enumerate(states):
        shown = world.show(state)["agentview_image"].astype(int)
        frame = frames[step, :256].astype(int)
        assert np.abs(frame - shown).mean() < 4, step
        # Of all pictures of the episode, the frame is most like the one of its own step.
        assert np.argmin([np.abs(frame - picture).mean() for picture in seen]) == step
    with pytest.raises(VlaError, match="reset the world"):
        world.step(np.zeros(7))

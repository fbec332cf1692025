"""Videos of episodes, drawn afterwards from the recorded states: an episode that runs draws nothing for them."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.records.record import VIDEO_SUFFIX
from pytest_vla.util.install import what_to_install

Frame = NDArray[np.uint8]
"""(H, W, 3), red first, upright."""

# OpenCV's wheels have no H.264, and their VP9 is slow.
_CODEC = "VP80"
_STRIP = 20
_WHITE, _GREEN, _RED = (230, 230, 230), (120, 220, 120), (240, 120, 120)
_LAST_FRAME_SECONDS = 1.0


class ShowingWorld(Protocol):
    """What a video needs of a world; `pytest_vla.World` is one."""

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> object: ...
    def show(self, qpos: NDArray[np.float64], step: int) -> Mapping[str, NDArray[Any]]: ...


def write_video(
    world: ShowingWorld,
    qpos: NDArray[np.float64],
    file: Path,
    *,
    init_state: int,
    scene_seed: int,
    ending: str = "",
    camera: str = "agentview",
    control_freq: float = 20.0,
    every: int = 1,
) -> int:
    """Write an episode's video, whole or not at all. The world must be reset before its next step.

    A strip below the picture counts the steps. The last state is held for a second, with the episode's ending.

    Args:
        world: of the episode's task.
        qpos: the recorded states (n+1, nq), row i after step i; with no row there is no video.
        file: what to write, ``.webm``; its folder is made.
        init_state, scene_seed: of the episode; they say where the fixtures stand.
        ending: how the episode ended, in a word or two, such as ``success``.
        camera: one of the suite's.
        control_freq: control steps a second; the video runs in real time.
        every: draw every so many steps, and the last one.

    Returns:
        The number of frames; 0: nothing was written.

    Raises:
        VlaError: no such camera, or the video cannot be encoded or written.
    """
    if file.suffix != VIDEO_SUFFIX:
        raise VlaError(f"{file}: a video's name ends in {VIDEO_SUFFIX}")
    if not len(qpos):
        return 0
    world.reset(init_state=init_state, scene_seed=scene_seed, settle=False)
    fps = control_freq / every
    return encode(_frames(world, qpos, camera, every, ending, round(_LAST_FRAME_SECONDS * fps)), file, fps)


def write_frames(frames: Sequence[tuple[int, Frame]], file: Path, *, ending: str, fps: float) -> int:
    """Write the video of an episode whose frames were kept, as `write_video` does.

    Args:
        frames: control steps with their pictures, one or more.
        file, ending: as for `write_video`.
        fps: frames a second.

    Returns:
        The number of frames.

    Raises:
        VlaError: the video cannot be encoded or written.
    """
    last = frames[-1][0]

    def drawn() -> Iterator[Frame]:
        for step, picture in frames:
            frame = _with_strip(picture, f"step {step} of {last}", ending if step == last else "")
            yield frame
        for _ in range(round(_LAST_FRAME_SECONDS * fps)):
            yield frame

    return encode(drawn(), file, fps)


def _frames(
    world: ShowingWorld, qpos: NDArray[np.float64], camera: str, every: int, ending: str, held: int
) -> Iterator[Frame]:
    name, last = f"{camera}_image", len(qpos) - 1
    for step in [*range(0, last, every), last]:
        shown = world.show(qpos[step], step)
        if name not in shown:
            cameras = [key.removesuffix("_image") for key in shown if key.endswith("_image")]
            raise VlaError(f"no camera {camera}: this suite has {', '.join(cameras)}")
        frame = _with_strip(shown[name], f"step {step} of {last}", ending if step == last else "")
        yield frame
    for _ in range(held):
        yield frame


def encode(frames: Iterator[Frame], file: Path, fps: float) -> int:
    """Write frames, one or more and all of one even size, as a video; a reader sees all of it or nothing.

    Returns:
        How many there were.

    Raises:
        VlaError: OpenCV cannot encode, or the file cannot be written.
    """
    temporary = file.with_name(f".{file.stem}.{os.getpid()}{VIDEO_SUFFIX}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written = _encode(frames, temporary, fps)
        temporary.replace(file)
    except OSError as error:
        raise VlaError(f"{file}: the video cannot be written: {error}") from error
    finally:
        # Gone already where all went well.
        with contextlib.suppress(OSError):
            temporary.unlink()
    return written


def _encode(frames: Iterator[Frame], file: Path, fps: float) -> int:
    writer = None
    written = 0
    try:
        for frame in frames:
            if writer is None:
                writer = _open_writer(file, fps, frame)
            # OpenCV 5 says False where it failed; 4 says nothing, and what is missing is seen below.
            if writer.write(np.ascontiguousarray(frame[..., ::-1])) is False:
                raise OSError(f"frame {written} was not written; is the disk full?")
            written += 1
    finally:
        if writer is not None:
            with _silent_stderr():
                writer.release()
    if not _is_whole(file):
        raise OSError("not all of it was written; is the disk full?")
    return written


def _is_whole(file: Path) -> bool:
    """Whether a WebM file ends where its one segment ends: the size is written last, after failures too."""
    with file.open("rb") as stream:
        head = stream.read(256)
    segment = head.find(bytes.fromhex("18538067"))
    # Eight bytes, of which the first one only says so.
    size = int.from_bytes(head[segment + 5 : segment + 12])
    return segment >= 0 and segment + 12 + size == file.stat().st_size


def _open_writer(file: Path, fps: float, frame: Frame) -> Any:
    cv2 = _opencv()
    height, width = frame.shape[:2]
    # Where the folder refuses, it says why; OpenCV would not.
    file.touch()
    with _silent_stderr():
        writer = cv2.VideoWriter(str(file), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*_CODEC), fps, (width, height))
    if not writer.isOpened():
        raise VlaError(
            f"OpenCV {cv2.__version__} cannot encode a video of {width}x{height} pixels ({_CODEC}, {VIDEO_SUFFIX}): "
            "install the wheel, pip install --force-reinstall opencv-python, or run with --vla-video=none"
        )
    return writer


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise VlaError(
            f"a video needs OpenCV, which cannot be imported: {error}. {what_to_install(error)}. Or run with "
            "--vla-video=none"
        ) from error
    return cv2


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    """FFmpeg and OpenCV write to the descriptor, and no setting keeps all of it back."""
    try:
        before = os.dup(2)
    except OSError:
        # Closed; the video's own file would take its place.
        before = os.open(os.devnull, os.O_WRONLY)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _with_strip(picture: Frame, text: str, ending: str) -> Frame:
    """The picture above a strip with a text on the left and an ending on the right; both sides become even."""
    cv2 = _opencv()
    height, width = picture.shape[:2]
    frame = np.zeros((height + _STRIP + (height + _STRIP) % 2, width + width % 2, 3), dtype=np.uint8)
    frame[:height, :width] = picture
    font, size, baseline = cv2.FONT_HERSHEY_SIMPLEX, 0.4, height + _STRIP - 6
    cv2.putText(frame, text, (4, baseline), font, size, _WHITE, 1, cv2.LINE_AA)
    if ending:
        (extent, _), _ = cv2.getTextSize(ending, font, size, 1)
        colour = _GREEN if ending == "success" else _RED
        cv2.putText(frame, ending, (width - extent - 4, baseline), font, size, colour, 1, cv2.LINE_AA)
    return frame

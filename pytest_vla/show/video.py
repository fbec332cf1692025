"""Videos of episodes, drawn afterwards from the recorded states, so that running episodes draws nothing for them."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge, accounts_of, of_account
from pytest_vla.records.explain import amount_text
from pytest_vla.records.record import VIDEO_SUFFIX
from pytest_vla.util.extras import what_to_install

# Charges in pictures: bodies are outlined while they are charged, and a label has the cost so far.

Frame = NDArray[np.uint8]

_CHARGED_RED = (240, 60, 60)


def headline_charges(charges: Sequence[Charge]) -> tuple[Charge, ...]:
    """Return the charges that pictures show: those of the headline account with an amount and a step."""
    account = next(iter(accounts_of(charges)), None)
    if account is None:
        return ()
    return tuple(each for each in of_account(charges, account) if each.amount and each.step is not None)


def cost_until(charges: Sequence[Charge], step: int) -> float:
    """Return the cost charged up to a control step."""
    total = 0.0
    for charge in charges:
        if charge.step is not None and charge.step <= step:
            total += charge.amount * min(step - charge.step + 1, charge.steps) / charge.steps
    return total


def cost_label(charges: Sequence[Charge], step: int) -> str:
    """Return a label such as ``cost 12``, or an empty text if the episode has no charges."""
    return f"cost {amount_text(cost_until(charges, step))}" if charges else ""


def charged_between(charges: Sequence[Charge], after: int, step: int) -> tuple[str, ...]:
    """Return the names of the bodies that were charged after one control step and up to another."""
    now = [
        each for each in charges if each.step is not None and each.step <= step and each.step + each.steps > after + 1
    ]
    return tuple(dict.fromkeys(name for each in now for name in each.bodies))


def outlined(world: Any, picture: Frame, camera: str, names: Sequence[str]) -> Frame:
    """Return the picture with the outlines of bodies, including hidden parts.

    Args:
        world: the world in the state of the picture; without segmentation the picture is returned unchanged.
        picture: (H, W, 3).
        camera: the picture's camera.
        names: bodies' names, as in `Charge.bodies`; unknown ones are ignored.
    """
    bodies = _bodies(world, names) if names and hasattr(world, "segmentation") else []
    if not bodies:
        return picture
    seen = np.isin(world.segmentation(camera, bodies), bodies)
    if seen.shape != picture.shape[:2]:
        return picture
    drawn = picture.copy()
    drawn[outline_of(seen)] = _CHARGED_RED
    return drawn


def outline_of(seen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the outer edge (H, W) of a mask's parts; holes have none. As OpenCV's outer contours, drawn one wide."""
    from scipy import ndimage

    whole = ndimage.binary_fill_holes(seen)
    edge: NDArray[np.bool_] = whole & ~ndimage.binary_erosion(whole)
    return edge


def _bodies(world: Any, names: Sequence[str]) -> list[int]:
    """Return the ids of the named bodies: all bodies of an object or fixture, or one body of the model."""
    model = world.model
    own = [model.body(number).name for number in range(model.nbody)]
    found: list[int] = []
    for name in names:
        thing = world.scene.body(name)
        if thing is not None:
            root = own.index(thing.root_body)
            found += [number for number in range(model.nbody) if _is_of(model, number, root)]
        elif name in own:
            found.append(own.index(name))
    return found


def _is_of(model: Any, body: int, root: int) -> bool:
    while body > root:
        body = int(model.body_parentid[body])
    return body == root


Write = Callable[[Frame], None]

_CODEC = "libx264"
# Sharp enough for the strip's text, and cheap. With more threads the bytes would depend on the machine.
_OPTIONS = {"preset": "veryfast", "crf": "18", "threads": "1"}
_KEY_FRAME_SECONDS = 2
_STRIP, _TEXT = 20, 12
_WHITE, _GREEN, _RED = (230, 230, 230), (120, 220, 120), (240, 120, 120)
_LAST_FRAME_SECONDS = 1.0


class ShowingWorld(Protocol):
    """The methods of a world that a video uses; `pytest_vla.World` has them."""

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> object: ...
    def show(self, qpos: NDArray[np.float64], step: int) -> Mapping[str, NDArray[Any]]: ...


def write_video(
    world: ShowingWorld,
    qpos: NDArray[np.float64],
    file: Path,
    *,
    init_state: int | None,
    scene_seed: int = 0,
    ending: str = "",
    camera: str = "agentview",
    control_freq: float = 20.0,
    every: int = 1,
    charges: Sequence[Charge] = (),
) -> int:
    """Write an episode's video, whole or not at all. The world must be reset before its next step.

    A strip below the picture counts the steps. The last state is held for a second, with the episode's ending.

    Args:
        world: a world of the episode's task.
        qpos: the recorded states (n+1, nq), row i after step i; without rows no video is written.
        file: the file to write, ``.mp4``; its folder is created.
        init_state: the episode's init state, or None if the world was reset to the episode's scene already.
        scene_seed: the episode's scene seed, which places the fixtures.
        ending: the episode's ending in a word or two, such as ``success``.
        camera: one of the suite's cameras.
        control_freq: control steps per second; the video runs in real time.
        every: draw every n-th step, and the last one.
        charges: the episode's ledger: bodies of the headline account are outlined while charged, and the strip shows
            the sum.

    Returns:
        The number of frames; 0 if nothing was written.

    Raises:
        VlaError: no such camera, or the video cannot be encoded or written.
    """
    if file.suffix != VIDEO_SUFFIX:
        raise VlaError(f"{file}: expected a name ending in {VIDEO_SUFFIX}")
    if not len(qpos):
        return 0
    if init_state is not None:
        world.reset(init_state=init_state, scene_seed=scene_seed, settle=False)
    fps = control_freq / every
    held = round(_LAST_FRAME_SECONDS * fps)
    return encode(_frames(world, qpos, camera, every, ending, held, headline_charges(charges)), file, fps)


def write_frames(frames: Sequence[tuple[int, Frame]], file: Path, *, ending: str, fps: float) -> int:
    """Write the video of an episode from recorded frames, in the form of `write_video`.

    Args:
        frames: control steps with their pictures, at least one.
        file: the file to write, as for `write_video`.
        ending: the episode's ending, as for `write_video`.
        fps: frames per second.

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
    world: ShowingWorld,
    qpos: NDArray[np.float64],
    camera: str,
    every: int,
    ending: str,
    held: int,
    charges: Sequence[Charge],
) -> Iterator[Frame]:
    name, last, before = f"{camera}_image", len(qpos) - 1, -1
    for step in [*range(0, last, every), last]:
        shown = world.show(qpos[step], step)
        if name not in shown:
            cameras = [key.removesuffix("_image") for key in shown if key.endswith("_image")]
            raise VlaError(f"no camera {camera}: this suite has {', '.join(cameras)}")
        picture = outlined(world, shown[name], camera, charged_between(charges, before, step))
        told = "   ".join(filter(None, [f"step {step} of {last}", cost_label(charges, step)]))
        frame, before = _with_strip(picture, told, ending if step == last else ""), step
        yield frame
    for _ in range(held):
        yield frame


def encode(frames: Iterator[Frame], file: Path, fps: float) -> int:
    """Write frames (at least one, all of one even size) as a video, whole or not at all, and return their number.

    The same frames give the same bytes on one machine, however many processors it has.

    Raises:
        VlaError: PyAV cannot encode, or the file cannot be written.
    """
    # FFmpeg reads a text before a colon as a protocol, unless the name begins with a slash.
    temporary = file.absolute().with_name(f".{file.stem}.{os.getpid()}{VIDEO_SUFFIX}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        written = _encode(frames, temporary, fps)
        temporary.replace(file)
    except OSError as error:
        raise VlaError(f"{file}: the video cannot be written: {error.strerror or error}") from error
    finally:
        # Already gone after success.
        with contextlib.suppress(OSError):
            temporary.unlink()
    return written


def _encode(frames: Iterator[Frame], file: Path, fps: float) -> int:
    written = 0
    with video_writer(file, fps) as write:
        for picture in frames:
            write(picture)
            written += 1
    return written


@contextlib.contextmanager
def video_writer(file: Path, fps: float, options: Mapping[str, str] = MappingProxyType({})) -> Iterator[Write]:
    """Write a video one picture at a time; all pictures have one even size.

    Args:
        file: an absolute path, written incrementally: an exception leaves a partial file.
        fps: frames per second.
        options: options of libx264 that override ours.

    Yields:
        A function that writes the next picture.

    Raises:
        VlaError: PyAV cannot encode.
        OSError: the file cannot be written.
    """
    av = _pyav()
    rate = Fraction(fps).limit_denominator(1000)
    stream = None
    written = 0
    try:
        # The index is moved to the front of the file, so that a browser can seek during the download.
        with av.open(str(file), "w", format="mp4", container_options={"movflags": "+faststart"}) as container:

            def write(picture: Frame) -> None:
                nonlocal stream, written
                if stream is None:
                    stream = _stream(container, picture, rate, options)
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
                frame.pts, frame.time_base = written, 1 / rate
                container.mux(stream.encode(frame))
                written += 1

            yield write
            if stream is not None:
                container.mux(stream.encode())
    except av.error.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        raise _unable(error) from error


def first_and_last(file: Path) -> tuple[bytes, bytes]:
    """Return the first and the last picture of a video, as PNG. Raises VlaError if it cannot be read."""
    import io
    from collections import deque

    from PIL import Image

    av = _pyav()
    try:
        with av.open(str(file)) as container:
            frames = container.decode(video=0)
            first = next(frames)
            (last,) = deque(frames, maxlen=1) or (first,)
            pictures = [first.to_ndarray(format="rgb24"), last.to_ndarray(format="rgb24")]
    except (av.error.FFmpegError, StopIteration) as error:
        raise VlaError(f"cannot read the video {file}: {error}") from error
    streams = [io.BytesIO(), io.BytesIO()]
    for picture, stream in zip(pictures, streams, strict=True):
        Image.fromarray(picture).save(stream, "PNG")
    return streams[0].getvalue(), streams[1].getvalue()


def _stream(container: Any, picture: Frame, rate: Fraction, options: Mapping[str, str]) -> Any:
    ours = _OPTIONS | {"g": str(max(1, round(rate * _KEY_FRAME_SECONDS)))}
    try:
        stream = container.add_stream(_CODEC, rate=rate, options=ours | dict(options))
    except ValueError as error:
        raise _unable(error) from error
    stream.height, stream.width = picture.shape[:2]
    stream.pix_fmt = "yuv420p"
    return stream


def _unable(error: Exception) -> VlaError:
    return VlaError(
        f"PyAV {_pyav().__version__} cannot encode a video ({_CODEC}): {error}. Install its wheel, "
        "pip install --force-reinstall av, or run with --vla-video=none"
    )


def _pyav() -> Any:
    with _cure_of("PyAV"):
        import av
    return av


def _pillow() -> Any:
    with _cure_of("Pillow"):
        from PIL import Image, ImageDraw, ImageFont
    return Image, ImageDraw, ImageFont


@contextlib.contextmanager
def _cure_of(package: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise VlaError(
            f"a video needs {package}, which cannot be imported: {error}. {what_to_install(error)}. Or run with "
            "--vla-video=none"
        ) from error


@cache
def _font(fonts: Any) -> Any:
    return fonts.load_default(_TEXT)


def _with_strip(picture: Frame, text: str, ending: str) -> Frame:
    """Return the picture above a strip with a text on the left and an ending on the right; both sides become even."""
    image_of, draw_on, fonts = _pillow()
    height, width = picture.shape[:2]
    frame = np.zeros((height + _STRIP + (height + _STRIP) % 2, width + width % 2, 3), dtype=np.uint8)
    frame[:height, :width] = picture
    image = image_of.fromarray(frame)
    draw, font, baseline = draw_on.Draw(image), _font(fonts), height + _STRIP - 6
    draw.text((4, baseline), text, font=font, fill=_WHITE, anchor="ls")
    if ending:
        colour = _GREEN if ending == "success" else _RED
        draw.text((width - 4, baseline), ending, font=font, fill=colour, anchor="rs")
    return np.array(image)

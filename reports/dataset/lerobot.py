"""Recorded episodes as a data set in LeRobot's format v3.0, which lerobot 0.4 loads and trains on.

A row is a control step: what a policy was shown before it (``observation.state``, ``observation.images.CAMERA``), what
it did (``action``), and whether the task was done after it (``next.success``). Times are control steps over their
frequency. ``meta/pytest_vla.jsonl``, which lerobot does not read, says of each episode which record it is of.
"""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.policies.fit import ACTION_SIZE, STATE_SIZE
from pytest_vla.records.record import Record
from pytest_vla.reports.dataset.frames import Frame, Layout
from pytest_vla.reports.export import IMAGE, NO_PICTURES, VIDEO
from pytest_vla.show.video import Frame as VideoFrame
from pytest_vla.show.video import Write, video_writer

# The large files of a data set: begun anew where one is full, so that none grows without end.

FILES_IN_A_CHUNK = 1000
MOST_TABLE_MB, MOST_VIDEO_MB = 100, 200
"""After an episode that reaches this a new file begins."""

# Any frame is at most one before it away from a whole one: training reads them at random. Without frames that look
# ahead the first one stands at 0 s for every reader.
_VIDEO_OPTIONS = MappingProxyType({"g": "2", "bf": "0"})


@dataclass(frozen=True)
class VideoPlace:
    """The number of a chunk's folder and of the file in it."""

    chunk: int = 0
    file: int = 0

    @property
    def path(self) -> str:
        return f"chunk-{self.chunk:03d}/file-{self.file:03d}"

    @property
    def following(self) -> "VideoPlace":
        if self.file + 1 < FILES_IN_A_CHUNK:
            return VideoPlace(self.chunk, self.file + 1)
        return VideoPlace(self.chunk + 1)


class Tables:
    """Parquet files of one schema. To be closed.

    Attributes:
        place: of the file that the next table goes to.
    """

    def __init__(self, folder: Path, schema: Any, most_mb: float = MOST_TABLE_MB) -> None:
        self.place = VideoPlace()
        self._folder, self._schema, self._most = folder, schema, most_mb * 1024**2
        self._writer: Any = None

    def write(self, table: Any) -> None:
        """Write an episode's rows. Raises OSError."""
        import pyarrow.parquet as pq

        file = self._folder / f"{self.place.path}.parquet"
        if self._writer is None:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(file, self._schema)
        self._writer.write_table(table)
        if file.stat().st_size >= self._most:
            self.close()
            self.place = self.place.following

    def close(self) -> None:
        """Close the present file."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


class Videos:
    """The videos of one camera. To be closed.

    Attributes:
        place: of the file that the next picture goes to.
        frames: how many it has.
    """

    def __init__(self, folder: Path, fps: float, most_mb: float = MOST_VIDEO_MB) -> None:
        self.place, self.frames = VideoPlace(), 0
        self._folder, self._fps, self._most = folder, fps, most_mb * 1024**2
        self._open = ExitStack()
        self._write: Write | None = None

    def write(self, picture: VideoFrame) -> None:
        """Write one more frame. Raises VlaError, OSError."""
        if self._write is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._write = self._open.enter_context(video_writer(self._file, self._fps, _VIDEO_OPTIONS))
        self._write(picture)
        self.frames += 1

    def end_episode(self) -> None:
        """Begin a new file if the present one is full. An episode is never split over two files."""
        # Of few frames nothing is written yet.
        size = self._file.stat().st_size if self._file.exists() else 0
        if self._write is not None and size >= self._most:
            self.close()
            self.place, self.frames = self.place.following, 0

    def close(self) -> None:
        """Close the present file."""
        self._write = None
        self._open.close()

    @property
    def _file(self) -> Path:
        # FFmpeg takes what stands before a colon for a protocol, unless the name begins with a slash.
        return (self._folder / f"{self.place.path}.mp4").absolute()


def check_packages(videos: bool) -> None:
    """Refuse where what writes the files is not there, before anything is simulated.

    Args:
        videos: whether there are some.

    Raises:
        VlaError: it says what to install.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise VlaError("a data set needs pyarrow: pip install 'pytest-vla[parquet]'") from error
    if videos:
        try:
            import av  # noqa: F401
        except ImportError as error:
            raise VlaError(
                "videos need PyAV, which cannot be imported: pip install --force-reinstall av; or export with "
                "--pictures=image"
            ) from error


QUANTILES: Mapping[str, float] = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}

Histogram = NDArray[np.int64]
"""(3, 256): of each colour how many pixels have which value."""

Stats = dict[str, Any]
"""``min``, ``max``, ``mean``, ``std``, ``count`` and the quantiles, as JSON has them."""

_VALUES = 256


def stats_of(rows: NDArray[Any]) -> Stats:
    """Compute the statistics of a column's rows (n, k), numbers or truths: lists of k numbers; ``count``: [n]."""
    values = np.asarray(rows, dtype=np.float64)
    found = {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
    }
    found |= dict(zip(QUANTILES, np.quantile(values, [*QUANTILES.values()], axis=0), strict=True))
    return {name: array.tolist() for name, array in found.items()} | {"count": [len(values)]}


def histogram_of(picture: NDArray[np.uint8]) -> Histogram:
    """Compute the histogram of one picture (H, W, 3) for each colour."""
    return np.stack([np.bincount(picture[..., colour].ravel(), minlength=_VALUES) for colour in range(3)])


def picture_stats(histogram: Histogram, count: int) -> Stats:
    """Compute the statistics of one or more pictures, for each colour, in [0, 1], shaped (3, 1, 1).

    Args:
        histogram: the sum of the pictures'.
        count: how many pictures they are.
    """
    values = np.arange(_VALUES) / (_VALUES - 1)
    pixels = histogram.sum(axis=1)
    mean = histogram @ values / pixels
    squares = (histogram * (values - mean[:, None]) ** 2).sum(axis=1)
    found = {
        "min": np.array([values[np.flatnonzero(each)[0]] for each in histogram]),
        "max": np.array([values[np.flatnonzero(each)[-1]] for each in histogram]),
        "mean": mean,
        "std": np.sqrt(squares / pixels),
    }
    found |= {
        name: np.array([_quantile(each, share) for each in histogram]) / (_VALUES - 1)
        for name, share in QUANTILES.items()
    }
    return {name: array.reshape(3, 1, 1).tolist() for name, array in found.items()} | {"count": [count]}


def _quantile(histogram: NDArray[np.int64], share: float) -> float:
    """Between the two values next to it, as numpy's are."""
    ends = histogram.cumsum()
    place = share * (int(ends[-1]) - 1)
    below, above = np.searchsorted(ends, [int(place), int(np.ceil(place))], side="right")
    return float(below + (above - below) * (place - int(place)))


VERSION = "v3.0"
SOURCES = "meta/pytest_vla.jsonl"

STATE, ACTION, SUCCESS = "observation.state", "action", "next.success"
_STATE_NAMES = ("x", "y", "z", "axis_angle_x", "axis_angle_y", "axis_angle_z", "finger_1", "finger_2")
_ACTION_NAMES = ("x", "y", "z", "axis_angle_x", "axis_angle_y", "axis_angle_z", "gripper")
_NUMBERS = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64"}
_NUMBERS |= {"task_index": "int64"}
# As LIBERO's data sets call it.
_CAMERAS = {"robot0_eye_in_hand": "wrist"}
_ROBOT = "panda"


@dataclass
class _Totals:
    """The episodes, tasks and statistics written so far."""

    tasks: dict[str, int] = field(default_factory=dict)
    columns: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    episodes: list[dict[str, Any]] = field(default_factory=list)
    sources: list[dict[str, Any]] = field(default_factory=list)
    frames: int = 0


def camera_key(camera: str) -> str:
    """Return the name of a camera's pictures in a data set."""
    return f"observation.images.{_CAMERAS.get(camera, camera)}"


def write_dataset(
    folder: Path,
    episodes: Iterable[tuple[Record, Iterable[Frame]]],
    layout: Layout,
    *,
    pictures: str,
    most_mb: tuple[float, float] = (MOST_TABLE_MB, MOST_VIDEO_MB),
) -> int:
    """Write a data set.

    Args:
        folder: an empty one.
        episodes: records with their control steps, one or more of each; read once, one after the other.
        layout: of all of them.
        pictures: one of `pytest_vla.reports.export.PICTURES`.
        most_mb: sizes of a table and of a video after which a new file begins.

    Returns:
        How many control steps there are.

    Raises:
        VlaError: as the frames raise it, or pictures of this size cannot be a video.
        OSError: a file cannot be written.
    """
    import pyarrow as pa

    if pictures == VIDEO and any(side % 2 for side in layout.image_size):
        height, width = layout.image_size
        raise VlaError(f"pictures of {height}x{width} pixels cannot be a video, whose sides are even: --pictures=image")
    cameras = () if pictures == NO_PICTURES else layout.cameras
    schema = _schema(pa, cameras if pictures == IMAGE else ())
    totals = _Totals()
    with ExitStack() as stack:
        tables = stack.enter_context(closing(Tables(folder / "data", schema, most_mb[0])))
        videos = {
            camera: stack.enter_context(
                closing(Videos(folder / "videos" / camera_key(camera), layout.control_freq, most_mb[1]))
            )
            for camera in (cameras if pictures == VIDEO else ())
        }
        for record, frames in episodes:
            _write_episode(totals, record, frames, layout, cameras, tables, videos, pa.Table.from_pydict, schema)
    _write_meta(folder, totals, layout, cameras, pictures)
    return totals.frames


def _write_episode(
    totals: _Totals,
    record: Record,
    frames: Iterable[Frame],
    layout: Layout,
    cameras: Sequence[str],
    tables: Tables,
    videos: dict[str, Videos],
    table_of: Callable[..., Any],
    schema: Any,
) -> None:
    places = {camera: (video.place, video.frames) for camera, video in videos.items()}
    histograms: dict[str, Histogram] = {}
    files: dict[str, list[dict[str, Any]]] = {camera_key(camera): [] for camera in cameras if camera not in videos}
    rows: list[Frame] = []
    for frame in frames:
        for camera in cameras:
            picture = frame.pictures[camera]
            histograms[camera] = histograms.get(camera, 0) + histogram_of(picture)
            if camera in videos:
                videos[camera].write(picture)
            else:
                files[camera_key(camera)].append({"bytes": _png(picture), "path": None})
        # The pictures of a whole episode are large, and are done with.
        rows.append(Frame(frame.state, frame.action, {}, frame.drift))
    task = _text(record.instruction)
    columns = _columns(rows, record, totals, totals.tasks.setdefault(task, len(totals.tasks)), layout.control_freq)
    place = tables.place
    plain = {name: [*array] if array.ndim > 1 else array for name, array in columns.items()}
    tables.write(table_of({**files, **plain}, schema=schema))
    totals.episodes.append(
        {
            "episode_index": len(totals.episodes),
            "tasks": [task],
            "length": len(rows),
            **_place("data", place),
            "dataset_from_index": totals.frames,
            "dataset_to_index": totals.frames + len(rows),
            **_video_places(videos, places, layout.control_freq),
            **_flat({name: stats_of(_table(array)) for name, array in columns.items()}),
            **_flat({camera_key(camera): picture_stats(found, len(rows)) for camera, found in histograms.items()}),
            **_place("meta/episodes", VideoPlace()),
        }
    )
    for name, array in columns.items():
        totals.columns.setdefault(name, []).append(array)
    for camera, found in histograms.items():
        totals.histograms[camera] = totals.histograms.get(camera, 0) + found
    totals.sources.append(_source(len(totals.sources), record))
    totals.frames += len(rows)
    for video in videos.values():
        video.end_episode()


def _columns(
    rows: Sequence[Frame], record: Record, totals: _Totals, task: int, control_freq: int
) -> dict[str, NDArray[Any]]:
    numbers = np.arange(len(rows))
    return {
        STATE: np.array([row.state for row in rows], dtype=np.float32).reshape(-1, STATE_SIZE),
        ACTION: np.array([row.action for row in rows], dtype=np.float32).reshape(-1, ACTION_SIZE),
        SUCCESS: (numbers == len(rows) - 1) & (record.outcome == "success"),
        "timestamp": (numbers / control_freq).astype(np.float32),
        "frame_index": numbers,
        "episode_index": np.full(len(rows), len(totals.episodes)),
        "index": numbers + totals.frames,
        "task_index": np.full(len(rows), task),
    }


def _video_places(
    videos: dict[str, Videos], before: dict[str, tuple[VideoPlace, int]], control_freq: int
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for camera, video in videos.items():
        key, (place, first) = f"videos/{camera_key(camera)}", before[camera]
        found |= _place(key, place)
        found |= {f"{key}/from_timestamp": first / control_freq, f"{key}/to_timestamp": video.frames / control_freq}
    return found


def _write_meta(folder: Path, totals: _Totals, layout: Layout, cameras: Sequence[str], pictures: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = f"meta/episodes/{VideoPlace().path}.parquet"
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(totals.episodes), folder / place)
    pq.write_table(_tasks(pa, totals.tasks), folder / "meta" / "tasks.parquet")
    stats: dict[str, Stats] = {
        name: stats_of(_table(np.concatenate(arrays))) for name, arrays in totals.columns.items()
    }
    for camera, found in totals.histograms.items():
        stats[camera_key(camera)] = picture_stats(found, totals.frames)
    _write_json(folder / "meta" / "stats.json", stats)
    _write_json(folder / "meta" / "info.json", _info(totals, layout, cameras, pictures))
    lines = "".join(f"{json.dumps(source)}\n" for source in totals.sources)
    (folder / SOURCES).write_text(lines, encoding="utf-8")


def _info(totals: _Totals, layout: Layout, cameras: Sequence[str], pictures: str) -> dict[str, Any]:
    path = "chunk-{chunk_index:03d}/file-{file_index:03d}"
    features = {camera_key(camera): _picture_feature(layout, pictures) for camera in cameras}
    features |= {
        STATE: {"dtype": "float32", "shape": [STATE_SIZE], "names": list(_STATE_NAMES)},
        ACTION: {"dtype": "float32", "shape": [ACTION_SIZE], "names": list(_ACTION_NAMES)},
        SUCCESS: {"dtype": "bool", "shape": [1], "names": None},
    }
    features |= {name: {"dtype": kind, "shape": [1], "names": None} for name, kind in _NUMBERS.items()}
    return {
        "codebase_version": VERSION,
        "robot_type": _ROBOT,
        "total_episodes": len(totals.episodes),
        "total_frames": totals.frames,
        "total_tasks": len(totals.tasks),
        "chunks_size": FILES_IN_A_CHUNK,
        "data_files_size_in_mb": MOST_TABLE_MB,
        "video_files_size_in_mb": MOST_VIDEO_MB,
        "fps": layout.control_freq,
        "splits": {"train": f"0:{len(totals.episodes)}"},
        "data_path": f"data/{path}.parquet",
        "video_path": f"videos/{{video_key}}/{path}.mp4" if pictures == VIDEO else None,
        "features": features,
    }


def _picture_feature(layout: Layout, pictures: str) -> dict[str, Any]:
    height, width = layout.image_size
    feature = {"dtype": pictures, "shape": [height, width, 3], "names": ["height", "width", "channels"]}
    if pictures == IMAGE:
        return feature
    about = {"height": height, "width": width, "codec": "h264", "pix_fmt": "yuv420p", "is_depth_map": False}
    about |= {"fps": layout.control_freq, "channels": 3}
    return feature | {"info": {f"video.{name}": value for name, value in about.items()} | {"has_audio": False}}


def _schema(pa: Any, image_cameras: Sequence[str]) -> Any:
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    vectors = [(STATE, STATE_SIZE), (ACTION, ACTION_SIZE)]
    return pa.schema(
        [
            *((camera_key(camera), picture) for camera in image_cameras),
            *((name, pa.list_(pa.float32(), size)) for name, size in vectors),
            (SUCCESS, pa.bool_()),
            *((name, getattr(pa, kind)()) for name, kind in _NUMBERS.items()),
        ]
    )


def _tasks(pa: Any, tasks: dict[str, int]) -> Any:
    """Return the table of tasks as pandas reads it, indexed by instruction."""
    table = pa.table({"task_index": pa.array(tasks.values(), pa.int64()), "task": pa.array(tasks, pa.string())})
    columns = [("task_index", "int64", "int64"), ("task", "unicode", "object")]
    about = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": numpy_kind, "metadata": None}
            for name, kind, numpy_kind in columns
        ],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    return table.replace_schema_metadata({"pandas": json.dumps(about)})


def _source(number: int, record: Record) -> dict[str, Any]:
    said = {name: getattr(record, name) for name in ("run", "case", "node", "outcome", "steps", "instruction")}
    said |= {name: getattr(record, name) for name in ("policy", "policy_digest", "digest")}
    return {"episode_index": number, **said, "variation": dict(record.variation), "seeds": dict(record.seeds)}


def _png(picture: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    # A higher level saves a tenth of the bytes and takes twice as long.
    Image.fromarray(picture).save(stream, "PNG", compress_level=1)
    return stream.getvalue()


def _text(text: str) -> str:
    # Arrow takes no halves of characters, which texts of others may have.
    return text.encode(errors="backslashreplace").decode()


def _table(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(len(array), -1)


def _place(what: str, place: VideoPlace) -> dict[str, int]:
    return {f"{what}/chunk_index": place.chunk, f"{what}/file_index": place.file}


def _flat(stats: dict[str, Stats]) -> dict[str, Any]:
    return {f"stats/{name}/{of}": value for name, found in stats.items() for of, value in found.items()}


def _write_json(file: Path, value: object) -> None:
    file.write_text(json.dumps(value, indent=4) + "\n", encoding="utf-8")

"""The large files of a data set: begun anew where one is full, so that none grows without end."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.show.video import Frame, Write, video_writer

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

    def write(self, picture: Frame) -> None:
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

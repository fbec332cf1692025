"""What is shown of episodes beside numbers, drawn from recorded states: start and end, a video, the hand's path."""

import base64
import io
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vla.errors import VlaError
from pytest_vla.records.record import VIDEO_SUFFIX, Record
from pytest_vla.records.runs import Run
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.util.live_line import told_when_slow
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla.episode.world_pool import WorldPool
    from pytest_vla.show.tasks import Drawing

PICTURES = 200
"""Episodes with pictures where nothing else is said."""

_POINTS = 60
_QUALITY = 75
_VIDEOS = re.compile(r"(none|failed|all)(?::(\d+))?")


@dataclass(frozen=True)
class Shown:
    """Of how many episodes something is shown.

    Attributes:
        pictures: episodes with start and end, and with the path of the hand; those that did not succeed come first.
        videos: episodes with a video.
        of_failed: whether these are only such as did not succeed.
        data: the folder of ``--data``; None: the run's.
    """

    pictures: int = PICTURES
    videos: int = 0
    of_failed: bool = True
    data: Path | None = None


def videos_of(text: str) -> tuple[int, bool]:
    """How many videos, and whether only of what failed: of ``none``, ``failed``, ``failed:20``, ``all:50``.

    Raises:
        ValueError: the text says something else.
    """
    match = _VIDEOS.fullmatch(text)
    if match is None:
        raise ValueError(f"expected none, failed, all, or a number with it such as failed:20, and not {text!r}")
    most = 0 if match[1] == "none" else int(match[2] or 20)
    return most, match[1] != "all"


class _Of(NamedTuple):
    """What an episode is drawn from."""

    pool: "WorldPool"
    run: Run
    record: Record
    folder: Path
    drawing: "Drawing"


def media_of(
    records: Sequence[Record], runs: Mapping[str, Run], folders: Mapping[str, Path], shown: Shown
) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """By the place of its record, ``pictures``, ``video`` and ``paths`` of an episode; and what cannot be shown.

    Args:
        records: of the report.
        runs: by name.
        folders: of the runs, by name.
        shown: of how many.
    """
    places = sorted(
        (place for place, record in enumerate(records) if record.arrays is not None and record.run in runs),
        key=lambda place: (records[place].outcome == "success", place),
    )
    wanted = dict.fromkeys(places[: shown.pictures])
    videos = [place for place in places if not (shown.of_failed and records[place].outcome == "success")]
    filmed = dict.fromkeys(videos[: shown.videos])
    found: dict[int, dict[str, Any]] = {}
    # By what is wrong, whichever episode's file it is of: the first one's text, and how many there are.
    troubles: dict[str, tuple[str, int]] = {}

    def tried(place: int, key: str, make: Callable[[], Any]) -> None:
        try:
            made = make()
        except (VlaError, OSError) as error:
            text = f"{key}: {error}"
            kind = text.replace(str(trajectory_file(folders[records[place].run], str(records[place].arrays))), "")
            first, number = troubles.get(kind, (text, 0))
            troubles[kind] = first, number + 1
            return
        if made:
            found.setdefault(place, {})[key] = made

    for place in wanted:
        tried(place, "paths", partial(_paths, records[place], folders[records[place].run]))
    if wanted or filmed:
        from pytest_vla.show.tasks import Drawing, open_pool

        drawn = f"drawing {counted(len({**wanted, **filmed}), 'episode')}, --pictures=0 leaves it out"
        try:
            pool = open_pool(Drawing(data=shown.data))
        except VlaError as error:
            return found, [f"no episode has pictures: {error}"]
        with closing(pool), told_when_slow(drawn, sys.stderr):
            for place in dict.fromkeys([*wanted, *filmed]):
                record = records[place]
                of = _Of(pool, runs[record.run], record, folders[record.run], Drawing(data=shown.data))
                if place in wanted:
                    tried(place, "pictures", partial(_pictures, of))
                if place in filmed:
                    tried(place, "video", partial(_video_uri, of))
    notes = [f"{counted(number, 'episode')} without {text}" for text, number in troubles.values()]
    if len(places) > len(wanted) and shown.pictures:
        told = f"{len(wanted)} of {counted(len(places), 'episode')} have pictures"
        notes.append(f"{told}, those that did not succeed first: --pictures={len(places)} has all")
    return found, notes


def _paths(record: Record, folder: Path) -> list[dict[str, Any]]:
    """Of the hand, m, in the world's frame; at most so many points."""
    assert record.arrays is not None
    path = load_trajectory(trajectory_file(folder, record.arrays)).eef_pos
    if path.ndim != 2 or path.shape[1] != 3 or len(path) < 2:
        return []
    every = max(-(-len(path) // _POINTS), 1)
    kept = [*range(0, len(path) - 1, every), len(path) - 1]
    points = [[round(float(each), 3) for each in path[row]] for row in kept]
    return [{"name": "hand", "points": points}]


def _picture_uri(picture: "NDArray[Any]") -> str:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "WEBP", quality=_QUALITY)
    return f"data:image/webp;base64,{base64.b64encode(stream.getvalue()).decode()}"


def _pictures(of: "_Of") -> list[dict[str, str]]:
    from pytest_vla.show.runs import episode_pictures

    return [{"label": label, "src": _picture_uri(picture)} for label, picture in episode_pictures(*of)]


def _video_uri(of: "_Of") -> str:
    """The video that was recorded, else one that is drawn."""
    from pytest_vla.show.runs import episode_video

    assert of.record.arrays is not None
    kept = trajectory_file(of.folder, of.record.arrays).with_suffix(VIDEO_SUFFIX)
    with TemporaryDirectory() as temporary:
        if not kept.is_file():
            kept = Path(temporary) / f"episode{VIDEO_SUFFIX}"
            episode_video(of.pool, of.run, of.record, of.folder, kept, of.drawing)
        content = kept.read_bytes()
    return f"data:video/mp4;base64,{base64.b64encode(content).decode()}"

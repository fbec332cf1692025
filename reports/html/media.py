"""Pictures of episodes, drawn from recorded states: start and end, a video, paths in space."""

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
from pytest_vla.records.trajectory import load_trajectory, trajectory_file, video_file
from pytest_vla.util.live_line import told_when_slow
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_vla.episode.world_pool import WorldPool
    from pytest_vla.policies.base import Policy
    from pytest_vla.show.tasks import Drawing

PICTURES = 200
"""Default number of episodes with pictures."""

_POINTS = 60
_STILL = 0.002
"""m."""
_QUALITY = 75
_VIDEOS = re.compile(r"(none|failed|all)(?::(\d+))?")


@dataclass(frozen=True)
class MediaShown:
    """The numbers of episodes with pictures, videos and maps.

    Attributes:
        pictures: episodes with start and end, and with the paths of the hand and of the goal's objects; those without
            success come first.
        videos: episodes with a video.
        of_failed: whether only episodes without success have videos.
        data: the folder of ``--data``, or None for the run's.
        occlusions: episodes with maps of where the policy looks.
        occluded_failed: whether only episodes without success have maps.
        policy_of: returns the policy of an episode that is asked for the maps; raises VlaError if it cannot be loaded.
    """

    pictures: int = PICTURES
    videos: int = 0
    of_failed: bool = True
    data: Path | None = None
    occlusions: int = 0
    occluded_failed: bool = True
    policy_of: "Callable[[Run, Record], Policy] | None" = None


def videos_of(text: str, usual: int = 20) -> tuple[int, bool]:
    """Return how many videos ``none``, ``failed``, ``failed:20`` or ``all:50`` mean, and whether only of failures.

    Args:
        text: the option's value.
        usual: the number of videos if the text has none.

    Raises:
        ValueError: the text has another form.
    """
    match = _VIDEOS.fullmatch(text)
    if match is None:
        raise ValueError(f"expected none, failed, all, or one with a number such as failed:20, got {text!r}")
    most = 0 if match[1] == "none" else int(match[2] or usual)
    return most, match[1] != "all"


class _Of(NamedTuple):
    """The arguments from which an episode is drawn."""

    pool: "WorldPool"
    run: Run
    record: Record
    folder: Path
    drawing: "Drawing"


def media_of(
    records: Sequence[Record],
    runs: Mapping[str, Run],
    folders: Mapping[str, Path],
    shown: MediaShown,
    twins: Mapping[int, int] | None = None,
) -> tuple[dict[int, dict[str, Any]], list[str]]:
    """Return ``pictures``, ``video`` and ``paths`` by place of an episode's record, and notes on missing ones.

    Args:
        records: of the report.
        runs: by name.
        folders: of the runs, by name.
        shown: the numbers of episodes; their benign twins are added.
        twins: by the place of a varied episode the place of its benign twin, or None if there are no twins.
    """
    places = sorted(
        (place for place, record in enumerate(records) if record.arrays is not None and record.run in runs),
        key=lambda place: (records[place].outcome == "success", place),
    )
    wanted = _with_twins(places[: shown.pictures], twins or {}, places)
    videos = [place for place in places if not (shown.of_failed and records[place].outcome == "success")]
    filmed = _with_twins(videos[: shown.videos], twins or {}, places)
    occluded = [place for place in places if not (shown.occluded_failed and records[place].outcome == "success")]
    asked = dict.fromkeys(occluded[: shown.occlusions] if shown.policy_of is not None else [])
    found: dict[int, dict[str, Any]] = {}
    # By error, without the episode's file name: the first error's text, and the number of episodes.
    troubles: dict[str, tuple[str, int]] = {}

    def tried(place: int, key: str, make: Callable[[], Any], named: str = "") -> bool:
        try:
            made = make()
        except (VlaError, OSError) as error:
            text = f"{named or key}: {error}"
            kind = text.replace(str(trajectory_file(folders[records[place].run], str(records[place].arrays))), "")
            first, number = troubles.get(kind, (text, 0))
            troubles[kind] = first, number + 1
            return False
        if made:
            found.setdefault(place, {})[key] = made
        return bool(made)

    for place in wanted:
        tried(place, "paths", partial(_paths, records[place], folders[records[place].run]))
    if wanted or filmed or asked:
        from pytest_vla.show.tasks import Drawing, open_pool

        drawn = f"drawing {counted(len({**wanted, **filmed, **asked}), 'episode')}, --pictures=0 leaves it out"
        try:
            pool = open_pool(Drawing(data=shown.data))
        except VlaError as error:
            return found, [f"no episode has pictures: {error}"]
        with closing(pool), told_when_slow(drawn, sys.stderr):
            for place in {**wanted, **filmed, **asked}:
                record = records[place]
                of = _Of(pool, runs[record.run], record, folders[record.run], Drawing(data=shown.data))
                # An episode that cannot be drawn has no scene to look objects up in either.
                if place in wanted and tried(place, "pictures", partial(_pictures, of)):
                    hand = found[place].get("paths", [])
                    tried(place, "paths", partial(_with_objects, hand, of), "paths of objects")
                if place in filmed:
                    tried(place, "video", partial(_video_uri, of))
                if place in asked and shown.policy_of is not None:
                    tried(place, "looks", partial(_looks, of, shown.policy_of), "occlusion map")
    notes = [f"{counted(number, 'episode')} without {text}" for text, number in troubles.values()]
    if len(places) > len(wanted) and shown.pictures:
        told = f"{len(wanted)} of {counted(len(places), 'episode')} have pictures"
        notes.append(f"{told} (episodes without success first); --pictures={len(places)} draws all")
    return found, notes


def _with_twins(chosen: Sequence[int], twins: Mapping[int, int], drawable: Sequence[int]) -> dict[int, None]:
    """Return the chosen places that can be drawn, in order, each followed by its twin."""
    can = {*drawable}
    pairs = ((place, twins.get(place)) for place in chosen)
    return dict.fromkeys(each for pair in pairs for each in pair if each is not None and each in can)


def _paths(record: Record, folder: Path) -> list[dict[str, Any]]:
    """Return the hand's path, m, in the world's frame, with about `_POINTS` points at most."""
    assert record.arrays is not None
    path = load_trajectory(trajectory_file(folder, record.arrays)).eef_pos
    if path.ndim != 2 or path.shape[1] != 3 or len(path) < 2:
        return []
    return [{"name": "hand", "points": _points(path[_rows(len(path))])}]


def _with_objects(paths: list[dict[str, Any]], of: "_Of") -> list[dict[str, Any]]:
    """Return the paths with those of the goal's objects."""
    from pytest_vla.show.runs import episode_objects

    assert of.record.arrays is not None
    number = len(load_trajectory(trajectory_file(of.folder, of.record.arrays)).qpos)
    found = episode_objects(*of, _rows(number)) if number else {}
    return [*paths, *({"name": name, "points": _points(path)} for name, path in found.items())]


def _rows(number: int) -> list[int]:
    """At most so many of them, and the last one."""
    every = max(-(-number // _POINTS), 1)
    return [*range(0, number - 1, every), number - 1]


def _points(path: "NDArray[Any]") -> list[list[float]]:
    """Return the points of a path that are 2 mm or more apart, and its end: objects rest most of the time."""
    kept = [path[0]]
    for point in path[1:-1]:
        if abs(point - kept[-1]).max() >= _STILL:
            kept.append(point)
    return [[round(float(each), 3) for each in point] for point in (*kept, path[-1])]


def picture_uri(picture: "NDArray[Any]") -> str:
    """Return a picture (H, W, 3) as a data URI."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "WEBP", quality=_QUALITY)
    return f"data:image/webp;base64,{base64.b64encode(stream.getvalue()).decode()}"


def _pictures(of: "_Of") -> list[dict[str, str]]:
    from pytest_vla.show.runs import episode_pictures

    return [{"label": label, "src": picture_uri(picture)} for label, picture in episode_pictures(*of)]


def _looks(of: "_Of", policy_of: "Callable[[Run, Record], Policy]") -> list[dict[str, Any]]:
    """Return ``camera``, ``src``, ``floor`` and ``changes`` by patch, for each picture that the policy reads."""
    from pytest_vla.errors import EpisodeError
    from pytest_vla.show.occlusion import episode_occlusions

    try:
        found = episode_occlusions(of.pool, of.run, of.record, of.folder, of.drawing.data, policy_of(of.run, of.record))
    except EpisodeError as error:
        raise VlaError(str(error)) from error
    return [
        {
            "camera": each.camera,
            "src": picture_uri(each.picture),
            "floor": float(f"{each.floor:.3g}"),
            "changes": [[float(f"{change:.3g}") for change in row] for row in each.changes.tolist()],
        }
        for each in found
    ]


def _video_uri(of: "_Of") -> str:
    """Return the recorded video, or draw one."""
    from pytest_vla.show.runs import episode_video

    assert of.record.arrays is not None
    kept = video_file(of.folder, of.record.arrays)
    with TemporaryDirectory() as temporary:
        if not kept.is_file():
            kept = Path(temporary) / f"episode{VIDEO_SUFFIX}"
            episode_video(of.pool, of.run, of.record, of.folder, kept, of.drawing)
        content = kept.read_bytes()
    return f"data:video/mp4;base64,{base64.b64encode(content).decode()}"

"""``pytest-vla label``: serves a local page on which a person rates the quality of a run's successes."""

import argparse
import getpass
import json
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.metrics.discrimination import CLASSES, CRITERIA, Label, read_criteria, read_labels, write_labels
from pytest_vla.run.arguments import declare_data, declare_results, some_text, whole_number
from pytest_vla.util.text import printable
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    from pytest_vla.records.record import Record
    from pytest_vla.show.runs import RunEpisodes
    from pytest_vla.show.tasks import Drawing


# Heavy imports are inside the functions, so that --help is fast.


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Serves on 127.0.0.1 only, until Ctrl-C, and prints the page's address. The page shows the video of each "
        "success, drawn in the background from its recorded states if none was recorded. Each label is saved at once, "
        "also while a video is drawn; a restart "
        "continues with the unlabelled episodes. Two people label under two names; `pytest-vla report --labels=FILE` "
        "reports how well they agree, and which metrics correlate with the labels."
    )
    parser.add_argument(
        "which", metavar="RUN", help="the run to label: its name or the beginning of it, last, or its folder"
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        help="CSV file of labels (default: RUN-labels.csv in the current folder)",
    )
    parser.add_argument(
        "--by", metavar="NAME", type=some_text, help="name of the person who labels (default: your user name)"
    )
    parser.add_argument(
        "--criteria",
        metavar="FILE",
        type=Path,
        help="TOML file with what the page says of the classes low, medium and high, such as a paper's criteria "
        "(default: ours)",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=whole_number("a port", 0, 65535),
        default=0,
        help="port to listen on (default: any free one)",
    )
    declare_data(parser)
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Serve until Ctrl-C. Raises VlaError: no such run, no success with a trajectory, or the file has no labels."""
    from pytest_vla.show.runs import load_runs
    from pytest_vla.show.tasks import Drawing

    criteria = CRITERIA if options.criteria is None else read_criteria(options.criteria)
    runs = load_runs([options.which], options.results)
    if len(runs) != 1:
        raise VlaError(f"{options.which} names {len(runs)} runs; name one")
    (found,) = runs
    drawing = Drawing(None, None, options.data, options.allow_versions)
    successes = {
        (record.case, record.digest): record
        for record in found.records
        if record.outcome == "success" and record.arrays
    }
    if not successes:
        raise VlaError(f"run {found.run.name} has no success with a trajectory, so there is nothing to label")
    shown = [
        EpisodeToLabel(case, digest, record.run, record.instruction, _video(found, record, number, drawing))
        for number, ((case, digest), record) in enumerate(sorted(successes.items()))
    ]
    file = options.output or Path(f"{found.run.name}-labels.csv")
    server, address = labelling_server(shown, file, options.by or _user(), options.port, criteria)
    print(f"{address}\n{len(shown)} successes; labels are saved in {file}; Ctrl-C ends it", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _video(found: "RunEpisodes", record: "Record", number: int, drawing: "Drawing") -> "Callable[[Path], Path]":
    def video(folder: Path) -> Path:
        from pytest_vla.records.record import VIDEO_SUFFIX
        from pytest_vla.records.trajectory import video_file
        from pytest_vla.show.runs import run_video

        made = video_file(found.folder, str(record.arrays))
        drawn = folder / f"{number}{VIDEO_SUFFIX}"
        if made.is_file():
            return made
        if not drawn.exists():
            label = str(record.variation.get("label", ""))
            which = (label,) if label else ("benign",) if any(each.variation for each in found.records) else ()
            run_video(found, (record.task_key,), (record.seed,), drawn, drawing, which)
        return drawn

    return video


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


COMMAND = Command(declare, run)


# The labelling page: for each episode a video, three buttons with keys, and the progress.

ADDRESS = "127.0.0.1"
"""The loopback address, which other machines cannot reach."""

_MOST = 10_000
_IDLE_SECONDS = 10.0  # A connection that sends or reads nothing for as long is closed.
_READY_SECONDS = 0.3  # A video that takes longer is reported as being drawn.
_PAGE = Path(__file__).with_name("label.html")


@dataclass(frozen=True)
class EpisodeToLabel:
    """One episode that is to be labelled.

    Attributes:
        case: `Record.case`.
        digest: `Record.digest`.
        run: the run's name.
        instruction: the policy's instruction.
        video: returns the video's file, drawing it into the given folder if none was recorded. Raises VlaError.
    """

    case: str
    digest: str
    run: str
    instruction: str
    video: Callable[[Path], Path]


class _Videos:
    """The episodes' videos, which one thread draws: what was asked for last first, then what follows it."""

    def __init__(self, shown: Sequence[EpisodeToLabel]) -> None:
        self._shown = shown
        self._folder = tempfile.TemporaryDirectory(prefix="pytest-vla-label-", ignore_cleanup_errors=True)
        self._changed = threading.Condition()
        self._wanted: list[int] = []
        self._made: dict[int, Path | str] = {}
        self._is_open = True
        threading.Thread(target=self._draw, name="vla-videos", daemon=True).start()

    def find(self, number: int) -> Path | None:
        """Return an episode's video, or None while it is drawn. Raises VlaError if it cannot be drawn."""
        with self._changed:
            self._wanted = [each for each in (number + 1, number) if each < len(self._shown)]
            self._changed.notify_all()
            self._changed.wait_for(lambda: number in self._made, _READY_SECONDS)
            made = self._made.get(number)
        if isinstance(made, str):
            raise VlaError(made)
        return made

    def close(self) -> None:
        """Delete the drawn videos; a drawing in progress ends with the process."""
        with self._changed:
            self._is_open = False
            self._changed.notify_all()
        self._folder.cleanup()

    def _next(self) -> int | None:
        return next((each for each in reversed(self._wanted) if each not in self._made), None)

    def _draw(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._is_open or self._next() is not None)
                number = self._next()
            if not self._is_open or number is None:
                return
            try:
                made: Path | str = self._shown[number].video(Path(self._folder.name))
            except Exception as error:
                # Another episode may have one.
                made = str(error) if isinstance(error, VlaError) else describe(error)
            with self._changed:
                self._made[number] = made
                self._changed.notify_all()


def labelling_server(
    shown: Sequence[EpisodeToLabel], file: Path, by: str, port: int = 0, criteria: Mapping[str, str] = CRITERIA
) -> tuple[HTTPServer, str]:
    """Return a labelling server and its page's address; each label is saved before the page shows the next episode.

    The server answers only requests that know the address, which contains a random secret, and only under the host
    `ADDRESS`: another page in the same browser can neither read nor label.

    Args:
        shown: the episodes, in order; those that this person labelled in the file before are not asked for again.
        file: the file of labels, created if missing; labels of other people and episodes are kept.
        by: the person's name.
        port: the port, 0 for any free one.
        criteria: what the page says of each class.

    Raises:
        VlaError: the file is no file of labels, or the port is taken.
    """
    labels = {(each.episode, each.by): each for each in (read_labels(file) if file.exists() else ())}
    secret = secrets.token_urlsafe(16)
    videos, saving = _Videos(shown), threading.Lock()

    def state() -> dict[str, Any]:
        told = [labels.get(((each.case, each.digest), by)) for each in shown]
        return {
            "by": by,
            "classes": CLASSES,
            "criteria": {name: printable(text) for name, text in criteria.items()},
            "episodes": [
                # A browser would obey characters that change the text's direction.
                {
                    "case": printable(each.case),
                    "instruction": printable(each.instruction),
                    "label": None if one is None else one.label,
                }
                for each, one in zip(shown, told, strict=True)
            ],
        }

    def label(said: Any) -> None:
        number, name = said["number"], said["label"]
        if type(number) is not int or not 0 <= number < len(shown) or name not in CLASSES:
            raise ValueError("no such episode or label")
        one = shown[number]
        said_now = Label(one.case, name, by, one.digest, one.run)
        with saving:
            labels[said_now.episode, by] = said_now
            write_labels(file, labels.values())

    class Handler(BaseHTTPRequestHandler):
        """The requests of the page."""

        timeout = _IDLE_SECONDS

        def do_GET(self) -> None:
            path = self._path()
            if path == "":
                self._send(_PAGE.read_bytes(), "text/html; charset=utf-8")
            elif path == "state":
                self._send(json.dumps(state()).encode(), "application/json")
            elif path is not None and path.startswith("video/") and path[6:].isdecimal():
                self._send_video(int(path[6:]))
            else:
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if self._path() != "label" or not length.isdecimal() or int(length) > _MOST:
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
                return
            try:
                label(json.loads(self.rfile.read(int(length))))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                self._refuse(HTTPStatus.BAD_REQUEST, f"expected a number of an episode and a label: {error}")
            except VlaError as error:
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            else:
                self._send(json.dumps(state()).encode(), "application/json")

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing, because the address contains the secret."""

        def _path(self) -> str | None:
            """Return the requested path, or None if the request lacks the secret or names a different host."""
            start = f"/{secret}/"
            is_ours = self.headers.get("Host") == f"{ADDRESS}:{server.server_port}"
            return self.path[len(start) :] if is_ours and self.path.startswith(start) else None

        def _send_video(self, number: int) -> None:
            try:
                if number >= len(shown):
                    raise VlaError("there is no such episode")
                video = videos.find(number)
                if video is None:
                    self._refuse(HTTPStatus.ACCEPTED, "the video is being drawn")
                else:
                    self._send(video.read_bytes(), "video/mp4")
            except (VlaError, OSError) as error:
                self._refuse(HTTPStatus.NOT_FOUND, str(error))

        def _refuse(self, status: HTTPStatus, text: str) -> None:
            self._send(text.encode(), "text/plain; charset=utf-8", status)

        def _send(self, content: bytes, kind: str, status: HTTPStatus = HTTPStatus.OK) -> None:
            self.send_response(status)
            headers = {
                "Content-Type": kind,
                "Content-Length": str(len(content)),
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
                "Content-Security-Policy": "default-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'",
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

    class Server(ThreadingHTTPServer):
        """A server that deletes the videos it drew when it closes, and does not wait for idle connections."""

        daemon_threads = True
        block_on_close = False

        def server_close(self) -> None:
            super().server_close()
            videos.close()

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Report errors other than a browser that is gone or late."""
            if not isinstance(sys.exception(), OSError):
                super().handle_error(request, client_address)

    try:
        server = Server((ADDRESS, port), Handler)
    except OSError as error:
        videos.close()
        raise VlaError(f"port {port}: {error.strerror or error}. Without --port a free one is used") from error
    return server, f"http://{ADDRESS}:{server.server_port}/{secret}/"

"""A report as one HTML file: of stored runs, and of the run that has just ended (``--vla-report``)."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.reports.loaded import Loaded, load
from pytest_vla.reports.sections import Named, make_sections, plain_options
from pytest_vla.run.replays import record_replays
from pytest_vla.util.files import whole_file

ENDINGS = (".html", ".htm")
"""Of files that ``--vla-report`` writes."""

NO_REPORT = "no report:"
"""What the line begins with that says why ``--vla-report`` has written nothing."""

if TYPE_CHECKING:
    from pytest_vla.reports.html.gates import GateTold
    from pytest_vla.reports.html.media import MediaShown


def write_html(
    loaded: Loaded,
    sections: Sequence[Named],
    texts: Sequence[str],
    results: Path,
    file: Path | None,
    troubles: Sequence[str] = (),
    shown: "MediaShown | None" = None,
) -> None:
    """Write a page, whole or not at all.

    Args:
        loaded: the records.
        sections: parts of the report.
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
        file: None, or ``-``: standard output.
        troubles: what parts are missing, and why.
        shown: of how many episodes there are pictures and videos; None: of none.

    Raises:
        VlaError: it cannot be written, or the runs cannot be read.
    """
    from pytest_vla.reports.html.media import MediaShown as Of
    from pytest_vla.reports.html.page import PageRequest, make_page
    from pytest_vla.reports.html.parts import page_html

    wanted = PageRequest(tuple(texts), results, record_replays(texts, results), shown or Of(pictures=0))
    content = page_html(make_page(loaded, sections, wanted, troubles))
    if file is None or str(file) == "-":
        sys.stdout.buffer.write(content)
        return
    with whole_file(file) as stream:
        stream.write(content)


def check_report(file: Path, option: str = "--vla-report") -> None:
    """Before anything runs. Raises VlaError: the file of an option is no page's, or cannot be written."""
    if file.suffix.lower() not in ENDINGS:
        raise VlaError(
            f"{option}={file}: a page is written, and what is there would be overwritten: expected a file that "
            f"ends in {' or '.join(ENDINGS)}, such as report.html"
        )
    if file.is_dir() or not file.parent.is_dir():
        raise VlaError(f"{option}={file}: expected a file, such as report.html, in a folder that is there")


def report_run(run: Path, file: Path, data: Path | None, pictures: int = 0) -> None:
    """The page of a run that has ended.

    Args:
        run: its folder.
        file: that is written.
        data: of ``--vla-data``.
        pictures: episodes that have some.

    Raises:
        VlaError: it cannot be written, or the run cannot be read.
    """
    from pytest_vla.reports.html.media import MediaShown as Of

    content, _ = run_page(load([run.name], run.parent), run.name, run.parent, data, Of(pictures, data=data))
    with whole_file(file) as stream:
        stream.write(content)


def run_page(
    loaded: Loaded,
    run: str,
    results: Path,
    data: Path | None = None,
    shown: "MediaShown | None" = None,
    index: str = "",
    gates: "Sequence[GateTold] | None" = None,
) -> tuple[bytes, list[str]]:
    """The page of one run, and a line for each part of it that is missing.

    Args:
        loaded: its records.
        run: its name.
        results: the folder of all runs.
        data: of ``--vla-data``.
        shown: of how many episodes there are pictures and videos; None: of none.
        index: see `pytest_vla.reports.html.parts.Page`.
        gates: of the run; None: they are judged.

    Raises:
        VlaError: the run cannot be read.
    """
    from pytest_vla.reports.html.media import MediaShown as Of
    from pytest_vla.reports.html.page import PageRequest, make_page
    from pytest_vla.reports.html.parts import page_html

    sections, troubles = make_sections(loaded, plain_options(data), "html")
    wanted = PageRequest((run,), results, record_replays([run], results), shown or Of(pictures=0), index, gates)
    return page_html(make_page(loaded, sections, wanted, troubles)), troubles

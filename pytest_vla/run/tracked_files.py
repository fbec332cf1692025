"""What goes into trackers when a run has ended: how it ended, and files of its numbers, its episodes and its page."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.records.items import Item
from pytest_vla.records.record import Record
from pytest_vla.run.gating import Gated
from pytest_vla.track.numbers import final_numbers, reason_texts
from pytest_vla.track.tracker import Ending


def run_ending(
    records: Sequence[Record], items: Sequence[Item], verdict: Sequence[str], gated: Gated | None, code: int, run: Path
) -> Ending:
    """How a run has ended, without files.

    Args:
        records: of each item the one that counts.
        items: of the run.
        verdict: what is said of the run at its end.
        gated: what became of its gate; None: it has none.
        code: pytest's.
        run: its folder.
    """
    texts = {"exit_code": str(code), "records": f"{run.parent}, run {run.name}", **reason_texts(records)}
    if verdict:
        texts["verdict"] = "\n".join(verdict)
    if gated is not None:
        judged = gated.judged
        texts["gate"] = judged.against or "not judged" if judged.judgement is None else judged.judgement.verdict
        texts["baseline"] = gated.gate.name
    left = any(item.is_left or item.status is None for item in items)
    return Ending(not left, final_numbers(records), texts)


def run_files(
    run: Path, data: Path | None, page: Path | None, tell: Callable[[str], None]
) -> Callable[[Path], Iterator[Path]]:
    """Makes the files of a run that has ended, in a folder.

    ``run.json`` is what ``pytest-vla runs --json`` says of it, ``episodes.csv`` what ``pytest-vla export`` does,
    ``report.json`` what ``pytest-vla report --format=json`` does, where that has anything to say.

    Args:
        run: its folder.
        data: of ``--vla-data``.
        page: of ``--vla-report``; None, or no file: there is none.
        tell: is told why one cannot be made; the others are.
    """

    def files(folder: Path) -> Iterator[Path]:
        for make in (_run_file, _episodes_file, _report_file):
            try:
                file = make(run, folder, data)
            except (VlaError, OSError) as error:
                tell(f"a file of this run is not tracked: {error}")
                continue
            if file is not None:
                yield file
        if page is not None and page.is_file():
            yield Path(shutil.copy(page, folder / page.name))

    return files


def _run_file(run: Path, folder: Path, data: Path | None) -> Path | None:
    from pytest_vla.records.store import open_store
    from pytest_vla.reports.runs import runs_json

    file = folder / "run.json"
    with open_store(run.parent, create=False) as store:
        file.write_text(runs_json([store.run(run.name)]) + "\n")
    return file


def _episodes_file(run: Path, folder: Path, data: Path | None) -> Path | None:
    from pytest_vla.records.store import open_store
    from pytest_vla.reports.export import export
    from pytest_vla.reports.loaded import counted_episodes

    file = folder / "episodes.csv"
    with open_store(run.parent, create=False) as store, file.open("wb") as stream:
        episodes = counted_episodes(store, [run.name])
        export(lambda: store.lines([*episodes]), "csv", stream, [*episodes.values()])
    return file


def _report_file(run: Path, folder: Path, data: Path | None) -> Path | None:
    from pytest_vla.reports.loaded import load
    from pytest_vla.reports.sections import make_sections, plain_options, report_table

    loaded = load([run.name], run.parent)
    sections, _ = make_sections(loaded, plain_options(data), "json")
    if not sections:
        return None
    file = folder / "report.json"
    file.write_text(json.dumps(report_table([section for _, section in sections], loaded), indent=2) + "\n")
    return file

"""Puts a page together of the records and of the parts of the report: the same values as on a terminal and in JSON."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from markupsafe import Markup

from pytest_vla.metrics.hidden import hidden_notes
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.records.load import open_runs
from pytest_vla.records.premises import notes_after
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.reports.html.episodes import anchor_of, episodes_table, twin_places
from pytest_vla.reports.html.gates import GateTold, comparison, gate_blocks, gates_told, outcome_link
from pytest_vla.reports.html.media import MediaShown, media_of
from pytest_vla.reports.html.parts import Page, PageSection, block_of, page_blocks, script_json
from pytest_vla.reports.html.summary import counting_by_model, rates_table, summary_blocks
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import Named, section_table
from pytest_vla.util.text import counted

_VERSION = version("pytest-vla")


@dataclass(frozen=True)
class PageRequest:
    """Of which runs a page is, and what it shows beside the numbers.

    Attributes:
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
        command_of: the command that runs an episode alone; empty: none is known.
        shown: of how many episodes there are pictures and videos.
        index: see `Page`.
        gates: of the runs, where they are known already; None: they are judged.
    """

    texts: tuple[str, ...]
    results: Path
    command_of: Callable[[Record], str]
    shown: MediaShown = field(default_factory=lambda: MediaShown(pictures=0))
    index: str = ""
    gates: Sequence[GateTold] | None = None


def make_page(loaded: Loaded, sections: Sequence[Named], wanted: PageRequest, troubles: Sequence[str] = ()) -> Page:
    """The page of a report.

    Args:
        loaded: the records.
        sections: parts of the report, in their order.
        wanted: of which runs.
        troubles: what parts are missing, and why.

    Raises:
        VlaError: the runs cannot be read.
    """
    records = loaded.records
    runs = _runs(wanted)
    models = section_table([section for _, section in sections])
    gates = gates_told(wanted.texts, wanted.results) if wanted.gates is None else wanted.gates
    parts = [
        *_gate_sections(gates, records, wanted),
        *filter(None, [comparison(records, anchor_of, wanted.command_of)]),
    ]
    if records:
        parts.append(_tasks_section(records))
    parts += [
        PageSection(
            f"section-{entry.name}",
            section.title or entry.about[:1].upper() + entry.about[1:],
            page_blocks(section.blocks()),
        )
        for entry, section in sections
    ]
    twins = twin_places(records)
    media, lacking = media_of(records, {run.name: run for run in runs}, loaded.folders, wanted.shown, twins)
    counting = [record for some in by_model(records).values() for record in that_count(some).records]
    names = ", ".join(dict.fromkeys(run.model for run in runs))
    suites = ", ".join(sorted({record.suite for record in records})) or "no suite"
    return Page(
        title=f"{names} on {suites}",
        summary=summary_blocks(runs, records, models["models"], gates),
        sections=tuple(parts),
        episodes=script_json(episodes_table(records, wanted.command_of, media, twins)),
        number=len(records),
        texts=(*troubles, *lacking, *loaded.unfinished.values(), *notes_after(counting), *hidden_notes(records)),
        made_by=f"{counted(len(records), 'episode')} of {counted(len(runs), 'run')}; made by pytest-vla {_VERSION}",
        index=wanted.index,
    )


def _runs(wanted: PageRequest) -> list[Run]:
    found = [run for _, runs in open_runs(wanted.texts, wanted.results) for run in runs]
    return sorted(found, key=lambda run: (run.started, run.name))


def _tasks_section(records: Sequence[Record]) -> PageSection:
    found = counting_by_model(records)
    tables = [rates_table(model, some, True) for model, some in found.items()]
    blocks = (block_of(model, tables=(table,)) for model, table in zip(found, tables, strict=True))
    return PageSection("tasks", "Success by task", tuple(blocks))


def _gate_sections(gates: Sequence[GateTold], records: Sequence[Record], wanted: PageRequest) -> Iterator[PageSection]:
    def link_of(record: Record) -> Markup:
        return outcome_link(record, anchor_of(record))

    if gates:
        blocks = (block for gate in gates for block in gate_blocks(gate, records, link_of, wanted.command_of))
        yield PageSection("gate", "Gate", tuple(blocks))

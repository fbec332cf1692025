"""The gates of runs: what was agreed before the first episode, judged again as ``pytest-vla gate`` does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.losses import Flip, TaskChange
from pytest_vla.gate.manifest import Manifest, manifest_text, read_manifest
from pytest_vla.gate.manifest import baseline_digest as digest_of
from pytest_vla.gate.measured import Measured
from pytest_vla.gate.verdicts import Judgement
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record
from pytest_vla.reports.agreed import judged_as_agreed
from pytest_vla.reports.baseline_runs import baseline_named, baseline_of_runs
from pytest_vla.reports.blocks import Table, table_of
from pytest_vla.reports.gates import about_lines, told_of, verdict_line, warned_of
from pytest_vla.reports.html.groups import MOST_FLIPPED, groups_table
from pytest_vla.reports.html.parts import PageBlock, block_of
from pytest_vla.reports.html.written import NONE
from pytest_vla.reports.measures import HEAD as MEASURES
from pytest_vla.reports.measures import row_of, shared_text
from pytest_vla.reports.measures import told_of as told_of_measures
from pytest_vla.util.text import counted

LinkOf = Callable[[Record], Markup]
CommandOf = Callable[[Record], str]


@dataclass(frozen=True)
class GateTold:
    """What a run's gate says.

    Attributes:
        run: its name.
        line: the verdict, or why there is none.
        about: what was agreed.
        passed: whether what was required is shown.
        judgement: with the groups; None: it was not judged.
        measured: what is judged beside success; likewise.
        baseline: with which it was compared; None likewise.
        new: the run, as it was compared; None likewise.
        name: of the baseline's file.
        by: what compared texts for what is judged beside success; empty: none were.
    """

    run: str
    line: str
    about: str
    passed: bool
    judgement: Judgement | None = None
    measured: tuple[Measured, ...] = ()
    baseline: Baseline | None = None
    new: Baseline | None = None
    name: str = ""
    by: str = ""


def gates_told(texts: Sequence[str], results: Path) -> tuple[GateTold, ...]:
    """Of all runs that agreed on a gate.

    Args:
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
    """
    found = []
    for store, runs in open_runs(texts, results):
        for run in runs:
            try:
                manifest = read_manifest(run.invocation)
            except VlaError as error:
                found.append(GateTold(run.name, f"{run.name}: gate: not judged: {error}", "", False))
                continue
            if manifest is not None:
                nodes = [item.node for item in store.items(run.name) if item.episode]
                found.append(_told(run.name, manifest, nodes, store.results))
    return tuple(found)


def _told(run: str, manifest: Manifest, nodes: Sequence[str], results: Path) -> GateTold:
    about = f"agreed before the first episode: {manifest_text(manifest, Path(manifest.baseline).name)}"
    try:
        baseline = baseline_named(manifest.baseline, results)
        new, _ = baseline_of_runs(
            [run], results, allow_broken=True, own_process=True, allow_decided=manifest.is_sequential
        )
        judged = judged_as_agreed(manifest, baseline, new, nodes)
    except VlaError as error:
        return GateTold(run, f"{run}: gate: not judged: {error}", about, False)
    # Terms, rule and measures are the manifest's; of the rest the baseline alone can have changed.
    if (digest := digest_of(baseline)) != manifest.baseline_digest:
        about += f"; not as agreed: the baseline's content is {digest[:8]} now"
    failed = f"failed by {', '.join(judged.against)}" if judged.against else "passed"
    line = f"{run}: {verdict_line(judged.judgement)}: {failed}, {manifest.required} is required"
    name = Path(manifest.baseline).name
    return GateTold(
        run, line, about, not judged.against, judged.judgement, judged.measured, baseline, new, name, judged.by
    )


def gate_blocks(
    gate: GateTold, records: Sequence[Record], link_of: LinkOf, command_of: CommandOf
) -> Iterator[PageBlock]:
    """All that ``pytest-vla gate`` says of a run, verdict, reasons and warnings.

    Args:
        gate: of the run.
        records: of the report; flipped cases lead to the run's episodes among them.
        link_of: to an episode.
        command_of: the command that runs it alone; empty: none is known.
    """
    judgement, baseline, new = gate.judgement, gate.baseline, gate.new
    if judgement is None or baseline is None or new is None:
        yield block_of(gate.line, (gate.about,) if gate.about else ())
        return
    tables = [groups_table(judgement, "baseline", "run")]
    if gate.measured:
        rows = tuple(map(row_of, gate.measured))
        tables.append(table_of(shared_text(gate.measured, judgement.terms), MEASURES, rows, 2, frozenset({7})))
    told = [text for group in judgement.groups for text in told_of(group, judgement)]
    yield block_of(
        gate.line,
        (gate.about, *about_lines(judgement, baseline, new, gate.name)),
        tables=tuple(tables),
    )
    told += told_of_measures(gate.measured, gate.by)
    if told or warned_of(judgement):
        yield block_of("Why", tuple(told), notes=tuple(warned_of(judgement)))
    lost = [each for each in judgement.tasks if each.lost > 0]
    if lost:
        yield block_of("Tasks that lost most", tables=(_tasks_table(lost),))
    if judgement.flips:
        yield _flips_block(gate, judgement.flips, records, link_of, command_of)


def _tasks_table(lost: Sequence[TaskChange]) -> Table:
    rows = tuple(
        (each.task, each.group, *("{}/{}".format(*side) for side in (each.baseline, each.new))) for each in lost
    )
    return table_of(counted(len(lost), "task") + " lost success", ("task", "group", "baseline", "run"), rows, 2)


def _flips_block(
    gate: GateTold, flips: Sequence[Flip], records: Sequence[Record], link_of: LinkOf, command_of: CommandOf
) -> PageBlock:
    found = {(record.case, record.seeds.get("run", 0)): record for record in records if record.run == gate.run}
    rows = []
    for flip in flips[:MOST_FLIPPED]:
        record = found.get((flip.case, flip.run_seed))
        command = command_of(record) if record is not None else ""
        way = "lost" if flip.is_lost else "gained"
        cells = (NONE, NONE) if record is None else (link_of(record), Markup("<code>{}</code>").format(command))
        rows.append((flip.case, flip.group, way, *cells))
    lost = sum(flip.is_lost for flip in flips)
    more = (f"{counted(len(flips) - MOST_FLIPPED, 'more case')} flipped",) * (len(flips) > MOST_FLIPPED)
    head = ("case", "group", "way", "in the run", "run it again")
    table = table_of(f"{lost} lost, {len(flips) - lost} gained", head, tuple(rows), 3, frozenset({3, 4}))
    return block_of("Cases that flipped", tables=(table,), notes=more)

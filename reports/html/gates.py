"""The gates of runs: what was agreed before the first episode, judged again as ``pytest-vla gate`` does."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, baseline_of
from pytest_vla.gate.choices import ALPHA, BY, MARGIN
from pytest_vla.gate.manifest import Manifest, change_text, manifest_details, manifest_text, read_manifest
from pytest_vla.gate.manifest import baseline_digest as digest_of
from pytest_vla.gate.measures import GatedMetric
from pytest_vla.gate.verdicts import Flip, GateJudgement, Terms, judge
from pytest_vla.metrics.rates import interval_text, left_out_text, share_text
from pytest_vla.metrics.selection import by_model, is_counted
from pytest_vla.metrics.success import success_rate, unit_of
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record
from pytest_vla.reports.baselines import baseline_named, baseline_of_runs
from pytest_vla.reports.blocks import NONE, Cell, table_of
from pytest_vla.reports.gates import (
    WORST,
    about_lines,
    groups_table,
    judged_as_agreed,
    table_of_measures,
    told_of,
    verdict_line,
    warned_of,
    worst_table,
)
from pytest_vla.reports.gates import told_of_measures as told_of_measures
from pytest_vla.reports.html.parts import PageBlock, PageSection, block_of
from pytest_vla.util.text import counted

MOST_FLIPPED = 300
"""Rows of flipped cases at most, over all that are compared; further ones are counted."""

ANCHOR = "comparison"

_DIGITS = 12
"""Hexadecimal digits of an episode's anchor."""

CommandOf = Callable[[Record], str]
"""Returns the command that runs an episode alone, or an empty text if it is not known."""


@dataclass(frozen=True)
class Side:
    """One of those that are compared.

    Attributes:
        name: the model's, or the run's where all are of one model.
        records: of it.
    """

    name: str
    records: tuple[Record, ...]


def sides_of(records: Sequence[Record]) -> tuple[Side, ...]:
    """Return the models, or the runs of a single model, in the order in which they began."""
    models: dict[str, list[Record]] = {}
    for (model, _), some in by_model(records).items():
        models.setdefault(model, []).extend(some)
    found = models
    if len(models) == 1:
        found = {}
        for record in records:
            found.setdefault(record.run, []).append(record)
    ordered = sorted(found.items(), key=lambda each: min(record.started for record in each[1]))
    return tuple(Side(name, tuple(some)) for name, some in ordered)


def comparison(records: Sequence[Record], command_of: CommandOf) -> PageSection | None:
    """Return the section, or None if there are not two to compare; the first is the reference for all others.

    Args:
        records: all of the report.
        command_of: the command that runs one alone.
    """
    first, *others = sides_of(records) or (None,)
    if first is None or not others:
        return None
    blocks = [_overview([first, *others])] if len(others) > 1 else []
    for other in others:
        blocks += _compared(first, other, command_of, MOST_FLIPPED // len(others))
    return PageSection(ANCHOR, "Side by side", tuple(blocks))


def _overview(sides: Sequence[Side]) -> PageBlock:
    """Return the success of all sides in the cases in which each of them succeeded or failed: benign and varied apart.

    Probes and given cases are in no rate.
    """
    places = [_by_case(side.records) for side in sides]
    shared = set.intersection(*(set(place) for place in places))
    head = ("model or run", "success", "rate", "95%, these tasks", "not in the rate", "cases that others lack")
    tables = []
    for is_varied in (False, True):
        rated = sorted(
            key
            for key in shared
            if bool(places[0][key].variation) == is_varied and not any(place[key].in_no_rate for place in places)
        )
        keys = [key for key in rated if all(is_counted(place[key]) for place in places)]
        if not keys and is_varied:
            continue
        rows = []
        for side, place in zip(sides, places, strict=True):
            rate = success_rate(side.name, [place[key] for key in keys], unit_of)
            broken = left_out_text(success_rate(side.name, [place[key] for key in rated], unit_of))
            cells = (f"{rate.successes}/{rate.counted}", share_text(rate), interval_text(rate), broken)
            rows.append((side.name, *cells, str(len(place) - len(shared))))
        told = counted(len(keys), "varied case" if is_varied else "case")
        tables.append(
            table_of(f"Success in {told} that all {len(sides)} have; each is compared with the first", head, rows)
        )
    return block_of("All", tables=tuple(tables))


def _compared(one: Side, other: Side, command_of: CommandOf, most: int) -> Iterator[PageBlock]:
    title = f"{other.name} against {one.name}"
    try:
        judgement = judge(baseline_of(one.records), baseline_of(other.records), Terms(MARGIN, ALPHA, BY))
    except VlaError as error:
        yield block_of(title, texts=(f"These two cannot be compared: {error}",))
        return
    yield from _blocks(title, judgement, (one, other), command_of, most)


def _blocks(
    title: str, judgement: GateJudgement, sides: tuple[Side, Side], command_of: CommandOf, most: int
) -> Iterator[PageBlock]:
    one, other = sides
    places = [_by_case(side.records) for side in sides]
    flips = judgement.flips
    rows = tuple(_flip_row(flip, places, command_of) for flip in flips[:most])
    head = ("case", "group", one.name, other.name, "run it again")
    lost = sum(flip.is_lost for flip in flips)
    caption = f"Cases that flipped: {lost} lost, {len(flips) - lost} gained by {other.name}"
    how = "The same cases are compared." if judgement.is_paired else "No case is in both: tasks over other seeds are."
    more = (f"{counted(len(flips) - most, 'more case')} flipped",) * (len(flips) > most)
    nothing = "No case flipped." if judgement.is_paired and not flips else ""
    yield block_of(
        title,
        texts=tuple(filter(None, (f"{how} Verdict: {verdict_line(judgement).removeprefix('gate: ')}.", nothing))),
        tables=(table_of(caption, head, rows, 2, frozenset({2, 3, 4})),) if rows else (),
        notes=more,
    )
    told = tuple(text for group in judgement.groups for text in told_of(group, judgement))
    yield block_of(
        "By group", tables=(groups_table(judgement, one.name, other.name),), notes=(*told, *warned_of(judgement))
    )
    changed = [
        change for change in judgement.tasks if change.baseline[0] * change.new[1] != change.new[0] * change.baseline[1]
    ]
    if changed:
        tasks = tuple(
            (each.name, each.group, "{}/{}".format(*each.baseline), "{}/{}".format(*each.new)) for each in changed
        )
        table = table_of(
            "Tasks and kinds that changed (counts, no tests), those that lost most first",
            ("task or kind", "group", one.name, other.name),
            tasks,
            2,
        )
        yield block_of("By task", tables=(table,))


def _by_case(records: Sequence[Record]) -> dict[tuple[str, int], Record]:
    # The first that ended stands; of errors a later one does.
    found: dict[tuple[str, int], Record] = {}
    for record in records:
        key = record.case, record.seeds.get("run", 0)
        if key not in found or found[key].outcome == "error":
            found[key] = record
    return found


def _flip_row(
    flip: Flip, places: Sequence[Mapping[tuple[str, int], Record]], command_of: CommandOf
) -> tuple[Cell, ...]:
    records = [side.get((flip.case, flip.run_seed)) for side in places]
    cells = tuple(NONE if record is None else _outcome_link(record) for record in records)
    command = command_of(records[1]) if records[1] is not None else ""
    return flip.case, flip.group, *cells, Markup("<code>{}</code>").format(command) if command else NONE


def anchor_of(record: Record) -> str:
    """Return the name of an episode in links to it: the same in every report of its run."""
    told = f"{record.run}\n{record.node}\n{record.seeds.get('run')}\n{record.attempt}\n{record.started}"
    return hashlib.sha256(told.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]


def _outcome_link(record: Record) -> Markup:
    """Return how an episode ended, as a link to it."""
    tone = "good" if record.outcome == "success" else "bad"
    link = Markup('<a class="{}" href="#episode-{}">{} after {} steps</a>')
    return link.format(tone, anchor_of(record), record.outcome, record.steps)


@dataclass(frozen=True)
class GateTold:
    """A run's gate result.

    Attributes:
        run: its name.
        line: the verdict, or why there is none.
        about: the gate's plan.
        passed: whether the run shows what is required.
        judgement: with the groups, or None if it was not judged.
        measured: the gated measures beside success; empty if it was not judged.
        baseline: with which it was compared, or None if it was not judged.
        new: the run, as it was compared, or None if it was not judged.
        name: of the baseline's file.
        by: what compared texts for the measures beside success, or empty if no texts were compared.
    """

    run: str
    line: str
    about: str
    passed: bool
    judgement: GateJudgement | None = None
    measured: tuple[GatedMetric, ...] = ()
    baseline: Baseline | None = None
    new: Baseline | None = None
    name: str = ""
    by: str = ""


def gates_told(texts: Sequence[str], results: Path) -> tuple[GateTold, ...]:
    """Judge all runs that agreed on a gate.

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
    about = f"{manifest_text(manifest, Path(manifest.baseline).name)}; {manifest_details(manifest)}"
    try:
        baseline = baseline_named(manifest.baseline, results)
        new, _ = baseline_of_runs(
            [run], results, allow_broken=True, own_process=True, allow_decided=manifest.is_sequential
        )
        judged = judged_as_agreed(manifest, baseline, new, nodes)
    except VlaError as error:
        return GateTold(run, f"{run}: gate: not judged: {error}", about, False)
    # Terms, rule and measures come from the manifest, so only the baseline can have changed.
    if (digest := digest_of(baseline)) != manifest.baseline_digest:
        about += f"; {change_text('baseline content', digest[:8], manifest.baseline_digest[:8])}"
    line = f"{run}: {verdict_line(judged.judgement)}: {'failed' if judged.against else 'passed'}"
    # The line has the verdict already; what else fails the gate is named here.
    if others := [each for each in judged.against if each != judged.judgement.verdict]:
        line += f" by {', '.join(others)}"
    if judged.against:
        line += f"; {manifest.required} required"
    name = Path(manifest.baseline).name
    return GateTold(
        run, line, about, not judged.against, judged.judgement, judged.measured, baseline, new, name, judged.by
    )


def gate_blocks(gate: GateTold, records: Sequence[Record], command_of: CommandOf) -> Iterator[PageBlock]:
    """Yield all that ``pytest-vla gate`` reports on a run: verdict, reasons and warnings.

    Args:
        gate: of the run.
        records: of the report; flipped cases lead to the run's episodes among them.
        command_of: as for `comparison`.
    """
    judgement, baseline, new = gate.judgement, gate.baseline, gate.new
    if judgement is None or baseline is None or new is None:
        yield block_of(gate.line, (gate.about,) if gate.about else ())
        return
    tables = [groups_table(judgement)]
    if gate.measured:
        tables.append(table_of_measures(gate.measured, judgement.terms))
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
        yield block_of(WORST, tables=(worst_table(lost),))
    if judgement.flips:
        yield _flips_block(gate, judgement.flips, records, command_of)


def _flips_block(gate: GateTold, flips: Sequence[Flip], records: Sequence[Record], command_of: CommandOf) -> PageBlock:
    found = {(record.case, record.seeds.get("run", 0)): record for record in records if record.run == gate.run}
    rows = []
    for flip in flips[:MOST_FLIPPED]:
        record = found.get((flip.case, flip.run_seed))
        command = command_of(record) if record is not None else ""
        way = "lost" if flip.is_lost else "gained"
        cells = (NONE, NONE) if record is None else (_outcome_link(record), Markup("<code>{}</code>").format(command))
        rows.append((flip.case, flip.group, way, *cells))
    lost = sum(flip.is_lost for flip in flips)
    more = (f"{counted(len(flips) - MOST_FLIPPED, 'more case')} flipped",) * (len(flips) > MOST_FLIPPED)
    head = ("case", "group", "way", "in the run", "run it again")
    table = table_of(f"{lost} lost, {len(flips) - lost} gained", head, tuple(rows), 3, frozenset({3, 4}))
    return block_of("Cases that flipped", tables=(table,), notes=more)

"""Two runs, or two models, side by side: the cases that only one of them did come first. The gate's own functions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.choices import ALPHA, BY, MARGIN
from pytest_vla.gate.losses import Flip
from pytest_vla.gate.verdicts import Judgement, Terms, judge
from pytest_vla.metrics.selection import by_model
from pytest_vla.records.record import Record
from pytest_vla.reports.blocks import Cell, table_of
from pytest_vla.reports.gates import told_of, verdict_line, warned_of
from pytest_vla.reports.html.groups import MOST_FLIPPED, groups_table
from pytest_vla.reports.html.parts import PageBlock, PageSection, block_of
from pytest_vla.reports.html.written import NONE
from pytest_vla.util.text import counted

ANCHOR = "comparison"


@dataclass(frozen=True)
class Side:
    """One of two that are compared.

    Attributes:
        name: the model's, or the run's where both are of one model.
        records: of it.
    """

    name: str
    records: tuple[Record, ...]


def sides_of(records: Sequence[Record]) -> tuple[Side, Side] | None:
    """Two models, else two runs, in the order in which they began; None: there are not two."""
    models: dict[str, list[Record]] = {}
    for (model, _), some in by_model(records).items():
        models.setdefault(model, []).extend(some)
    found = models
    if len(models) == 1:
        found = {}
        for record in records:
            found.setdefault(record.run, []).append(record)
    if len(found) != 2:
        return None
    first, second = sorted(found.items(), key=lambda each: min(record.started for record in each[1]))
    return Side(first[0], tuple(first[1])), Side(second[0], tuple(second[1]))


def comparison(
    records: Sequence[Record], anchor_of: Callable[[Record], str], command_of: Callable[[Record], str]
) -> PageSection | None:
    """The section; None: there are not two to compare.

    Args:
        records: all of the report.
        anchor_of: an episode's anchor.
        command_of: the command that runs it alone.
    """
    sides = sides_of(records)
    if sides is None:
        return None
    one, other = sides
    title = f"{other.name} against {one.name}"
    try:
        judgement = judge(baseline_of(one.records), baseline_of(other.records), Terms(MARGIN, ALPHA, BY))
    except VlaError as error:
        block = block_of(title, texts=(f"These two cannot be compared: {error}",))
        return PageSection(ANCHOR, "Side by side", (block,))
    return PageSection(ANCHOR, "Side by side", tuple(_blocks(title, judgement, sides, anchor_of, command_of)))


def _blocks(
    title: str,
    judgement: Judgement,
    sides: tuple[Side, Side],
    anchor_of: Callable[[Record], str],
    command_of: Callable[[Record], str],
) -> Iterator[PageBlock]:
    one, other = sides
    places = [_by_case(side.records) for side in sides]
    flips = judgement.flips
    rows = tuple(_flip_row(flip, places, anchor_of, command_of) for flip in flips[:MOST_FLIPPED])
    head = ("case", "group", one.name, other.name, "run it again")
    lost = sum(flip.is_lost for flip in flips)
    caption = f"Cases that flipped: {lost} lost, {len(flips) - lost} gained by {other.name}"
    how = "The same cases are compared." if judgement.is_paired else "No case is in both: tasks over other seeds are."
    more = (f"{counted(len(flips) - MOST_FLIPPED, 'more case')} flipped",) * (len(flips) > MOST_FLIPPED)
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
            (each.task, each.group, "{}/{}".format(*each.baseline), "{}/{}".format(*each.new)) for each in changed
        )
        table = table_of(
            "Tasks that changed, those that lost most first", ("task", "group", one.name, other.name), tasks, 2
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
    flip: Flip,
    places: Sequence[Mapping[tuple[str, int], Record]],
    anchor_of: Callable[[Record], str],
    command_of: Callable[[Record], str],
) -> tuple[Cell, ...]:
    records = [side.get((flip.case, flip.run_seed)) for side in places]
    cells = tuple(NONE if record is None else outcome_link(record, anchor_of(record)) for record in records)
    command = command_of(records[1]) if records[1] is not None else ""
    return flip.case, flip.group, *cells, Markup("<code>{}</code>").format(command) if command else NONE


def outcome_link(record: Record, anchor: str) -> Markup:
    """How an episode ended, as a link to it."""
    tone = "good" if record.outcome == "success" else "bad"
    link = Markup('<a class="{}" href="#episode-{}">{} after {} steps</a>')
    return link.format(tone, anchor, record.outcome, record.steps)

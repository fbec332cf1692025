"""An examination as one HTML page that loads nothing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pytest_vla.doctor.findings import (
    CODES,
    PROPOSED,
    TODAY,
    WELL,
    ClosedLoop,
    ComparedObservation,
    Diagnosis,
    DoctorFinding,
    Examination,
    finite,
)
from pytest_vla.doctor.fits import DIMENSIONS
from pytest_vla.reports.blocks import Cell, Column, Sentence, Table, table_of
from pytest_vla.reports.blocks import notes as note_sentences
from pytest_vla.reports.html.media import picture_uri
from pytest_vla.reports.html.parts import Drawings, Lines, Page, PageBlock, PageSection, block_of, rendered
from pytest_vla.reports.html.svg import LINE, TEXT, drawing, framed
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import counted

EXPLAINED = (
    "Explained variance compares the policy's actions with the demonstrated ones, after clipping to [-1, 1]. 100%: "
    "they are equal. 0%: always answering with the mean demonstrated action would do as well. Below 0%: worse than "
    "that; -100% is the lowest value shown. The total is the mean over the dimensions that the demonstrations move."
)
"""The meaning of the most used number of the page."""

_SHARE = ".0f"
_POINTS = 300
"""Points of a plot by series."""
_WIDTH, _LEFT, _TOP, _SIZE = 220, 40, 36, 172
_HEIGHT = _TOP + _SIZE + 34
_LEGEND = Markup(
    '<ul class="legend"><li><svg viewBox="0 0 12 12" aria-hidden="true"><path class="failed" d="M2 2l8 8m0-8l-8 8"/>'
    "</svg>as wired today</li>{}<li>the diagonal: equal to the demonstrated action</li></ul>"
)
_PROPOSED_KEY = Markup(
    '<li><svg viewBox="0 0 12 12" aria-hidden="true"><circle class="done" cx="6" cy="6" r="3"/></svg>as proposed</li>'
)
_PAIR = Markup('<figure class="beside"><img src="{}" alt="{}"><figcaption>{}</figcaption></figure>')


def write_page(examination: Examination, path: Path) -> None:
    """Write an examination as one HTML page. The file is replaced as a whole.

    Raises:
        VlaError: the file cannot be written.
    """
    content = rendered("static.html.j2", ("style.css", "doctor.css"), page=_page(examination))
    with whole_file(path) as stream:
        stream.write(content)


def _page(examination: Examination) -> Page:
    diagnosis = examination.diagnosis
    made = f"{counted(len(examination.demonstrations), 'demonstration')}, {counted(diagnosis.questions, 'question')}"
    return Page(
        title=f"Doctor: {examination.model} on {examination.suite}",
        summary=dict(_cards(examination)),
        sections=tuple(_sections(examination)),
        episodes=Markup(),
        number=0,
        made_by=f"{made}; made by pytest-vla {version('pytest-vla')}",
    )


# The first screen: the result, and the lines that mend it.


def _cards(examination: Examination) -> Iterator[tuple[str, PageBlock]]:
    for number, finding in enumerate(examination.diagnosis.findings, 1):
        yield f"{number}. {finding.code}, confidence: {finding.confidence}", _finding_block(finding)
    if examination.adapter:
        told = examination.adapter_use
        lines = Lines("\n".join(examination.adapter_module))
        yield "Adapter", PageBlock(content=(Sentence(told), lines), is_wide=True)


def _finding_block(finding: DoctorFinding) -> PageBlock:
    meaning = CODES.get(finding.code, "")
    verdict = Markup('<p class="verdict {}">{}</p>').format("good" if finding.code == WELL else "bad", finding.cause)
    content: list[Any] = [Drawings((verdict,))]
    content += [Sentence(f"{finding.code} means: {meaning}.")] if meaning not in ("", finding.cause) else []
    content.append(Sentence(f"Evidence: {finding.evidence.rstrip('.')}."))
    if finding.lines:
        content += [Sentence("To mend it:"), Lines("\n".join(finding.lines))]
    if numbers := [(name, value) for name, value in finding.numbers.items() if math.isfinite(value)]:
        columns = (Column("measured"), Column("value", ".3g"))
        content.append(Table("Numbers of the evidence", columns, tuple(numbers)))
    return PageBlock(content=tuple(content), is_wide=True)


# Below it: everything that was measured.


def _sections(examination: Examination) -> Iterator[PageSection]:
    diagnosis = examination.diagnosis
    yield PageSection("fit", "How well the actions fit", tuple(_fit_blocks(diagnosis, examination.exchanged)))
    if examination.compared:
        yield PageSection("observations", "Observations", tuple(_compared_blocks(examination.compared)))
    if diagnosis.tried:
        yield PageSection("wirings", "Wirings that were tried", (_tried_block(diagnosis),))
    if examination.replayed:
        yield PageSection("replays", "Demonstrations played back", (_replayed_block(examination),))
    if examination.closed_loop is not None:
        yield PageSection("closed-loop", "Closed loop", (_closed_loop_block(examination.closed_loop),))
    yield PageSection("about", "About this examination", tuple(_about_blocks(examination)))


def _fit_blocks(diagnosis: Diagnosis, exchanged: Mapping[str, float]) -> Iterator[PageBlock]:
    shares = [diagnosis.by_dimension.get(name, ()) for name in (TODAY, PROPOSED)]
    rows: list[tuple[Cell, ...]] = [("all", *map(finite, diagnosis.explained))]
    rows += [
        (name, *(finite(some[at]) if at < len(some) else None for some in shares)) for at, name in enumerate(DIMENSIONS)
    ]
    rows += [(f"yardstick: {name}", finite(share), None) for name, share in diagnosis.yardsticks.items()]
    rows += [(f"with {name} inputs", finite(share), None) for name, share in exchanged.items()]
    columns = (Column("dimension"), *(Column(head, _SHARE, 100.0) for head in ("today, %", "proposed, %")))
    table = Table("Explained variance by dimension of the action, as wired today and as proposed", columns, tuple(rows))
    unmoved = "A dash: the demonstrations hardly move this dimension, so it is not judged."
    yield PageBlock(content=(Sentence(EXPLAINED), table, *note_sentences([unmoved])))
    if drawn := _plots(diagnosis):
        told = (
            "Each point is one action. Across: the demonstrated value. Up: the policy's value. Values beyond the frame "
            "are drawn on its border."
        )
        legend = Drawings((_LEGEND.format(Markup() if _is_unchanged(diagnosis) else _PROPOSED_KEY),))
        yield PageBlock("Demonstrated and answered actions", (Sentence(told), legend, Drawings(tuple(drawn))))


def _plots(diagnosis: Diagnosis) -> list[Markup]:
    """Return a plot by dimension, of the answers that are known."""
    answers = diagnosis.answers
    if "shown" not in answers:
        return []
    shown = _rows(answers["shown"])
    # Today's answers may be to other rows, if the proposed ones are shifted in time.
    series = {TODAY: (_rows(answers.get("shown_today", shown)), _rows(answers.get(TODAY, ())))}
    if not _is_unchanged(diagnosis):
        series[PROPOSED] = (shown, _rows(answers.get(PROPOSED, ())))
    series = {name: both for name, both in series.items() if both[0].shape == both[1].shape}
    return [_plot(at, name, series, diagnosis) for at, name in enumerate(DIMENSIONS)] if series and len(shown) else []


def _is_unchanged(diagnosis: Diagnosis) -> bool:
    """Whether nothing is proposed that changes the actions."""
    today, proposed = (_rows(diagnosis.answers.get(name, ())) for name in (TODAY, PROPOSED))
    return today.shape == proposed.shape and bool(np.array_equal(today, proposed, equal_nan=True))


def _rows(values: Any) -> NDArray[np.float64]:
    """Return values as (m, 7), or none if they have another form."""
    found = np.asarray(values, dtype=np.float64)
    return found if found.ndim == 2 and found.shape[1] == len(DIMENSIONS) else np.zeros((0, len(DIMENSIONS)))


def _plot(
    at: int,
    name: str,
    series: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
    diagnosis: Diagnosis,
) -> Markup:
    """Draw the demonstrated values of a dimension across, and the answers up."""
    every = np.concatenate([shown[:, at] for shown, _ in series.values()])
    most = 1.15 * max(float(np.abs(every[np.isfinite(every)]).max(initial=0.0)), 1e-3)

    def placed(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.clip(values / most, -1, 1) + 1) / 2 * _SIZE

    told = []
    for which in series:
        shares = diagnosis.by_dimension.get(which, ())
        share = finite(shares[at]) if at < len(shares) else None
        told.append(f"{which} {'-' if share is None else f'{share:.0%}'}")
    inside = framed(name, f"explained: {', '.join(told)}")
    left, top, right, bottom = _LEFT, _TOP, _LEFT + _SIZE, _TOP + _SIZE
    for x1, y1, x2, y2 in ((left, top, left, bottom), (left, bottom, right, bottom)):
        inside += LINE.format(kind="axis", x1=x1, y1=y1, x2=x2, y2=y2)
    inside += LINE.format(kind="half", x1=left, y1=bottom, x2=right, y2=top)
    for value, share in ((-most, 0.0), (0.0, 0.5), (most, 1.0)):
        tick = f"{value:.2g}"
        inside += TEXT.format(kind="tick", x=left + share * _SIZE, y=bottom + 12, anchor="middle", text=tick)
        inside += TEXT.format(kind="tick", x=left - 4, y=bottom - share * _SIZE + 4, anchor="end", text=tick)
    inside += TEXT.format(kind="tick", x=left + _SIZE / 2, y=_HEIGHT - 6, anchor="middle", text="demonstrated")
    for which, (shown, answered) in series.items():
        pair = np.stack([shown[:, at], answered[:, at]], axis=1)
        pair = pair[np.isfinite(pair).all(axis=1)]
        # Evenly, so that equal examinations have equal pages.
        pair = (
            pair[np.unique(np.linspace(0, len(pair) - 1, min(len(pair), _POINTS)).astype(int))] if len(pair) else pair
        )
        mark = "m-2-2l4 4m0-4l-4 4" if which == TODAY else "h0"
        ways = (f"M{left + x:.0f} {bottom - y:.0f}{mark}" for x, y in placed(pair))
        kind = "crosses failed" if which == TODAY else "points done"
        inside += Markup('<path class="{}" d="{}"/>').format(kind, "".join(ways))
    label = f"{name}: demonstrated against answered, {', '.join(told)}"
    return drawing("chart scatter", _WIDTH, _HEIGHT, label, inside)


def _compared_blocks(compared: Sequence[ComparedObservation]) -> Iterator[PageBlock]:
    columns = (
        *(Column("observation"), Column("difference as it is", ".3g")),
        *(Column("what makes ours fit best", is_left=True), Column("difference then", ".3g")),
    )
    rows = tuple((each.name, finite(each.before), each.reading, finite(each.difference)) for each in compared)
    about = (
        "What the demonstrations recorded, beside what the suite shows in the same simulator states. The difference of "
        "a picture is the mean over pixels, in grey levels of 255. The difference of a state is its largest value."
    )
    yield PageBlock(content=(Sentence(about), Table("Recorded observations and ours", columns, rows)))
    for each in compared:
        pictures = [(picture, _is_picture(picture)) for picture in (each.ours, each.recorded)]
        if not all(is_one for _, is_one in pictures):
            continue
        shown = (
            _PAIR.format(picture_uri(np.ascontiguousarray(picture)), f"{each.name}, {whose}", whose)
            for (picture, _), whose in zip(pictures, ("ours", "recorded"), strict=True)
        )
        yield PageBlock(each.name, (Drawings(tuple(shown)),))


def _is_picture(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3 and value.shape[2] == 3


def _tried_block(diagnosis: Diagnosis) -> PageBlock:
    columns = (
        *(Column("wiring"), Column("code", is_left=True), Column("gain, points", "+.1f", 100.0)),
        *(Column("95%", "+.1f", 100.0), Column("questions"), Column("refused", is_left=True, is_optional=True)),
    )
    ranked = sorted(diagnosis.tried, key=lambda each: -math.inf if finite(each.gain) is None else each.gain or 0.0)
    rows: list[tuple[Cell, ...]] = []
    for each in reversed(ranked):
        gain, low, high = map(finite, (each.gain, each.low, each.high))
        interval = None if gain is None or low is None or high is None else (low, high)
        rows.append((each.name, each.code, gain, interval, each.questions, each.refused))
    about = (
        "Each row changes one thing between suite and policy, in addition to the wirings that had been chosen when it "
        "was last tried: gains before and after a choice are not comparable. The gain is how much closer the policy's "
        "actions come to the demonstrated ones, as a share of these actions' mean absolute deviation from their "
        "median. A change is proposed if its gain is large enough and positive in nine of ten draws of a bootstrap "
        "over blocks of neighbouring questions; of one camera's turn, a crop or a wording, twice the gain is asked "
        "for, in 39 of 40. The interval is of 95%. Refused: the policy raised an error."
    )
    used = [column for place, column in enumerate(columns) if not column.is_optional or any(r[place] for r in rows)]
    table = Table("Wirings, the largest gain first", tuple(used), tuple(row[: len(used)] for row in rows))
    same = [
        f"These demonstrations cannot distinguish {name!r} from {', '.join(map(repr, others))}."
        for name, others in diagnosis.same.items()
        if others
    ]
    return PageBlock(content=(Sentence(about), table, *note_sentences(same)))


def _replayed_block(examination: Examination) -> PageBlock:
    columns = (
        *(Column("actions read"), Column("succeeded"), Column("demonstrations")),
        Column("drift of the hand, mm", ".1f"),
    )
    rows = tuple((each.reading, each.succeeded, each.count, finite(each.drift_mm)) for each in examination.replayed)
    about = (
        "Recorded actions, executed from the recorded starts without a policy. If few succeed as recorded, the "
        "simulator or the reading of the actions differs from where they were recorded. The drift is the median "
        "distance from the recorded hand at the last step; a dash: the recorded positions are not known."
    )
    return PageBlock(content=(Sentence(about), Table("Played back by how the actions are read", columns, rows)))


def _closed_loop_block(ran: ClosedLoop) -> PageBlock:
    sides = (
        {"as wired today": ran.today, "as proposed": ran.proposed} if ran.proposed else {"as wired today": ran.today}
    )
    rows = [
        (case, *("success" if at < len(some) and some[at] else "failure" for some in sides.values()))
        for at, case in enumerate(ran.cases)
    ]
    rows.append(("successes", *(f"{sum(some)}/{len(some)}" for some in sides.values())))
    about = "Episodes in which the policy acts by itself. They are few: they check the result, and measure no rate."
    table = table_of("Episodes", ("case", *sides), rows, 1, range(1, 3))
    return block_of(texts=[about], tables=[table], notes=[f"error: {each}" for each in ran.errors])


def _about_blocks(examination: Examination) -> Iterator[PageBlock]:
    yield block_of(notes=examination.notes)
    if examination.seconds:
        rows: list[tuple[Cell, ...]] = [(name, finite(each)) for name, each in examination.seconds.items()]
        rows.append(("total", finite(sum(examination.seconds.values()))))
        yield block_of(tables=[Table("Seconds by step", (Column("step"), Column("seconds", ".1f")), tuple(rows))])
    names = "\n".join(examination.demonstrations)
    yield PageBlock(counted(len(examination.demonstrations), "demonstration"), (Lines(names),), is_open=False)

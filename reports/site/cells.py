"""Texts and links of the index: what its card, its tables and its charts say of a run in the same words."""

from collections.abc import Collection

from markupsafe import Markup

from pytest_vla.metrics.rates import BENIGN, interval_text, left_out_text, share_text
from pytest_vla.reports.site.entries import Entry, Result
from pytest_vla.util.text import counted

PAGES_FOLDER = "runs"
"""Of the site: where the pages of runs are."""


def run_link(name: str, pages: Collection[str]) -> Markup:
    """The run's name, as a link where its page is there.

    Args:
        name: of the run.
        pages: names of runs whose pages are there.
    """
    if name not in pages:
        return Markup("{}").format(name)
    return Markup('<a href="{}/{}.html">{}</a>').format(PAGES_FOLDER, name, name)


def run_cell(entry: Entry, pages: Collection[str]) -> Markup:
    """`run_link` with when it began below it, and whether its page is gone."""
    gone = "" if entry.name in pages else ", its page is not here"
    return Markup('{}<div class="note">{}{}</div>').format(run_link(entry.name, pages), began_text(entry), gone)


def began_text(entry: Entry) -> str:
    """``2026-11-25 16:00 UTC``."""
    return entry.began.strftime("%Y-%m-%d %H:%M UTC")


def model_cell(model: str, contents: Collection[str]) -> Markup:
    """The model's name, with the content of it below."""
    told = ", ".join(dict.fromkeys(each if each != "unknown" else "content unknown" for each in contents))
    return Markup('{}<div class="note">{}</div>').format(model, told) if told else Markup("{}").format(model)


def tasks_text(result: Result) -> str:
    """``10 tasks``; ``3 of 10 tasks``; ``6 of 10 tasks, 2431 variations of them``."""
    if result.is_whole:
        told = counted(result.tasks, "task")
    else:
        told = f"{result.tasks} of {counted(result.of_tasks or 0, 'task')}"
    return told if result.group == BENIGN else f"{told}, {counted(result.variations, 'variation')} of them"


def tasks_cell(result: Result) -> Markup:
    """`tasks_text`, marked where it is a part."""
    form = "{}" if result.is_whole else '<span class="plain">{}</span>'
    return Markup(form).format(tasks_text(result))


def rate_text(result: Result) -> str:
    """``65.0% [43.3%, 81.9%]``; a dash where nothing is counted."""
    rate = result.rate
    return share_text(rate) + f" {interval_text(rate)}" * (rate.interval is not None)


def success_text(result: Result) -> str:
    """``13/20``."""
    return f"{result.rate.successes}/{result.rate.counted}"


def result_line(result: Result) -> Markup:
    """``tabletop 65.0% [43.3%, 81.9%], 13/20, 10 tasks; not in it: 1 error: 61.9% to 66.7%``."""
    left_out = f"; not in it: {told}" if (told := left_out_text(result.rate)) else ""
    return Markup("<div>{} {}, {}, {}{}</div>").format(
        result.column, rate_text(result), success_text(result), tasks_cell(result), left_out
    )


def result_lines(entry: Entry) -> Markup:
    """`result_line` of all its results; of several models each with the model's name before it."""
    several = len({result.model for result in entry.results}) > 1
    lines = []
    model = ""
    for result in entry.results:
        if several and result.model != model:
            model = result.model
            lines.append(Markup('<div class="note">{}</div>').format(model))
        lines.append(result_line(result))
    return Markup("").join(lines)


def status_text(entry: Entry) -> str:
    """``finished``; ``stopped, 3 of 10 episodes``; with what was picked, and what a gate decided."""
    told = entry.status
    told += f", {entry.done} of {counted(entry.planned, 'episode')}" * entry.is_cut_short
    return told + f", {entry.picked}" * bool(entry.picked) + f", {entry.decided} decided" * bool(entry.decided)

"""What foretells failure as a part of a page: values by outcome, AUROC, alarms, confidence. From the report's JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from pytest_vla.reports.html.by_outcome import courses, distributions
from pytest_vla.reports.html.parts import Block, Table
from pytest_vla.reports.html.written import NONE, number_text

Found = Mapping[str, Any]


def foretelling_blocks(title: str, model: Found) -> Iterator[Block]:
    """Of a model and suite.

    Args:
        title: names them.
        model: of the report's JSON, with ``foretelling``, ``separation``, ``conformal``, ``confidence`` and
            ``stop_when``.
    """
    yield Block(title, tables=(_aurocs(model["foretelling"]),))
    if separated := model["separation"]:
        moment = f"{separated[0]['moment']:.0%}"
        yield Block(
            f"{title}: values by outcome",
            (
                f"Of each metric the mean up to {moment} of the step budget, an episode each: failures above the line, "
                "successes below it, each as shares of its own number; a tick marks the median. Where both have their "
                "bars in the same places, the metric tells nothing. Tasks differ: AUROC within tasks is of pairs of "
                "one task. Over time: the median and the middle half of the episodes that run still.",
            ),
            tuple(_drawings(separated, model["foretelling"])),
        )
    if model["conformal"]:
        yield _alarms(title, model["conformal"])
    if model["confidence"]:
        yield _confidence(title, model["confidence"])


def _aurocs(found: Sequence[Found]) -> Table:
    rows = tuple(
        (
            each["metric"],
            f"{each['moment']:.0%}",
            str(each["failures"]),
            str(each["successes"]),
            _area(each["auroc"], each["interval"]),
            NONE if each["tasks_interval"] is None else "[{:.2f}, {:.2f}]".format(*each["tasks_interval"]),
            _area(each["within"], each["within_interval"]),
            str(each["pairs"] or ""),
        )
        for each in found
    )
    head = (
        *("metric", "moment", "failures", "successes", "AUROC", "tasks like these", "within tasks"),
        "pairs of one task",
    )
    caption = (
        "AUROC of the mean up to a share of the step budget, among the episodes that are still running: 1, failures "
        "have larger values; 0.5, it tells nothing; 0, smaller ones"
    )
    return Table(caption, head, rows, 1)


def _area(value: float | None, interval: Sequence[float] | None) -> str:
    return number_text(value, interval, "{:.2f}")


def _drawings(separated: Sequence[Found], found: Sequence[Found]) -> Iterator[Markup]:
    areas = {(each["metric"], each["moment"]): each for each in found}
    for each in separated:
        told = areas.get((each["metric"], each["moment"]), {})
        within, overall = told.get("within"), told.get("auroc")
        below = f"AUROC within tasks {_area(within, None)}, over all {_area(overall, None)}"
        below += f"; {each['beyond']} beyond the ends" * bool(each["beyond"])
        yield Markup('<div class="pair">{}{}</div>').format(distributions(each, below), courses(each) or "")


def _alarms(title: str, found: Sequence[Found]) -> Block:
    rows = []
    for each in found:
        held = each["held_out"]
        shares = (
            [NONE] * 4 if held is None else [*(_share(held[key]) for key in ("cut", "caught", "in_time")), _lead(held)]
        )
        rows.append((each["metric"], f"{each['alpha']:.0%}", number_text(each["threshold"]), *shares))
    head = ("metric", "to cut at most", "threshold", "cut, %", "caught, %", "in time, %", "lead, steps")
    caption = (
        "An alarm beyond a conformal threshold, of successes of every second seed; what it does on the others: cut, of "
        "successes; caught, of failures; in time, by when half of the successes are done"
    )
    return Block(f"{title}: alarms", tables=(Table(caption, head, tuple(rows)),), is_open=False)


def _share(each: Found | None) -> str:
    if each is None:
        return NONE
    interval = None if each["interval"] is None else [100 * end for end in each["interval"]]
    return number_text(100 * each["share"], interval, "{:.0f}")


def _lead(held: Found) -> str:
    return number_text(held["lead"], None, "{:g}")


def _confidence(title: str, found: Sequence[Found]) -> Block:
    rows = tuple(
        (
            f"{each['moment']:.0%}",
            str(each["episodes"]),
            number_text(each["brier"], each["brier_interval"], "{:.3f}"),
            f"{each['base']:.3f}",
            number_text(each["gap"], each["gap_interval"], "{:+.3f}"),
            f"{each['error']:.3f}",
            f"{each['error_by_chance']:.3f}",
        )
        for each in found
    )
    head = (
        *("moment", "episodes", "Brier's score", "of the base rate", "confidence less success"),
        *("calibration error", "by chance below"),
    )
    caption = "Is the policy's own confidence worth its face value? Mean probability of the tokens that it likes best"
    return Block(f"{title}: its own confidence", tables=(Table(caption, head, rows),), is_open=False)

"""A model's language results, for people as tables; `pytest_vla.reports.language.json` has them for programs."""

from collections.abc import Iterator, Mapping

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.failure_types import FEWEST_SUCCESSES
from pytest_vla.metrics.language import Measured, Paraphrases
from pytest_vla.metrics.language_paths import MARGIN, Failures
from pytest_vla.metrics.language_results import LanguageReport, ModelResults, OtherChange, Source
from pytest_vla.metrics.listening import OFTEN, SELDOM, Estimate, Listening, Probe, Share
from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES
from pytest_vla.metrics.rates import percents_text, reasons_text
from pytest_vla.metrics.robustness import FEWEST_PAIRS
from pytest_vla.reports.tables import aligned, notes, printed, wrapped
from pytest_vla.util.text import counted

BAR = 40
"""Characters of 100%."""

OVER = "paraphrases like these, of these tasks"
"""What intervals of a language generalise over, unless they say otherwise."""


def report_lines(report: LanguageReport, full: bool = False) -> Iterator[str]:
    """The report for a terminal, line by line. Control characters are taken out.

    Args:
        report: all of it.
        full: grids too of which no cell has enough episodes for a rate.
    """
    yield from printed(_lines(report, full))


def _lines(report: LanguageReport, full: bool) -> Iterator[str]:
    yield f"alpha {report.alpha:g}; in brackets {CONFIDENCE:.0%} intervals over {OVER},"
    yield "and over their seeds where paraphrases recur under several; where each has but one,"
    yield "other seeds of theirs are not in them, as they are in intervals over these tasks"
    by_backend: dict[str, list[ModelResults]] = {}
    for model in report.models:
        by_backend.setdefault(model.paraphrases.backend if model.paraphrases else "no similarities", []).append(model)
    for backend, models in by_backend.items():
        yield ""
        yield from wrapped(f"Paraphrases, % ({backend})")
        yield from aligned([_HEAD, *map(_model_row, models)], 3)
    for model in report.models:
        yield ""
        protocol = f" as {model.protocol} has it" if model.protocol else ""
        yield f"=== {model.model}, {model.suite}{protocol} ==="
        if reasons := reasons_text(model.counts, bounds=False):
            yield from wrapped(f"in no rate: {reasons}")
        for rate, of in ((model.rate, "paraphrases"), (model.benign, "benign twins")):
            if rate is not None and (reasons := reasons_text(rate)):
                yield from wrapped(f"in no rate of {of}: {reasons}")
        yield from notes(model.left_out)
        if model.paraphrases is not None:
            yield from _source_lines(model.source, "paraphrases")
            yield from _total_lines(model)
            yield from _paraphrase_lines(model.paraphrases, full)
        for source in dict.fromkeys(each.source.backend for each in model.others.values()):
            of_it = {kind: each for kind, each in model.others.items() if each.source.backend == source}
            yield ""
            yield from wrapped(f"Other changes of the text, % ({source})")
            yield from _other_lines(of_it)
        if model.failures is not None:
            yield from _failure_lines(model.failures)
        if model.listening is not None:
            yield from _listening_lines(*model.listening)


_HEAD = ("model", "suite", "seeds", "n", "SR", "PRIDE", "overestimation", "benign SR")


def _model_row(model: ModelResults) -> tuple[str, ...]:
    head = (model.model, model.suite, ",".join(map(str, model.seeds)) or "-")
    benign = "-" if model.benign is None else percents_text(model.benign)
    overall = None if model.paraphrases is None else model.paraphrases.overall
    return (*head, *(_measured_cells(overall) if overall else ("0", "-", "-", "-")), benign)


def _source_lines(source: Source | None, what: str) -> Iterator[str]:
    if source is not None and source.passed_over:
        yield from wrapped(f"similarities of {what}: {source.backend}")
        for name, why in source.passed_over.items():
            yield from wrapped(f"  not {name}: {why}", indent="    ")


def _other_lines(others: Mapping[str, OtherChange]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [("kind", "n", "SR", "PRIDE", "overestimation", "PD")]
    for kind, each in others.items():
        rows.append((kind, *_measured_cells(each.measured), _fixed(each.measured.pd.value, 3)))
    yield from aligned(rows, 1)
    for kind, each in others.items():
        yield from _source_lines(each.source, kind)


def _total_lines(model: ModelResults) -> Iterator[str]:
    """What the mean is of, where that is not the episodes that were run."""
    found = model.paraphrases
    if found is None:
        return
    overall = (("SR", found.overall.sr), ("PRIDE", found.overall.pride))
    by_task = [
        f"{name} [{_fixed(each.tasks_interval[0], 1)}, {_fixed(each.tasks_interval[1], 1)}]"
        for name, each in overall
        if each is not None and each.tasks_interval is not None
    ]
    if by_task:
        yield f"over {TASKS_LIKE_THESE}: {', '.join(by_task)}"
    if model.of_list is not None:
        sr, pride = model.of_list
        text = f"as if all of LIBERO-Para's list had been told: SR {_with_interval(sr)}"
        yield text + ("" if pride is None else f", PRIDE {_with_interval(pride)}")


def _paraphrase_lines(found: Paraphrases, full: bool) -> Iterator[str]:
    if full or any(cell.n >= FEWEST_PAIRS for cell in (*found.cells.values(), *found.actions.values())):
        yield from _grid_lines(found)
    else:
        yield ""
        episodes = counted(found.overall.n, "episode")
        yield from wrapped(
            f"{episodes} in {counted(len(found.cells), 'cell')} of objects x actions: fewer than {FEWEST_PAIRS} "
            "in each, so that there are no rates; `pytest-vla report --full` shows them"
        )
    if full or found.overall.n >= FEWEST_PAIRS:
        yield from _sweep_lines(found)


def _grid_lines(found: Paraphrases) -> Iterator[str]:
    for title, attribute, digits in (("Success rate, %", "sr", 1), ("Mean distance PD", "pd", 3)):
        yield ""
        by = f" ({found.backend})" if attribute == "pd" else ""
        yield from wrapped(f"{title} (episodes), objects x actions{by}")
        yield from _grid(found, attribute, digits)
    yield ""
    yield "Success rate by action type, %, all objects"
    yield from _bars(found.actions)
    if found.categories:
        yield ""
        yield "Success rate by category of the action, %, objects as they are"
        yield from _bars(found.categories)


def _sweep_lines(found: Paraphrases) -> Iterator[str]:
    yield ""
    yield from wrapped(f"PRIDE by alpha, % ({found.backend})")
    alphas = list(found.sweep.items())
    body: list[tuple[str, ...]] = [
        ("alpha", *(f"{alpha:g}" for alpha, _ in alphas)),
        ("PRIDE", *(_number(each) for _, each in alphas)),
    ]
    for bound, name in enumerate(("from", "to")):
        body.append(
            (name, *("-" if e is None or e.interval is None else _fixed(e.interval[bound], 1) for _, e in alphas))
        )
    yield from aligned(body, 1)
    yield ""
    yield from wrapped(f"Tasks, % ({found.backend})")
    head = ("task", "n", "SR", "PRIDE", "overestimation")
    yield from aligned([head, *((name, *_measured_cells(each)) for name, each in found.tasks.items())], 1)


def _grid(found: Paraphrases, attribute: str, digits: int) -> Iterator[str]:
    def cell(group: Measured | None) -> str:
        if group is None:
            return "-"
        if attribute == "sr" and group.n < FEWEST_PAIRS:
            return _count(group)
        return f"{_fixed(getattr(group, attribute).value, digits)} ({group.n})"

    # In two lines, as the columns are narrower than their names.
    rows: list[tuple[str, ...]] = [("", *("_\n".join(kind.rsplit("_", 1)) for kind in OBJECT_TYPES), "all")]
    for action in ACTION_TYPES:
        cells = [cell(found.cells.get((kind, action))) for kind in OBJECT_TYPES]
        rows.append((action, *cells, cell(found.actions.get(action))))
    rows.append(("all", *(cell(found.objects.get(kind)) for kind in OBJECT_TYPES), cell(found.overall)))
    yield from aligned(rows, 1)


def _bars(groups: Mapping[str, Measured]) -> Iterator[str]:
    rows = [
        (name, ("#" * round(BAR * each.sr.value / 100)).ljust(BAR, "."), _with_interval(each.sr), f"n={each.n}")
        if each.n >= FEWEST_PAIRS
        else (name, "", _count(each), f"n={each.n}")
        for name, each in groups.items()
        if name != NONE or len(groups) > 1
    ]
    yield from aligned(rows, 2)


def _failure_lines(failures: Failures) -> Iterator[str]:
    yield ""
    yield f"Failure types, % of {failures.n} episodes with a path ({failures.algorithm}): execution near, planning far"
    rows: list[tuple[str, ...]] = [("tau", "SR", "near", "far", "far of failures", "undefined")]
    by_dtw = [("", failures.levels)] + ([(" exact", failures.exact)] if failures.differing else [])
    for suffix, levels in by_dtw:
        for name, each in levels.items():
            share = "-" if each.far_share is None else _with_interval(each.far_share)
            cells = [_with_interval(one) for one in (failures.sr, each.near, each.far)]
            rows.append((f"{name}{suffix}", *cells, share, _with_interval(failures.undefined)))
    yield from aligned(rows, 1)
    if failures.algorithm != "exact":
        has = "has" if failures.differing == 1 else "have"
        yield f"{counted(failures.differing, 'failure')} {has} another label by exact DTW"
    yield ""
    yield "By task, counts at tau = max; a far failure did the task that it is nearest to, or none; in brackets"
    yield f"the median of 1 - distance to this task / distance to the next one; from {MARGIN:g} on it is named"
    counts: list[tuple[str, ...]] = [("task", "successes", "failures", "near", "far", "remarks", "did instead")]
    for task in failures.tasks:
        near, far = map(str, task.near_far("max")) if task.types.undefined is None else ("-", "-")
        remarks = [f"{number} {remark}" for remark, number in task.remarks.items()]
        remarks += [f"undefined: {task.types.undefined}"] if task.types.undefined is not None else []
        instead = [
            f"{len(margins)} {'itself' if name == task.task else name} ({task.instead_margins[name]:.2f})"
            for name, margins in task.instead.items()
        ]
        instead += [f"{task.nobodys} none"] if task.nobodys else []
        numbers = (str(task.successes), str(task.failures), near, far)
        counts.append((task.task, *numbers, ", ".join(remarks) or "-", ", ".join(instead) or "-"))
    yield from aligned(counts, 1, left={5, 6})
    yield "slow: far as cut at the longest success, near as a whole;"
    yield "diverges-late: near until then, far afterwards"
    if failures.tau == "paper":
        yield "tau, as the paper has it: of the successes' distances to the mean of all of them, themselves included;"
        yield "with few successes most paths that are like theirs count as far"
        return
    yield "tau: of the successes' distances, each to the mean of the others; of paths that are like n successes"
    yield f"one in n + 1 is far by chance; few-successes: not determined, as they are below {FEWEST_SUCCESSES}"


_VERDICTS = {
    "listens": f"it listens: it does what another text says, above {OFTEN:g} times as often as the right one's task",
    "breaks": f"it does not listen: other texts break it, and what they say it does below {SELDOM:g} times as often as "
    "the right one's task",
    "ignores": "it does not listen: it does the task whatever it is told",
    "not determined": "whether it listens is not determined",
}


def _listening_lines(overall: Listening, each: Mapping[Probe, Listening]) -> Iterator[str]:
    def share(of: Share) -> str:
        if not of.of:
            return "-"
        bounds = "" if of.interval is None else " [{:.1f}, {:.1f}]".format(*(100 * bound for bound in of.interval))
        return f"{of.count}/{of.of}{bounds}"

    def score(estimate: Estimate | None) -> str:
        return "-" if estimate is None else _with_interval(estimate, 2)

    yield ""
    yield f"Does it listen? Intervals are over {THESE_TASKS}"
    yield from wrapped(_VERDICTS[overall.verdict])
    yield f"told another task, it did that one in {share(overall.followed)}"
    if overall.obeyed.of:
        yield f"told another task with its goal, it did that one in {share(overall.obeyed)}"
    yield ""
    yield "Success that is lost without the right text, 0: none, 1: all; lost is not listened to"
    success: list[tuple[str, ...]] = [("text", "lost", "right text, %", "this text, %")]
    paths: list[tuple[str, ...]] = [("text", "path score", "DTW m", "noise m")]
    for name, heard in (*each.items(), ("all", overall)):
        success.append((name, score(heard.score), share(heard.right), share(heard.probe)))
        paths.append((name, score(heard.path_score), score(heard.distance), score(heard.noise)))
    yield from aligned(success, 1)
    if overall.distance is not None:
        yield ""
        yield "Its paths; 0: as far apart as two runs of the right text, 1: all of their distance is the text's"
        yield from aligned(paths, 1)


def _count(group: Measured) -> str:
    """Of fewer than `FEWEST_PAIRS` episodes, in the place of a rate."""
    return f"{round(group.n * group.sr.value / 100)}/{group.n}"


def _measured_cells(group: Measured) -> tuple[str, str, str, str]:
    if group.n < FEWEST_PAIRS:
        return str(group.n), _count(group), "-", "-"
    three = ["-" if each is None else _with_interval(each) for each in (group.sr, group.pride, group.overestimation)]
    return str(group.n), three[0], three[1], three[2]


def _number(estimate: Estimate | None) -> str:
    return "-" if estimate is None else _fixed(estimate.value, 1)


def _with_interval(estimate: Estimate, digits: int = 1) -> str:
    value = _fixed(estimate.value, digits)
    if estimate.interval is None:
        return value
    low, high = (_fixed(bound, digits) for bound in estimate.interval)
    return f"{value} [{low}, {high}]"


def _fixed(value: float, digits: int) -> str:
    """With so many decimals; what rounds to 0 has no sign."""
    return f"{round(value, digits) + 0.0:.{digits}f}"

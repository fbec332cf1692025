"""The lines that a run prints on the terminal: its plan, its results, and warnings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

import pytest

from pytest_vla.gate.choices import FIXED
from pytest_vla.plan.case import Case
from pytest_vla.records.record import ANSWER, ANSWER_P90, HELD_STEPS, Record
from pytest_vla.run.command_lines import resume_command
from pytest_vla.run.context import RunContext
from pytest_vla.run.gate import GateConfig, agreed_line
from pytest_vla.run.nodes import Collected
from pytest_vla.run.sharding import shard_end, shard_line
from pytest_vla.run.stored import Closed
from pytest_vla.util.text import counted, printable_lines

if TYPE_CHECKING:
    from pytest_vla.reports.terminal import SummaryLine
    from pytest_vla.run.early_stopping import Deciding


# The drop that a run with a gate can detect, printed before its first episode.

SEED = 0
"""The seed of the simulations, so that equal runs print equal lines."""


def foreseen_line(gate: GateConfig, cases: Mapping[str, Case], run_seed: int) -> str:
    """Return the line on the smallest detectable drop; for a sequential gate, on groups that are too small.

    Args:
        gate: the run's gate, with its plan.
        cases: the run's cases, by node id.
        run_seed: the run seed.
    """
    if gate.rule != FIXED:
        return _too_few(gate, len({case.task for case in cases.values()}))
    import numpy as np

    from pytest_vla.gate.episodes_needed import smallest_drops
    from pytest_vla.reports.gates import drops_line

    return drops_line(smallest_drops(gate.baseline, cases, run_seed, gate.terms, np.random.default_rng(SEED)))


def _too_few(gate: GateConfig, tasks: int) -> str:
    """Return the line on groups too small for a regression even without any success; empty if there are none."""
    if gate.agreed is None:
        return ""
    import numpy as np

    from pytest_vla.gate.wealth import running_p

    rounds = gate.agreed.rounds
    # Holm's correction leaves the smallest p of all groups times their number.
    least = gate.terms.alpha / max(len(rounds), 1)
    told = [
        f"{name} has {number}"
        for name, number in rounds.items()
        if not number or float(running_p(np.full((number, tasks), -1.0), "regression", gate.terms.beyond)[-1]) > least
    ]
    if not told:
        return ""
    return (
        f"too few rounds to detect a regression, even without any success: {', '.join(told)}. Use more --vla-episodes, "
        "or --vla-gate=fixed"
    )


MOST_SINGLE_TASKS = 9
"""More tasks than these, with one episode each, have no row each without -v: a rate of one episode tells little."""


def _without_single_episodes(
    lines: "tuple[SummaryLine, ...]", records: Sequence[Record], width: int | None
) -> "tuple[SummaryLine, ...]":
    """Replace the rows of many tasks with one unvaried episode each by a line."""
    from pytest_vla.metrics.extra_metrics import by_origin
    from pytest_vla.metrics.rates import is_plain
    from pytest_vla.metrics.selection import observations
    from pytest_vla.reports.terminal import LOG_WIDTH, SummaryLine, summary_lines

    distinct = observations(records)
    of_suites = [record for record in distinct if record.of_suite]
    tasks = Counter((record.suite, record.task_key) for record in of_suites)
    if len(tasks) <= MOST_SINGLE_TASKS or set(tasks.values()) != {1} or not all(map(is_plain, of_suites)):
        return lines
    own = by_origin(record for record in distinct if not record.of_suite)
    full, short = (summary_lines(of_suites, own, each, width or LOG_WIDTH, width is None) for each in (True, False))
    texts = [line.text for line in lines]
    start = next((at for at in range(len(texts)) if texts[at : at + len(full)] == full), None)
    if start is None:
        return lines
    note = f"{len(tasks)} tasks have one episode each; -v shows them"
    return (*lines[:start], *map(SummaryLine, (*short, note)), *lines[start + len(full) :])


SHOWN_CASES = 3
"""Given cases that the policy does now, by name; `-v` shows all items."""


def _succeeding_line(records: Sequence[Record]) -> str:
    """Return the line on given cases with a change that succeed, which may be failures no longer; empty without any."""
    given = [record for record in records if record.is_given and record.variation]
    done = [record.case for record in given if record.outcome == "success"]
    more = f" and {len(done) - SHOWN_CASES} more" if len(done) > SHOWN_CASES else ""
    names = f"{', '.join(done[:SHOWN_CASES])}{more}"
    return f"{len(done)} of {counted(len(given), 'given case')} with a change succeed: {names}" if done else ""


def _latency_line(records: Sequence[Record]) -> str:
    """Return the line on episodes with latency: how long answers took, how often the arm held; empty without any."""
    some = [record for record in records if HELD_STEPS in record.metrics and record.steps]
    usual, most = ([took for each in some if (took := each.timings.get(name))] for name in (ANSWER, ANSWER_P90))
    if not usual or not most:
        return ""
    share = sum(each.metrics[HELD_STEPS] for each in some) / sum(each.steps for each in some)
    return (
        f"latency: an answer took {1000 * median(usual):.3g} ms, one in ten {1000 * median(most):.3g} ms or more "
        f"(medians over {counted(len(some), 'episode')}); the arm held in {share:.0%} of their steps"
    )


def _width(reporter: pytest.TerminalReporter) -> int | None:
    """Return the width of the terminal, or None for a log."""
    return reporter._tw.fullwidth if reporter.isatty else None


class RunReporter:
    """Prints the run's lines by pytest's terminal reporter; silent if there is none."""

    def __init__(self, context: RunContext) -> None:
        self._context, self._config = context, context.config
        self._said: set[str] = set()

    @property
    def reporter(self) -> pytest.TerminalReporter | None:
        """pytest's."""
        reporter: pytest.TerminalReporter | None = self._config.pluginmanager.getplugin("terminalreporter")
        return reporter

    def once(self, text: str) -> None:
        """Print a line of its own in the middle of a run, unless it was printed before."""
        from pytest_vla.run.progress import write_apart

        if text not in self._said and self.reporter is not None:
            write_apart(self.reporter, f"vla: {text}", yellow=True)
        self._said.add(text)

    def _write(self, reporter: pytest.TerminalReporter, text: str, **look: bool) -> None:
        """Write lines that fit the terminal; a line with a command is left whole, to be copied."""
        from pytest_vla.reports.text import wrapped

        for line in printable_lines(text).splitlines() or [""]:
            for part in [line] if "`" in line or not line else wrapped(line, _width(reporter)):
                reporter.write_line(part, **look)

    def error(self, error: Exception) -> None:
        """Print the error that kept the run from ending well."""
        if self.reporter is not None:
            self.reporter.ensure_newline()
            self.reporter.write_line(printable_lines(f"pytest-vla: {error}"))

    def what_comes(
        self, collected: Collected, workers: int, gate: GateConfig | None, deciding: "Deciding | None" = None
    ) -> None:
        """Print the plan of the run; for a resumed run, also the episodes that were not collected."""
        from pytest_vla.reports.terminal import (
            duration_text,
            opening_line,
            searches_line,
            starts_line,
            uncollected_line,
        )

        reporter, resumption, so_far = self.reporter, self._context.resumption, self._context.so_far
        if reporter is None or self._config.get_verbosity() < 0:
            return
        settings = self._context.settings
        model = str(settings.model)
        if resumption is not None and settings.model_text != model:
            # Not what the results call it alone.
            model += f" = {settings.model_text}"
        resumed = None if resumption is None else (self._context.folder.name, so_far.kept)
        left = () if resumption is None else resumption.left
        estimates, cases = tuple(so_far.estimates.values()), tuple(collected.alone.values())
        reporter.ensure_newline()
        if (shard := self._context.findings.shard) is not None:
            reporter.write_line(shard_line(shard))
        opening = ""
        if cases or resumed is not None:
            opening = opening_line(cases, model, workers, estimates, resumed, bool(left))
        starts = ""
        if len(cases) > 1:
            from pytest_vla.run.preflight import distinct_starts

            number = distinct_starts(cases, settings)
            starts = starts_line(len(cases), number)
            if number == len(cases) and resumed is None:
                opening, starts = f"{opening}, {starts.removeprefix('vla: ')}", ""
        for line in filter(None, (opening, starts)):
            self._write(reporter, line)
        if collected.searches:
            reporter.write_line(searches_line(len(collected.searches), settings.fuzz or 0, model, workers))
        limit = self._context.limit
        if limit is not None and cases:
            from pytest_vla.run.time_budget import clock, limit_text

            order = "the gate's order" if deciding is not None else "an order that is balanced at any time"
            until = duration_text(limit.left(clock()))
            self._write(reporter, f"vla: stops after {until} ({limit_text(limit, settings)}); episodes run in {order}")
        if gate is not None:
            self._write(reporter, f"vla: {agreed_line(gate)}")
            if gate.agreed is not None and self._config.get_verbosity() > 0:
                from pytest_vla.gate.manifest import manifest_details

                self._write(reporter, f"vla: {manifest_details(gate.agreed)}")
            planned = so_far.episodes_of(collected)
            if resumption is None and (foreseen := foreseen_line(gate, planned, settings.run_seed)):
                self._write(reporter, f"vla: {foreseen}")
        if deciding is not None and deciding.skipped:
            from pytest_vla.run.early_stopping import left_line

            self._write(reporter, left_line(deciding))
        if resumption is not None and (missing := set(left) - set(map(so_far.recorded_as, collected.nodes))):
            reporter.write_line(uncollected_line(sorted(missing), resumption.command))

    def summary(
        self,
        reporter: pytest.TerminalReporter,
        records: Sequence[Record],
        closed: Closed,
        verdict: Sequence[str],
        utilisation: Sequence[str] = (),
        folded: Sequence[str] = (),
    ) -> None:
        """Print the rates and the verdict. With -q the rates are one line, with -qq there are none.

        Args:
            reporter: pytest's.
            records: for each of the run's items the record that counts.
            closed: the run in the store, after its end.
            verdict: the verdict's lines.
            utilisation: lines on the use of device and cores.
            folded: lines on what pytest's own sections leave out.
        """
        from pytest_vla.gate.min_success import FAILED, PASSED
        from pytest_vla.metrics.selection import observations
        from pytest_vla.reports.terminal import LOOKS, SummaryLine, Tone
        from pytest_vla.run.hints import doctor_hint
        from pytest_vla.run.html_report import NO_REPORT

        verbosity, run = self._config.get_verbosity(), self._context.folder
        lines: tuple[SummaryLine, ...] = ()
        if closed.items and verbosity >= -1:
            from pytest_vla.reports.terminal import closing_lines

            width = _width(reporter)
            resume = resume_command(self._config, run.name)
            lines = closing_lines(records, run, closed.items, resume, verbosity, width, closed.repetition)
            if verbosity == 0:
                lines = _without_single_episodes(lines, records, width)
        if verbosity >= 0 and (prices := self._context.findings.prices):
            from pytest_vla.reports.terminal import price_lines

            lines = (*lines, *map(SummaryLine, price_lines(prices, records)))
        if verbosity >= 0 and closed.items and (told := _latency_line(records)):
            lines = (*lines, SummaryLine(told))
        if verbosity >= 0 and closed.items and (told := _succeeding_line(records)):
            lines = (*lines, SummaryLine(told))
        if verbosity >= 0 and closed.items and (told := doctor_hint(observations(records), self._context.settings)):
            lines = (*lines, SummaryLine(told))
        lines = (*lines, *map(SummaryLine, folded))
        if verbosity >= 0:
            lines = (*lines, *map(SummaryLine, utilisation))
        if verbosity >= -1 and (told := shard_end(self._context, bool(closed.items))):
            lines = (*lines, SummaryLine(told))
        if verbosity >= 0 and (lines or verdict):
            # pytest has ended its line of dots; it would write an empty line below the heading for it.
            reporter.currentfspath = None
            reporter.section("vla")
        for text, tone in lines:
            self._write(reporter, text, **LOOKS[tone])
        for text in verdict:
            look: Tone = (
                "good" if text.startswith(PASSED) else "bad" if text.startswith((FAILED, NO_REPORT)) else "plain"
            )
            self._write(reporter, text, **LOOKS[look])

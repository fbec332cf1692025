"""Searches as items of a run (``--vla-fuzz``): from the process that ran a search to the one that writes and prints it.

A search's episodes have no records: no rate, no report and no gate counts them.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import parse_search_id
from pytest_vla.plan.manifests import load_suite
from pytest_vla.run.command_lines import pytest_command
from pytest_vla.run.context import RunContext
from pytest_vla.util.text import counted, printable_lines

if TYPE_CHECKING:
    from pytest_vla.fuzz.case_file import ListedCase
    from pytest_vla.fuzz.found import Found, Searched
    from pytest_vla.plan.task import Task


PROPERTY = "vla_search"
"""The name of the user property that carries a search."""

CASES_FILE = "fuzz_cases.toml"
"""In the run's folder."""

_NOT_OF_CASES = ("--vla-fuzz", "--vla-fuzz-dimensions", "--vla-cases")


@dataclass(frozen=True)
class SearchResult:
    """The result of a task's search; the `vla_search` fixture gives it to a test.

    Attributes:
        task: the task, as it was searched.
        seen: the results of the scenes that were drawn evenly.
        known: failures of earlier searches that the policy still has.
        gone: failures of earlier searches in which the policy succeeds now.
        about: the policy that has the failures.
        command: the command line that runs the failures.
    """

    task: "Task"
    seen: "Searched"
    known: "tuple[Found, ...]" = ()
    gone: "tuple[Found, ...]" = ()
    about: str = ""
    command: str = ""

    @property
    def found(self) -> "tuple[Found, ...]":
        """Each distinct failure, also flaky ones; a known one, without a boundary, only if it was not found again."""
        from pytest_vla.fuzz.causes import is_one_failure

        now = [each.shrunk.candidate for each in self.seen.found if not each.is_flaky]
        before = [each for each in self.known if not any(is_one_failure(each.shrunk.candidate, one) for one in now)]
        return (*self.seen.found, *before)

    @property
    def failures(self) -> "tuple[Found, ...]":
        """The failures under every run seed; those under some run seeds only are printed, and do not fail the test."""
        return tuple(each for each in self.found if not each.is_flaky)

    @property
    def told_nothing(self) -> bool:
        """Whether the search has no result: it tried no scene, or none of them counts."""
        return not (self.seen.told_something or self.failures)

    @property
    def cases(self) -> "tuple[ListedCase, ...]":
        """The failures, as a file of cases lists them."""
        from pytest_vla.fuzz.case_file import ListedCase
        from pytest_vla.fuzz.found import boundary_text

        return tuple(
            ListedCase(each.shrunk.candidate, f"{boundary_text(each)}; {self.about}") for each in self.failures
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """The rate, each failure, and the scenes that do not count."""
        from pytest_vla.fuzz.found import aside_lines, boundary_text, failure_line, rate_text

        before = {id(each) for each in self.known}
        found = [f"{failure_line(each)}{' (found before)' if id(each) in before else ''}" for each in self.found]
        rate = [rate_text(self.seen)] if self.seen.proposed or self.seen.guided else ["no scene was tried"]
        gone = [
            f"succeeds now (found before): {boundary_text(each)}, seed {each.shrunk.candidate.seed}"
            for each in self.gone
        ]
        return (*rate, *found, *gone, *aside_lines(self.seen))

    @property
    def explanation(self) -> str:
        """The message of a failed test."""
        number = counted(len(self.failures), "distinct failure")
        again = [f"run {'it' if len(self.failures) == 1 else 'them'}: {self.command}"] if self.command else []
        return printable_lines(
            "\n  ".join([f"{self.task.id}: {number} that the policy should not have", *self.lines, *again])
        )


def replay_command(context: RunContext, key: str = "") -> str:
    """Return the command line that runs what the run's searches found, for all tasks or for one."""
    config = context.config
    file = os.path.relpath(context.folder / CASES_FILE, config.invocation_params.dir)
    given = [text for text in context.settings.given if text.partition("=")[0] not in _NOT_OF_CASES]
    return pytest_command(config, f"--vla-cases={file}", *([f"--vla-tasks={key}"] if key else []), *given)


def attach_search(item: pytest.Item, search: SearchResult) -> None:
    """Put a search on its item, for the process that writes and prints it."""
    cases = [
        {
            "seed": each.candidate.seed,
            "about": each.about,
            "changes": {change.kind: dict(change.params) for change in each.candidate.changes},
        }
        for each in search.cases
    ]
    seen = search.seen
    numbers = {
        "scenes": seen.proposed + seen.guided,
        "even_scenes": seen.proposed,
        "even_fails": seen.failed,
        "even_passes": seen.passed,
        "found": len(search.failures),
    }
    table = {"lines": search.lines, "cases": cases, "numbers": numbers}
    others = [(name, value) for name, value in item.user_properties if name != PROPERTY]
    item.user_properties[:] = [*others, (PROPERTY, json.dumps(table))]


class Searches:
    """The plugin of the process that keeps a run: writes each search's cases at its end, and prints all at the end."""

    def __init__(self, context: RunContext) -> None:
        self._context, self._config, self._selection = context, context.config, context.selection
        # By suite and task.
        self._ended: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._written = 0

    @property
    def file(self) -> Path:
        """The file of the cases that were found."""
        return self._context.folder / CASES_FILE

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a search off its report, and leave its numbers there for JUnit files and the like."""
        text = next((str(value) for name, value in report.user_properties if name == PROPERTY), None)
        where = parse_search_id(report.nodeid)
        if text is None or where is None:
            return
        table = json.loads(text)
        others = [(name, value) for name, value in report.user_properties if name != PROPERTY]
        report.user_properties[:] = [*others, *((f"vla_{name}", value) for name, value in table["numbers"].items())]
        if self._ended.get(where) != table:
            self._ended[where] = table
            try:
                self._write()
            except VlaError as error:
                pytest.exit(printable_lines(str(error)), returncode=pytest.ExitCode.INTERNAL_ERROR)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print each search's rate and failures, and the command that runs them again."""
        verbosity = self._config.get_verbosity()
        if not self._ended or verbosity < -1:
            return
        if verbosity >= 0:
            terminalreporter.section("vla: searches")
        for (suite, task), table in self._in_order():
            first, *others = table["lines"]
            terminalreporter.write_line(printable_lines(f"{suite}/{task}: {first}"))
            for line in others:
                terminalreporter.write_line(printable_lines(f"  {line}"))
        if self._written:
            found, command = counted(self._written, "case"), replay_command(self._context)
            terminalreporter.write_line(printable_lines(f"{found} found; run again with `{command}`"))

    def _in_order(self) -> Iterable[tuple[tuple[str, str], Mapping[str, Any]]]:
        """Return the results in the order of the suites, whichever worker ended first."""
        order = [(suite, key) for suite, keys in self._selection.searches.items() for key in keys]
        return sorted(self._ended.items(), key=lambda each: order.index(each[0]) if each[0] in order else len(order))

    def _write(self) -> None:
        """Write the file of cases. Raises VlaError."""
        from pytest_vla.fuzz.candidate import Candidate
        from pytest_vla.fuzz.case_file import ListedCase, write_cases
        from pytest_vla.vary.chosen import Change

        cases = []
        for (suite, key), table in self._in_order():
            task = load_suite(suite, data=self._selection.settings.data).task(key)
            for each in table["cases"]:
                changes = tuple(Change(kind, params) for kind, params in each["changes"].items())
                cases.append(ListedCase(Candidate(task, each["seed"], changes), each["about"]))
        if len(cases) == self._written == 0:
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise VlaError(f"{self.file.parent}: no folder can be made there: {error.strerror}") from error
        write_cases(self.file, cases)
        self._written = len(cases)

"""Whether a run passes: by how all of its items ended, or by a wanted success rate."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pytest_vla.gate.min_success import judge
from pytest_vla.records.record import Record
from pytest_vla.run.failures import Failures
from pytest_vla.run.resume import Resumption
from pytest_vla.run.selection import Selection
from pytest_vla.run.stored import Closed

_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
"""Endings with which no run has passed, whatever its rates."""


@dataclass(frozen=True)
class Verdict:
    """What is said of a run, and the code that pytest ends with."""

    lines: tuple[str, ...]
    exit_code: int


def judge_run(
    session: pytest.Session,
    selection: Selection,
    resumption: Resumption | None,
    records: Sequence[Record],
    closed: Closed,
    failures: Failures,
) -> Verdict:
    """How all items of the run ended decides; with a wanted success rate, that stands for the failed episodes.

    Args:
        session: of pytest, which has run what it was to run.
        selection: what was asked for.
        resumption: the run that was gone on with; None: a new one.
        records: of each of the run's items the one that counts.
        closed: how the run stands.
        failures: of this invocation.
    """
    settings, lines, code = selection.settings, tuple[str, ...](), session.exitstatus
    # Where no suite is asked for, the user's tests have all episodes that there are.
    all_own = settings.min_success_typed and not selection.named and not any(record.of_suite for record in records)
    records = [record for record in records if record.of_suite or all_own]
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and resumption and not resumption.left:
        code = pytest.ExitCode.OK
    failed = [item for item in closed.repetition.judged(closed.items) if item.failed]
    # Of earlier invocations, and those that passed when they were run again, which does not count.
    unseen = [item for item in failed if not failures.of(item.node)]
    # Such as those that were not collected again, or whose worker died and left nobody to run them.
    unended = any(item.status is None for item in closed.items)
    # In the ini file it is for runs of suites, and the project's other tests are run as ever.
    if settings.min_success is not None and (settings.min_success_typed or selection.named or records):
        # pytest's own number has also what cannot be collected, and what other plugins object to.
        others = session.testsfailed - failures.excused + sum(not item.is_failed_episode for item in unseen)
        stopped = bool(session.shouldstop or session.shouldfail or unended) or code in _CUT_SHORT
        minimum, by_lower_end = settings.min_success
        lines, passed = judge(records, minimum, others, stopped, by_lower_end, settings.model is not None)
    else:
        passed = not (session.testsfailed or failed or unended)
    # Interrupted, a usage error, nothing collected: that stays.
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        code = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED
    return Verdict(lines, code)

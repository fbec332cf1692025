"""Whether a run passes: by how all of its items ended, by a wanted success rate, by a gate, or by both of these."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pytest_vla.gate.lines import minimum_text, run_line
from pytest_vla.gate.min_success import against_others, judge, weigh
from pytest_vla.metrics.selection import observations
from pytest_vla.records.record import Record
from pytest_vla.run.context import RunContext
from pytest_vla.run.failures import Failures
from pytest_vla.run.gating import Gated, gated_lines
from pytest_vla.run.sharding import is_empty_shard
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
    context: RunContext,
    records: Sequence[Record],
    closed: Closed,
    failures: Failures,
    gated: Gated | None = None,
) -> Verdict:
    """How all items of the run ended decides; a wanted success rate or a gate stand for the failed episodes.

    Args:
        session: of pytest, which has run what it was to run.
        context: of the run.
        records: of each of the run's items the one that counts.
        closed: how the run stands.
        failures: of this invocation.
        gated: what became of the gate; None: there is none.
    """
    selection, resumption = context.selection, context.resumption
    settings, lines, code = selection.settings, tuple[str, ...](), session.exitstatus
    # Where no suite is asked for, the user's tests have all episodes that there are.
    all_own = settings.min_success_typed and not selection.named and not any(record.of_suite for record in records)
    records = observations([record for record in records if record.of_suite or all_own])
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and resumption and not resumption.left:
        code = pytest.ExitCode.OK
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and is_empty_shard(context):
        code = pytest.ExitCode.OK
    failed = [item for item in closed.repetition.judged(closed.items) if item.failed]
    # Of earlier invocations, and those that passed when they were run again, which does not count.
    unseen = [item for item in failed if not failures.of(item.node)]
    # Such as those that were not collected again, or whose worker died and left nobody to run them.
    unended = any(item.status is None for item in closed.items)
    if closed.sample is not None:
        # What ran stands for what did not; of nothing nothing can be said.
        episodes = [item for item in closed.items if item.episode]
        unended = bool(episodes) and not any(item.outcome for item in episodes)
    # In the ini file it is for runs of suites, and the project's other tests are run as ever.
    has_minimum = settings.min_success is not None and (settings.min_success_typed or selection.named or bool(records))
    # pytest's own number has also what cannot be collected, and what other plugins object to.
    others = session.testsfailed - failures.excused + sum(not item.is_failed_episode for item in unseen)
    if gated is not None:
        others -= gated.failed
    was_stopped = session.shouldstop or session.shouldfail if gated is None else gated.stopped
    stopped = bool(was_stopped or unended) or code in _CUT_SHORT
    minimum, by_lower_end = settings.min_success or (0.0, False)
    has_policy = settings.model is not None
    if gated is not None:
        asked = [f"--vla-baseline={gated.gate.name}{_undecided_text(gated)}"]
        against = [gated.judged.against] * bool(gated.judged.against)
        told: list[str] = []
        if has_minimum:
            wanted = minimum_text(minimum, by_lower_end)
            told, below = weigh(records, minimum, by_lower_end, has_policy)
            asked.append(wanted)
            against += [f"{wanted}: {'; '.join(below)}"] * bool(below)
        against += against_others(others, stopped, any(not record.of_suite for record in records))
        from pytest_vla.run.replays import replays

        replay, verbosity = replays(settings, session.config, closed.items), session.config.get_verbosity()
        lines, passed = (*told, *gated_lines(gated, verbosity, replay), run_line(asked, against)), not against
    elif has_minimum and settings.shard is not None:
        wanted = minimum_text(minimum, by_lower_end)
        against = against_others(others, stopped, any(not record.of_suite for record in records))
        passed = not against
        already = f"; against it already: {'; '.join(against)}" if against else ""
        lines = (f"not judged: {wanted} is of all shards; `pytest-vla merge` says how{already}",)
    elif has_minimum:
        lines, passed = judge(records, minimum, others, stopped, by_lower_end, has_policy)
    else:
        passed = not (session.testsfailed or failed or unended)
    # Interrupted, a usage error, nothing collected: that stays.
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        code = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED
    return Verdict(lines, code)


def _undecided_text(gated: Gated) -> str:
    """What keeps ``passed`` from being read as no worse: ``: undecided``."""
    judgement = gated.judged.judgement
    return ": undecided" if judgement is not None and judgement.verdict == "undecided" else ""

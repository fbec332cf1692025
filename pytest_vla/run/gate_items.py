"""A gate's groups as items of their own, such as ``gate::libero_goal[camera]``: told when all episodes have ended.

They are reports without a test behind them: of pytest's plugins all see them that print, count and write files, and not
those that remember what failed, to run it again.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_vla.gate.choices import REQUIRED

if TYPE_CHECKING:
    from pytest_vla.gate.verdicts import Group, Judgement

PLACE = "gate"
"""What their ids begin with."""

_OTHERS = ("lfplugin", "nfplugin", "stepwiseplugin")
"""pytest's plugins that remember items."""

Outcome = Literal["passed", "failed", "skipped"]


def report_groups(session: pytest.Session, judgement: "Judgement", required: str, ours: object) -> int:
    """Report the groups. Returns how many failed.

    Args:
        session: whose episodes have all ended.
        judgement: over them.
        required: a key of `REQUIRED`.
        ours: the plugin that takes reports of episodes, for which these are nothing.
    """
    manager = session.config.pluginmanager
    others = [plugin for plugin in map(manager.getplugin, _OTHERS) if plugin is not None]
    tell = manager.subset_hook_caller("pytest_runtest_logreport", [*others, ours])
    reporter = manager.getplugin("terminalreporter")
    if reporter is not None:
        # The last line of episodes says that it is the last; where a line shows how the run goes, they had no dots.
        reporter.currentfspath = None
        reporter.showfspath = reporter.showfspath or session.config.get_verbosity() == 0
    session.testscollected += len(judgement.groups)
    failed = 0
    for group in judgement.groups:
        location = (PLACE, None, group.name)
        nodeid = f"{PLACE}::{group.name}"
        session.config.hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        for report in _reports(nodeid, location, group, judgement, required):
            failed += report.failed
            tell(report=report)
        session.config.hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
    return failed


def outcome_of(group: "Group", judgement: "Judgement", required: str) -> Outcome:
    """How a group's item ends; one fails where all groups together do not show what is required."""
    met = REQUIRED[required]
    if judgement.verdict not in met and group.verdict not in met:
        return "failed"
    return "skipped" if group.verdict == "undecided" else "passed"


def _reports(
    nodeid: str, location: tuple[str, None, str], group: "Group", judgement: "Judgement", required: str
) -> Iterator[pytest.TestReport]:
    from pytest_vla.reports.gates import group_lines, group_reason

    outcome = outcome_of(group, judgement, required)
    said: str | tuple[str, int, str] | None = None
    if outcome == "failed":
        said = "\n".join([group_reason(group, judgement), *group_lines(group, judgement)])
    elif outcome == "skipped":
        # pytest's short summary has the reason alone.
        said = (PLACE, 0, f"Skipped: {group.name}: {group_reason(group, judgement)}")
    keywords: dict[str, Literal[1]] = {PLACE: 1, group.name: 1}
    properties = [("vla_verdict", group.verdict)]
    yield pytest.TestReport(nodeid, location, keywords, "passed", None, "setup")
    yield pytest.TestReport(nodeid, location, keywords, outcome, said, "call", user_properties=properties)
    yield pytest.TestReport(nodeid, location, keywords, "passed", None, "teardown", user_properties=properties)

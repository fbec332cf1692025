"""What pytest keeps of each item until its end, and need not of an episode whose phase has passed.

Its terminal reporter keeps every report. For each failure it looks through all of those of setups and teardowns that
passed, for what they captured: of 10,000 episodes that takes longer than all else that this process does.
"""

from collections.abc import Callable

import pytest

_QUIET = ""
"""The category of such reports in `TerminalReporter.stats`, which is in no count."""


class Forgetting:
    """A plugin: drops reports of setups and teardowns that passed and have nothing to tell.

    Args:
        config: pytest's.
        is_episode: whether an item of this node id runs an episode.
    """

    def __init__(self, config: pytest.Config, is_episode: Callable[[str], bool]) -> None:
        self._config, self._is_episode = config, is_episode

    # After pytest's own terminal reporter, which puts them there.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A report has been told to everybody."""
        if report.when == "call" or not report.passed or report.sections or not self._is_episode(report.nodeid):
            return
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        # --durations are made of them, and so are those of pytest-split.
        timed = self._config.getoption("durations", None) is not None or self._config.getoption("store_durations", None)
        if reporter is None or timed:
            return
        kept = reporter.stats.get(_QUIET)
        if kept and kept[-1] is report:
            kept.pop()

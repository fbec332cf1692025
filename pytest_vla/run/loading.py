"""The line that tells that a policy is being loaded: rewritten in place on a terminal, elsewhere written once."""

import time
from collections.abc import Sequence

import pytest

from pytest_vla.policies.choices import AUTO


class LoadingLine:
    """Shows from its making on that something is loaded; nothing with ``-q``.

    Args:
        config: pytest's.
        model: the policy's name.
        devices: where it goes.
    """

    def __init__(self, config: pytest.Config, model: str, devices: Sequence[str] = (AUTO,)) -> None:
        self._reporter = config.pluginmanager.getplugin("terminalreporter")
        if config.get_verbosity() < 0:
            self._reporter = None
        where = "" if AUTO in devices else f" on {', '.join(devices)}"
        self._what, self._began, self._shown = f"{model}{where}", time.monotonic(), False

    def tell(self, seconds: float) -> None:
        """It still loads, and has for so long."""
        if self._reporter is None:
            return
        if self._reporter.isatty:
            self._reporter.rewrite(f"vla: loading {self._what}: {seconds:.0f} s", erase=True)
            self._reporter.flush()
        elif not self._shown:
            self._reporter.write_line(f"vla: loading {self._what}")
        self._shown = True

    def end(self) -> None:
        """It is loaded."""
        if self._reporter is None:
            return
        self.drop()
        self._reporter.write_line(f"vla: loaded {self._what} in {time.monotonic() - self._began:.1f} s")

    def drop(self) -> None:
        """There is nothing to say of it."""
        if self._reporter is not None and self._shown and self._reporter.isatty:
            self._reporter.rewrite("", erase=True)

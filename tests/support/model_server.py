"""Starts a model server of vla-eval, tests/support/vla_eval_server.py, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.waiting import until


@dataclass(frozen=True)
class ModelServer:
    """A running server.

    Attributes:
        where: its address, as ``--vla-model=vla-eval:`` takes it.
        log: the file of what it was asked.
    """

    where: str
    log: Path

    def lines(self, *, ended: int = 0) -> list[dict[str, Any]]:
        """What it was asked, in order; waits until so many episodes have ended, which the server is told last."""
        until(lambda: len([line for line in self._lines() if "end" in line]) >= ended)
        return self._lines()

    def _lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextmanager
def model_server(log: Path, **params: Any) -> Iterator[ModelServer]:
    """A server whose hello asks for `params`; killed at the end."""
    log.touch()
    with subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("vla_eval_server.py")), str(log)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OBSERVATION_PARAMS": json.dumps(params)},
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, "the server did not start"
        try:
            yield ModelServer(f"127.0.0.1:{port}", log)
        finally:
            process.kill()

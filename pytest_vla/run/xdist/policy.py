"""The policy's processes as part of a run with workers: started before the first worker, ended after the last.

Registered only where pytest-xdist is.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.run.failures import NO_POLICY
from pytest_vla.run.folder import RUN
from pytest_vla.run.loading import LoadingLine
from pytest_vla.run.preflight import check_fits
from pytest_vla.run.resume import RESUMPTION
from pytest_vla.run.selection import SELECTION, Selection
from pytest_vla.run.utilisation import UTILISATION, Utilisation
from pytest_vla.run.worker_costs import room_for_workers
from pytest_vla.run.xdist.auto import auto_line, narrow_auto
from pytest_vla.util.text import printable_lines

if TYPE_CHECKING:
    from pytest_vla.serving.lent import LentPolicy
    from pytest_vla.serving.process import About, PolicyAddress
    from pytest_vla.serving.replicas import Replicas

LOG = "policy.log"
"""The file in a run's folder that gets what the policy prints; there only where it prints."""

_LONG_LOAD = 2.0


@dataclass(frozen=True)
class Served:
    """Where a worker finds the policy; of texts and numbers, as it goes to the worker.

    Attributes:
        path: of the socket.
        secret: of the run, in hex.
        about: what the policy says of itself, as a table.
        patience: seconds after which a process that died is not waited for any more.
    """

    path: str
    secret: str
    about: dict[str, Any]
    patience: float

    def address(self) -> "PolicyAddress":
        """Where the policy's process listens."""
        from pytest_vla.serving.process import PolicyAddress

        return PolicyAddress(Path(self.path), bytes.fromhex(self.secret))

    def said(self) -> "About":
        """What the policy says of itself."""
        from pytest_vla.serving.process import About

        return About(**self.about)


SERVED = pytest.StashKey["Served | None"]()
"""In a worker: where the policy is; None: the worker loads it for itself."""


class PolicyOfWorkers:
    """The controller's hooks around the policy's processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._replicas: Replicas | LentPolicy | None = None

    @property
    def about(self) -> "About | None":
        """What the policy says of itself; None where workers load it for themselves."""
        return None if self._replicas is None else self._replicas.about

    def served(self, worker: str) -> Served | None:
        """What a worker of this name (``gw3``) is told; None: it is to load the policy for itself."""
        if self._replicas is None:
            return None
        address = self._replicas.address_of(int("".join(filter(str.isdigit, worker)) or 0))
        return Served(str(address.path), address.secret.hex(), asdict(self._replicas.about), self._replicas.patience)

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_setupnodes(self, specs: Any) -> None:
        """Before the first worker is started: load the policy, where all workers are to share it."""
        from pytest_vla.policies.live import live_policy
        from pytest_vla.policies.load import may_batch

        selection, resumption = self._config.stash[SELECTION], self._config.stash[RESUMPTION]
        settings = selection.settings
        runs_episodes = settings.model_typed or selection.named
        nothing_left = resumption is not None and not resumption.left
        if not runs_episodes or settings.model is None or nothing_left or self._config.getoption("collectonly"):
            return
        batches = may_batch(settings.spec)
        if batches is False:
            return
        if (live := live_policy(settings.spec)) is not None:
            from pytest_vla.serving.lent import LentPolicy

            self._replicas = LentPolicy(live)
            self._check_fits(selection)
            return
        from pytest_vla.serving.process import NotBatched, NotShared
        from pytest_vla.serving.replicas import Replicas

        line, began = LoadingLine(self._config, settings.model, settings.device), time.monotonic()
        try:
            self._replicas = Replicas(
                settings.spec,
                settings.device[: len(specs)],
                settings.batch,
                told=line.tell,
                notice=self._tell,
                log=self._config.stash[RUN] / LOG,
            )
        except NotBatched as error:
            line.drop()
            narrow_auto(self._config, specs)
            if isinstance(error, NotShared) or time.monotonic() - began > _LONG_LOAD:
                self._tell(f"{error}: each of the {len(specs)} workers loads it for itself")
        except (VlaError, OSError) as error:
            line.drop()
            raise pytest.UsageError(printable_lines(f"{NO_POLICY}{error}")) from error
        else:
            line.end()
            self._check_fits(selection)
            if (told := auto_line(self._config)) is not None:
                self._say(told)
            seen, most = self._replicas.seen, self._replicas.about.most
            self._config.stash[UTILISATION] = Utilisation(seen, len(specs), most, room_for_workers())

    def _check_fits(self, selection: Selection) -> None:
        assert self._replicas is not None
        try:
            for warning in check_fits(self._replicas.about, selection, selection.named):
                self._tell(warning)
        except VlaError as error:
            raise pytest.UsageError(printable_lines(str(error))) from error

    def _tell(self, text: str) -> None:
        """Shows what happened to the processes; from any thread, since pytest's own may wait for all workers."""
        from pytest_vla.run.progress import write_apart

        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            write_apart(reporter, f"vla: {text}", yellow=True)

    def _say(self, text: str) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and self._config.get_verbosity() >= 0:
            reporter.write_line(printable_lines(f"vla: {text}"))

    def pytest_unconfigure(self) -> None:
        """The last worker has ended."""
        if self._replicas is not None:
            self._replicas.close()

"""The policy's processes in a run with workers: begun before the first and ended after the last of these.

The plugin is registered only if pytest-xdist is loaded.
"""

import json
import os
import time
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.run.constants import room_for_workers
from pytest_vla.run.context import RunContext
from pytest_vla.run.failures import NO_POLICY
from pytest_vla.run.gate import check_comparable
from pytest_vla.run.preflight import check_fits
from pytest_vla.run.progress import LoadingLine
from pytest_vla.run.utilisation import Utilisation
from pytest_vla.util.text import printable_lines

if TYPE_CHECKING:
    from pytest_vla.run.xdist.ray_workers import FarWorkers
    from pytest_vla.run.xdist.worker import FarSide
    from pytest_vla.scale.far_replicas import FarReplicas
    from pytest_vla.serving.client import Places
    from pytest_vla.serving.in_caller import LentPolicy
    from pytest_vla.serving.network import NetworkAddress
    from pytest_vla.serving.process import About, PolicyAddress
    from pytest_vla.serving.replicas import Replicas


# The number of workers of ``-n auto`` if a policy's process answers them: more than there are cores.
#
# While a worker waits for an answer its core is idle. Two workers per core keep it busy for all but the slowest
# policies (docs/how-to/workers.md has the figures).

WORKERS_A_CORE = 2

EPISODES_A_WORKER = 4
"""At least, of the run: a worker that does less takes longer to start than it saves."""

_KNOWN = ("xdist.plugin", "pytest_vla.plugin")


@dataclass(frozen=True)
class AutoWorkers:
    """The number of workers of ``-n auto``, if it differs from pytest-xdist's.

    Attributes:
        cores: pytest-xdist's number.
        number: the number of workers instead.
        why: the reason for that number.
    """

    cores: int
    number: int
    why: str


def _is_auto(config: pytest.Config) -> bool:
    """Whether ``-n auto`` was given, and neither a hook of the user nor pytest-xdist's variable sets its number."""
    # In `config.option` pytest-xdist has put its number by now.
    if getattr(config.known_args_namespace, "numprocesses", None) != "auto":
        return False
    hooks = config.hook.pytest_xdist_auto_num_workers.get_hookimpls()
    is_said = any(each.function.__module__ not in _KNOWN for each in hooks)
    return not (is_said or os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"))


def widen_auto(context: RunContext) -> None:
    """Have ``-n auto`` start more workers than cores if a policy's process is likely to answer them.

    Args:
        context: the controller's context, before pytest-xdist reads the number of workers.

    Raises:
        VlaError: there is no such policy.
    """
    from pytest_vla.policies.load import may_batch

    config, selection, resumption = context.config, context.selection, context.resumption
    # A resumed run is no wider than pytest-xdist says, unless this invocation has a policy of its own.
    has_policy = bool(config.getoption("vla_model", None) or config.getini("vla_model"))
    if not has_policy or is_of_cluster(config) or not _is_auto(config):
        return
    if not selection.named or selection.settings.model is None:
        return
    searches = sum(map(len, selection.searches.values()))
    # A search is an item that is work enough for a worker.
    episodes = sum(map(len, selection.cases.values())) + EPISODES_A_WORKER * searches
    if resumption is not None:
        episodes = min(episodes, len(resumption.left))
    if may_batch(selection.settings.spec) is False:
        return
    cores = len(config.option.tx)
    workers, why = auto_workers(cores, episodes, room_for_workers())
    if config.option.maxprocesses:
        workers = min(workers, config.option.maxprocesses)
    if workers <= cores:
        return
    context.findings.auto_workers = AutoWorkers(cores, workers, why)
    config.option.tx = [*config.option.tx, *config.option.tx[:1] * (workers - cores)]
    config.option.numprocesses = workers


def is_of_cluster(config: pytest.Config) -> bool:
    """Whether the workers of this invocation are those of a Ray cluster."""
    return bool(config.getoption("vla_ray", None) or config.getini("vla_ray"))


def narrow_auto(context: RunContext, specs: list[Any]) -> None:
    """Restore pytest-xdist's number of workers, because each worker loads the policy itself."""
    auto, option = context.findings.auto_workers, context.config.option
    if auto is None:
        return
    context.findings.auto_workers = None
    del specs[auto.cores :]
    option.tx = option.tx[: auto.cores]
    option.numprocesses = auto.cores


def auto_workers(cores: int, episodes: int, room: int | None) -> tuple[int, str]:
    """Return the number of workers of ``-n auto``, never less than the cores, and the reason for it.

    Args:
        cores: the cores that pytest-xdist counts.
        episodes: the number of episodes to run.
        room: the number of workers that fit into the memory, or None if not known.
    """
    bounds = {
        "a core is idle while its worker waits for the policy": WORKERS_A_CORE * cores,
        f"{episodes} episodes do not need more": episodes // EPISODES_A_WORKER,
        "more do not fit into the memory": WORKERS_A_CORE * cores if room is None else room,
    }
    why = min(bounds, key=bounds.__getitem__)
    return max(cores, bounds[why]), why


def auto_line(auto: AutoWorkers) -> str:
    """Return the line that says how many workers there are: ``-n auto: 32 workers on 16 cores: ...``."""
    return f"-n auto: {auto.number} workers on {auto.cores} cores: {auto.why}"


ASK_SECONDS = 30.0
"""For which a worker of a cluster waits until the controller has said where the policy is."""

LOG = "policy.log"
"""The file in a run's folder that gets what the policy prints; there only where it prints."""

_LONG_LOAD = 2.0


@dataclass(frozen=True)
class PolicyPlace:
    """The address and description of the policy's process, in texts and numbers, as a worker gets it.

    Attributes:
        path: the socket's path; empty if the process is on another machine, or its place is not known yet.
        secret: the run's secret, in hex.
        about: the policy's description, as a table.
        patience: seconds for which a worker waits for a process that died.
        network: in a cluster, its address for other machines, as a table.
    """

    path: str
    secret: str
    about: dict[str, Any]
    patience: float
    network: dict[str, Any] | None = None

    def address(self) -> "Places":
        """Return the address of the policy's process."""
        from pytest_vla.serving.process import PolicyAddress

        if self.network is not None or not self.path:
            return places_of({"path": self.path, "network": self.network, "near": bool(self.path)})
        return PolicyAddress(Path(self.path), bytes.fromhex(self.secret))

    def said(self) -> "About":
        """Return the policy's description of itself."""
        from pytest_vla.serving.process import About

        return About(**self.about)


def places_of(table: Mapping[str, Any]) -> "tuple[PolicyAddress | NetworkAddress, ...]":
    """Return the addresses of a copy of the policy from the controller's table; empty if there is none yet.

    Raises:
        VlaError: there is none any more, with the reason.
    """
    from pytest_vla.serving.network import NetworkAddress
    from pytest_vla.serving.process import PolicyAddress

    if table.get("lost"):
        raise VlaError(table["lost"])
    if not table.get("network"):
        return ()
    network = NetworkAddress.of(table["network"])
    # On one machine it goes by memory, which costs a tenth.
    near = (PolicyAddress(Path(table["path"]), network.secret),) if table["near"] else ()
    return (*near, network)


def where_now(far: "FarSide") -> "Places":
    """Return the policy's present addresses for a worker of a cluster. Raises VlaError if there are none any more."""
    return places_of(far.policy(ASK_SECONDS) or {})


def pass_coverage(config: pytest.Config) -> bool:
    """Have the policy's processes measured by pytest-cov, as its workers are, if it measures this run."""
    from pytest_vla.serving.process import COVERAGE

    controller = getattr(config.pluginmanager.getplugin("_cov"), "cov_controller", None)
    names = {"source": "cov_source", "branch": "cov_branch", "config_file": "cov_config"}
    if not all(hasattr(controller, name) for name in names.values()):
        os.environ.pop(COVERAGE, None)
        return False
    os.environ[COVERAGE] = json.dumps({option: getattr(controller, name) for option, name in names.items()})
    return True


class PolicyOfWorkers:
    """The controller's hooks for the policy's processes.

    Args:
        context: the controller's context.
        far: workers on other machines, or None.
    """

    def __init__(self, context: RunContext, far: "FarWorkers | None") -> None:
        self._context, self._config = context, context.config
        self._replicas: Replicas | LentPolicy | None = None
        self._far = far
        self._far_replicas: FarReplicas | None = None
        self._is_measured = self._is_closed = False

    @property
    def about(self) -> "About | None":
        """The policy's description of itself, or None if workers load the policy themselves."""
        replicas = self._far_replicas or self._replicas
        return None if replicas is None else replicas.about

    def places(self, worker: str) -> dict[str, Any]:
        """Return the table, for `places_of`, of the copy that a worker of a cluster is to ask now."""
        assert self._far is not None
        return {} if self._far_replicas is None else self._far_replicas.places(worker, self._far.node_of(worker))

    def served(self, worker: str) -> PolicyPlace | None:
        """Return the policy's address for a worker (``gw3``), or None if the worker is to load the policy itself."""
        if self._far_replicas is not None:
            return self._served_far(self._far_replicas, worker)
        if self._replicas is None:
            return None
        address = self._replicas.address_of(int("".join(filter(str.isdigit, worker)) or 0))
        return PolicyPlace(
            str(address.path), address.secret.hex(), asdict(self._replicas.about), self._replicas.patience
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_setupnodes(self, specs: Any) -> None:
        """Load the policy before the first worker is started, if all workers are to share it."""
        from pytest_vla.policies.in_memory import live_policy
        from pytest_vla.policies.load import may_batch

        selection, resumption, settings = self._context.selection, self._context.resumption, self._context.settings
        runs_episodes = settings.model_typed or selection.named
        nothing_left = resumption is not None and not resumption.left
        if not runs_episodes or settings.model is None or nothing_left or self._config.getoption("collectonly"):
            return
        batches = may_batch(settings.spec)
        if batches is False:
            return
        self._is_measured = pass_coverage(self._config)
        if (live := live_policy(settings.spec)) is not None:
            if self._far is not None:
                raise pytest.UsageError(
                    f"--vla-ray: {settings.model} is in the memory of a script, which other machines cannot ask: leave "
                    "--vla-ray out, or give the policy's text"
                )
            from pytest_vla.serving.in_caller import LentPolicy

            self._replicas = LentPolicy(live)
            self._check_fits()
            return
        from pytest_vla.serving.process import NotBatched, NotShared
        from pytest_vla.serving.replicas import Replicas

        line, began = LoadingLine(self._config, settings.model, settings.device), time.monotonic()
        try:
            if self._far is not None:
                self._far_replicas = self._begun_far(self._far, len(specs), line)
            else:
                self._replicas = Replicas(
                    settings.spec,
                    settings.device[: len(specs)],
                    settings.max_batch,
                    told=line.tell,
                    notice=self._tell,
                    log=self._context.folder / LOG,
                )
        except NotBatched as error:
            line.drop()
            narrow_auto(self._context, specs)
            if isinstance(error, NotShared) or time.monotonic() - began > _LONG_LOAD:
                self._tell(f"{error}: each of the {len(specs)} workers loads its own copy")
        except (VlaError, OSError) as error:
            line.drop()
            raise pytest.UsageError(printable_lines(f"{NO_POLICY}{error}")) from error
        else:
            line.end()
            self._check_fits()
            if (auto := self._context.findings.auto_workers) is not None:
                self._say(auto_line(auto))
            replicas = self._far_replicas or self._replicas
            assert replicas is not None
            seen, most = replicas.seen, replicas.about.most
            # Of other machines' memory nothing is known.
            room = None if self._far is not None else room_for_workers()
            self._context.findings.utilisation = Utilisation(seen, len(specs), most, room)

    def _begun_far(self, far: "FarWorkers", workers: int, line: LoadingLine) -> "FarReplicas":
        """Start copies of the policy in the cluster. Raises VlaError, NotBatched."""
        from pytest_vla.run.xdist.ray_workers import worker_variables
        from pytest_vla.scale.far_replicas import FarReplicas

        settings, cluster = self._context.settings, far.joined()
        _, gpus = cluster.resources()
        copies = settings.ray_replicas or max(1, int(gpus))
        return FarReplicas(
            cluster,
            settings.spec,
            settings.max_batch,
            min(copies, workers),
            gpus=1.0 if gpus >= 1 else 0.0,
            variables=worker_variables(os.environ),
            told=line.tell,
            notice=self._tell,
            printed=self._keep_printed,
        )

    def _served_far(self, replicas: "FarReplicas", worker: str) -> PolicyPlace:
        table = self.places(worker)
        path = table.get("path", "") if table.get("near") else ""
        return PolicyPlace(path, "", asdict(replicas.about), replicas.patience, table.get("network"))

    def _keep_printed(self, text: bytes) -> None:
        """Append a copy's output to the log in the run's folder."""
        log = self._context.folder / LOG
        # A run without a log is a run all the same.
        with suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as stream:
                stream.write(text)

    def pytest_testnodedown(self, node: Any) -> None:
        """Release an ended worker's place at a copy of the policy."""
        if self._far_replicas is not None:
            self._far_replicas.release(node.gateway.id)

    def _check_fits(self) -> None:
        about, selection, gate = self.about, self._context.selection, self._context.gate
        assert about is not None
        try:
            if gate is not None:
                check_comparable(gate, selection, about.replan)
            for warning in check_fits(about, selection, selection.named):
                self._tell(warning)
        except VlaError as error:
            raise pytest.UsageError(printable_lines(str(error))) from error

    def _tell(self, text: str) -> None:
        """Print a line on the processes; from any thread, since pytest's own may wait for all workers."""
        from pytest_vla.run.progress import write_apart

        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            write_apart(reporter, f"vla: {text}", yellow=True)

    def _say(self, text: str) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and self._config.get_verbosity() >= 0:
            reporter.write_line(printable_lines(f"vla: {text}"))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """End the policy's processes before pytest-cov combines what all processes have measured."""
        result = yield
        if self._is_measured:
            self.pytest_unconfigure()
        return result

    def pytest_unconfigure(self) -> None:
        """End the policy's processes after the last worker."""
        is_closed, self._is_closed = self._is_closed, True
        for replicas in (self._replicas, self._far_replicas):
            if replicas is not None and not is_closed:
                replicas.close()

"""What the controller does for its workers. Registered only where pytest-xdist is: its hooks are unknown elsewhere."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.collection import SELECTION
from pytest_vla.marker import NOTHING_TO_RUN
from pytest_vla.plan import Case, case_of_node
from pytest_vla.results import RUN, Results
from pytest_vla.resume import RESUMPTION, Resumption
from pytest_vla.suite import Suite, load_suite, suite_names

if TYPE_CHECKING:
    from pytest_vla.schedule import Item
    from pytest_vla.xdist_scheduler import VlaScheduling

WORKER_INPUT = "vla"

OTHER_TEST_SECONDS = 1.0
"""What is taken for the time of a test that runs no episode."""


@dataclass(frozen=True)
class Handed:
    """What a worker is given: the run's folder, and what is left of a run that is gone on with."""

    run: str
    resumption: Resumption | None


def handed_over(config: pytest.Config) -> Handed | None:
    """What this worker was given; None in any other process."""
    text = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    if text is None:
        return None
    table = json.loads(text)
    resumption = table["resumption"]
    if resumption is not None:
        resumption = Resumption(resumption["run"], resumption["invocation"], tuple(resumption["left"]))
    return Handed(table["run"], resumption)


class Controller:
    """The controller's hooks of xdist."""

    def __init__(self, config: pytest.Config, results: Results) -> None:
        self._config, self._results = config, results
        self._selection, self._run = config.stash[SELECTION], config.stash[RUN]
        self._handed = json.dumps(asdict(Handed(str(self._run), config.stash[RESUMPTION])))
        self._suites: tuple[Suite, ...] | None = None
        self._interrupted = False

    def pytest_configure_node(self, node: Any) -> None:
        """A worker is about to start."""
        node.workerinput[WORKER_INPUT] = self._handed

    # After a project's own choice, before xdist's.
    @pytest.hookimpl(trylast=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> "VlaScheduling | None":
        """Ours in the place of `load`, which `--dist` says also where nobody asked for it."""
        episodes = self._selection.settings.model_typed or self._selection.named
        if not episodes or config.getoption("dist") != "load":
            return None
        from pytest_vla.xdist_scheduler import VlaScheduling

        return VlaScheduling(config, log, self._items_of)

    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """The first worker has collected, and the others have the same items."""
        from xdist.workermanage import parse_tx_spec_config

        if not ids and self._selection.only_episodes and self._config.stash[RESUMPTION] is None:
            pytest.exit(NOTHING_TO_RUN, returncode=pytest.ExitCode.USAGE_ERROR)
        cases = {name: case for name in ids if (case := self._case_of(name)) is not None}
        self._results.begin(cases, len(parse_tx_spec_config(self._config)))

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """A worker that Ctrl-C reached has not crashed."""
        self._interrupted = self._interrupted or error == "keyboard-interrupt"

    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """A worker died in this item."""
        case = self._case_of(crashitem)
        if case is None or self._interrupted:
            return
        from pytest_vla.limits import hung_place, hung_traceback

        dump = hung_traceback(self._run, report.node.gateway.id)
        if dump is not None:
            report.sections.append(("traceback of the hang", dump))
        hung = None if dump is None else hung_place(dump)
        if self._results.crashed(crashitem, case, report, hung=hung, can_rerun=_can_rerun(sched)):
            sched.mark_test_pending(crashitem)

    def _case_of(self, node: str) -> Case | None:
        # The controller has no items: of a user's own test it knows only the id.
        if self._suites is None:
            data = self._selection.settings.data
            self._suites = tuple(load_suite(name, data=data) for name in suite_names())
        return case_of_node(node, self._suites)

    def _items_of(self, ids: Sequence[str]) -> "list[Item]":
        from pytest_vla.scene.affinity import scene_names
        from pytest_vla.schedule import Item

        cases = {name: case for name in ids if (case := self._case_of(name)) is not None}
        scenes = scene_names(cases.values(), self._selection.settings.data)
        estimates = self._results.estimates
        return [
            Item(index, scenes[cases[name]], estimates[name].seconds)
            if name in estimates
            else Item(index, None, OTHER_TEST_SECONDS)
            for index, name in enumerate(ids)
        ]


def _can_rerun(sched: Any) -> bool:
    # xdist's schedulers by scope raise NotImplementedError, and break when a worker dies.
    return type(sched).__name__ in ("VlaScheduling", "LoadScheduling", "WorkStealingScheduling")

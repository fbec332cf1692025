"""pytest's hooks where episodes are asked for; each calls one function elsewhere. No numpy, no simulator.

`pytest_vla.plugin` registers them: in a project that asks for none they are not imported.
"""

import os
import shutil
import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from pytest_vla import hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.gate.choices import SEQUENTIAL
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.policies.live import Caller, find_caller, tell_run
from pytest_vla.records.counting import is_complete
from pytest_vla.records.record import Record
from pytest_vla.run import far_side, limits, marker, suite_items
from pytest_vla.run.decided import SkipDecided
from pytest_vla.run.failures import fail_over_cost, say_not_done, say_over_cost
from pytest_vla.run.folder import RUN, new_run_name
from pytest_vla.run.gating import GATE, is_gated, make_gate
from pytest_vla.run.limits import LIMIT, BeginInTime, is_limited, make_limit
from pytest_vla.run.misspelt import key_notes
from pytest_vla.run.nodes import SuiteFile, SuiteModule
from pytest_vla.run.preflight import check_ready, notes_before
from pytest_vla.run.results import GateItems, Results
from pytest_vla.run.resume import (
    RESUMPTION,
    Resumption,
    anchored,
    find_resumption,
    keep_left,
    policy_note,
    resumed_settings,
)
from pytest_vla.run.selection import SELECTION, Selection, select, suite_of, suite_of_manifest
from pytest_vla.run.settings import Settings, read_settings
from pytest_vla.run.sharding import ShardItems, check_shard
from pytest_vla.run.sudden_exit import STDERR
from pytest_vla.run.typed import lacking_plugins
from pytest_vla.run.unheeded import unheeded
from pytest_vla.run.xdist import hooks as xdist_hooks
from pytest_vla.run.xdist import worker as xdist_worker
from pytest_vla.run.xdist.auto import widen_auto
from pytest_vla.run.xdist.policy import SERVED, PolicyOfWorkers
from pytest_vla.util.text import printable, printable_lines

# A run that is gone on with goes on in the same simulator, also where a suite brings its own.


def check_own_simulators(settings: Settings, run: str) -> None:
    """Whether the own worlds of a run's suites say of themselves what they said when its episodes ended.

    Of each suite a world is made, and the case reset of which the run has a record: what a world says may depend on it.

    Args:
        settings: of the run, as it is gone on with.
        run: its name.

    Raises:
        VlaError: one says something else: no rate is of both.
    """
    from pytest_vla.records.store import open_store

    with open_store(settings.results, create=False) as store:
        first: dict[str, Record] = {}
        for record in store.records(run):
            if record.simulator and is_complete(record.outcome):
                first.setdefault(record.suite, record)
    for suite, record in first.items():
        now = _said_now(settings, record)
        if now is None:
            continue
        before = {name: record.provenance.get(name) for name in {*record.simulator, *now}}
        differing = [name for name in sorted(before) if before[name] != now.get(name)]
        if differing:
            told = ", ".join(f"{name} was {_text(before[name])} and is {_text(now.get(name))}" for name in differing)
            raise VlaError(
                f"--vla-resume: run {run} has episodes of {suite} in another version of the suite's own world: {told}; "
                "no rate is of both. Bring that version back, or leave --vla-resume out for a new run"
            )


def _said_now(settings: Settings, record: Record) -> dict[str, str] | None:
    """What the world of a record's task says of itself today; None: it cannot be asked, as its episodes will tell."""
    from pytest_vla.episode.own_world import OwnWorld

    if record.suite not in suite_names():
        return None
    tasks = {task.key: task for task in load_suite(record.suite, data=settings.data).tasks}
    task = tasks.get(record.task_key)
    if task is None or task.world is None:
        return None
    try:
        world = OwnWorld(task)
        try:
            world.reset(record.seeds.get("init_state", 0), record.seed)
            return world.provenance()
        finally:
            world.close()
    except Exception:
        return None


def _text(value: str | None) -> str:
    return "not said" if value is None else printable(repr(value)[:80])


# What pytest keeps of each item until its end, and need not of an episode whose phase has passed.
# Its terminal reporter keeps every report. For each failure it looks through all of those of setups and teardowns
# that passed, for what they captured: of 10,000 episodes that takes longer than all else that this process does.

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


# A run that `pytest_vla.evaluate` started: it says which run it is, and ends with who started it.


def heed_caller(run: Path) -> None:
    """Where a script started this pytest: tell it which run this is, and stop the run when the script is gone.

    Args:
        run: its folder.

    Raises:
        VlaError: it cannot be told.
    """
    caller = find_caller()
    if caller is None:
        return
    tell_run(caller, run)
    threading.Thread(target=_end_with, args=(caller,), name="vla-caller", daemon=True).start()


def _end_with(caller: Caller) -> None:
    """Ends the run as Ctrl-C would, workers and all, as soon as the caller has died; what it left behind goes too."""
    try:
        os.read(caller.pipe, 1)
    except OSError:
        return
    shutil.rmtree(caller.folder, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)


NOTES = pytest.StashKey[tuple[str, ...]]()
"""What the user is told before anything is collected."""

_MOST_NOTES = 12


def pytest_report_header(config: pytest.Config) -> list[str]:
    """What is not run of what was asked for, and why."""
    notes = config.stash.get(NOTES, ())
    more = [f"vla: and {len(notes) - _MOST_NOTES} more such lines; -q has them all"] if len(notes) > _MOST_NOTES else []
    return [*(f"vla: {note}" for note in notes[:_MOST_NOTES]), *more]


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """What was said of episodes, and there are none."""
    quiet = config.option.collectonly and config.get_verbosity() < 0
    if quiet or any(map(marker.runs_episodes, items)):
        return []
    return list(filter(None, [unheeded(config.stash[SELECTION], config)]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Likewise, where there is no header: with ``-q``."""
    for note in config.stash.get(NOTES, ()) if config.get_verbosity() < 0 else ():
        terminalreporter.write_line(printable_lines(f"vla: {note}"))


def configure(config: pytest.Config, *, late: bool = False) -> None:
    """Read the settings, and let pytest collect the suites that they name.

    Args:
        config: pytest's.
        late: while tests are collected that ask for an episode, where nothing else does: there is no policy then.

    Raises:
        pytest.UsageError: what is asked for cannot be done.
    """
    try:
        _configure(config, late)
    except VlaError as error:
        raise pytest.UsageError(printable_lines(str(error))) from error


def _configure(config: pytest.Config, late: bool) -> None:
    config.add_cleanup(hook_modules.adopt(config.pluginmanager))
    settings = read_settings(config)
    check_shard(settings, config)
    arguments = list(config.args) if config.args_source == config.ArgsSource.ARGS else []
    here = config.invocation_params.dir
    handed = xdist_worker.handed_over(config)
    resumption = None
    if settings.resume is not None:
        resumption = find_resumption(settings, arguments) if handed is None else handed.resumption
        assert resumption is not None, "a worker is given what its controller found"
        settings = resumed_settings(settings, resumption, config)
        arguments = anchored(resumption, here)
    try:
        selection = _selected(config, settings, arguments, resumption, first=handed is None)
    except VlaError as error:
        raise VlaError(f"{error}{lacking_plugins(config, resumption.command) if resumption else ''}") from error
    if selection.named or resumption is not None:
        config.args[:] = selection.arguments
        config.args_source = config.ArgsSource.ARGS
    config.stash[SELECTION] = selection
    config.stash[RESUMPTION] = resumption
    if settings.shard is not None and resumption is None:
        config.pluginmanager.register(ShardItems(settings, config), "vla-shard")
    if late:
        config.stash[RUN] = settings.results
        return
    allure = config.getoption("allure_report_dir", None)
    if allure:
        from pytest_vla.run.allure_results import AllureOfItems, AllureOfRun

        config.pluginmanager.register(AllureOfItems(), "vla-allure")
    if handed is not None:
        config.stash[RUN], config.stash[SERVED] = Path(handed.run), handed.served
        if handed.ahead is not None:
            config.stash[RUN] = far_side.scratch_of(handed.run)
            far_side.begin(config, handed.ahead)
        _skip_decided(config, selection)
        config.pluginmanager.register(xdist_worker.Worker(), "vla-worker")
        if settings.model is not None and is_limited(settings):
            config.pluginmanager.register(BeginInTime(partial(xdist_worker.ask_controller, config)), "vla-in-time")
        return
    if settings.model is not None:
        from pytest_vla.util.wall_limits import terminal_stderr

        # pytest does not capture yet.
        config.stash[STDERR] = stream = terminal_stderr()
        config.add_cleanup(lambda: os.close(stream))
    config.stash[RUN] = settings.results / (resumption.run if resumption else new_run_name())
    heed_caller(config.stash[RUN])
    # From here on: what loads the policy and collects is wall time too.
    config.stash[LIMIT] = limit = None if config.option.collectonly else make_limit(settings)
    config.stash[GATE] = None if config.option.collectonly else make_gate(selection, resumption, here)
    _skip_decided(config, selection)
    _check_ray(settings, config)
    results = Results(config, arguments)
    if limit is not None:
        # Of the controller of workers it is never called.
        config.pluginmanager.register(BeginInTime(lambda: limit.may_begin(limits.clock())), "vla-in-time")
    config.pluginmanager.register(results, "vla-results")
    if results.tracking is not None:
        config.pluginmanager.register(results.tracking, "vla-tracking")
    config.pluginmanager.register(GateItems(results), "vla-gate")
    config.pluginmanager.register(Forgetting(config, lambda node: node in results.so_far.names), "vla-forgetting")
    if settings.fuzz is not None:
        from pytest_vla.run.searches import Searches

        config.pluginmanager.register(Searches(config), "vla-searches")
    if allure:
        # As allure-pytest has it: relative to where pytest runs now.
        config.pluginmanager.register(AllureOfRun(Path(str(allure)).absolute()), "vla-allure-run")
    # By its entry point it has the first name, by -p xdist.plugin the other.
    if any(map(config.pluginmanager.hasplugin, ("xdist", "xdist.plugin"))):
        if not config.option.collectonly:
            widen_auto(config, selection, None if resumption is None else len(resumption.left))
        if settings.ray is not None and config.getoption("tx") and not config.option.collectonly:
            from pytest_vla.run.xdist.far import FAR_WORKERS, FarWorkers

            config.stash[FAR_WORKERS] = results.far = FarWorkers(config)
        policy = PolicyOfWorkers(config)
        config.pluginmanager.register(policy, "vla-policy")
        if results.far is not None:
            # After the policy, so that it is asked before it.
            config.pluginmanager.register(results.far, "vla-far")
        config.pluginmanager.register(xdist_hooks.Controller(config, results, policy), "vla-xdist")


def _check_ray(settings: Settings, config: pytest.Config) -> None:
    alone = [f"--vla-{name}" for name in ("ray-cpus", "ray-replicas") if name.replace("-", "_") in settings.typed]
    if alone and settings.ray is None:
        raise VlaError(f"{', '.join(alone)}: of a Ray cluster; add --vla-ray, or leave it out")
    if settings.ray is None or config.option.collectonly:
        return
    if "ray" in settings.typed and not config.getoption("tx", None):
        raise VlaError(
            f"--vla-ray={settings.ray}: the machines run workers of pytest-xdist; say how many by -n, such as -n 64"
        )


def _skip_decided(config: pytest.Config, selection: Selection) -> None:
    if selection.settings.gate == SEQUENTIAL and is_gated(selection):
        config.pluginmanager.register(SkipDecided(config.stash[RUN]), "vla-decided")


def _selected(
    config: pytest.Config, settings: Settings, arguments: list[str], resumption: Resumption | None, first: bool
) -> Selection:
    """What is to run, checked; `first`: not in a worker."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        selection = select(settings, arguments or config.args, bool(arguments), config.invocation_params.dir)
    config.stash[NOTES] = (*key_notes(config), *(str(warning.message) for warning in told))
    if resumption is not None and (note := policy_note(settings, resumption)) is not None:
        config.stash[NOTES] += (note,)
    if not config.option.collectonly:
        config.stash[NOTES] += notes_before(selection, bool(config.getoption("tx", None)))
        check_ready(selection)
        if resumption is not None and first:
            check_own_simulators(settings, resumption.run)
        _check_devices(settings, config)
    return selection


def _check_devices(settings: Settings, config: pytest.Config) -> None:
    if len(settings.device) > 1 and not config.getoption("tx", None) and xdist_worker.handed_over(config) is None:
        raise VlaError(
            f"--vla-device={','.join(settings.device)}: without workers the policy is in this process, on one device; "
            f"add -n {len(settings.device)}"
        )


def make_module(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect a suite's module under the suite's name."""
    if module_path == Path(suite_items.__file__):
        return SuiteFile.from_parent(parent, path=module_path)
    suite = suite_of(module_path)
    return None if suite is None else SuiteModule.of(suite, module_path, parent)


def make_manifest(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the suite of a manifest, where it has no module of its own."""
    return None if suite_of_manifest(file_path) is None else SuiteFile.from_parent(parent, path=file_path)


def parametrize(metafunc: pytest.Metafunc) -> None:
    """An item for each selected case."""
    module = metafunc.definition.getparent(SuiteModule)
    if module is not None and "vla_case" in metafunc.fixturenames:
        cases = [pytest.param(case, id=case.parameter_id, marks=module.marks(case)) for case in module.cases]
        metafunc.parametrize("vla_case", cases)
    elif module is None:
        marker.parametrize(metafunc)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that have no episode left, and the episodes that need not run."""
    resumption = config.stash[RESUMPTION]
    marker.deselect(config, items, excused=resumption is not None or session.testsfailed > 0)
    if resumption is not None:
        keep_left(config, items, resumption)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """An item that has passed fails where its episode cost more than it may."""
    yield
    fail_over_cost(item)


# Around pytest's own, which makes expected failures.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a gate, an episode that failed is not done."""
    report = yield
    say_over_cost(report, item)
    if is_gated(item.config.stash[SELECTION]):
        say_not_done(report)
    return report


def pytest_enter_pdb(config: pytest.Config) -> None:
    """A person thinks longer than a policy."""
    if config.stash[SELECTION].settings.timeout is not None:
        from pytest_vla.util.wall_limits import lift_limits

        lift_limits()
        xdist_worker.lift_controllers_limit(config)

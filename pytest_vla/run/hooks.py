"""pytest's hooks where episodes are asked for; each calls one function elsewhere. No numpy, no simulator.

`pytest_vla.plugin` registers them: in a project that asks for none they are not imported. `configure` makes the run's
`RunContext` and lists all further plugins.

Where to look next:
- A record is written from `results.Results.pytest_runtest_logreport` on: that calls `Results.keep_record`, which calls
  `stored.StoredRun.write_record`, which hands it to `pytest_vla.records.store.Writer.put`.
- An episode is run by the `rollout` fixture (`fixtures/episode.play`), which puts its record on pytest's report.
- Messages of workers are listed in `xdist.messages` and taken by `xdist.hooks.Controller`.
"""

import dataclasses
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
from pytest_vla.policies.in_memory import Caller, find_caller, tell_run
from pytest_vla.records.counting import is_complete
from pytest_vla.records.names import new_run_name
from pytest_vla.records.record import Record
from pytest_vla.run import marker, suite_items, time_budget
from pytest_vla.run.command_lines import lacking_plugins
from pytest_vla.run.context import RUN_CONTEXT, STDERR, RunContext, context_of
from pytest_vla.run.early_stopping import SkipDecided
from pytest_vla.run.failures import fail_over_cost, say_not_done, say_over_cost
from pytest_vla.run.gate import is_gated, make_gate
from pytest_vla.run.hints import key_notes, unheeded
from pytest_vla.run.nodes import SuiteFile, SuiteModule
from pytest_vla.run.preflight import check_ready, notes_before
from pytest_vla.run.results import Results
from pytest_vla.run.resume import (
    Resumption,
    anchored,
    find_resumption,
    keep_left,
    policy_note,
    resumed_settings,
)
from pytest_vla.run.selection import Selection, select, suite_of, suite_of_manifest
from pytest_vla.run.settings import Settings, read_settings
from pytest_vla.run.sharding import ShardItems, check_shard
from pytest_vla.run.stored import RunState
from pytest_vla.run.time_budget import BeginInTime, is_limited, make_limit
from pytest_vla.run.xdist import hooks as xdist_hooks
from pytest_vla.run.xdist import worker as far_side
from pytest_vla.run.xdist import worker as xdist_worker
from pytest_vla.run.xdist.policy import PolicyOfWorkers, widen_auto
from pytest_vla.run.xdist.ray_workers import FarWorkers
from pytest_vla.util.text import printable_lines, quoted

# A run that is gone on with goes on in the same simulator, also where a suite brings its own.


def check_own_simulators(settings: Settings, run: str) -> None:
    """Check that a resumed run's own worlds (those that suites bring) report the same versions as when it began.

    For each suite a world is made and the case of a stored record is reset, as the reported version may depend on it.

    Args:
        settings: the settings of the resumed run.
        run: its name.

    Raises:
        VlaError: a world reports another version, so a rate over both would mix two simulators.
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
                f"--vla-resume: the own world of {suite} has changed since run {run} began: {told}. Restore that "
                "version, or start a new run without --vla-resume"
            )


def _said_now(settings: Settings, record: Record) -> dict[str, str] | None:
    """Return the provenance that a record's world reports today, or None if it fails; the episodes will show why."""
    from pytest_vla.episode.world_pool import OwnWorld

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
    return "not reported" if value is None else quoted(value, 80)


# What pytest keeps of each item until its end, and need not of an episode whose phase has passed.
# Its terminal reporter keeps every report. For each failure it looks through all of those of setups and teardowns
# that passed, for what they captured: of 10,000 episodes that takes longer than all else that this process does.

_QUIET = ""
"""The category of such reports in `TerminalReporter.stats`, which is in no count."""


class Forgetting:
    """A plugin that drops passed reports of setups and teardowns, which would slow down the end of a large run.

    Args:
        config: pytest's.
        is_episode: whether an item of this node id runs an episode.
    """

    def __init__(self, config: pytest.Config, is_episode: Callable[[str], bool]) -> None:
        self._config, self._is_episode = config, is_episode

    # After pytest's own terminal reporter, which puts them there.
    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Drop a report, after all other plugins have had it."""
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
    """Report the run's folder to the script that started this pytest, if any, and end the run with the script.

    Args:
        run: the run's folder.

    Raises:
        VlaError: the folder cannot be reported.
    """
    caller = find_caller()
    if caller is None:
        return
    tell_run(caller, run)
    threading.Thread(target=_end_with, args=(caller,), name="vla-caller", daemon=True).start()


def _end_with(caller: Caller) -> None:
    """End the run as Ctrl-C would, as soon as the caller has died, and remove the caller's folder."""
    try:
        os.read(caller.pipe, 1)
    except OSError:
        return
    shutil.rmtree(caller.folder, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)


_MOST_NOTES = 12


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Print the notes from before collection."""
    notes = context_of(config).notes
    more = [f"vla: and {len(notes) - _MOST_NOTES} more notes; -q prints them all"] if len(notes) > _MOST_NOTES else []
    return [*(f"vla: {note}" for note in notes[:_MOST_NOTES]), *more]


def pytest_report_collectionfinish(config: pytest.Config, items: Sequence[pytest.Item]) -> list[str]:
    """Warn when --vla options were given but no episode was collected."""
    quiet = config.option.collectonly and config.get_verbosity() < 0
    if quiet or any(map(marker.runs_episodes, items)):
        return []
    return list(filter(None, [marker.unmatched(config) or unheeded(context_of(config))]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the notes at the end with ``-q``, where pytest has no header."""
    for note in context_of(config).notes if config.get_verbosity() < 0 else ():
        terminalreporter.write_line(printable_lines(f"vla: {note}"))


def configure(config: pytest.Config, *, late: bool = False) -> None:
    """Make the run of this invocation, have pytest collect its suites, and register the plugins that do the rest.

    Args:
        config: pytest's.
        late: whether this is called during collection, because a test asks for an episode although no option does.
            There is no policy then.

    Raises:
        pytest.UsageError: the options cannot be used.
    """
    try:
        config.add_cleanup(hook_modules.adopt(config.pluginmanager))
        handed = xdist_worker.handed_over(config)
        context = _selected_context(config, handed)
        plugins_of = _late_plugins
        if not late and handed is not None:
            context, plugins_of = _worker_context(context, handed), _worker_plugins
        elif not late:
            context, plugins_of = _controller_context(context), _controller_plugins
        config.stash[RUN_CONTEXT] = context
        for name, plugin in plugins_of(context):
            if plugin is not None:
                config.pluginmanager.register(plugin, name)
    except VlaError as error:
        raise pytest.UsageError(printable_lines(str(error))) from error


def _selected_context(config: pytest.Config, handed: xdist_worker.Handed | None) -> RunContext:
    """Return what every process knows of its run, and have pytest collect what is selected. Raises VlaError.

    Args:
        config: pytest's.
        handed: what this worker was given by its controller, or None in any other process.
    """
    settings = read_settings(config)
    check_shard(settings, config)
    arguments = list(config.args) if config.args_source == config.ArgsSource.ARGS else []
    resumption = None
    if settings.resume is not None:
        resumption = find_resumption(settings, arguments, config.rootpath) if handed is None else handed.resumption
        assert resumption is not None, "a worker is given what its controller found"
        settings = resumed_settings(settings, resumption, config)
        arguments = anchored(resumption, config.invocation_params.dir)
    try:
        selection, notes = _selected(config, settings, arguments, resumption, first=handed is None)
    except VlaError as error:
        raise VlaError(f"{error}{lacking_plugins(config, resumption.command) if resumption else ''}") from error
    if selection.named or resumption is not None:
        config.args[:] = selection.arguments
        config.args_source = config.ArgsSource.ARGS
    known = (config, selection, tuple(arguments), resumption, settings.results, RunState())
    return RunContext(*known, notes=notes, channel=xdist_worker.channel_of(config))


def _worker_context(context: RunContext, handed: xdist_worker.Handed) -> RunContext:
    """Return what a worker knows of its run.

    Args:
        context: of `_selected_context`.
        handed: what the controller gave it.
    """
    if handed.ahead is None:
        return dataclasses.replace(context, folder=Path(handed.run), served=handed.served)
    # On another machine.
    folder = far_side.scratch_of(handed.run)
    far = far_side.FarSide(context.channel, folder, handed.ahead)
    context.config.add_cleanup(partial(shutil.rmtree, folder.parent, ignore_errors=True))
    return dataclasses.replace(context, folder=folder, served=handed.served, far_side=far)


def _controller_context(context: RunContext) -> RunContext:
    """Return what the process that keeps the run knows of it. Raises VlaError.

    Args:
        context: of `_selected_context`.
    """
    config, settings, resumption, stderr = context.config, context.settings, context.resumption, STDERR
    if settings.model is not None:
        from pytest_vla.util.wall_limits import terminal_stderr

        # pytest does not capture yet.
        stderr = terminal_stderr()
        config.add_cleanup(lambda: os.close(stderr))
    folder = settings.results / (resumption.run if resumption else new_run_name())
    heed_caller(folder)
    context = dataclasses.replace(context, folder=folder, stderr=stderr)
    if config.option.collectonly:
        return context
    # From here on: what loads the policy and collects is wall time too.
    limit = make_limit(settings)
    gate = make_gate(context.selection, resumption, config.invocation_params.dir)
    return dataclasses.replace(context, limit=limit, gate=gate)


# The plugins of each kind of process, in the order in which they are registered. Of hooks with equal priority pytest
# calls the plugin first that was registered last; a hook that has to come first or last whatever else is registered
# says so by tryfirst or trylast. Where the order of two of ours matters, the list says why.

_Plugins = list[tuple[str, object | None]]
"""Names and plugins; None for a plugin that this run does not need."""


def _late_plugins(context: RunContext) -> _Plugins:
    return [("vla-shard", _shard_items(context))]


def _worker_plugins(context: RunContext) -> _Plugins:
    asks = context.settings.model is not None and is_limited(context.settings)
    return [
        ("vla-shard", _shard_items(context)),
        ("vla-allure", _allure_of_items(context)),
        ("vla-decided", _skip_decided(context)),
        ("vla-worker", xdist_worker.Worker()),
        ("vla-in-time", BeginInTime(partial(xdist_worker.ask_controller, context)) if asks else None),
    ]


def _controller_plugins(context: RunContext) -> _Plugins:
    """Return the plugins of the controller of workers, or of the only process. Raises VlaError."""
    config, limit, so_far = context.config, context.limit, context.so_far
    _check_ray(context.settings, config)
    # By its entry point it has the first name, by -p xdist.plugin the other.
    has_workers = any(map(config.pluginmanager.hasplugin, ("xdist", "xdist.plugin")))
    is_far = has_workers and context.settings.ray is not None and config.getoption("tx")
    far = FarWorkers(context) if is_far and not config.option.collectonly else None
    results = Results(context, None if far is None else far.incoming)
    plugins: _Plugins = [
        ("vla-shard", _shard_items(context)),
        ("vla-allure", _allure_of_items(context)),
        ("vla-decided", _skip_decided(context)),
        # In the controller of workers it is never called.
        ("vla-in-time", None if limit is None else BeginInTime(lambda: limit.may_begin(time_budget.clock()))),
        ("vla-results", results),
        ("vla-tracking", results.tracking),
        ("vla-gate", results.gate),
        ("vla-forgetting", Forgetting(config, lambda node: node in so_far.names)),
        # After the results, so that the end of the run tells of searches first.
        ("vla-searches", _searches(context)),
        ("vla-allure-run", _allure_of_run(context)),
    ]
    if not has_workers:
        return plugins
    if not config.option.collectonly:
        widen_auto(context)
    policy = PolicyOfWorkers(context, far)
    return [
        *plugins,
        ("vla-policy", policy),
        # After the policy, so that it joins the cluster before the policy is loaded there.
        ("vla-far", far),
        # After the gate, so that it enters the episodes of lost workers before the gate is judged.
        ("vla-xdist", xdist_hooks.Controller(context, results, policy, far)),
    ]


def _shard_items(context: RunContext) -> ShardItems | None:
    is_sharded = context.settings.shard is not None and context.resumption is None
    return ShardItems(context) if is_sharded else None


def _skip_decided(context: RunContext) -> SkipDecided | None:
    is_sequential = context.settings.gate == SEQUENTIAL and is_gated(context.selection)
    return SkipDecided(context.folder) if is_sequential else None


def _searches(context: RunContext) -> object | None:
    if context.settings.fuzz is None:
        return None
    from pytest_vla.run.searches import Searches

    return Searches(context)


def _allure_of_items(context: RunContext) -> object | None:
    if not context.config.getoption("allure_report_dir", None):
        return None
    from pytest_vla.run.allure_results import AllureOfItems

    return AllureOfItems()


def _allure_of_run(context: RunContext) -> object | None:
    folder = context.config.getoption("allure_report_dir", None)
    if not folder:
        return None
    from pytest_vla.run.allure_results import AllureOfRun

    # As allure-pytest has it: relative to where pytest runs now.
    return AllureOfRun(Path(str(folder)).absolute())


def _check_ray(settings: Settings, config: pytest.Config) -> None:
    alone = [f"--vla-{name}" for name in ("ray-cpus", "ray-replicas") if name.replace("-", "_") in settings.typed]
    if alone and settings.ray is None:
        raise VlaError(f"{', '.join(alone)} needs --vla-ray: add it, or leave the option out")
    if settings.ray is None or config.option.collectonly:
        return
    if "ray" in settings.typed and not config.getoption("tx", None):
        raise VlaError(f"--vla-ray={settings.ray} needs a number of workers: add -n, such as -n 64")


def _selected(
    config: pytest.Config, settings: Settings, arguments: list[str], resumption: Resumption | None, first: bool
) -> tuple[Selection, tuple[str, ...]]:
    """Return what is to run, checked, and notes for the user. `first` is False in a worker. Raises VlaError."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        selection = select(settings, arguments or config.args, bool(arguments), config.invocation_params.dir)
    notes = (*key_notes(config), *(str(warning.message) for warning in told))
    if resumption is not None and (note := policy_note(settings, resumption)) is not None:
        notes += (note,)
    if not config.option.collectonly:
        notes += notes_before(selection, bool(config.getoption("tx", None)), config)
        check_ready(selection)
        if resumption is not None and first:
            check_own_simulators(settings, resumption.run)
        _check_devices(settings, config)
    return selection, notes


def _check_devices(settings: Settings, config: pytest.Config) -> None:
    if len(settings.device) > 1 and not config.getoption("tx", None) and xdist_worker.handed_over(config) is None:
        raise VlaError(
            f"--vla-device={','.join(settings.device)}: without workers the policy uses one device; "
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
    """Make an item for each selected case."""
    module = metafunc.definition.getparent(SuiteModule)
    if module is not None and "vla_case" in metafunc.fixturenames:
        cases = [pytest.param(case, id=case.parameter_id, marks=module.marks(case)) for case in module.cases]
        metafunc.parametrize("vla_case", cases)
    elif module is None:
        marker.parametrize(metafunc)


def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests without episodes, and the episodes that need not run."""
    resumption = context_of(config).resumption
    marker.remember_marks(config, items)
    marker.deselect(config, items, excused=resumption is not None or session.testsfailed > 0)
    if resumption is not None:
        keep_left(config, items, resumption)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail an item that has passed and whose episode cost more than ``--vla-max-cost``."""
    yield
    fail_over_cost(item)


# Around pytest's own, which makes expected failures.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report the failed episodes of a run with a gate as *not done*."""
    report = yield
    say_over_cost(report, item)
    if is_gated(context_of(item.config).selection):
        say_not_done(report)
    return report


def pytest_enter_pdb(config: pytest.Config) -> None:
    """Lift the time limits of the episode while somebody uses the debugger."""
    context = context_of(config)
    if context.settings.timeout is not None:
        from pytest_vla.util.wall_limits import lift_limits

        lift_limits()
        xdist_worker.lift_controllers_limit(context)

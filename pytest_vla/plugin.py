"""The plugin that pytest loads in every project: options, fixtures, and hooks that detect whether episodes are needed.

If they are, it registers `pytest_vla.run.hooks`, which does the rest. Every import here costs time in each project that
has pytest-vla installed (`benchmarks/startup.py`), so nearly all imports are in functions.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pluggy
import pytest

from pytest_vla.fixtures.rollout import (
    rollout,
    vla_case,
    vla_conditions,
    vla_hang_log,
    vla_of_class,
    vla_of_module,
    vla_play,
    vla_policy,
    vla_preflight,
    vla_search,
    vla_worlds,
)
from pytest_vla.run.constants import EPISODE_FIXTURES, LIST, MARKER, SUITE_FILES, SUITES
from pytest_vla.run.hints import unknown_keys
from pytest_vla.run.options import OPTIONS, add_options

__all__ = [
    "rollout",
    "vla_case",
    "vla_conditions",
    "vla_hang_log",
    "vla_of_class",
    "vla_of_module",
    "vla_play",
    "vla_policy",
    "vla_preflight",
    "vla_search",
    "vla_worlds",
]

_HOOKS = "vla-run"


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks by which other packages add suites and more."""
    from pytest_vla.hookspecs import HookPlugin

    HookPlugin.pytest_addhooks(pluginmanager)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare ``--vla-*``."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Pin the kernels before anything imports numpy, if options or the ini file ask for episodes."""
    typed = early_config.known_args_namespace
    if any(getattr(typed, option.key) for option in OPTIONS if option.asks) or early_config.getini("vla_model"):
        from pytest_vla.kernels import PINNED, pin

        if (typed.vla_kernels or early_config.getini("vla_kernels") or PINNED) == PINNED:
            pin()


def pytest_cmdline_main(config: pytest.Config) -> pytest.ExitCode | None:
    """Print the variations for ``--vla-vary=list``, the metrics for ``--vla-metrics=list``, and run nothing then."""
    if LIST in (config.getoption("vla_metrics") or ()):
        from pytest_vla.run.metrics import metrics_table

        print("\n".join(metrics_table()))
        return pytest.ExitCode.OK
    if LIST not in map(str.strip, (config.getoption("vla_vary") or "").split(",")):
        return None
    from pytest_vla.vary.registry import kinds_table

    print("\n".join(kinds_table()))
    return pytest.ExitCode.OK


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> Generator[None, int, int]:
    """Return as many workers for ``-n auto`` as a Ray cluster has room for, with ``--vla-ray``."""
    cores = yield
    if config.getoption("vla_ray", None) or config.getini("vla_ray"):
        from pytest_vla.run.xdist.ray_workers import workers_of_cluster

        return workers_of_cluster(config)
    return cores


def pytest_configure(config: pytest.Config) -> None:
    """Read the settings and let pytest collect their suites, if options or the ini file ask for episodes."""
    about = f"{MARKER}(...): an episode of a robot policy; `pytest --markers` says more."
    if config.option.markers:
        from pytest_vla.run.marker import ABOUT

        about = ABOUT
    config.addinivalue_line("markers", about)
    if not config.option.help:
        _check_hooks(config)
        if _is_asked_for(config) or unknown_keys(config):
            _begin(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Check the hooks of each conftest.py that is found during collection."""
    try:
        return (yield)
    except pluggy.PluginValidationError:
        _check_hooks(session.config)
        raise


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a suite by its manifest, if it is one of ours without a module."""
    if file_path.suffix != ".toml" or not file_path.resolve().is_relative_to(SUITES.resolve()):
        return None
    _begin(parent.config, late=True)
    from pytest_vla.run.hooks import make_manifest

    return make_manifest(file_path, parent)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect a suite's module under the suite's name."""
    if module_path.name not in SUITE_FILES and not (module_path.parent / "suite.toml").is_file():
        return None
    _begin(parent.config, late=True)
    from pytest_vla.run.hooks import make_module

    return make_module(module_path, parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make an item for each selected case."""
    definition = metafunc.definition
    if not EPISODE_FIXTURES & {*metafunc.fixturenames} and definition.get_closest_marker(MARKER) is None:
        return
    _begin(metafunc.config, late=True)
    from pytest_vla.run.hooks import parametrize

    parametrize(metafunc)


def _is_asked_for(config: pytest.Config) -> bool:
    """Whether an option or ini key of ours is given, or an argument that is no path, such as a suite's item."""
    typed = (value for name, value in vars(config.option).items() if name.startswith("vla_"))
    if any(value not in (None, False, [], ()) for value in typed):
        return True
    if any(config.getini(option.key) for option in OPTIONS if option.ini is not None):
        return True
    if config.args_source != config.ArgsSource.ARGS:
        return False
    here = config.invocation_params.dir
    places = (argument.partition("::") for argument in config.args)
    # A folder has no names after it: that is a suite's item too.
    return any(not os.path.lexists(here / place) or (names and (here / place).is_dir()) for place, _, names in places)


def _check_hooks(config: pytest.Config) -> None:
    """Raise UsageError if a plugin has a hook whose name begins like ours and is unknown."""
    from pytest_vla import hookspecs

    ours = ((name, hook) for name, hook in vars(config.hook).items() if name.startswith(hookspecs.PREFIX))
    pending = ((name, hook.get_hookimpls()) for name, hook in ours if not hook.has_spec())
    if unknown := [name for name, found in pending if any(not each.optionalhook for each in found)]:
        from pytest_vla.run.hints import hook_complaint

        raise pytest.UsageError(hook_complaint(config, unknown))


def _begin(config: pytest.Config, late: bool = False) -> None:
    """Register the other hooks, once."""
    if config.pluginmanager.hasplugin(_HOOKS):
        return
    from pytest_vla.run import hooks

    hooks.configure(config, late=late)
    config.pluginmanager.register(hooks, _HOOKS)

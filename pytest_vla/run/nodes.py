"""Suites as pytest's nodes, and the names under which items' episodes are recorded."""

import importlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import pluggy
import pytest

from pytest_vla import hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import TEST_NAME, Case, parse_search_id, parse_task_key, search_name
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.run import suite_items
from pytest_vla.run.constants import MARKER, SUITES
from pytest_vla.run.context import context_of
from pytest_vla.run.selection import suite_module, suite_of_manifest
from pytest_vla.vary.registry import find_variation


@hook_modules.until_changed
def _marks(suite: str, task_key: str, label: str, seed: int, data: Path | None) -> tuple[pytest.MarkDecorator, ...]:
    task = tasks_by_key(suite, data)[task_key]
    of_task = {"category": load_suite(suite, data=data).category, "task_level": task.task_level}
    of_task = {name: value for name, value in of_task.items() if value}
    variation = find_variation(task, label, seed) if label else None
    if variation is None:
        return (pytest.mark.vla(**of_task),) if of_task else ()
    # A joint one is selected by what each of its parts is, too.
    return tuple(
        pytest.mark.vla(**{**each.parameters, **of_task}, dimension=each.dimension, kind=each.kind, level=each.level)
        for each in (variation, *variation.parts)
    )


@hook_modules.until_changed
def tasks_by_key(suite: str, data: Path | None) -> Mapping[str, Task]:
    """Return a suite's tasks by `Task.key`. Raises VlaError."""
    return {task.key: task for task in load_suite(suite, data=data).tasks}


_CONFTEST = f"{os.sep}conftest.py"
"""How the names end under which pytest keeps these files."""

_REPEAT_STEP = "__pytest_repeat_step_number"


def counted_node(item: pytest.Item) -> str:
    """Return the id under which an item counts: that of the item it repeats, or its own if it repeats none.

    A suite's own item is named by its case, whatever other plugins add to its id. For a test of the user's, the part
    that pytest-repeat adds to the id is removed; other parameters belong to the test.
    """
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    case = parameters.get("vla_case")
    if not isinstance(case, Case):
        return item.nodeid
    if item.getparent(SuiteModule) is not None:
        return case.node_id
    step, (name, bracket, inside) = parameters.get(_REPEAT_STEP), item.name.partition("[")
    if not isinstance(step, int) or not bracket or not item.nodeid.endswith(item.name):
        return item.nodeid
    # It is parametrized last, so that of several texts that look alike the last is its.
    left = re.sub(rf"^(.*)(^|-){step + 1}-\d+(?=-|$)", r"\1", inside.removesuffix("]"))
    return f"{item.nodeid.removesuffix(item.name)}{name}[{left}]"


class SuiteItem(pytest.Function):
    """A suite's item: the project's own conftest.py applies to it too, wherever the suite's file lies."""

    @property
    def ihook(self) -> pluggy.HookRelay:
        """All plugins' hooks, without those of a conftest.py outside of the rootdir and of the suite's parents."""
        manager, rootdir = self.config.pluginmanager, _resolved(self.config.rootpath)
        conftests = [(name, plugin) for name, plugin in manager.list_name_plugin() if name.endswith(_CONFTEST)]
        folders = ((plugin, _resolved(Path(name).parent)) for name, plugin in conftests)
        foreign = {plugin for plugin, folder in folders if folder != rootdir and folder not in self.path.parents}
        return cast("pluggy.HookRelay", _Hooks(manager, foreign)) if foreign else self.config.hook


class _Hooks:
    """pytest's hooks without those of some plugins."""

    def __init__(self, manager: pluggy.PluginManager, without: Iterable[object]) -> None:
        self._manager, self._without = manager, without

    def __getattr__(self, name: str) -> pluggy.HookCaller:
        return self._manager.subset_hook_caller(name, self._without)


@cache
def _resolved(path: Path) -> Path:
    return path.resolve()


Scope = Literal["function", "class", "module"]


def shared_by(item: pytest.Item) -> pytest.Collector | None:
    """Return the class or module whose tests share their episodes with this test, or None if it has its own."""
    if item.getparent(SuiteModule) is not None:
        return None
    scope = next((mark.kwargs["scope"] for mark in item.iter_markers(MARKER) if "scope" in mark.kwargs), "function")
    if scope == "class":
        return item.getparent(pytest.Class)
    return item.getparent(pytest.Module) if scope == "module" else None


def episode_node(item: pytest.Item) -> str:
    """Return the name under which an item's episode is recorded: `counted_node`, or a name of the tests that share it.

    An example of a shared name is ``test_mine.py::TestStove[libero_goal-turn_on_the_stove-seed0]``.
    """
    parent = shared_by(item)
    case = item.callspec.params.get("vla_case") if hasattr(item, "callspec") else None
    if parent is None or not isinstance(case, Case):
        return counted_node(item)
    return f"{parent.nodeid}[{case.suite}-{case.parameter_id}]"


def repetition_of(item: pytest.Item) -> object:
    """Return pytest-repeat's number of an item's repetition, or None if it is not repeated."""
    return item.callspec.params.get(_REPEAT_STEP) if hasattr(item, "callspec") else None


class SuiteModule(pytest.Module):
    """A suite's module: its id is the suite's name wherever it lies, and it is imported by its dotted name.

    By the dotted name there is one module object; pytest would import the same file a second time, as ``suites.x``.
    """

    @classmethod
    def of(cls, suite: str, path: Path, parent: pytest.Collector) -> "SuiteModule":
        """Return the node of a suite's module."""
        module: SuiteModule = cls.from_parent(parent, path=path, nodeid=suite)
        return module

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that the suite is to run."""
        return context_of(self.config).selection.cases_of(self.nodeid)

    @property
    def _is_shared(self) -> bool:
        """Whether its file is the one for all suites without a module of their own."""
        return self.path == Path(suite_items.__file__)

    def marks(self, case: Case) -> tuple[pytest.MarkDecorator, ...]:
        """Return the marks by which ``-m "vla(category='safety')"`` selects a case.

        They name its suite's category, its task's level, and the texts and numbers of its variation, as in ``-m
        "vla(object_type='addition_deletion')"``.
        """
        data = context_of(self.config).selection.settings.data
        return _marks(case.suite, case.task_key, case.variation, case.seed, data)

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield the suite's items; none, instead of pytest's skipped placeholder, if no case is selected."""
        try:
            selected = self.cases
        except VlaError as error:
            raise self.CollectError(str(error)) from error
        for node in super().collect() if selected else ():
            if type(node) is pytest.Function:
                # pytest makes its own kind, and has no hook that says which.
                node.__class__ = SuiteItem
            yield node
        for key in context_of(self.config).selection.searches.get(self.nodeid, ()):
            yield self._search(key)

    def _search(self, key: str) -> pytest.Item:
        """Return the item that searches a task."""
        item: SuiteItem = SuiteItem.from_parent(self, name=search_name(key), callobj=suite_items.test_fuzz)
        name, level = parse_task_key(key) or (key, "")
        for mark in self.marks(Case(self.nodeid, name, 0, task_level=level)):
            item.add_marker(mark)
        return item

    def funcnamefilter(self, name: str) -> bool:
        """Whether this is the name of a suite's test; a project's ``python_functions`` does not apply to it."""
        return name == TEST_NAME

    def _getobj(self) -> Any:
        if self._is_shared:
            return suite_items
        if self.path.resolve().is_relative_to(SUITES.resolve()):
            return importlib.import_module(f"pytest_vla.suites.{self.path.parent.name}.{self.path.stem}")
        # Another package's, as pytest imports it.
        return super()._getobj()  # type: ignore[no-untyped-call]


class SuiteFile(pytest.Module):
    """The file of all suites without a module of their own, with a node for each suite; or one suite's manifest."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yield a module for each suite."""
        shared, its = Path(suite_items.__file__), suite_of_manifest(self.path)
        for name in [its] if its else context_of(self.config).selection.cases:
            if suite_module(name) == shared:
                module = SuiteModule.of(name, shared, self)
                module.name = name
                yield module


# What an invocation is to run: its items, and which episodes they are.


@dataclass(frozen=True)
class Collected:
    """The items of an invocation.

    Attributes:
        nodes: ids of all items.
        cases: by node id, the case of each item that runs an episode.
        names: by node id, the name under which the item's episode is recorded without sharing.
        shared: by node id of tests that share an episode, the name under which it is recorded.
    """

    nodes: Sequence[str]
    cases: Mapping[str, Case]
    names: Mapping[str, str] = field(default_factory=dict)
    shared: Mapping[str, str] = field(default_factory=dict)

    @property
    def searches(self) -> tuple[str, ...]:
        """Ids of the items that search a task."""
        return tuple(node for node in self.nodes if parse_search_id(node))

    @property
    def alone(self) -> dict[str, Case]:
        """Each episode once, by node id: it runs with the first of the tests that share it."""
        first = {self.shared.get(node, node): node for node in reversed(list(self.cases))}
        return {node: case for node, case in self.cases.items() if first[self.shared.get(node, node)] == node}


def collected_of(items: Sequence[pytest.Item]) -> Collected:
    """Return the ids, cases and record names of the items that pytest collected."""
    by_node = {item.nodeid: item for item in items}
    found = {item.nodeid: item.callspec.params.get("vla_case") for item in items if hasattr(item, "callspec")}
    cases = {node: case for node, case in found.items() if isinstance(case, Case)}
    return Collected(
        [item.nodeid for item in items],
        cases,
        {node: counted_node(by_node[node]) for node in cases},
        {node: episode_node(by_node[node]) for node in cases if shared_by(by_node[node])},
    )

"""The house in numbers: how many parts, how they are named, and whether their docstrings are sentences.

``pytest tests/packaging/test_house.py -s`` prints them. A bound is what has been reached: it is lowered, not raised.
"""

import ast
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("pytest_vla", "suites", "reports", "fixtures")
# Words that open a clause and no sentence.
CLAUSE = re.compile(r"(what|how|where|of|as|that|likewise|whom|who|which|to|in|from|by|those)\b", re.I)

MODULES, LINES, MEDIAN, SINGLE, DOUBLE, CLAUSES = 476, 129_000, 240, 68, 1, 0.001
SCRIPT_LINES = 8_080


@dataclass(frozen=True)
class Module:
    """A module of the package: its dotted name, its lines, and its tree."""

    name: str
    lines: int
    tree: ast.Module


@pytest.fixture(scope="module")
def modules() -> dict[str, Module]:
    return {module.name: module for module in _modules()}


def _modules() -> Iterator[Module]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            # The rooms beside the package are links in it.
            if any(parent.is_symlink() for parent in path.parents):
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts if parts[0] == "pytest_vla" else ("pytest_vla", *parts)
            text = path.read_text()
            yield Module(".".join(parts).removesuffix(".__init__"), text.count("\n"), ast.parse(text))


def _imports(module: Module, known: dict[str, Module], top: bool = False) -> set[str]:
    """Return the modules of the package that a module imports; with `top` those that it needs to be loaded."""
    found = set()
    nodes = _at_load(module.tree) if top else ast.walk(module.tree)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & known.keys()) - {module.name}


def _at_load(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when a module is loaded: not those of functions, and not what types alone need."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_load(node)


def test_the_parts_are_few_and_long(modules: dict[str, Module]) -> None:
    lines = [module.lines for module in modules.values()]
    importers = defaultdict(set)
    for module in modules.values():
        for name in _imports(module, modules):
            importers[name].add(module.name)
    single = sorted(name for name, users in importers.items() if len(users) == 1)
    print(
        f"\n{len(lines)} modules, {sum(lines)} lines, median {statistics.median(lines):g}, {len(single)} with one user"
    )
    assert len(lines) <= MODULES
    assert sum(lines) <= LINES
    assert statistics.median(lines) >= MEDIAN
    assert len(single) <= SINGLE, single


def test_scripts_and_benchmarks_are_few() -> None:
    lines = sum(
        path.read_text().count("\n") for room in ("scripts", "benchmarks") for path in (ROOT / room).rglob("*.py")
    )
    print(f"\n{lines} lines of scripts and benchmarks")
    assert lines <= SCRIPT_LINES


def test_no_module_needs_itself(modules: dict[str, Module]) -> None:
    """A circle of modules that need each other to be loaded; import-linter sees circles of rooms alone."""
    needs = {name: _imports(module, modules, top=True) for name, module in modules.items()}
    while leaves := [name for name, needed in needs.items() if not needed & needs.keys()]:
        for name in leaves:
            del needs[name]
    assert needs == {}


def test_a_class_name_means_one_thing(modules: dict[str, Module]) -> None:
    homes = defaultdict(list)
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.name)
    double = {name: places for name, places in homes.items() if len(places) > 1}
    print(f"\n{len(double)} public class names in several modules")
    assert len(double) <= DOUBLE, double


def test_docstrings_are_sentences(modules: dict[str, Module]) -> None:
    docs = [
        doc
        for module in modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (doc := ast.get_docstring(node))
    ]
    clauses = [doc.split("\n")[0] for doc in docs if CLAUSE.match(doc)]
    print(f"\n{len(docs)} docstrings of functions, {len(clauses) / len(docs):.1%} open with a clause")
    assert len(clauses) <= CLAUSES * len(docs), clauses

"""What machines of a cluster have to have, and whether they have it."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_vla
from pytest_vla.scale.node_facts import code_digest, environment, node_facts
from pytest_vla.scale.nodes import (
    CLOCK_SECONDS,
    OPEN_CLUSTER,
    PACKAGES,
    Node,
    NodeRequirements,
    examined,
    open_nodes_text,
    wanted_table,
)

PACKAGE = str(Path(pytest_vla.__file__).parent)
FACTS: dict[str, Any] = {
    "host": "node3",
    "python": "3.11.7",
    "packages": {"pytest-vla": "0.1.0", "mujoco": "3.3.7", "numpy": "2.3.1"},
    "code": "c0de",
    "folder": True,
    "time": 100.0,
    "began": 100.0,
    "ended": 100.0,
}


def wanted(**changed: Any) -> NodeRequirements:
    digest = {"tasks": "t", "assets": "a"}
    return NodeRequirements(["/p"], "/p/pytest_vla", "/work", {}, {**FACTS, **changed}, {"tasks": []}, digest)


def test_equal_machines_lack_nothing() -> None:
    node, trouble = examined("node3 (10.0.0.3)", FACTS, wanted())
    assert (node.name, node.host, node.ahead, trouble) == ("node3 (10.0.0.3)", "node3", 0.0, "")


@pytest.mark.parametrize(("mode", "opened"), [(0, True), (1, False), (None, False)])
def test_a_cluster_that_lets_in_everybody_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, mode: int | None, opened: bool
) -> None:
    ray: Any = ModuleType("ray._raylet")
    if mode is not None:
        ray.AuthenticationMode = SimpleNamespace(DISABLED=0, TOKEN=1)
        ray.get_authentication_mode = lambda: mode
    monkeypatch.setitem(sys.modules, "ray._raylet", ray)
    facts = node_facts(wanted_table(sys.path, PACKAGE, "/", {}, None))
    node, _ = examined("node3", {**FACTS, "open": facts["open"]}, wanted())
    assert node.is_open == opened
    warning = open_nodes_text([Node("node1", "node1"), node, node])
    assert (f"warning {OPEN_CLUSTER}: Ray on node3 and 1 more" in warning) == opened
    assert bool(warning) == opened


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"code": None}, "pytest-vla is not installed at /p/pytest_vla"),
        ({"code": "0ther"}, "has the same version but different code"),
        ({"packages": {**FACTS["packages"], "mujoco": "3.8.1"}}, "different versions: mujoco 3.8.1 (here 3.3.7)"),
        ({"packages": {"pytest-vla": "0.1.0", "mujoco": "3.3.7"}}, "different versions: numpy is missing (here 2.3.1)"),
        ({"python": "3.12.1"}, "different versions: Python 3.12.1 (here 3.11.7)"),
        ({"folder": False}, "there is no folder /work"),
        ({"trouble": "no answer within 90 s"}, "it cannot be examined: no answer within 90 s"),
    ],
)
def test_what_a_machine_lacks_is_named_with_it(changed: dict[str, Any], told: str) -> None:
    _, trouble = examined("node3", {**FACTS, **changed}, wanted())
    assert trouble.startswith("node3: ")
    assert told in trouble


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"tasks": "t", "assets": "a"}, ""),
        ({"tasks": "t", "assets": "b"}, "its assets differ"),
        ({"tasks": "u", "assets": "b"}, "its tasks and assets differ"),
        ({"tasks": "u", "assets": "a", "missing": "no bowl.bddl"}, "data is missing there: no bowl.bddl"),
        ({"trouble": "Permission denied"}, "the data cannot be used there: Permission denied"),
    ],
)
def test_what_its_data_lacks_too(found: dict[str, str], told: str) -> None:
    trouble = wanted().data_trouble("node3", found)
    assert told in trouble
    assert bool(trouble) == bool(told)


@given(ahead=st.floats(-1e6, 1e6), out=st.floats(0, 5), back=st.floats(0, 5))
def test_a_clock_is_ahead_by_what_it_is_or_not_at_all(ahead: float, out: float, back: float) -> None:
    facts = {**FACTS, "began": 1000.0, "time": 1000.0 + out + ahead, "ended": 1000.0 + out + back}
    node, trouble = examined("node3", facts, wanted())
    assert not trouble
    if node.ahead:
        assert abs(node.ahead - ahead) <= (out + back) / 2 + 1e-6
    else:
        assert abs(ahead) <= out + back + CLOCK_SECONDS + 1e-6


def test_facts_of_this_machine_are_what_is_installed(tmp_path: Path) -> None:
    table = wanted_table(sys.path, PACKAGE, str(tmp_path), {}, None)
    facts = node_facts(table)
    assert facts["packages"]["mujoco"] == __import__("mujoco").__version__
    assert set(facts["packages"]) == set(PACKAGES)
    assert facts["folder"]
    assert not node_facts({**table, "folder": str(tmp_path / "none")})["folder"]
    assert node_facts({**table, "package": str(tmp_path)})["code"] is None


def test_the_code_is_told_by_its_content(tmp_path: Path) -> None:
    for name, text in (("__init__.py", ""), ("one.py", "a = 1\n"), ("suite.toml", "x = 1\n")):
        (tmp_path / name).write_text(text)
    first = code_digest(str(tmp_path))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "one.py").write_text("")
    (tmp_path / "notes.txt").write_text("anything")
    assert code_digest(str(tmp_path)) == first
    (tmp_path / "one.py").write_text("a = 2\n")
    assert code_digest(str(tmp_path)) != first


def test_variables_are_as_they_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_NODE", "1")
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    found = environment({"PYTHONPATH": "/ours", "MUJOCO_GL": "egl", "OF_THE_NODE": None})
    assert (found["PYTHONPATH"], found["MUJOCO_GL"]) == ("/ours", "egl")
    assert "OF_THE_NODE" not in found

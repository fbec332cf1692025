"""From the text of --vla-model to a policy, and what is said where there is none."""

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies.load import check_model, policy_digest, resolve_policy
from pytest_vla.policies.random import random_policy
from pytest_vla.policies.spec import ModelSpec


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder of user's modules, which are forgotten afterwards."""
    modules, path = set(sys.modules), list(sys.path)
    (tmp_path / "my_policy_of_test.py").write_text(
        "class Policy:\n    def __init__(self, episode): pass\n    def __call__(self, observation): return [0.0] * 7\n"
        "class Loaded:\n    def begin(self, episode): return lambda observation: [0.0] * 7\n"
        "loaded = Loaded()\nnumber = 3\n"
    )
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def test_random(folder: Path) -> None:
    check_model(ModelSpec("random", folder))
    assert resolve_policy(ModelSpec("random", folder)) is random_policy


def test_a_file_is_relative_to_the_folder(folder: Path) -> None:
    np.savez(folder / "a.npz", actions=np.zeros((1, 7)))
    check_model(ModelSpec("replay:a.npz", folder))
    assert callable(resolve_policy(ModelSpec("replay:a.npz", folder)))


@pytest.mark.parametrize("name", ["Policy", "loaded.begin"])
def test_a_callable_of_a_module_in_the_folder(folder: Path, name: str) -> None:
    check_model(ModelSpec(f"my_policy_of_test:{name}", folder))
    assert "my_policy_of_test" not in sys.modules, "checking does not import"
    policy = resolve_policy(ModelSpec(f"my_policy_of_test:{name}", folder))
    assert list(policy(None)({})) == [0.0] * 7  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("rnadom", "no such policy. Did you mean random? Known: expert, random, replay:PATH, openpi:HOST[:PORT], vla"),
        ("", "no such policy"),
        ("random:3", "random takes nothing after it"),
        ("replay", "PATH is missing; write --vla-model=replay:PATH"),
        ("replay:", "PATH is missing"),
        ("replay:none.npz", "there is no such file or folder"),
        ("openpi", "HOST is missing; write --vla-model=openpi:HOST[:PORT]"),
        ("openpi:gpu:port", "a port is a number from 1 to 65535, and 'port' is none"),
        ("openpy", "Did you mean openpi?"),
        (":thing", "no such policy"),
        ("thing:", "no such policy"),
        (
            "my_policy_of_tset:Policy",
            "there is no module 'my_policy_of_tset' in FOLDER or on Python's path. Did you mean",
        ),
        ("..:x", "there is no module"),
    ],
)
def test_what_cannot_be_a_policy_is_refused_before_anything_is_loaded(folder: Path, model: str, complaint: str) -> None:
    with pytest.raises(VlaError) as refused:
        check_model(ModelSpec(model, folder))
    assert complaint.replace("FOLDER", str(folder)) in str(refused.value)
    assert f"--vla-model={model}: ".replace(":none", f":{folder}/none") in str(refused.value)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("my_policy_of_test:Polcy", "my_policy_of_test.py has no 'Polcy'. Did you mean Policy?"),
        ("my_policy_of_test:loaded.nothing", "has no 'nothing'"),
        ("my_policy_of_test:number", "number of FOLDER/my_policy_of_test.py is int, not callable; a policy is called"),
        ("my_policy_of_test.deeper:Policy", "there is no module"),
        ("raises:Policy", "importing raises raised RuntimeError: no weights (FOLDER/raises.py:2)"),
        ("needs:Policy", "importing needs raised ModuleNotFoundError: No module named 'not_installed_here'"),
        ("broken:Policy", "importing broken raised SyntaxError"),
        ("leaves:Policy", "importing leaves raised SystemExit: 2 (FOLDER/leaves.py:2)"),
    ],
)
def test_what_cannot_be_loaded_says_where_and_why(folder: Path, model: str, complaint: str) -> None:
    (folder / "raises.py").write_text("\nraise RuntimeError('no weights')\n")
    (folder / "needs.py").write_text("import not_installed_here\n")
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "leaves.py").write_text("import sys\nsys.exit(2)\n")
    with pytest.raises(VlaError) as refused:
        resolve_policy(ModelSpec(model, folder))
    assert complaint.replace("FOLDER", str(folder)) in str(refused.value)


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an installed package that declares kinds of policies."""
    place = tmp_path / "site"
    add_distribution(
        place,
        "robot-zoo",
        zoo="robot_zoo:make",
        random="robot_zoo:make",
        broken="robot_zoo:not_there",
        fussy="robot_zoo:fussy",
        number="robot_zoo:number",
        gone="no_such_robot_zoo:make",
    )
    (place / "robot_zoo.py").write_text(
        "from pytest_vla.errors import VlaError\n"
        "def make(text):\n    return lambda episode: lambda observation: [float(text or 7)] * 7\n"
        "def fussy(text):\n    raise OSError('no weights') if text else VlaError('give a name')\n"
        "def number(text):\n    return 3\n"
    )
    monkeypatch.syspath_prepend(str(place))
    yield place
    sys.modules.pop("robot_zoo", None)


def add_distribution(place: Path, name: str, **kinds: str) -> None:
    info = place / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{kind} = {value}" for kind, value in kinds.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest_vla.policies]", *lines, ""]))


@pytest.mark.parametrize(("model", "action"), [("zoo:3", 3.0), ("zoo:", 7.0), ("zoo", 7.0)])
def test_another_package_may_declare_a_kind(folder: Path, declared: Path, model: str, action: float) -> None:
    check_model(ModelSpec(model, folder))
    assert "robot_zoo" not in sys.modules, "checking does not import"
    assert policy_digest(ModelSpec(model, folder)) is None
    policy = resolve_policy(ModelSpec(model, folder))
    assert list(policy(None)({})) == [action] * 7  # type: ignore[arg-type]
    content = (declared / "robot_zoo.py").read_bytes()
    assert policy_digest(ModelSpec(model, folder)) == hashlib.sha256(content).hexdigest()


def test_a_kind_of_ours_goes_before_one_of_the_same_name(folder: Path, declared: Path) -> None:
    assert resolve_policy(ModelSpec("random", folder)) is random_policy


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("broken:x", "importing robot_zoo:not_there of robot-zoo 1.0 raised AttributeError"),
        ("gone", "importing no_such_robot_zoo:make of robot-zoo 1.0 raised ModuleNotFoundError: No module named"),
        (
            "fussy:x",
            "robot_zoo:fussy of robot-zoo 1.0, called with 'x', raised OSError: no weights (SITE/robot_zoo.py:5)",
        ),
        ("fussy", "give a name"),
        ("number:x", "robot_zoo:number of robot-zoo 1.0 made int, not callable; a policy is called with an episode"),
        ("zo", "no such policy. Did you mean zoo? Known: expert, random"),
    ],
)
def test_a_declared_kind_that_cannot_be_loaded_says_whose_it_is(
    folder: Path, declared: Path, model: str, complaint: str
) -> None:
    with pytest.raises(VlaError) as refused:
        resolve_policy(ModelSpec(model, folder))
    assert complaint.replace("SITE", str(declared)) in str(refused.value)


def test_a_kind_that_two_packages_declare_is_refused(folder: Path, declared: Path) -> None:
    add_distribution(declared, "another-zoo", zoo="another:make")
    listed = "another:make of another-zoo 1.0, robot_zoo:make of robot-zoo 1.0"
    with pytest.raises(VlaError, match=f"several packages declare it: {re.escape(listed)}"):
        check_model(ModelSpec("zoo:3", folder))


def test_a_worker_does_not_look_for_the_server_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    # The reserved name resolves nowhere.
    check_model(ModelSpec("openpi:policy.invalid", folder))
    monkeypatch.delenv("PYTEST_XDIST_WORKER")
    with pytest.raises(VlaError, match=r"openpi:policy\.invalid: no connection to ws://policy\.invalid:8000: gaierror"):
        check_model(ModelSpec("openpi:policy.invalid", folder))

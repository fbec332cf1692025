"""From the text of --vla-model to a policy, and what is said where there is none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies.random import random_policy
from pytest_vla.policies.resolve import check_model, resolve_policy


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
    check_model("random", folder)
    assert resolve_policy("random", folder) is random_policy


def test_a_file_is_relative_to_the_folder(folder: Path) -> None:
    np.savez(folder / "a.npz", actions=np.zeros((1, 7)))
    check_model("replay:a.npz", folder)
    assert callable(resolve_policy("replay:a.npz", folder))


@pytest.mark.parametrize("name", ["Policy", "loaded.begin"])
def test_a_callable_of_a_module_in_the_folder(folder: Path, name: str) -> None:
    check_model(f"my_policy_of_test:{name}", folder)
    assert "my_policy_of_test" not in sys.modules, "checking does not import"
    policy = resolve_policy(f"my_policy_of_test:{name}", folder)
    assert list(policy(None)({})) == [0.0] * 7  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("rnadom", "no such policy. Did you mean random? Known: random, replay:PATH, module:callable"),
        ("", "no such policy"),
        ("random:3", "random takes nothing after it"),
        ("replay", "PATH is missing; write --vla-model=replay:PATH"),
        ("replay:", "PATH is missing"),
        ("replay:none.npz", "there is no such file or folder"),
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
        check_model(model, folder)
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
        resolve_policy(model, folder)
    assert complaint.replace("FOLDER", str(folder)) in str(refused.value)

"""From the text of --vla-model to a policy, and what is said where there is none."""

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla import hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.expert.policy import careless_policy
from pytest_vla.policies.base import is_batch_policy
from pytest_vla.policies.load import check_model, check_untyped, digest_of, load_policy, policy_digest, resolve_policy
from pytest_vla.policies.random_and_replay import random_policy
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


def test_the_text_of_the_option_is_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert is_batch_policy(load_policy("tiny@early"))
    assert load_policy("expert?careful=no") is careless_policy
    with pytest.raises(VlaError, match="takes no argument 'carefull'"):
        load_policy("expert?carefull=no")


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
        (
            "rnadom",
            "no such policy. Did you mean random? Known: expert, random, tiny, tiny@early, tiny:PATH, replay:PATH",
        ),
        ("", "no such policy"),
        ("nobody", "lerobot:PATH_OR_HUB_ID, pi0, pi05, smolvla, xvla, module:callable"),
        ("random:3", "random takes nothing after it"),
        ("replay", "PATH is missing; write --vla-model=replay:PATH"),
        ("replay:", "PATH is missing"),
        ("replay:none.npz", "there is no such file or folder"),
        ("openpi", "HOST is missing; write --vla-model=openpi:HOST[:PORT]"),
        ("openpi:gpu:port", "'port' is not a port number (1 to 65535)"),
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
        (
            "my_policy_of_test:number",
            "FOLDER/my_policy_of_test.py: number is int, which is not callable. A policy is called",
        ),
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
    """The folder of an installed package that adds kinds of policies."""
    place = tmp_path / "site"
    add_distribution(place, "robot-zoo", "robot_zoo_hooks")
    kinds = ("make", "not_there", "fussy", "number", "tuned")
    (place / "robot_zoo_hooks.py").write_text(
        "from pytest_vla.entries import PolicyEntry\n"
        "def pytest_vla_policies():\n"
        f"    found = [PolicyEntry(name, 'of the zoo', f'robot_zoo:{{name}}') for name in {kinds!r}]\n"
        "    return [*found, PolicyEntry('zoo', 'the zoo', 'robot_zoo:make'), PolicyEntry('gone', '', 'no_zoo:make')]\n"
    )
    (place / "robot_zoo.py").write_text(
        "from pytest_vla.errors import VlaError\n"
        "def make(text):\n    return lambda episode: lambda observation: [float(text or 7)] * 7\n"
        "def fussy(text):\n    raise OSError('no weights') if text else VlaError('give a name')\n"
        "def number(text):\n    return 3\n"
        "def tuned(text, gain=1.0):\n    return lambda episode: lambda observation: [gain * float(text)] * 7\n"
    )
    monkeypatch.syspath_prepend(str(place))
    hook_modules.forget()
    yield place
    for name in ("robot_zoo", "robot_zoo_hooks", "another_hooks"):
        sys.modules.pop(name, None)
    monkeypatch.undo()
    hook_modules.forget()


def add_distribution(place: Path, name: str, module: str) -> None:
    info = place / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pytest_vla]\nhooks = {module}\n")


@pytest.mark.parametrize(
    ("model", "action"), [("zoo:3", 3.0), ("zoo:", 7.0), ("zoo", 7.0), ("tuned:2?gain=0.25", 0.5), ("tuned:2", 2.0)]
)
def test_another_package_may_add_a_kind(folder: Path, declared: Path, model: str, action: float) -> None:
    check_model(ModelSpec(model, folder))
    assert "robot_zoo" not in sys.modules, "checking does not import"
    assert policy_digest(ModelSpec(model, folder)) is None
    policy = resolve_policy(ModelSpec(model, folder))
    assert list(policy(None)({})) == [action] * 7  # type: ignore[arg-type]
    content = hashlib.sha256((declared / "robot_zoo.py").read_bytes()).hexdigest()
    assert (policy_digest(ModelSpec(model, folder)) == content) is ("?" not in model)


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("not_there:x", "not_there, of robot-zoo 1.0 (robot_zoo_hooks): loading robot_zoo:not_there raised Attribut"),
        ("gone", "gone, of robot-zoo 1.0 (robot_zoo_hooks): loading no_zoo:make raised ModuleNotFoundError: No module"),
        ("fussy:x", ", called with 'x', raised OSError: no weights (SITE/robot_zoo.py:5)"),
        ("fussy", "give a name"),
        (
            "number:x",
            "robot_zoo:number of robot-zoo 1.0 (robot_zoo_hooks) returned int, which is not callable. A policy",
        ),
        ("tuned:2?gian=3", "takes no argument 'gian'. Did you mean gain? It takes gain."),
        ("zo", "no such policy. Did you mean zoo? Known: expert, random"),
        ("random?speed=2", "random takes no arguments; write --vla-model=random"),
    ],
)
def test_a_kind_that_cannot_be_loaded_says_whose_it_is(
    folder: Path, declared: Path, model: str, complaint: str
) -> None:
    with pytest.raises(VlaError) as refused:
        resolve_policy(ModelSpec(model, folder))
    assert complaint.replace("SITE", str(declared)) in str(refused.value)


def test_a_kind_that_two_packages_have_is_refused(folder: Path, declared: Path) -> None:
    add_distribution(declared, "another-zoo", "another_hooks")
    (declared / "another_hooks.py").write_text((declared / "robot_zoo_hooks.py").read_text())
    hook_modules.forget()
    both = "another-zoo 1.0 (another_hooks) and robot-zoo 1.0 (robot_zoo_hooks)"
    with pytest.raises(VlaError, match=f"two packages have a kind of policy 'make': {re.escape(both)}. Uninstall one"):
        check_model(ModelSpec("zoo:3", folder))


POLICIES = """
def plain(episode, gain=1.0, name="a"):
    return lambda observation: [gain] * 7
plain.replan = 3

def make(ckpt: str, scale=2):
    assert isinstance(ckpt, str)
    return lambda episode: lambda observation: [scale] * 7

class Policy:
    def __init__(self, ckpt, flag=False):
        self.ckpt, self.flag = ckpt, flag
    def __call__(self, episode):
        return lambda observation: [float(self.flag)] * 7

def anything(**options):
    return lambda episode: lambda observation: [len(options)] * 7

def fails(ckpt):
    raise OSError(f"no {ckpt}")

def greedy(episode, gain, name, more=1):
    return lambda observation: [gain] * 7

def odd(case, gain):
    return lambda observation: [gain] * 7

def strict(episode, *, gain):
    return lambda observation: [gain] * 7

def late():
    return lambda episode: plain(episode)

class Tuned:
    def __init__(self, gain=0.25, *, name="a"):
        self.gain = gain
    def __call__(self, episode):
        return lambda observation: [self.gain] * 7

class Begun:
    # A session, made with its episode.
    def __init__(self, episode=None):
        assert episode == "the episode"
    def __call__(self, observation):
        return [0.75] * 7

made = Policy("x")
"""


@pytest.fixture
def tunable(folder: Path) -> Iterator[Path]:
    (folder / "tunable_of_test.py").write_text(POLICIES)
    yield folder
    sys.modules.pop("tunable_of_test", None)


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("plain?gain=0.5", 0.5),
        ("plain?gain=-1e-1&name=b", -0.1),
        ("make?ckpt=7", 2.0),
        ("make?ckpt=best.pt&scale=1", 1.0),
        ("Policy?ckpt=best%26worse.pt&flag=true", 1.0),
        ("anything?a=1&b=2", 2.0),
        ("anything?", 0.0),
        ("late?", 1.0),
        ("Tuned", 0.25),
        ("Tuned?gain=0.5", 0.5),
        ("Begun", 0.75),
    ],
)
def test_a_policy_takes_arguments(tunable: Path, text: str, action: float) -> None:
    spec = ModelSpec(f"tunable_of_test:{text}", tunable)
    policy = resolve_policy(spec)
    assert list(policy("the episode")({})) == [action] * 7  # type: ignore[arg-type]
    assert getattr(policy, "replan", None) == (3 if text.startswith("plain") else None)


def test_arguments_and_the_files_that_they_name_are_in_the_digest(tunable: Path) -> None:
    def digest(text: str) -> str | None:
        spec = ModelSpec(f"tunable_of_test:{text}", tunable)
        return digest_of(resolve_policy(spec), spec)

    (tunable / "best.pt").write_bytes(b"weights")
    found = [
        digest(text)
        for text in ("plain", "plain?gain=0.5", "plain?gain=0.6", "plain?name=b&gain=0.5", "make?ckpt=best.pt")
    ]
    assert len({*found}) == 5
    assert None not in found
    assert digest("plain?gain=0.5&name=b") == found[3], "their order says nothing"
    (tunable / "best.pt").write_bytes(b"other weights")
    assert digest("make?ckpt=best.pt") != found[4]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("plain?gian=1", "takes no argument 'gian'. Did you mean gain? It takes gain, name."),
        ("plain?episode=1", "takes no argument 'episode'"),
        ("plain?gain", "expected NAME=VALUE&NAME=VALUE after the ?, got 'gain'"),
        ("plain?gain=1&gain=2", "gain is given twice"),
        ("Policy?flag=true", "requires the argument ckpt; write TYPE:Policy?flag=true&ckpt=...'"),
        ("greedy", "requires the arguments gain, name; write TYPE:greedy?gain=...&name=...'"),
        ("greedy?gain=1%26", "requires the argument name; write TYPE:greedy?gain=1%26&name=...'"),
        ("greedy?nmae=a", "greedy takes no argument 'nmae'. Did you mean name? It takes gain, name, more."),
        ("odd", "requires the argument gain; write TYPE:odd?gain=...' (case receives the"),
        ("strict", "requires the argument gain; write TYPE:strict?gain=...'"),
        ("late", "late takes no episode. If it returns the policy, have it called: TYPE:late?'"),
        (
            "fails?ckpt=a.pt",
            "FOLDER/tunable_of_test.py: fails(ckpt='a.pt') raised OSError: no a.pt (FOLDER/tunable_of_test.py:",
        ),
        ("made?ckpt=a.pt", "takes no argument 'ckpt'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(tunable: Path, text: str, complaint: str) -> None:
    with pytest.raises(VlaError) as refused:
        resolve_policy(ModelSpec(f"tunable_of_test:{text}", tunable))
    complaint = complaint.replace("TYPE:", "--vla-model='tunable_of_test:")
    assert complaint.replace("FOLDER", str(tunable)) in str(refused.value)


def test_a_worker_does_not_look_for_the_server_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
    # The reserved name resolves nowhere.
    check_model(ModelSpec("openpi:policy.invalid", folder))
    monkeypatch.delenv("PYTEST_XDIST_WORKER")
    with pytest.raises(VlaError, match=r"openpi:policy\.invalid: no connection to ws://policy\.invalid:8000: gaierror"):
        check_model(ModelSpec("openpi:policy.invalid", folder))


# What results name, and nobody typed.

OWN = """
import os
from functools import partial
from subprocess import getoutput

def policy(episode, ckpt="", touch=""): return lambda observation: [0.0] * 7

ready = partial(getoutput, "touch ran")
"""


@pytest.fixture
def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with results in it, and results of somebody else beside it."""
    (folder / "mine").mkdir()
    (folder / "mine" / "own_policy_of_test.py").write_text(OWN)
    for place in (folder / "mine" / ".vla", folder / "mine" / "theirs" / ".vla"):
        place.mkdir(parents=True)
        (place / "ckpt.pt").touch()
    (folder / "mine" / "theirs" / "their_policy_of_test.py").write_text("policy = None")
    monkeypatch.chdir(folder / "mine")
    return folder / "mine"


def untyped(project: Path, text: str, results: str = ".vla", folder: str = ".") -> ModelSpec:
    spec = ModelSpec(text, (project / folder).resolve())
    return check_untyped(spec, project, [project / results], "it would load it", f"--vla-model={text}")


@pytest.mark.parametrize(
    "text",
    [
        *("random", "tiny", "tiny@early", "pi05", "replay:.vla/run", "openpi:localhost:8000", "no_such_module:policy"),
        *("vla-eval:ws://127.0.0.1:9000", "own_policy_of_test:policy", "own_policy_of_test:policy?ckpt=best.pt"),
    ],
)
def test_what_is_the_users_own_is_loaded_though_nobody_typed_it(project: Path, text: str) -> None:
    assert untyped(project, text) == ModelSpec(text, project, within=str(project))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("subprocess:getoutput?cmd=touch ran", r"subprocess.py is not in the project"),
        ("subprocess:getoutput", r"subprocess.py is not in the project"),
        ("posix:system?command=touch ran", "the module posix is not in the project"),
        ("__main__:x", "the module __main__ is not in the project"),
        ("numpy:load?file=x.npy", "is not in the project"),
        ("openpi:evil.example:8000", "evil.example:8000 is not on this machine"),
        ("openpi:localhost:8000,evil.example:8000", "is not on this machine"),
        ("vla-eval:wss://127.0.0.1.evil.example", "is not on this machine"),
        ("lerobot:evil/repo", "evil/repo is not on this machine"),
        ("own_policy_of_test:policy?ckpt=https://evil.example/x", "is not on this machine"),
        ("own_policy_of_test:policy?ckpt=http://localhost:x@evil.example/", "is not on this machine"),
        ("own_policy_of_test:policy?ckpt=.vla/ckpt.pt", "ckpt.pt lies in the results"),
    ],
)
def test_what_is_not_the_users_own_has_to_be_typed(project: Path, text: str, why: str) -> None:
    with pytest.raises(VlaError, match=rf"^it would load it, but .*{why}.*add --vla-model=.* to run it$"):
        untyped(project, text)


def test_what_was_brought_with_results_has_to_be_typed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = ("their_policy_of_test:policy", "theirs/.vla", "theirs")
    with pytest.raises(VlaError, match=r"their_policy_of_test.py lies beside the results"):
        untyped(project, *theirs)
    with pytest.raises(VlaError, match=r"ckpt.pt lies in the results"):
        untyped(project, "own_policy_of_test:policy?ckpt=theirs/.vla/ckpt.pt", "theirs/.vla")
    assert untyped(project, "own_policy_of_test:policy", "theirs/.vla").within
    # Where the user works there, it is no stranger's.
    monkeypatch.chdir(project / "theirs")
    assert untyped(project, *theirs).within


def test_results_that_others_can_write_name_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / ".vla").chmod(0o757)
    with pytest.raises(VlaError, match=r"\.vla can be written by other users"):
        untyped(project, "random")
    (project / ".vla").chmod(0o755)
    own = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: own + 1)
    with pytest.raises(VlaError, match=r"\.vla belongs to another user"):
        untyped(project, "random")


@pytest.mark.parametrize(
    "text", ["os.system?command=touch ran", "getoutput?cmd=touch ran", "ready?encoding=utf-8", "os.path.join?a=x"]
)
def test_what_the_project_only_imports_gets_no_arguments_of_results(project: Path, text: str) -> None:
    spec = untyped(project, f"own_policy_of_test:{text}")
    with pytest.raises(VlaError, match=r"which is not in the project .*add --vla-model="):
        resolve_policy(spec)
    assert not (project / "ran").exists()
    resolve_policy(untyped(project, "own_policy_of_test:policy?ckpt=best.pt"))

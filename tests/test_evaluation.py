"""`pytest_vla.evaluate`: a run from inside a script, whose policy is in the script's memory. On the fake world."""

import os
import random
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pytest_vla import Evaluation, VlaError, evaluate
from pytest_vla.metrics.success import success_rate, unit_of
from pytest_vla.records.counting import standings
from pytest_vla.records.store import open_store
from tests.support.data import data_root
from tests.support.records import record_of
from tests.support.runs import run_names
from tests.support.waiting import until

# Draws from the episode's generator and from the global one, and sees pictures; one walks slower to the goal line.
POLICIES = """
import numpy as np

def answer(state, observation):
    speed = 1.0 if state["seed"] else 0.01
    shade = 1e-4 * observation["agentview_image"].mean()
    return np.array([speed, 0.1 * state["rng"].normal(), 0.1 * np.random.normal() + shade, 0, 0, 0, state["first"]])

def begun(episode):
    return {"rng": episode.rng, "seed": episode.seed, "first": np.random.random()}

def plain(episode):
    state = begun(episode)
    return lambda observation: answer(state, observation)

plain.reads = ("agentview_image",)

class Batched:
    max_batch, reads = 8, ("agentview_image",)

    def begin(self, episode):
        return begun(episode)

    def act(self, states, observations):
        assert len(states) == 1  # the global generator is all of a batch's
        return [answer(*each) for each in zip(states, observations)]
"""

Evaluate = Callable[..., Evaluation]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluate:
    """`evaluate` of two tasks in a folder of its own."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_AUTO_NUM_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    data = tmp_path / "data"
    for kind in ("assets", "bddl_files", "init_files"):
        (data / kind).mkdir(parents=True)
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p pytest_vla.testing -p no:hypothesispytest\n")
    (tmp_path / "policies.py").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)

    def evaluated(policy: Any, **options: Any) -> Evaluation:
        chosen = {"suite": "libero_goal", "tasks": ["turn_on", "open_the_top"], "seeds": "0-1", "workers": 1}
        return evaluate(policy, **{**chosen, "progress": False, **options})

    return evaluated


@pytest.fixture
def policies(run: Evaluate) -> ModuleType:
    module = ModuleType("policies")
    exec(POLICIES, vars(module))
    return module


def digests(evaluation: Evaluation) -> dict[str, str]:
    return {record.case: record.digest for record in evaluation.records}


def state_of_process() -> Any:
    drawn: Any = np.random.get_state()
    return random.getstate(), drawn[1].tolist(), drawn[2:], signal.getsignal(signal.SIGINT), set(os.environ)


@pytest.mark.slow
def test_records_are_those_of_the_command_line_and_nothing_else_has_changed(run: Evaluate, policies: Any) -> None:
    typed = run("policies:plain")
    random.seed(5)
    np.random.seed(5)
    before = state_of_process()
    opened = len(os.listdir("/proc/self/fd"))
    plain = run(policies.plain, name="step 10")
    batched = run(policies.Batched(), batch=1, workers=2, name="step 10")
    assert state_of_process() == before
    assert len(os.listdir("/proc/self/fd")) <= opened
    assert len(digests(typed)) == 4
    assert digests(plain) == digests(typed) == digests(batched)

    assert [each.exit_code for each in (typed, plain, batched)] == [1, 1, 1]
    assert plain.results == Path.cwd() / ".vla"
    assert run_names(plain.results) == [typed.run, plain.run, batched.run]
    assert {record.policy for record in plain.records} == {plain.policy} == {"live:step 10"}
    assert (plain.successes, plain.failures, plain.errors, plain.invalid) == (2, 2, 0, 0)
    assert plain.success_rate == 0.5
    assert plain.interval == success_rate("", plain.records, unit_of).interval
    assert [(rate.successes, rate.counted) for rate in plain.tasks.values()] == [(1, 2), (1, 2)]
    assert "libero_goal" in str(plain)
    assert " 50.0%" in str(plain)
    assert str(plain).count("\n") == 3

    # Two policies of one name: neither is a repeat of the other.
    records = [*plain.records, *batched.records]
    assert {each.how for each in standings(records)} == {"counts"}
    # Where it is one by its own word, the later one is.
    assert len({record.policy_digest for record in records}) == 2
    assert typed.records[0].policy_digest not in {record.policy_digest for record in records}


def test_what_breaks_is_counted(run: Evaluate) -> None:
    closed: list[int] = []

    class Session:
        def close(self) -> None:
            closed.append(1)

    class Breaking:
        max_batch, reads = 8, ("state",)

        def begin(self, episode: Any) -> Session:
            return Session()

        def act(self, states: Sequence[Any], observations: Any) -> Any:
            raise RuntimeError("out of memory")

    found = run(Breaking())
    assert (found.errors, found.success_rate, found.interval, found.exit_code) == (4, None, None, 1)
    assert all(str(record.message).startswith("RuntimeError: out of memory") for record in found.records)
    assert "(4 errors)" in str(found)
    assert len(closed) == 4


@pytest.mark.slow
def test_ctrl_c_stops_the_run_and_goes_on(run: Evaluate, policies: Any, tmp_path: Path) -> None:
    class Interrupting(policies.Batched):  # type: ignore[misc]
        asked = 0

        def act(self, states: Sequence[Any], observations: Any) -> Any:
            Interrupting.asked += 1
            if Interrupting.asked == 3:
                os.kill(os.getpid(), signal.SIGINT)
            return [np.zeros(7)]

    earlier = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(Interrupting())
    assert signal.getsignal(signal.SIGINT) is earlier
    with open_store(tmp_path / ".vla", create=False) as store:
        (found,) = store.runs()
        assert (found.status, found.done < found.planned) == ("stopped", True)


def test_what_cannot_be_run_is_told_in_pytests_words(run: Evaluate, policies: Any, tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"^there is no suite 'libero_goa'\. Did you mean libero_goal"):
        run(policies.plain, suite="libero_goa")
    with pytest.raises(VlaError, match="--vla-realtime"):
        run(policies.plain, realtime="soon")
    assert not (tmp_path / ".vla").exists()


def test_answers_may_be_late(run: Evaluate, policies: Any) -> None:
    (record,) = run(policies.plain, tasks=["turn_on"], seeds=[1], realtime=0.1).records
    assert record.provenance["realtime"] == "0.1 s, skip"
    assert (record.steps, record.metrics["held_steps"]) == (11, 6)


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        ("tiny", {"workers": 0}, "workers is 0, expected 1 or more"),
        ("tiny", {"workers": True}, "workers is True"),
        ("tiny", {"options": ["--vla-seeds=0"]}, "options has --vla-seeds=0: give it as seeds"),
        ("tiny", {"options": ["-n4"]}, "options has -n4: give it as workers"),
        ("tiny", {"options": ["--vla-resume"]}, "--vla-resume, which evaluate does not support"),
        ("tiny", {"options": "--vla-video=all"}, "options is a text, expected a list"),
        (len, {"name": "two\nlines"}, "name is 'two"),
        (len, {"name": ""}, "name is ''"),
        (3, {}, "the policy is int, which is not callable"),
        (lambda: None, {}, "the policy is function, which cannot be called with an episode alone"),
        (lambda episode: None, {"suite": "mine"}, "there is no suite 'mine'.*policy.reads = "),
        (lambda episode: None, {"digest": 7}, "digest is int, expected a text, a torch module, or arrays"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(
    policy: Any, options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(VlaError, match=words):
        evaluate(policy, **{"suite": "libero_goal", **options})


def test_a_suite_of_the_projects_conftest_is_found(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from pytest_vla.entries import SuiteEntry\n"
        "from pytest_vla.testing import point_suite\n"
        "def suite(): return point_suite('points')\n"
        "def pytest_vla_suites(): return [SuiteEntry('points', 'a point', ':suite')]\n"
    )
    (tmp_path / "trains.py").write_text(
        "from pytest_vla import evaluate\n"
        "def push(episode): return lambda observation: [1.0, 0.0]\n"
        "if __name__ == '__main__':\n"
        "    print(evaluate(push, suite='points', seeds='0-1', workers=1, progress=False))\n"
    )
    told = subprocess.run([sys.executable, "trains.py"], cwd=tmp_path, capture_output=True, text=True)
    assert re.search(r"points +100\.0% +4/4", told.stdout), told.stdout + told.stderr


def test_a_privileged_policy_cannot_see_the_simulator() -> None:
    def seeing(episode: Any) -> None: ...

    seeing.privileged = True  # type: ignore[attr-defined]
    with pytest.raises(VlaError, match="privileged: the simulator is in another process"):
        evaluate(seeing, suite="tabletop")  # type: ignore[arg-type]


def test_a_network_in_training_mode_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = ModuleType("torch")
    torch.nn = ModuleType("torch.nn")
    torch.nn.Module = type("Module", (), {"training": True, "__call__": lambda self, batch: None})
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Wrapped:
        def __init__(self) -> None:
            self.network = torch.nn.Module()

        def __call__(self, episode: Any) -> None: ...

    with pytest.warns(UserWarning, match="the policy's network is in training mode"), pytest.raises(VlaError):
        evaluate(Wrapped(), suite="none")  # type: ignore[arg-type]
    wrapped = Wrapped()
    wrapped.network.training = False
    with warnings.catch_warnings(action="error"), pytest.raises(VlaError):
        evaluate(wrapped, suite="none")  # type: ignore[arg-type]
    network = torch.nn.Module()
    network.training = False
    with pytest.raises(VlaError, match="a torch module, which takes tensors"):
        evaluate(network, suite="none")


def test_of_varied_tasks_no_rate_is_over_both(tmp_path: Path) -> None:
    varied = {"label": "light:3", "dimension": "light", "kind": "light", "level": 3}
    both = (record_of(0, "success"), record_of(1, "success"), record_of(2, "failure", variation=varied))
    found = Evaluation("r", tmp_path, "live:x", both, 4, 1)
    assert set(found.rates) == {"benign", "varied"}
    assert (found.success_rate, found.rates["varied"].rate) == (1.0, 0.0)
    assert not found.is_finished
    assert "3 episodes, stopped after 3 of 4" in str(found)


def test_a_run_that_stopped_by_itself_is_told(run: Evaluate, policies: Any) -> None:
    policies.Batched.act = lambda self, states, observations: 1 / 0
    with pytest.warns(UserWarning, match=r"stopped after \d of 4 episodes: the evaluation's pytest ended with 2"):
        found = run(policies.Batched(), options=["--maxfail=1"])
    assert (found.is_finished, found.exit_code) == (False, 2)


SCRIPT = """
import os
from pytest_vla import evaluate

class Dying:
    max_batch, reads = 8, ("state",)

    def begin(self, episode):
        os._exit(3)

    def act(self, states, observations): ...

evaluate(Dying(), suite="libero_goal", seeds="0-9", workers=1, progress=False)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("run")
def test_a_run_ends_with_its_script(tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    environ = os.environ | {"TMPDIR": str(place), "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", SCRIPT], env=environ)
    assert ended.returncode == 3

    def is_stopped() -> bool:
        with open_store(tmp_path / ".vla", create=False) as store:
            return store.run("last").status == "stopped"

    until(is_stopped)
    until(lambda: not list(place.glob("pytest-vla-*")))


@pytest.mark.slow
def test_a_learned_policy_on_tabletop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_vla.policies.tiny.policy import TinyPolicy
    from pytest_vla.policies.tiny.weights import load_shipped

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    if (data := data_root()) is not None:
        monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:hypothesispytest\n")
    chosen = {"suite": "tabletop", "tasks": "turn_on_the_stove", "seeds": [0, 1], "workers": 1, "progress": False}
    typed = evaluate("tiny", **chosen)  # type: ignore[arg-type]
    live = evaluate(TinyPolicy(load_shipped("")), **chosen)  # type: ignore[arg-type]
    assert digests(live) == digests(typed)
    assert {record.policy_digest for record in live.records} == {record.policy_digest for record in typed.records}
    assert {record.replan for record in live.records} == {record.replan for record in typed.records}

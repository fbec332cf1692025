"""``pytest-vla check-policy``: what it prints, what it exits with, and that nothing of a policy gets in between."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.commands.check_policy import declare, run
from pytest_vla.errors import VlaError
from pytest_vla.policies.fit import CODES
from tests.support.openpi_server import serving

MODULE = "policies_to_check"
POLICIES = """
import numpy as np

print("a policy's own words")

def chunk(observation, instruction):
    print("and more of them")
    pictures = observation["agentview_image"].mean() + 2 * observation["robot0_eye_in_hand_image"].mean()
    phase = pictures + 10 * observation["state"].sum() + sum(map(ord, instruction))
    return np.sin(phase + np.arange(28.0)).reshape(4, 7)

def good(episode):
    return lambda observation: chunk(observation, episode.instruction)

good.traits = {"action_size": 7, "gripper": "-1 opens, 1 closes", "language": True}

def other(episode):
    return lambda observation: chunk(observation, episode.instruction)

other.traits = {"rotation": "euler", "control_freq": 10}

def blind(episode):
    return lambda observation: observation["left_image"]

blind.traits = {"reads": ["left_image"]}

def mistaken(episode): ...

mistaken.traits = {"griper": "-1 opens, 1 closes"}

def broken(episode):
    raise RuntimeError("no weights\\x1b[2J")

class Batching:
    device, max_batch, reads, replan = "cuda:1", 8, ("agentview_image", "robot0_eye_in_hand_image", "state"), 2

    def begin(self, episode):
        return episode.instruction

    def act(self, states, observations):
        if len(states) > 4:
            raise MemoryError("of the device")
        return [chunk(seen, instruction) for instruction, seen in zip(states, observations)]

batching = Batching()
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{MODULE}.py").write_text(POLICIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, MODULE, raising=False)


def checked(*arguments: str) -> None:
    """What `pytest-vla check-policy` does."""
    parser = argparse.ArgumentParser()
    declare(parser)
    run(parser.parse_args(arguments))


def told(capsys: pytest.CaptureFixture[str], *arguments: str, refused: str | None = None) -> str:
    """What is printed, and what the command ends with."""
    if refused is None:
        checked(*arguments)
    else:
        with pytest.raises(VlaError) as error:
            checked(*arguments)
        assert str(error.value) == refused
    return capsys.readouterr().out


def test_a_good_policy_fits_and_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    says, blank, fits, _, head, row, last, _, *hourly = told(capsys, f"--vla-model={MODULE}:good").splitlines()
    assert says == f"{MODULE}:good declares: action_size 7, gripper '-1 opens, 1 closes', language True"
    assert (blank, fits) == ("", "tabletop: no findings")
    assert head.split() == ["at", "once", "median", "slowest", "actions/s"]
    assert row.split()[0] == "1"
    assert last == "The policy answers one question at a time."
    assert hourly[0].startswith(
        "tabletop: forecast of episodes per hour, for 300 steps, 75 questions, 2 pictures each; "
    )
    assert [line.split()[0] for line in hourly[3:7]] == ["1", "8", "16", "32"]


def test_what_a_policy_prints_is_not_in_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    checked(f"--vla-model={MODULE}:good", "--json")
    out, err = capsys.readouterr()
    assert json.loads(out)["model"] == f"{MODULE}:good"
    assert "a policy's own words" in err
    assert "and more of them" in err


def test_findings_of_each_suite_and_the_exit_by_errors_alone(capsys: pytest.CaptureFixture[str]) -> None:
    refusal = f"{MODULE}:other does not fit tabletop (VLA-P003); libero_goal (VLA-P003)"
    lines = told(
        capsys, f"--vla-model={MODULE}:other", "--vla-suite=tabletop,libero_goal", refused=refusal
    ).splitlines()
    for suite in ("tabletop", "libero_goal"):
        start = lines.index(f"{suite}: 1 error, 1 warning")
        assert lines[start + 1].startswith("  error    VLA-P003: the policy's rotations are euler, ")
        assert lines[start + 2].startswith("  warning  VLA-P009: the policy was trained at 10 Hz, but ")


def test_warnings_alone_are_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "--vla-model=random")
    assert "random declares: gripper '-1 opens, 1 closes'" in out
    assert "tabletop: 2 warnings" in out
    assert [line.split()[1] for line in out.splitlines() if line.startswith("  warning")] == ["VLA-P107:", "VLA-P108:"]


@pytest.mark.parametrize(
    ("model", "code", "text"),
    [
        ("blind", "VLA-P005", "  no trial: the suite lacks observations that the policy reads"),
        ("broken", "VLA-P110", f"RuntimeError: no weights?[2J ({Path(MODULE).name}"),
    ],
)
def test_a_policy_that_cannot_answer_is_not_measured(
    model: str, code: str, text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = told(capsys, f"--vla-model={MODULE}:{model}", refused=f"{MODULE}:{model} does not fit tabletop ({code})")
    assert text.replace(f"({MODULE}", f"({tmp_path / MODULE}") in out
    assert "actions/s" not in out


def test_a_policy_that_batches_is_measured_at_each_size_until_it_breaks(capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, f"--vla-model={MODULE}:batching", "--batch=4,2,1,16")
    latencies, _, hourly = out.partition("\n\ntabletop: forecast of episodes per hour")
    rows = [line.split()[0] for line in latencies.splitlines() if "ms" in line]
    assert "questions, 2 pictures each" in hourly
    assert rows == ["1", "2", "4"], "16 is more than it takes"
    assert "one question at a time" not in out
    assert "  actions/s  on cuda:1\n" in out
    table = json.loads(told(capsys, f"--vla-model={MODULE}:batching", "--batch=2,8", "--json"))
    assert [latency["batch"] for latency in table["latency"]] == [2]
    assert table["latency_ended"].startswith("policy-raised: MemoryError: of the device (")
    assert (table["max_batch"], table["device"]) == (8, "cuda:1")
    (hourly,) = table["hourly"]
    assert [each["workers"] for each in hourly["foreseen"]][:4] == [1, 8, 16, 32]
    assert "then policy-raised: MemoryError" in told(capsys, f"--vla-model={MODULE}:batching", "--batch=8")


def test_for_programs_there_is_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    table = json.loads(
        told(
            capsys, f"--vla-model={MODULE}:other", "--json", refused=f"{MODULE}:other does not fit tabletop (VLA-P003)"
        )
    )
    assert table["traits"] == {"rotation": "euler", "control_freq": 10.0}
    (suite,) = table["suites"]
    assert (suite["suite"], suite["untried"]) == ("tabletop", None)
    assert [(finding["code"], finding["severity"]) for finding in suite["findings"]] == [
        ("VLA-P003", "error"),
        ("VLA-P009", "warning"),
    ]
    assert all(finding["message"] for finding in suite["findings"])
    (latency,) = table["latency"]
    assert latency["batch"] == 1
    assert 0 < latency["median_ms"] <= latency["slowest_ms"]
    assert latency["actions_per_second"] > 0


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("expert", "the policy reads the simulator's state, which does not exist here"),
        ("replay:a.npz", "recorded actions belong to their episodes"),
    ],
)
def test_where_there_is_nothing_to_try_it_says_so(
    model: str, reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", actions=np.zeros((1, 7)))
    assert told(capsys, f"--vla-model={model}").splitlines()[1:] == [
        "",
        "tabletop: no findings",
        f"  no trial: {reason}",
    ]


def test_a_policy_on_a_server_is_tried_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    noise = np.random.default_rng(0)

    def infer(request: dict[str, Any]) -> Any:
        pictures = request["observation/image"].mean() + 2 * request["observation/wrist_image"].mean()
        words = sum(map(ord, request["prompt"]))
        chunk = np.sin(pictures + 10 * request["observation/state"].sum() + words + np.arange(70.0)).reshape(10, 7)
        return {"actions": chunk * (1 if request["prompt"].startswith("open") else noise.random())}

    with serving(infer) as server:
        out = told(capsys, f"--vla-model=openpi:127.0.0.1:{server.port}")
        assert "tabletop: no findings" in out
        connections = len(server.connections)
        assert connections > 5, "a session is a connection"
        server_noise = told(capsys, f"--vla-model=openpi:127.0.0.1:{server.port}", "--vla-suite=libero_object")
    assert server.closed == len(server.connections)
    assert "  warning  VLA-P104: " in server_noise
    with pytest.raises(VlaError, match=rf"--vla-model=openpi:127.0.0.1:{server.port}: nothing listens"):
        checked(f"--vla-model=openpi:127.0.0.1:{server.port}")


def test_the_codes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "--codes").splitlines()
    assert [line.split()[0] for line in lines[::2]] == list(CODES)
    assert (
        lines[2]
        == "VLA-P002  error    Actions are absolute poses, but the evaluator takes relative ones, or the reverse."
    )
    assert lines[3].startswith(" " * 19 + "Use an evaluator that takes such actions: ")
    table = json.loads(told(capsys, "--codes", "--json"))
    assert [code["name"] for code in table] == list(CODES)
    assert set(table[0]) == {"name", "severity", "meaning", "mend"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which policy?"),
        (["--vla-model=rnadom"], "no such policy. Did you mean random?"),
        (["--vla-model=random", "--vla-suite=table"], "there is no suite 'table'"),
        ([f"--vla-model={MODULE}:mistaken"], "there is no 'griper'. Did you mean gripper?"),
    ],
)
def test_what_cannot_be_checked_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(VlaError) as refused:
        checked(*arguments)
    assert message in str(refused.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("batch", ["0", "x", "1,,-2", "", "99999"])
def test_a_batch_size_is_a_number(batch: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        checked("--vla-model=random", f"--batch={batch}")
    assert "--batch" in capsys.readouterr().err


def test_a_policy_is_checked_against_an_evaluator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "import numpy as np\ndef policy(episode):\n    return lambda observation: np.zeros(7)\n"
    (tmp_path / "raw_gripper.py").write_text(f"{text}policy.traits = {{'gripper': '1 opens, 0 closes'}}\n")
    monkeypatch.chdir(tmp_path)
    given = ("--vla-model=raw_gripper:policy", "--vla-suite=libero_goal")
    assert "VLA-P004" not in told(capsys, *given, "--vla-evaluator=openvla")
    with pytest.raises(VlaError, match="VLA-P004"):
        told(capsys, *given)

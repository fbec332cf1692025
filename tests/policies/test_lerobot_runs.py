"""lerobot's policies in real runs of pytest: what workers and batches change in the records."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory
from tests.support.lerobot_models import mend_torchvision_of_processes, save_smolvla
from tests.support.suite_runs import run_suite

pytest.importorskip("lerobot", reason="lerobot is not installed (make lerobot)")

# SmolVLA on CPU in float32, four steps of denoising: the workers' questions asked together against each asked alone.
# Measured: 1.5e-7.
BATCH_TOLERANCE = 1e-5

# A user's policy that is lerobot's, and notes how many questions it got at once. It takes its time, so that the
# workers' questions meet: much where only one has begun an episode so far.
NOTING = """
import time
from pathlib import Path

from pytest_vla.policies.lerobot import load


class Noting:
    def __init__(self, policy):
        self.max_batch, self.reads, self.replan = policy.max_batch, policy.reads, policy.replan
        self._policy, self._begun = policy, 0

    def begin(self, episode):
        self._begun += 1
        return self._policy.begin(episode)

    def act(self, states, observations):
        with Path("batches.txt").open("a") as noted:
            noted.write(f"{len(states)}\\n")
        time.sleep(4.0 if self._begun < 2 else 0.3)
        return self._policy.act(states, observations)


policy = Noting(load("smolvla/policy", "cpu"))
"""


def test_records_repeat_whatever_the_workers_and_batches_change_the_float_order_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk = 60
    save_smolvla(tmp_path / "smolvla", chunk_size=chunk, n_action_steps=chunk)
    (tmp_path / "noting.py").write_text(NOTING)
    mend_torchvision_of_processes(tmp_path / "site", monkeypatch)

    def run(name: str, model: str, *arguments: str) -> dict[str, Record]:
        chosen = ("--vla-tasks=turn_on_the_stove", "--vla-seeds=0-3", f"--vla-model={model}", "--vla-device=cpu")
        return run_suite(tmp_path, name, *chosen, *arguments)

    def actions(name: str, record: Record) -> NDArray[np.float64]:
        assert record.arrays is not None
        return load_trajectory(tmp_path / name / record.run / record.arrays).actions

    alone = run("alone", "lerobot:smolvla/policy", "-n0")
    digests = {case: record.digest for case, record in alone.items()}
    assert len(set(digests.values())) == 4
    for workers in ("-n1", "-n4"):
        records = run(workers[1:], "lerobot:smolvla/policy", workers, "--vla-max-batch=1")
        assert {case: record.digest for case, record in records.items()} == digests
    together = run("batch", "noting:policy", "-n4", "--vla-max-batch=8")
    sizes = [int(size) for size in (tmp_path / "batches.txt").read_text().split()]
    assert 1 < max(sizes) <= 4, sizes
    apart = [np.abs(actions("alone", alone[case]) - actions("batch", together[case])) for case in digests]
    first, all_steps = (max(float(one[:steps].max()) for one in apart) for steps in (chunk, None))
    print(f"batches of {sizes} against 1: {first:.2e} in the first chunks, {all_steps:.2e} in whole episodes")
    assert first <= BATCH_TOLERANCE

"""A policy that is trained here, from the expert's episodes: it does on other seeds what a random one does not."""

from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.policies.base import is_batch_policy
from pytest_vla.records.record import Record
from tests.support import imitation
from tests.support.demonstrations import demonstrations
from tests.support.imitation import ImitationPolicy, Network
from tests.support.suite_runs import run_suite

pytestmark = pytest.mark.slow

TASKS = "--vla-tasks=turn_on_the_stove,close_the_bottom_drawer"
TRAINED, TESTED, OTHERS = "--vla-seeds=0-3", "--vla-seeds=10-14", "--vla-seeds=20-22"
MODEL = "--vla-model=imitation:policy"

# Where the arm is after settling, in all episodes of the suite.
START = np.array([-0.2085, 0.0, 1.1733, 3.14, 0.001, -0.089, 0.039, -0.039])

# What the project's module has besides the policy: the weights, and for the tests of batches a policy that notes its
# process and how many questions it got at once. Where MEET is set it takes its time, so that the workers' questions
# meet: much where only one has begun an episode so far.
MODULE = """

policy = ImitationPolicy(load(Path(__file__).with_name("weights.npz")))


class _Noting(ImitationPolicy):
    begun = 0

    def begin(self, episode):
        self.begun += 1
        return super().begin(episode)

    def act(self, states, observations):
        import os
        import time

        with Path(__file__).with_name("batches.txt").open("a") as noted:
            noted.write(f"{os.getpid()} {len(states)}\\n")
        if "MEET" in os.environ:
            time.sleep(2.0 if self.begun < 2 else 0.2)
        return super().act(states, observations)


noting = _Noting(policy._network)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project with a policy that was trained on four of the expert's episodes of each task."""
    folder = tmp_path_factory.mktemp("imitation")
    records = run_suite(folder, "demonstrations", TASKS, TRAINED, "--vla-model=expert", failures=False)
    shown = demonstrations(folder / "demonstrations", records.values())
    assert len(shown) == 8
    # Threads gain nothing on arrays so small, and wait for each other where others use the cores.
    with threadpool_limits(1):
        network = imitation.train(shown, np.random.default_rng(0))
    imitation.save(folder / "weights.npz", network)
    (folder / "imitation.py").write_text(Path(imitation.__file__).read_text() + MODULE)
    return folder


def digests(records: dict[str, Record]) -> dict[str, str]:
    return {case: record.digest for case, record in records.items()}


def test_a_policy_that_imitates_the_expert_beats_a_random_one_on_other_seeds(project: Path) -> None:
    assert is_batch_policy(ImitationPolicy(imitation.load(project / "weights.npz")))
    intervals = []
    for name, model in (("imitating", MODEL), ("random", "--vla-model=random")):
        records = run_suite(project, name, TASKS, TESTED, model, "-n0")
        assert len(records) == 10
        successes = sum(record.outcome == "success" for record in records.values())
        intervals.append(wilson_interval(successes, len(records)))
        print(f"{name}: {successes} of {len(records)}")
    (worst, _), (_, best) = intervals
    assert worst > best, f"the intervals of the rates overlap: {intervals}"


def test_its_records_are_the_same_whatever_the_workers_and_the_batches(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "--vla-model=imitation:noting"
    noted = project / "batches.txt"
    expected = digests(run_suite(project, "alone", TASKS, OTHERS, model, "-n0"))
    assert len(set(expected.values())) == 6
    # On a machine that is too busy for the workers' questions to meet, they are let try again.
    for number, (workers, batch) in enumerate((("-n1", 8), ("-n4", 1), *[("-n4", 8)] * 10)):
        noted.unlink()
        together = (workers, batch) == ("-n4", 8)
        if together:
            monkeypatch.setenv("MEET", "1")
        name = f"{number}{workers}-{batch}"
        assert digests(run_suite(project, name, TASKS, OTHERS, model, workers, f"--vla-max-batch={batch}")) == expected
        processes, sizes = zip(*(line.split() for line in noted.read_text().splitlines()), strict=True)
        assert len(set(processes)) == 1, f"{name}: the policy was asked in several processes"
        most = max(map(int, sizes))
        assert 1 <= most <= (4 if together else 1), f"{name}: {most} questions at once"
        if most > 1:
            break
    assert most > 1, "no two questions met"


def test_it_does_what_it_is_told(project: Path) -> None:
    network = imitation.load(project / "weights.npz")
    stove, drawer = (
        network.chunk(network.words_of(text), START)
        for text in ("turn on the stove", "close the bottom drawer of the cabinet")
    )
    assert stove.shape == drawer.shape == (imitation.CHUNK, 7)
    # The knob is nearer than the hand and is turned by open fingers; the drawer is further away, and a fist closes it.
    assert (stove[:, [0, 6]].mean(axis=0) < -0.3).all()
    assert (drawer[:, [0, 6]].mean(axis=0) > 0.3).all()


def test_training_follows_from_the_seed_alone() -> None:
    shown = [imitation.Demonstration("wave", np.eye(8)[:5], np.linspace(-1, 1, 35).reshape(5, 7))]

    def trained(seed: int) -> Network:
        return imitation.train(shown, np.random.default_rng(seed), updates=20)

    one, same, other = trained(0), trained(0), trained(1)
    assert all(np.array_equal(a, b) for a, b in zip(one.layers, same.layers, strict=True))
    assert not np.array_equal(one.layers[0], other.layers[0])

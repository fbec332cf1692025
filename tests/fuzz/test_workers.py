"""Workers in real processes: what kills one comes again once, what cannot be loaded is said, none outlives a search."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla import hook_modules
from pytest_vla.episode.rollout import Conditions
from pytest_vla.errors import VlaError
from pytest_vla.fuzz.campaign import Setup, Workers, loaded
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.sampler import Proposal, TriedProposal
from pytest_vla.fuzz.task_search import Job, SearchRules
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.run.project import typed_model
from pytest_vla.vary.chosen import change_of

TASK = load_suite("tabletop").task("turn_on_the_stove")

POLICY = """
import os, signal

def policy(episode):
    if "action.delay" in episode.case_id:
        os.kill(os.getpid(), signal.SIGKILL)
    if "camera" in episode.case_id:
        raise RuntimeError("no weights")
    return lambda observation: [[0.0] * 7]
"""


def job(number: int, kind: str = "", **params: object) -> Job:
    changes = (change_of(kind, params),) if kind else ()
    return Job("scene" if kind else "twin", Proposal(number, "even", Candidate(TASK, number, changes)))


def setup(folder: Path, policy: str = "planted:policy") -> Setup:
    (folder / "planted.py").write_text(POLICY)
    return Setup(ModelSpec(policy, folder), Conditions(policy), SearchRules(None))


@pytest.mark.slow
def test_what_kills_two_workers_tells_nothing_and_all_else_goes_on(tmp_path: Path) -> None:
    told: list[str] = []
    with closing(Workers(setup(tmp_path), 2, told.append)) as hands:
        processes = [worker.process for worker in hands._workers]
        assert (hands.free, hands.busy) == (2, 0)
        hands.give("task", job(0))
        hands.give("task", job(1, "camera.azimuth", azimuth_deg=10.0))
        ended = {}
        for _ in range(2):
            task, done, result = hands.wait()
            assert task == "task"
            ended[done.what] = result
        twin, scene = ended["twin"], ended["scene"]
        assert isinstance(twin, Trial)
        assert (twin.outcome, twin.why) == ("fails", "the policy fails")
        assert isinstance(scene, TriedProposal)
        assert scene.outcome == "aside"
        assert scene.why.startswith("policy-raised: at the episode's begin: RuntimeError: no weights")
        assert hands.episodes == 2
        deadly = job(2, "action.delay", steps=2)
        hands.give("task", deadly)
        assert hands.wait() == ("task", deadly, None), "it comes again"
        hands.give("task", deadly)
        _, _, result = hands.wait()
        assert isinstance(result, TriedProposal)
        assert (result.outcome, result.why) == ("aside", "its process died (-9), twice")
        assert len(told) == 2
        assert "was replaced" in told[0]
        processes += [worker.process for worker in hands._workers]
        # The new ones work.
        hands.give("task", job(3))
        assert isinstance(hands.wait()[2], Trial)
    assert not any(process.is_alive() for process in processes)


def test_what_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    with closing(Workers(setup(tmp_path, "planted:no_such"), 1)) as hands:
        hands.give("task", job(0))
        with pytest.raises(VlaError, match="has no 'no_such'"):
            hands.wait()


@pytest.mark.slow
def test_a_policy_that_answers_in_batches_is_loaded_once_for_all(tmp_path: Path) -> None:
    with (
        loaded(setup(tmp_path, "tiny"), 2, lambda line: None) as begun,
        begun.hands(5, lambda episodes: None) as hands,
    ):
        assert isinstance(hands, Workers)
        assert hands.setup.served is not None
        assert begun.conditions.policy_digest is not None
        hands.give("task", job(0))
        result = hands.wait()[2]
        assert isinstance(result, Trial)
        assert result.outcome == "passes"
        assert hands.episodes == 6


OURS = """
from pytest_vla.entries import VariationEntry
from pytest_vla.scene.variation import Edits
from pytest_vla.vary.kind import LEVELS, VariationKind
from pytest_vla.vary.space import NUMBER, Parameter

KINDS = (VariationKind(
    "ours.weaker", "smaller actions", "ours", lambda draw: {"loss": 0.1},
    lambda task, params: Edits(actions=(lambda: lambda action: action * (1 - params["loss"]),)),
    lambda task: (Parameter("loss", NUMBER, 0.0, 0.5, benign=0.0),), levels=LEVELS, needs=(),
),)
def pytest_vla_variations(): return [VariationEntry("ours", "ours", ":KINDS")]
"""


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module of kinds that ``-p`` names."""
    (tmp_path / "worn_of_test.py").write_text(OURS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hook_modules, "_consented", {})
    hook_modules.consent(["worn_of_test"], tmp_path)
    yield tmp_path
    monkeypatch.undo()
    hook_modules.forget()


def test_a_commands_policy_brings_the_modules_that_were_named(ours: Path) -> None:
    assert typed_model("tiny").plugins == ("worn_of_test",)


@pytest.mark.slow
def test_workers_of_a_served_policy_know_the_kinds_of_such_modules(ours: Path) -> None:
    with (
        loaded(replace(setup(ours, "tiny"), spec=typed_model("tiny")), 2, lambda line: None) as begun,
        begun.hands(5, lambda episodes: None) as hands,
    ):
        hands.give("task", job(0, "ours.weaker", loss=0.1))
        result = hands.wait()[2]
    assert isinstance(result, TriedProposal)
    assert result.outcome in ("passes", "fails"), result.why

"""Rounds of collection: where episodes begin, what is told of them, and what happens where a process dies."""

import os
from pathlib import Path

import numpy as np
import pytest

from pytest_vla import World, load_suite
from pytest_vla.errors import VlaError
from scripts import tiny_rounds
from scripts.tiny_rounds import outcomes_of, start_of


def test_a_process_that_dies_ends_the_work_with_what_to_do() -> None:
    with pytest.raises(VlaError, match=r"a round: a process died after 0 of 3.*run this again to go on"):
        tiny_rounds._run(os._exit, [(9,)] * 3, 2, "a round")


def test_what_work_raises_is_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tiny_rounds._run(os.rmdir, [(tmp_path / "none",)], 1, "a round")


def test_processes_are_replaced_and_all_work_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_rounds, "_REPLACED", 2)
    names = [tmp_path / str(number) for number in range(5)]
    tiny_rounds._run(os.mkdir, [(name,) for name in names], 1, "a round")
    assert sorted(tmp_path.iterdir()) == names


class Told:
    """A world of one task, that says of a state whether it leaves nothing to do: whether it is marked by a 1."""

    def __init__(self, name: str) -> None:
        self.task, self.done = type("Task", (), {"name": name}), False

    def reset(self, state: np.ndarray) -> None:
        self.done = bool(state[1])

    def success(self) -> bool:
        return self.done


def test_an_episode_begins_in_no_state_in_which_nothing_is_left_to_do() -> None:
    states = {name: np.array([[place, done]] * 3) for place, (name, done) in enumerate([("a", 0), ("b", 1), ("c", 0)])}
    found = [start_of(Told("a"), states, np.random.default_rng(seed)) for seed in range(400)]  # type: ignore[arg-type]
    counts = np.bincount(np.array(found)[:, 0].astype(int), minlength=3)
    assert counts[1] == 0
    # A share of 0.3, of 400: within four standard deviations.
    assert counts[2] == pytest.approx(120, abs=37)
    again = [start_of(Told("a"), states, np.random.default_rng(seed)) for seed in range(400)]  # type: ignore[arg-type]
    np.testing.assert_array_equal(again, found)
    states["c"][:, 1] = 1
    rng = np.random.default_rng(0)
    assert all(start_of(Told("a"), states, rng)[0] == 0 for _ in range(50)), "its own, where no other's is fit"


def test_in_a_world_of_the_suite_what_is_done_already_is_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    suite, stove = load_suite("tabletop"), "turn_on_the_stove"
    world = World(suite.task(stove))
    own = world.init_states[0]
    knob = int(world.model.jnt_qposadr[world.model.joint("stove_1_knob").id])
    on = next(state for turn in (-1.5, 1.5) if succeeds(world, state := turned(own, 1 + knob, turn)))
    monkeypatch.setattr(tiny_rounds, "STRANGE", 1.0)
    found = start_of(world, {stove: own[None], "another": on[None]}, np.random.default_rng(0))
    np.testing.assert_array_equal(found, own)


def turned(state: np.ndarray, place: int, turn: float) -> np.ndarray:
    """A state with a coordinate set."""
    state = state.copy()
    state[place] = turn
    return state


def succeeds(world: World, state: np.ndarray) -> bool:
    """Whether the goal holds where an episode would begin."""
    world.reset(state)
    return world.success()


def test_outcomes_are_counted_by_task(tmp_path: Path) -> None:
    folder = tmp_path / "round-1"
    folder.mkdir()
    for shard, done in enumerate([(True, False), (True, True), (True, False)]):
        np.savez(folder / f"shard-{shard:04d}.npz", outcomes=np.array(done))
    assert outcomes_of(tmp_path, 1, ("a", "b")) == {"a": {"episodes": 3, "done": 3}, "b": {"episodes": 3, "done": 1}}

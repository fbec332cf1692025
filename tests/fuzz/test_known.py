"""Failures that were found before: a file a task, the last ones first, no more than a search can afford."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.case_file import MOST_KNOWN, ListedCase, known_failures, known_file, remember_failures
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import with_protocol
from pytest_vla.vary.chosen import change_of

STOVE = with_protocol(load_suite("tabletop").task("turn_on_the_stove"), textures="installed")


def late(steps: int, seed: int = 0) -> ListedCase:
    return ListedCase(Candidate(STOVE, seed, (change_of("action.delay", {"steps": steps}),)), f"by {steps}")


def test_the_last_ones_come_first_each_once(tmp_path: Path) -> None:
    assert known_failures(tmp_path, STOVE) == ()
    remember_failures(tmp_path, STOVE, [], [])
    assert not known_file(tmp_path, STOVE).exists()
    remember_failures(tmp_path, STOVE, [late(1), late(2)], [])
    before = known_failures(tmp_path, STOVE)
    assert before == (late(1), late(2)), "as the task is run"
    remember_failures(tmp_path, STOVE, [late(3), late(2)], before)
    assert known_failures(tmp_path, STOVE) == (late(3), late(2), late(1))


def test_no_more_are_kept_than_a_search_can_try(tmp_path: Path) -> None:
    many = [late(1, seed) for seed in range(MOST_KNOWN)]
    remember_failures(tmp_path, STOVE, [late(5)], many)
    assert known_failures(tmp_path, STOVE) == (late(5), *many[:-1])


def test_a_file_that_cannot_be_used_is_told_and_forgotten(tmp_path: Path) -> None:
    remember_failures(tmp_path, STOVE, [late(1)], [])
    known_file(tmp_path, STOVE).write_text("schema = 99\n")
    with pytest.warns(UserWarning, match="found 99.*known failures of this task are not tried first"):
        assert known_failures(tmp_path, STOVE) == ()
    (tmp_path / "fuzz" / "file").write_text("")
    with pytest.raises(VlaError, match="cannot create the folder"):
        remember_failures(tmp_path / "fuzz" / "file", STOVE, [late(1)], [])

"""LIBERO-Para's logs: the real one, joined with the CSV, and what is refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language.published import load_published
from pytest_vla.suites.libero_para.variations import in_rounds, log_name, published_outcomes, read_para_log
from tests.support.libero_para import EPISODE, HEADER, ROWS, published_csv


def write(folder: Path, *episodes: Any, eval_id: Any = 1) -> Path:
    content = {"eval_id": eval_id, "original_instruction": None, "episodes": list(episodes)}
    (folder / "eval1.json").write_text(json.dumps(content))
    return folder


def test_the_real_log_and_its_paraphrases() -> None:
    published = load_published(published_csv())
    folder = published_csv().parent / "xiaomi-robotics-0_seed7"
    episodes = read_para_log(folder)
    assert (len(episodes), sum(each.success for each in episodes)) == (2431, 1903)
    assert [each.task for each in episodes] == sorted(each.task for each in episodes)
    # The paper says init state 0; this log says the task's own number.
    assert {(each.init_state, each.episode) for each in episodes if each.task == 4} == {(4, 0)}
    assert max(each.steps for each in episodes) <= 310
    assert log_name(folder) == ("xiaomi-robotics-0", 7)
    outcomes = published_outcomes(episodes, published, "published")
    for each, outcome in zip(episodes, outcomes, strict=True):
        row = published.by_key[each.key]
        assert row.instruction == each.instruction
        assert (outcome.keyword, outcome.structural, outcome.task) == (row.keyword, row.structural, row.original)
        assert (outcome.success, outcome.object_type, outcome.action_type) == (
            each.success,
            each.object_type,
            each.action_type,
        )


def test_an_episode_is_read_as_it_is(tmp_path: Path) -> None:
    (found,) = read_para_log(write(tmp_path, EPISODE))
    assert found.key == ("addition_deletion", "hint", 1, 3)
    assert (found.instruction, found.success, found.steps) == ("The box is shut", True, 127)
    (tmp_path / "csv").write_text("\n".join([HEADER, *ROWS]))
    published = load_published(tmp_path / "csv")
    # Upper case is no difference: scores are of lower-cased texts.
    (outcome,) = published_outcomes([found], published, "published")
    assert outcome.structural == 0.25
    (other,) = read_para_log(write(tmp_path, EPISODE | {"paraphrased_instruction": "the box is open"}))
    with pytest.raises(VlaError, match="the log has 'the box is open', LIBERO-Para's CSV 'the box is shut'") as caught:
        published_outcomes([other], published, "published")
    assert str(caught.value).startswith(f"{tmp_path / 'eval1.json'}, episode 0: ")
    unknown = EPISODE | {"variant_id": 4, "bddl_file": EPISODE["bddl_file"].replace("ver3", "ver4")}
    with pytest.raises(VlaError, match="paraphrase 4 is not in LIBERO-Para's CSV") as caught:
        published_outcomes(read_para_log(write(tmp_path, EPISODE, unknown)), published, "published")
    assert str(caught.value).startswith(f"{tmp_path / 'eval1.json'}, episode 1: ")


@pytest.mark.parametrize(
    ("change", "trouble"),
    [
        ({"success": 1}, "success is 1, expected true or false"),
        ({"num_steps": "127"}, "num_steps is '127', expected a whole number"),
        ({"num_steps": True}, "num_steps is True"),
        ({"initial_state_idx": -1}, "initial_state_idx is -1"),
        ({"episode_idx": None}, "episode_idx is None"),
        ({"paraphrased_instruction": ""}, "paraphrased_instruction is ''"),
        ({"variant_id": 4}, "variant_id is 4, but comp_lexical+pragmatical_addition_deletion+hint_eval1_ver3.bddl"),
        ({"paraphrase_type": "act"}, "paraphrase_type is 'act'"),
        ({"subcategories": ["hint"]}, "subcategories is 'hint'"),
        ({"categories": "lexical"}, "categories is None"),
        ({"bddl_file": "task.bddl"}, "bddl_file is 'task.bddl'"),
        ({"bddl_file": None}, "bddl_file is None"),
        ({"bddl_file": EPISODE["bddl_file"].replace("eval1", "eval2")}, "eval_id is 1, but"),
        (
            {
                "bddl_file": "comp_lexical+pragmatical_hint+addition_deletion_eval1_ver3.bddl",
                "subcategories": ["hint", "addition_deletion"],
            },
            "LIBERO-Para has no cell with comp and hint+addition_deletion",
        ),
    ],
)
def test_an_episode_that_is_not_upstreams_is_refused(tmp_path: Path, change: dict[str, Any], trouble: str) -> None:
    with pytest.raises(VlaError, match=re.escape(trouble)) as caught:
        read_para_log(write(tmp_path, EPISODE, EPISODE | change))
    assert f"{tmp_path / 'eval1.json'}, episode 1" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "trouble"),
    [
        (lambda folder: folder / "nothing", "cannot be read: No such file"),
        (lambda folder: folder, "no eval0.json or similar"),
        (lambda folder: write(folder), "has no episode"),
        (lambda folder: write(folder, EPISODE, eval_id=2), "its eval_id is 2, its name says 1"),
        (
            lambda folder: write(folder, EPISODE, EPISODE),
            "paraphrase 3 is there twice for init state 0 and episode_idx 0",
        ),
        (lambda folder: write(folder, "text"), "episode 0 is not a table"),
    ],
)
def test_a_folder_that_is_no_log_is_refused(tmp_path: Path, make: Callable[[Path], Path], trouble: str) -> None:
    with pytest.raises(VlaError, match=re.escape(trouble)):
        read_para_log(make(tmp_path))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"episodes": {}}', "[" * 100000, "\ud800"])
def test_a_file_that_is_no_log_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "eval1.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(VlaError, match=r"eval1\.json (cannot be read|has no list of episodes)"):
        read_para_log(tmp_path)


def test_names_of_logs() -> None:
    assert log_name(Path("/logs/pi0.5-seed12")) == ("pi0.5", 12)
    assert log_name(Path("/logs/x-vla")) == ("x-vla", None)
    assert log_name(Path("/logs/pi05 seed 7")) == ("pi05", 7)
    assert log_name(Path("/logs/pi05/seed_7")) == ("pi05", 7)
    assert log_name(Path("/seed7")) == ("seed7", 7)


def test_an_episode_that_is_there_twice_is_named_with_the_first_and_a_remedy(tmp_path: Path) -> None:
    other = EPISODE | {"episode_idx": 1}
    with pytest.raises(VlaError, match=re.escape(f"{tmp_path / 'eval1.json'}, episode 2: ")) as caught:
        read_para_log(write(tmp_path, other, EPISODE, other))
    assert f"the first is {tmp_path / 'eval1.json'}, episode 0. Take one of them out" in str(caught.value)


def test_several_episodes_of_a_paraphrase_are_rounds(tmp_path: Path) -> None:
    other = EPISODE | {"variant_id": 4, "bddl_file": EPISODE["bddl_file"].replace("ver3", "ver4")}
    numbers = [(EPISODE, 1, 0), (EPISODE, 0, 1), (other, 3, 0), (EPISODE, 0, 0)]
    episodes = [each | {"episode_idx": number, "initial_state_idx": state} for each, number, state in numbers]
    rounds = in_rounds(read_para_log(write(tmp_path, *episodes)))
    told = [[(each.batch_idx, each.episode, each.init_state) for each in some] for some in rounds]
    assert told == [[(3, 0, 0), (4, 3, 0)], [(3, 0, 1)], [(3, 1, 0)]]
    assert in_rounds(()) == ()

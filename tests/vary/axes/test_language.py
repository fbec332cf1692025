"""Variations of instructions: drawn from task, label and seed alone, and never nothing."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.language.grammar import read
from pytest_vla.plan.case import LABEL
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.vary import registry
from pytest_vla.vary.axes import language
from pytest_vla.vary.registry import find_variation, kinds, kinds_table, labels_of, parse_vary

TASKS = load_suite("tabletop").tasks
LABELS = [label for label in parse_vary("language") if not label.endswith(("L3", "L4"))]


def of(task: Task, label: str, seed: int) -> Variation:
    found = find_variation(task, label, seed)
    assert found is not None
    return found


# The first one reads WordNet's table.
@given(st.sampled_from(TASKS), st.sampled_from(LABELS), st.integers(0, 50))
def test_a_variation_follows_from_task_label_and_seed(task: Task, label: str, seed: int) -> None:
    try:
        first = of(task, label, seed)
    except VlaError:
        # Not every task has every kind.
        assume(False)
    registry._drawn.cache_clear()
    assert of(task, label, seed) == first
    assert first.label == label
    assert re.fullmatch(LABEL, label)
    assert first.instruction is not None
    assert first.instruction != task.language
    assert first.dimension == "language"


def test_nonsense_has_no_word_of_any_task_and_as_many() -> None:
    english = {word for task in TASKS for word in task.language.split()}
    for task in TASKS:
        texts = {str(of(task, "language.nonsense", seed).instruction) for seed in range(20)}
        assert len(texts) == 20
        for text in texts:
            assert len(text.split()) == len(task.language.split())
            assert not english & set(text.split())


def test_another_tasks_text_is_of_the_scene_and_of_no_task_with_this_goal() -> None:
    told = {task.language for task in TASKS}
    for task in TASKS:
        for seed in range(10):
            variation = of(task, "language.other_task", seed)
            assert variation.instruction in told - {task.language}
            assert variation.parameters["other"] in {other.name for other in TASKS}


def test_a_task_that_is_alone_in_its_scene_has_no_other_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "_scene_mates", lambda task: ())
    registry._drawn.cache_clear()
    with pytest.raises(
        VlaError, match=r"language.other_task of .*/turn_on_the_stove: tabletop has no other task for this scene"
    ):
        find_variation(load_suite("tabletop").task("turn_on_the_stove"), "language.other_task", 0)


def test_words_are_replaced_as_many_as_the_level_says() -> None:
    task = load_suite("tabletop").task("put_the_bowl_on_the_stove")
    for level in (1, 2, 3):
        variation = of(task, f"language.words-L{level}", 1)
        assert variation.level == level
        assert len(str(variation.parameters["replaced"]).split("; ")) == level
        assert str(variation.parameters["source"]).startswith("WordNet, ")


def test_a_paraphrase_means_the_same() -> None:
    for task in TASKS:
        meaning = read(task.language).meaning
        for cell in language.paraphrase_cells()[::5]:
            variation = of(task, f"language.paraphrase.{cell[0]}.{cell[1]}", 3)
            assert (variation.parameters["object_type"], variation.parameters["action_type"]) == cell
            from pytest_vla.language.grammar import meanings

            assert meanings(str(variation.instruction)) == {meaning}


def test_there_are_43_kinds_of_paraphrases() -> None:
    assert len(language.paraphrase_cells()) == 43


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("language.blank", ["language.blank"]),
        ("language.words:2", ["language.words-L2"]),
        (
            "language.words:1-2, language.nonsense",
            ["language.words-L1", "language.words-L2", "language.nonsense"],
        ),
        ("language.paraphrase.none.hint", ["language.paraphrase.none.hint"]),
        ("language.words-L3", ["language.words-L3"]),
    ],
)
def test_what_is_to_be_varied_is_read(text: str, labels: list[str]) -> None:
    assert list(parse_vary(text)) == labels


def test_a_dimension_is_all_its_kinds() -> None:
    of_it = [kind for kind in kinds() if kind.dimension == "language" and not (kind.needs_files or kind.published)]
    assert list(parse_vary("language")) == [label for kind in of_it for label in kind.labels()]
    assert "language.plus" not in parse_vary("language")
    assert "pro.semantic" in parse_vary("pro")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("languag", "there is no variation 'languag'. Did you mean language"),
        ("language.blank:2", "language.blank is a single variation; leave out :2"),
        ("language.words:0", "language.words has levels 1 to 4, not 0"),
        ("language.words:x", "levels 'x': expected a level such as 3, or a range such as 1-3"),
        (" , ", "--vla-vary is empty"),
    ],
)
def test_what_cannot_be_varied_is_told(text: str, complaint: str) -> None:
    with pytest.raises(VlaError, match=re.escape(complaint)):
        parse_vary(text)


def test_a_label_that_is_none_is_told() -> None:
    with pytest.raises(VlaError, match=r"no variation 'language.blnk'\. Did you mean language\.blank"):
        find_variation(TASKS[0], "language.blnk", 0)
    assert find_variation(TASKS[0], "", 0) is None
    assert labels_of(TASKS[0]) == ("",)


def test_the_table_names_every_kind() -> None:
    lines = kinds_table()
    named = [line.split()[0].partition(":")[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert named == [kind.name for kind in kinds()]

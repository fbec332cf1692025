"""Paraphrases of every task of every suite, in all of LIBERO-Para's 43 cells."""

import random
from itertools import islice

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language.generator import (
    CELLS,
    GeneratedParaphrase,
    paraphrases,
    said,
    variants,
)
from pytest_vla.language.grammar import lexicon, meanings, read
from pytest_vla.language.notation import tokens_of
from pytest_vla.language.scene_names import SceneNames, things_of
from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES
from pytest_vla.plan.manifests import load_suite
from tests.support.readable import READABLE_SUITES
from tests.support.slow import slow

"""All suites whose tasks have instructions of their own; those of libero_para are paraphrases."""

LANGUAGES = {name: list(dict.fromkeys(task.language for task in load_suite(name).tasks)) for name in READABLE_SUITES}
INSTRUCTIONS = sorted({language for languages in LANGUAGES.values() for language in languages})
DRAWER = "open the middle drawer of the cabinet"


def others(suite: str, instruction: str) -> list[str]:
    return [language for language in LANGUAGES[suite] if language != instruction]


def one_of_each_cell(instruction: str, rivals: list[str]) -> list[GeneratedParaphrase]:
    rng = random.Random(instruction)
    return [variant for cell in CELLS for variant in variants(instruction, rivals, rng, 1, *cell)]


def test_there_are_43_cells() -> None:
    assert (len(OBJECT_TYPES), len(ACTION_TYPES), len(CELLS)) == (4, 11, 43)


@pytest.mark.parametrize("suite", [slow(name) if name == "libero_90" else name for name in READABLE_SUITES])
def test_every_task_has_every_cell_keeps_its_meaning_and_shares_no_paraphrase(suite: str) -> None:
    owner: dict[str, str] = {language: language for language in LANGUAGES[suite]}
    for instruction in LANGUAGES[suite]:
        found = one_of_each_cell(instruction, others(suite, instruction))
        assert [(variant.object_type, variant.action_type) for variant in found] == list(CELLS)
        for variant in found:
            assert meanings(variant.text) == {read(instruction).meaning}, variant.text
            assert owner.setdefault(variant.text.lower(), instruction) == instruction, variant.text


def test_nothing_that_is_drawn_has_to_be_thrown_away_for_its_meaning() -> None:
    rng = random.Random(3)
    for instruction in INSTRUCTIONS:
        command = read(instruction)
        for cell in rng.sample(CELLS, 12):
            phrase = said(command, rng, *cell)
            if phrase is not None:
                text = " ".join(word.text for word in phrase)
                assert meanings(text) == {command.meaning}, text


def test_every_tree_has_one_root_no_circle_and_the_texts_words() -> None:
    for instruction in islice(INSTRUCTIONS, 0, None, 4):
        for variant in one_of_each_cell(instruction, []):
            tree = variant.tree
            assert [token.text for token in tree] == tokens_of(variant.text)
            assert [token.dep for token in tree].count("ROOT") == 1
            for index in range(len(tree)):
                path = [index]
                while tree[path[-1]].dep != "ROOT":
                    path.append(tree[path[-1]].head)
                    assert len(path) <= len(tree), "a circle"


def test_the_same_seed_gives_the_same_texts_and_another_gives_others() -> None:
    def drawn(seed: int) -> list[list[str]]:
        return [paraphrases(DRAWER, [], random.Random(seed), 5, *cell) for cell in CELLS]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_texts_are_different_and_as_many_as_asked_for_where_there_are_enough() -> None:
    texts = paraphrases(DRAWER, [], random.Random(0), 12, "same_polarity_habitual", "embedded_imperative")
    assert len(texts) == len(set(texts)) == 12
    assert paraphrases(DRAWER, [], random.Random(0), 0, "same_polarity_habitual", "hint") == []
    few = paraphrases("turn on the stove", [], random.Random(0), 50, "none", "same_polarity_habitual")
    assert few == ["switch on the stove"]


def test_object_types_change_the_names_and_leave_the_verb() -> None:
    rng = random.Random(0)
    (habitual,) = paraphrases(DRAWER, [], rng, 9, "same_polarity_habitual", "none")
    assert habitual == "open the middle drawer of the cupboard"
    assert set(paraphrases(DRAWER, [], rng, 9, "same_polarity_contextual", "none")) == {
        f"open the middle drawer of the {name}" for name in ("dresser", "drawer unit", "storage unit")
    }
    for text in paraphrases(DRAWER, [], rng, 20, "addition_deletion", "none"):
        assert len(text.split()) > len(DRAWER.split())
        assert [word for word in text.split() if word in DRAWER.split()] == DRAWER.split()


def test_action_types_change_the_verb_and_leave_the_names() -> None:
    rng = random.Random(0)
    (habitual,) = paraphrases(DRAWER, [], rng, 9, "none", "same_polarity_habitual")
    assert habitual == "pull open the middle drawer of the cabinet"
    for text in paraphrases(DRAWER, [], rng, 9, "none", "addition_deletion"):
        assert text.split()[1:] == DRAWER.split()
    for action in ACTION_TYPES[4:]:
        for text in paraphrases(DRAWER, [], rng, 9, "none", action):
            assert "middle drawer of the cabinet" in text


@pytest.mark.parametrize(
    ("action", "ends", "starts"),
    [
        ("embedded_imperative", ("?", ""), ("Could", "Can", "Would", "Will", "Do", "I was")),
        ("need_statement", ("",), ("I ",)),
        ("permission_directive", ("?", ""), ("May", "Can", "Could", "Might", "You")),
        ("question_directive", ("?",), ("Has", "Is", "Does", "Can", "Could", "Should", "Why")),
        ("hint", ("",), ("The", "It")),
        ("coordination", ("",), ("Find", "Locate", "First", "Start")),
        ("subordination", ("",), ("After", "Once", "Having")),
    ],
)
def test_speech_acts_look_like_themselves(action: str, ends: tuple[str, ...], starts: tuple[str, ...]) -> None:
    texts = paraphrases(DRAWER, [], random.Random(4), 12, "none", action)
    assert texts
    for text in texts:
        assert text.startswith(starts), text
        assert text.endswith(ends), text


@pytest.mark.parametrize("action", [slow("subordination"), "coordination"])
def test_what_a_task_is_about_is_what_is_ordered(action: str) -> None:
    """Not "before closing it, find the drawer": to close it is told there, and nobody is told to do it."""
    actions = lexicon().actions
    for instruction in INSTRUCTIONS:
        last = read(instruction).clauses[-1].action
        orders = {verb.split()[0] for verb in actions[last].every_verb()}
        for variant in variants(instruction, [], random.Random(instruction), 6, "none", action):
            root = next(index for index, token in enumerate(variant.tree) if token.dep == "ROOT")
            joined = [t.lemma for t in variant.tree if t.head == root and t.dep == "conj"] or [variant.tree[root].lemma]
            assert orders.intersection(joined), variant.text


def test_one_thing_has_one_name_in_a_text() -> None:
    instruction = "pick up the black bowl between the plate and the ramekin and place it on the plate"
    for text in paraphrases(instruction, [], random.Random(0), 30, "same_polarity_habitual", "need_statement"):
        assert text.count("serving plate") in (0, 2), text


def test_a_name_with_what_the_thing_is_full_of_has_its_head_in_front() -> None:
    cell = ("same_polarity_habitual", "none")
    for variant in variants("put both wine bottles on the rack", [], random.Random(0), 9, *cell):
        if "bottles of wine" in variant.text:
            words = {token.text: token for token in variant.tree}
            assert variant.text.startswith("put both bottles of wine on")
            assert variant.tree[words["wine"].head].text == "of"
            assert variant.tree[words["of"].head].text == "bottles"
            break
    else:
        raise AssertionError("a wine bottle is a bottle of wine")


@pytest.mark.parametrize(
    ("instruction", "own", "beside", "never"),
    [
        ("put the bowl on the stove", "akita_black_bowl", "wine_bottle", "vessel"),
        ("put the bowl on the stove", "akita_black_bowl", "plate", "dish"),
        ("close the microwave", "microwave", "flat_stove", "appliance"),
    ],
)
def test_no_name_is_said_that_something_else_in_the_scene_could_have(
    instruction: str, own: str, beside: str, never: str
) -> None:
    cell = ("same_polarity_contextual", "none")
    for names, is_said in (((own,), True), ((own, beside), False)):
        scene = SceneNames(tuple(thing for name in names for thing in things_of(name)))
        texts = paraphrases(instruction, [], random.Random(0), 9, *cell, scene)
        assert any(f"the {never}" in text for text in texts) == is_said


def test_things_in_the_plural_have_a_verb_in_the_plural() -> None:
    for text in paraphrases("put both moka pots on the stove", [], random.Random(0), 30, "none", "hint"):
        assert not {"is", "has", "needs", "belongs"} & set(text.split()), text
    for text in paraphrases("put the moka pot on the stove", [], random.Random(0), 30, "none", "hint"):
        assert not {"are", "have", "need_statement", "belong"} & set(text.split()), text


def test_no_paraphrase_is_another_instruction_of_the_suite() -> None:
    rival = "open the middle drawer of the cupboard"
    assert paraphrases(DRAWER, [rival], random.Random(0), 5, "same_polarity_habitual", "none") == []


def test_no_cell_no_paraphrase() -> None:
    for cell in (("none", "none"), ("same_polarity_habitual", "shout"), ("", "hint")):
        with pytest.raises(VlaError, match="there is no cell"):
            paraphrases(DRAWER, [], random.Random(0), 1, *cell)


def test_an_instruction_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(VlaError, match="unknown: dance"):
        paraphrases("dance", [], random.Random(0), 1, "none", "hint")


def test_a_tree_has_lemmas() -> None:
    (variant,) = variants("turn on the stove", [], random.Random(0), 1, "none", "same_polarity_habitual")
    assert [(t.text, t.lemma, t.pos, t.dep, t.head) for t in variant.tree] == [
        ("switch", "switch", "VERB", "ROOT", 0),
        ("on", "on", "ADP", "prep", 0),
        ("the", "the", "DET", "det", 3),
        ("stove", "stove", "NOUN", "pobj", 1),
    ]

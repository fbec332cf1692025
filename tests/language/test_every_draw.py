"""Every way that draws can go, and what is made of them: all paraphrases and substitutions, not a sample."""

import random
from collections.abc import Callable
from itertools import islice

import numpy as np
import pytest

from pytest_vla.language.generator import CELLS, every_variant, variants
from pytest_vla.language.grammar import meanings, read
from pytest_vla.language.scene_names import SceneNames
from pytest_vla.language.substitution import Screened, every_substitution, substitute
from pytest_vla.language.wordnet import shipped_wordnet
from pytest_vla.util.enumerate_choices import every_draw

INSTRUCTION = "put the bowl on the plate"


def test_every_way_is_gone_once() -> None:
    def draw(rng: random.Random) -> tuple[object, ...]:
        first = rng.choice("ab")
        if first == "b":
            return (first,)
        return first, rng.randint(1, 2), tuple(rng.sample("xyz", 2)), rng.randrange(3, 5)

    found = list(every_draw(draw))
    assert len(found) == len(set(found)) == 2 * 3 * 2 + 1
    assert found[0] == ("a", 1, ("x", "y"), 3)
    assert found[-1] == ("b",)


def test_what_draws_nothing_has_one_way() -> None:
    assert list(every_draw(lambda rng: 5)) == [5]


@pytest.mark.parametrize("draw", [lambda rng: rng.random(), lambda rng: rng.getrandbits(3), lambda rng: rng.gauss()])
def test_what_has_no_end_is_refused(draw: Callable[[random.Random], object]) -> None:
    with pytest.raises(TypeError):
        next(every_draw(draw))


def test_an_empty_choice_is_an_error_as_ever() -> None:
    with pytest.raises(IndexError):
        next(every_draw(lambda rng: rng.choice([])))


def test_all_paraphrases_of_a_cell_are_those_that_can_be_drawn() -> None:
    rng, meaning = random.Random(1), read(INSTRUCTION).meaning
    for cell in rng.sample(CELLS, 6):
        found = every_variant(INSTRUCTION, (), *cell)
        assert len({each.text.lower() for each in found}) == len(found) > 0
        assert all(meanings(each.text) == {meaning} for each in islice(found, 30))
        drawn = {each.text for each in variants(INSTRUCTION, (), rng, 30, *cell)}
        assert drawn <= {each.text for each in found}
        assert len(drawn) == min(30, len(found)), "draws of a small cell find it all"
    assert every_variant(INSTRUCTION, (), *CELLS[0]) == every_variant(INSTRUCTION, (), *CELLS[0])


def test_another_tasks_text_is_no_paraphrase() -> None:
    first = every_variant(INSTRUCTION, (), *CELLS[10])[0]
    assert first not in every_variant(INSTRUCTION, (first.text,), *CELLS[10])


@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
def test_all_substitutions_are_those_that_can_be_drawn(level: int) -> None:
    wordnet, screen = shipped_wordnet(), Screened(SceneNames(()))
    found = {each.text: each for each in every_substitution(INSTRUCTION, level, wordnet, screen)}
    if level == 4:
        assert found == {}, "it has three words"
        return
    drawn = [substitute(INSTRUCTION, level, np.random.default_rng(seed), wordnet, screen=screen) for seed in range(60)]
    assert {each.text for each in drawn} <= set(found)
    assert all(found[each.text] == each for each in drawn)
    assert {each.text for each in drawn} == set(found) or len(found) > 20

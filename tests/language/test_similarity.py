"""S_K by its definition: the best cosine of each of the original's content words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.language.similarity import Match, best_matches, content_lemmas, keyword_similarity
from tests.support.parsers import parsed

WORDS = ("open", "drawer", "stove", "bowl", "gently")


def unit(seed: int) -> np.ndarray:
    vector = np.random.default_rng(seed).normal(size=384)
    return vector / np.linalg.norm(vector)


VECTORS = {word: unit(seed) for seed, word in enumerate(WORDS)}
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6)


def test_content_words_of_all_sentences() -> None:
    assert content_lemmas(parsed("Open the drawer. Put a bowl on")) == ("open", "drawer", "put", "bowl")
    assert content_lemmas(parsed("")) == ()


def test_a_mean_over_the_originals_words() -> None:
    vectors = {"a": np.array([1.0, 0.0]), "b": np.array([0.6, 0.8]), "c": np.array([0.0, 1.0])}
    assert best_matches(["a", "c"], ["b"], vectors) == (
        Match("a", "b", pytest.approx(0.6)),
        Match("c", "b", pytest.approx(0.8)),
    )
    assert keyword_similarity(best_matches(["a", "c"], ["b"], vectors)) == pytest.approx(0.7)
    # Not symmetric: b has but one best match.
    assert keyword_similarity(best_matches(["b"], ["a", "c"], vectors)) == pytest.approx(0.8)


@given(TEXTS, TEXTS)
def test_without_content_words_on_either_side_it_is_0(original: list[str], paraphrase: list[str]) -> None:
    value = keyword_similarity(best_matches(original, paraphrase, VECTORS))
    if not original or not paraphrase:
        assert value == 0.0
    else:
        by_hand = np.mean([max(float(VECTORS[a] @ VECTORS[b]) for b in paraphrase) for a in original])
        assert value == pytest.approx(by_hand)
        assert value <= 1.0


@given(TEXTS.filter(bool), TEXTS)
def test_words_that_all_come_again_are_exactly_1_in_any_order(original: list[str], more: list[str]) -> None:
    assert keyword_similarity(best_matches(original, more + original[::-1], VECTORS)) == 1.0


@given(TEXTS, TEXTS, TEXTS)
def test_more_words_never_take_away(original: list[str], paraphrase: list[str], more: list[str]) -> None:
    if paraphrase:
        less = keyword_similarity(best_matches(original, paraphrase, VECTORS))
        assert keyword_similarity(best_matches(original, paraphrase + more, VECTORS)) >= less - 1e-12

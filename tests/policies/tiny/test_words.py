"""An instruction as numbers of words."""

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.policies.tiny.weights import LONGEST, NOTHING, UNKNOWN, numbered, places_of, tokens, vocabulary_of

SENTENCES = ("Put the bowl on the plate.", "put the bottle on the rack", "Don't open the drawer 2")


def test_words_are_lower_case_without_what_stands_between_them() -> None:
    assert tokens(" Put the bowl--on the PLATE, now! ") == ["put", "the", "bowl", "on", "the", "plate", "now"]
    assert tokens("Don't, or don\N{RIGHT SINGLE QUOTATION MARK}t") == ["dont", "or", "dont"]
    assert tokens("drawer2") == ["drawer", "2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("поставь миску на тарелку", ["поставь", "миску", "на", "тарелку"]),
        ("把碗放在盘子上", ["把碗放在盘子上"]),
        ("कटोरी रखो", 2),
        ("그릇 2", ["그릇", "2"]),
        ("\N{ARABIC-INDIC DIGIT TWO}", ["\N{ARABIC-INDIC DIGIT TWO}"]),
        ("\uff30\uff35t the \uff42owl", ["put", "the", "bowl"]),
    ],
)
def test_words_of_any_script_are_words(text: str, words: list[str] | int) -> None:
    found = tokens(text)
    assert len(found) == words if isinstance(words, int) else found == words
    places = places_of(vocabulary_of(SENTENCES))
    learned = [places.get(word, UNKNOWN) for word in found]
    assert numbered(text, places)[: len(found) + 1].tolist() == [*learned, NOTHING]


@given(st.text(max_size=60))
def test_composed_and_decomposed_texts_read_alike(text: str) -> None:
    assert tokens(unicodedata.normalize("NFC", text)) == tokens(unicodedata.normalize("NFD", text))


def test_accents_are_left_out() -> None:
    assert tokens("Café, CAFE\N{COMBINING ACUTE ACCENT}") == ["cafe", "cafe"]


@given(st.text(st.characters(max_codepoint=127), max_size=300))
def test_ascii_reads_as_when_it_was_trained(text: str) -> None:
    assert tokens(text) == re.findall("[a-z]+|[0-9]+", text.lower().replace("'", ""))


def test_a_vocabulary_holds_the_frequent_words_after_two_places_of_their_own() -> None:
    assert vocabulary_of(SENTENCES, least=2) == ("", "", "on", "put", "the")
    assert places_of(vocabulary_of(SENTENCES, least=2)) == {"on": 2, "put": 3, "the": 4}


def test_an_unknown_word_has_a_place_and_no_word_has_another() -> None:
    places = places_of(vocabulary_of(SENTENCES))
    assert numbered("put the zvork", places, 5).tolist() == [places["put"], places["the"], UNKNOWN, NOTHING, NOTHING]
    assert (numbered("", places) == NOTHING).all()


@given(st.text(max_size=300))
def test_any_text_becomes_numbers_within_the_vocabulary(text: str) -> None:
    vocabulary = vocabulary_of(SENTENCES)
    found = numbered(text, places_of(vocabulary))
    assert found.shape == (LONGEST,)
    assert ((found >= 0) & (found < len(vocabulary))).all()
    assert (found != NOTHING).sum() == min(LONGEST, len(tokens(text)))


@given(st.lists(st.sampled_from(["put", "bowl", "plate", "on"]), max_size=40))
def test_known_words_can_be_read_back(words: list[str]) -> None:
    vocabulary = vocabulary_of(SENTENCES)
    found = numbered(" ".join(words), places_of(vocabulary))
    assert [vocabulary[place] for place in found if place != NOTHING] == words[:LONGEST]
    assert np.all(found != UNKNOWN)

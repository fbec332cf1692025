"""The words that the grammar knows, and their forms."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_vla.language.grammar import CONTEXTUAL, HABITUAL, lexicon, plural
from pytest_vla.language.morphology import IRREGULAR, SILENT_E, inflected, lemma

VERBS = sorted({base for base, _, _ in lexicon().verbs} | set(IRREGULAR) | SILENT_E)


def test_no_name_means_two_things() -> None:
    names = Counter(name.words for name in lexicon().names)
    assert [words for words, count in names.items() if count > 1] == []


def test_an_addition_makes_no_name_into_that_of_another_thing() -> None:
    owner = {" ".join(name.words): name.noun for name in lexicon().names}
    for noun in lexicon().nouns.values():
        for addition in noun.additions:
            for name in noun.every_name():
                assert owner.get(f"{addition} {name}", noun.name) == noun.name, (addition, name)


def test_no_word_says_what_an_episode_may_begin_without() -> None:
    """A cabinet shelf is not open, and nobody knows whether a bottle is full."""
    states = {state for action in lexicon().actions.values() for state in action.states}
    states |= {"full", "empty", "chilled", "cold", "hot", "warm", "clean", "dirty"}
    for noun in lexicon().nouns.values():
        said = {word for text in (*noun.additions, *noun.every_name()) for word in text.split()}
        assert not said & states, noun.name


def test_no_verb_means_two_actions() -> None:
    verbs = Counter((base, particle) for base, particle, _ in lexicon().verbs)
    assert [verb for verb, count in verbs.items() if count > 1] == []


def test_every_action_of_an_instruction_has_habitual_and_contextual_verbs() -> None:
    for action in lexicon().actions.values():
        if action.name == "find":
            continue
        for kind in ("drawer", "door") if action.name in ("open", "close") else ("",):
            for way in (HABITUAL, CONTEXTUAL):
                assert action.other_verbs(way, kind, "on"), (action.name, kind, way)


def test_verbs_depend_on_the_thing_and_on_the_place() -> None:
    actions = lexicon().actions
    assert "slide open" in actions["open"].other_verbs(CONTEXTUAL, "drawer", "")
    assert "slide open" not in actions["open"].other_verbs(CONTEXTUAL, "door", "")
    assert "rest" in actions["put"].other_verbs(CONTEXTUAL, "", "on")
    assert "rest" not in actions["put"].other_verbs(CONTEXTUAL, "", "in")


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("moka pot", "moka pots"),
        ("serving dish", "serving dishes"),
        ("cabinet shelf", "cabinet shelves"),
        ("box", "boxes"),
    ],
)
def test_plurals(name: str, many: str) -> None:
    assert plural(name) == many


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("put", "puts putting put"),
        ("place", "places placing placed"),
        ("set", "sets setting set"),
        ("close", "closes closing closed"),
        ("push", "pushes pushing pushed"),
        ("grab", "grabs grabbing grabbed"),
        ("take", "takes taking taken"),
        ("carry", "carries carrying carried"),
        ("be", "is being been"),
        ("free", "frees freeing freed"),
        ("rest", "rests resting rested"),
    ],
)
def test_forms_of_verbs(verb: str, forms: str) -> None:
    assert [inflected(verb, tag) for tag in ("VBZ", "VBG", "VBN")] == forms.split()


@given(st.sampled_from(VERBS), st.sampled_from(["VB", "VBP", "VBZ", "VBG", "VBD", "VBN"]))
def test_a_form_gives_its_verb_back(verb: str, tag: str) -> None:
    assert lemma(inflected(verb, tag), "VERB", tag) == verb


@pytest.mark.parametrize(
    ("text", "pos", "tag", "expected"),
    [
        ("need", "VERB", "VB", "need"),
        ("mixing", "NOUN", "NN", "mixing"),
        ("closed", "ADJ", "JJ", "closed"),
        ("contents", "NOUN", "NNS", "contents"),
        ("shelves", "NOUN", "NNS", "shelf"),
        ("cookies", "NOUN", "NNS", "cookie"),
        ("glasses", "NOUN", "NNS", "glass"),
        ("belonging", "VERB", "VBG", "belong"),
        ("boiled", "VERB", "VBD", "boil"),
        ("rolling", "VERB", "VBG", "roll"),
        ("used", "VERB", "VBN", "use"),
        ("'s", "AUX", "VBZ", "be"),
        ("'s", "PART", "POS", "'s"),
        ("n't", "PART", "RB", "not"),
        ("ca", "AUX", "MD", "can"),
    ],
)
def test_lemmas(text: str, pos: str, tag: str, expected: str) -> None:
    assert lemma(text, pos, tag) == expected


@given(st.text(max_size=12), st.sampled_from(["NOUN NNS", "VERB VBZ", "VERB VBG", "VERB VBN", "AUX VB", "ADJ JJ"]))
@example("s", "NOUN NNS")
def test_any_word_has_a_lemma(text: str, tagged: str) -> None:
    pos, tag = tagged.split()
    assert bool(lemma(text, pos, tag)) == bool(text)

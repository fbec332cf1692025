"""Which of WordNet's neighbours our own protocol lets stand for a word: those with which the task stays what it is."""

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pytest_vla.language.scene_names import SceneNames
from pytest_vla.language.slots import Choice, Noun
from pytest_vla.language.wordnet import WordNet


@dataclass(frozen=True)
class Screened:
    """`pytest_vla.language.slots.Screen` of a scene: words of ``screened.toml`` that name no other thing there.

    Of a noun that stands in no list, and has one sense only, those synonyms that say no more than it.
    """

    scene: SceneNames

    def verbs(self, verb: str) -> Collection[str]:
        """Those that the list has of a verb; none of one that it does not have."""
        return screened_words()["verbs"].get(verb, ())

    def nouns(self, noun: Noun, wordnet: WordNet) -> Sequence[Choice]:
        """Those that the list has of a noun with the nouns before it, and that fit the scene."""
        listed = screened_words()["nouns"].get(noun.compound)
        known = _neighbours(noun.lemma, wordnet)
        if listed is None:
            sole = noun.compound == noun.lemma and wordnet.senses(noun.lemma, "noun") == 1
            synonyms = (word for word, each in known.items() if sole and each.relation == "synonym")
            # A tea caddy is more than a caddy.
            listed = tuple(word for word in synonyms if noun.lemma not in word.split())
        return [known[word] for word in listed if word in known and self.scene.fits(word, noun.phrase, wordnet)]


@cache
def screened_words() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """``verbs`` and ``nouns``, and of each what may stand for it, as ``screened.toml`` lists them."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {part: {word: tuple(others) for word, others in lists.items()} for part, lists in table.items()}


def _neighbours(noun: str, wordnet: WordNet) -> dict[str, Choice]:
    """A noun's neighbours in all its senses, without names, each by the first sense that has it."""
    found: dict[str, Choice] = {}
    for sense in range(1, wordnet.senses(noun, "noun") + 1):
        for neighbour in wordnet.neighbours(noun, "noun", sense):
            if neighbour.word.islower():
                found.setdefault(neighbour.word, Choice(neighbour.word, neighbour.relation, sense))
    return found

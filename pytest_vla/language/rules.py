"""Grammar rules in the template notation, with word lists: sentences are drawn from them."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pytest_vla.language.morphology import inflected
from pytest_vla.language.notation import HEAD, Hanging, NotationError, Part, Word, filled, template


@dataclass(frozen=True)
class Words:
    """A list of words with one part of speech; a slot asks for a form by a Penn tag, ``{put.VBN}``."""

    pos: str
    tag: str
    lemmas: tuple[str, ...]


@dataclass(frozen=True)
class GrammarRules:
    """A grammar.

    Attributes:
        rules: weighted templates, by rule name.
        words: word lists by name; a slot may name one like a rule.
        tags: part of speech and Penn tag of the words that templates name without them.
    """

    rules: Mapping[str, tuple[tuple[int, tuple[Part, ...]], ...]]
    words: Mapping[str, Words]
    tags: Mapping[str, tuple[str, str]]

    @cached_property
    def weights(self) -> Mapping[str, tuple[int, ...]]:
        return {name: tuple(weight for weight, _ in templates) for name, templates in self.rules.items()}

    def describe(self, text: str) -> tuple[str, str]:
        """Return part of speech and Penn tag of a word that templates name alone. Raises NotationError for others."""
        if text not in self.tags:
            raise NotationError(f"{text}: unknown part of speech; write {text}/POS.TAG")
        return self.tags[text]


def rules_from(table: Mapping[str, Any]) -> GrammarRules:
    """Parse a grammar from TOML tables.

    They are ``tags`` (``"ADP.IN" = "on in"``), ``words`` (``cup.NOUN.NN = "cup mug"``) and ``rules`` (name to
    templates, ``"3 | ..."`` with a weight).

    Raises:
        NotationError: a table is invalid.
    """
    tags: dict[str, tuple[str, str]] = {}
    for key, texts in table["tags"].items():
        pos, tag = key.split(".", 1)
        tags.update((text, (pos, tag)) for text in texts.split())
    words = {}
    for name, by_pos in table["words"].items():
        for pos, by_tag in by_pos.items():
            for tag, texts in by_tag.items():
                words[name] = Words(pos, tag, tuple(dict.fromkeys(texts.split())))
    rules = {}
    for name, lines in table["rules"].items():
        weighted = [line.split(" | ", 1) if " | " in line else ("1", line) for line in lines]
        rules[name] = tuple((int(weight), template(text)) for weight, text in weighted)
    return GrammarRules(rules, words, tags)


def drawn(rules: GrammarRules, name: str, rng: random.Random) -> list[Hanging]:
    """Draw a slot's content by the rules' weights. Raises NotationError for an unknown name."""
    if name in rules.rules:
        _, parts = rng.choices(rules.rules[name], rules.weights[name])[0]
        return filled(parts, lambda slot: drawn(rules, slot, rng), rng.choice, rules.describe)
    words, tag, forms = _words(rules, name)
    return [(HEAD, (Word(rng.choice(forms), words.pos, tag, HEAD, 0),))]


def _words(rules: GrammarRules, name: str) -> tuple[Words, str, tuple[str, ...]]:
    base, _, tag = name.partition(".")
    if base not in rules.words:
        raise NotationError(f"{name}: no rule or word list has this name")
    words = rules.words[base]
    # A list without a tag in the slot is taken as it stands: "mixing" is in the form that is meant.
    forms = tuple(inflected(lemma, tag) for lemma in words.lemmas) if tag else words.lemmas
    return words, tag or words.tag, forms

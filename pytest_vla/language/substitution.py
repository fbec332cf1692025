"""VLA-Arena's W0-W4: K verbs and nouns of an instruction are replaced by WordNet neighbours."""

import random
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from pytest_vla.errors import VlaError
from pytest_vla.language.scene_names import SceneNames
from pytest_vla.language.wordnet import PartOfSpeech, Relation, WordNet
from pytest_vla.util.enumerate_choices import every_draw

if TYPE_CHECKING:
    import numpy as np


# The words of an instruction that have substitutes: its verbs and nouns with WordNet's neighbours one edge away.
#
# VLA-Arena reads its variants from a list that does not come with its code; of how that was made the paper tells the
# relations, a few examples, and that verbs were screened by hand. So are ours: `VERBS`, and `NOUN_SENSES`. Of nouns
# the paper takes any neighbour, a fishbowl for a bowl; `Screened` takes those that are the same thing. `PUBLISHED` has
# the verbs that the paper prints, three of which (grab, locate, slide) are not one edge away in WordNet 3.0.

VERBS: Mapping[str, tuple[str, ...]] = {
    "bring": ("carry", "fetch", "take"),
    "close": ("close up", "shut"),
    "grab": ("seize", "take"),
    "grasp": ("clasp", "hold"),
    "insert": ("put", "put in"),
    "lay": ("place", "position", "put", "set"),
    "lift": ("elevate", "hoist", "raise"),
    "move": ("displace", "shift", "transfer"),
    "open": ("open up",),
    "pick": ("choose", "collect", "select", "take"),
    "pick up": ("collect", "elevate", "gather up", "get", "lift", "lift up", "raise", "seize"),
    "pile": ("heap", "stack"),
    "place": ("lay", "move", "position", "put", "set"),
    "position": ("lay", "place", "put", "set"),
    "pull": ("drag", "draw", "move", "tug"),
    "push": ("force", "move", "nudge", "prod", "shove", "thrust"),
    "put": ("lay", "move", "place", "position", "set"),
    "put down": ("place down", "set down"),
    "raise": ("elevate", "hoist", "lift"),
    "remove": ("take", "take away", "withdraw"),
    "rotate": ("turn",),
    "set": ("lay", "place", "position", "put"),
    "shut": ("close",),
    "slide": ("move", "slip"),
    "stack": ("heap", "pile"),
    "switch off": ("turn off",),
    "switch on": ("turn on",),
    "take": ("bring", "carry", "fetch", "get", "grab", "seize"),
    "take out": ("extract", "get out", "pull out", "remove", "take away", "withdraw"),
    "turn off": ("switch off",),
    "turn on": ("switch on",),
}
"""Which of a verb's neighbours, in any of its senses, still tell a robot to do the same; screened by us."""

_TAKEN = ("choose", "grab", "seize", "select")
PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "pick": _TAKEN,
    "pick up": _TAKEN,
    "push": ("nudge", "shove", "slide", "thrust"),
    "put": ("locate", "place", "position", "set"),
}
"""The replacements that VLA-Arena's paper prints for a verb (sections 2.2 and 8.1); without a screen, these alone."""

PARTICIPLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "lit": ("light", {"ignite": "ignited", "kindle": "kindled", "light up": "lit up"}),
    "switched off": ("switch off", {"turn off": "turned off"}),
    "switched on": ("switch on", {"turn on": "turned on"}),
    "turned off": ("turn off", {"switch off": "switched off"}),
    "turned on": ("turn on", {"switch on": "switched on"}),
}
"""States that a verb tells of (with the candle lit): the verb, and of its neighbours how they tell the same state."""

NOUN_SENSES: Mapping[str, int] = {
    **dict.fromkeys(("alphabet soup", "banana", "book", "broccoli", "cucumber", "egg", "mango", "microwave"), 2),
    **dict.fromkeys(("ramekin", "table"), 2),
    **dict.fromkeys(("board", "cake", "carrot", "cereal", "kiwi", "onion", "peach"), 3),
    **dict.fromkeys(("mug", "plate"), 4),
    "lime": 6,
}
"""The sense of a noun that stands on a table; sense 1 of the others. Screened by us for the suites' nouns."""

# Plurals that are words of their own to WordNet: a game, a garment.
_BASES = {"bowls": "bowl", "drawers": "drawer", "eggs": "egg"}


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


_DETERMINERS = _words("the a an this that these those all both each every one two three four some any")
_PREPOSITIONS = _words(
    "on onto in into inside at to from of off with without next beside between under underneath below above over",
    "behind near by beneath against toward towards along around upon through across",
)
_OTHERS = _words(
    "and or then but so it them its their you your me my i we us please not up out down back away",
    "turned lit opened closed placed located sitting standing lying",
)
_CLOSED = _DETERMINERS | _PREPOSITIONS | _OTHERS
_MODIFIERS = _words(
    "black white red green blue yellow brown grey gray pink purple wooden metal plastic glass ceramic porcelain akita",
    "upper lower middle center central left right front rear back top bottom first second third last big small large",
    "little tall short open closed empty full other same",
)
_RELATIONAL = _words("top bottom front back rear middle center centre left right side inside edge corner")
_CLAUSE_STARTS = frozenset(("and", "then", "please", "to", "or", ",", ".", ";"))

_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[^\w\s]")
_LONGEST = 3
"""Words of the longest collocation that is looked up."""


@dataclass(frozen=True)
class Substitute:
    """A word that may fill a slot, with its relation to the original word and the sense used.

    A verb of `PUBLISHED` that is no neighbour has the relation ``published`` and sense 0.
    """

    word: str
    relation: Relation | Literal["published"]
    sense: int


@dataclass(frozen=True)
class WordSlot:
    """A word or collocation in an instruction that has substitutes.

    Attributes:
        start: index of its first character in the instruction.
        end: index after its last character.
        lemma: its base form.
        part: its part of speech.
        choices: its substitutes as they would be written there, plural for a plural; at least one.
        again: start and end of repeats, which are replaced by the same word, as one slot.
    """

    start: int
    end: int
    lemma: str
    part: PartOfSpeech
    choices: tuple[Substitute, ...]
    again: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class NounPhraseHead:
    """The head of a noun phrase, in base form.

    Attributes:
        lemma: as in WordNet: ``box``.
        compound: with the nouns before it: ``cookie box``.
        phrase: with all words before it except the article: ``small cookie box``.
        plural: whether it is in the plural there.
    """

    lemma: str
    compound: str
    phrase: str
    plural: bool


class Screen(Protocol):
    """A filter for the neighbours that may replace a word, beyond `VERBS` and `NOUN_SENSES`."""

    def verbs(self, verb: str) -> Collection[str]:
        """Return the neighbours that may replace a verb."""

    def nouns(self, noun: NounPhraseHead, wordnet: WordNet) -> Sequence[Substitute]:
        """Return the neighbours that may replace a noun, in the singular."""


def find_slots(
    instruction: str, wordnet: WordNet, avoid: Collection[str] = (), screen: Screen | None = None
) -> tuple[WordSlot, ...]:
    """Return the instruction's slots in order: initial `VERBS`, `PARTICIPLES`, and heads of noun phrases.

    A verb's choices are those of `PUBLISHED`, else of `VERBS`.

    A noun's choices are its neighbours in the sense given by `NOUN_SENSES`, in lower case, without proper names
    (Achaea, a region) and without words that end in another noun of the instruction or in one of `avoid`, so that the
    requested thing does not change. With a screen, the choices are those that the screen allows, and a repeated noun is
    one slot.
    """
    matches = list(_TOKEN.finditer(instruction))
    words = [match.group().lower() for match in matches]
    verbs = _verbs(words)
    participles = _participles(words)
    taken = {index for start, length in (*verbs, *participles) for index in range(start, start + length)}
    nouns = _nouns(words, taken, wordnet)
    heads = {noun.lemma.rpartition(" ")[2] for _, _, noun in nouns}
    others = heads | {name.lower().rpartition(" ")[2] for name in avoid}

    def slot(start: int, length: int, lemma: str, part: PartOfSpeech, choices: Sequence[Substitute]) -> WordSlot:
        return WordSlot(matches[start].start(), matches[start + length - 1].end(), lemma, part, tuple(choices))

    found = [
        slot(start, length, lemma, "verb", _verb_choices(lemma, allowed, wordnet))
        for start, length in verbs
        for lemma in (" ".join(words[start : start + length]),)
        for allowed in (PUBLISHED.get(lemma, VERBS[lemma]) if screen is None else screen.verbs(lemma),)
    ]
    for start, length in participles:
        lemma, forms = PARTICIPLES[" ".join(words[start : start + length])]
        choices = _verb_choices(lemma, forms, wordnet)
        found.append(slot(start, length, lemma, "verb", [replace(each, word=forms[each.word]) for each in choices]))
    first: dict[NounPhraseHead, int] = {}
    for start, length, noun in nouns:
        known = _noun_choices(noun.lemma, wordnet) if screen is None else screen.nouns(noun, wordnet)
        made = slot(start, length, noun.lemma, "noun", _fitting(known, noun, others))
        same = replace(noun, phrase="")
        if screen is not None and same in first:
            found[first[same]] = replace(
                before := found[first[same]],
                again=(*before.again, (made.start, made.end)),
                choices=tuple(choice for choice in before.choices if choice in made.choices),
            )
            continue
        first[same] = len(found)
        found.append(made)
    return tuple(sorted((slot for slot in found if slot.choices), key=lambda slot: slot.start))


def _verbs(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of verbs: index of the first word, and number of words."""
    found = []
    for index in range(len(words)):
        length = next((n for n in (2, 1) if n <= len(words) - index and " ".join(words[index : index + n]) in VERBS), 0)
        if not length:
            continue
        before = words[index - 1] if index else ","
        behind = words[index + length] if index + length < len(words) else ""
        begins = before in _CLAUSE_STARTS
        rules_over = behind in _DETERMINERS or behind in ("it", "them")
        inside = before in _DETERMINERS | _MODIFIERS | (_PREPOSITIONS - {"to"})
        if (begins or rules_over) and not inside:
            found.append((index, length))
    return found


def _participles(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of participles, as `_verbs` does; not if something is turned on its side."""
    found = []
    for index in range(len(words)):
        for length in (1, 2):
            behind = words[index + length] if index + length < len(words) else ""
            alone = length == 1 or behind not in _DETERMINERS | {"its", "their", "your", "my"}
            if len(words) - index >= length and " ".join(words[index : index + length]) in PARTICIPLES and alone:
                found.append((index, length))
    return found


def _nouns(words: Sequence[str], taken: Collection[int], wordnet: WordNet) -> list[tuple[int, int, NounPhraseHead]]:
    """Return the heads of noun phrases: index of the first word, number of words, and the head."""
    found: list[tuple[int, int, NounPhraseHead]] = []
    index = 0
    while index < len(words):
        if _ends_phrase(words, index, taken):
            index += 1
            continue
        start = index
        while index < len(words) and not _ends_phrase(words, index, taken):
            index += 1
        if _opens_phrase(words, start):
            found.extend(_head(words, start, index, wordnet))
    return found


def _ends_phrase(words: Sequence[str], index: int, taken: Collection[int]) -> bool:
    word = words[index]
    return index in taken or (word in _CLOSED and word not in _MODIFIERS) or not word[0].isalnum()


def _opens_phrase(words: Sequence[str], start: int) -> bool:
    """Whether a noun phrase can begin after the preceding word: an article, a preposition, or ``yellow and`` white."""
    before = words[start - 1] if start else ""
    if before in ("and", ","):
        return start > 1 and words[start - 2] in _MODIFIERS
    return before in _DETERMINERS or before in _PREPOSITIONS


def _head(words: Sequence[str], start: int, end: int, wordnet: WordNet) -> Iterable[tuple[int, int, NounPhraseHead]]:
    while end > start and words[end - 1] in _RELATIONAL:
        end -= 1
    before = start
    while start < end - 1 and words[start] in _MODIFIERS:
        start += 1
    if start == end or words[end - 1] in _MODIFIERS:
        return
    for first in range(max(start, end - _LONGEST), end):
        name = " ".join(words[first:end])
        base = _BASES.get(name) or wordnet.base_form(name, "noun")
        if base is not None:
            compound = next((at + 1 for at in range(first - 1, start - 1, -1) if words[at] in _MODIFIERS), start)
            named, phrase = (" ".join((*words[at:first], base)) for at in (compound, before))
            yield first, end - first, NounPhraseHead(base, named, phrase, name != base)
            return


def _verb_choices(verb: str, allowed: Collection[str], wordnet: WordNet) -> list[Substitute]:
    found: dict[str, Substitute] = {}
    for sense in range(1, wordnet.senses(verb, "verb") + 1):
        for neighbour in wordnet.neighbours(verb, "verb", sense):
            if neighbour.word in allowed:
                found.setdefault(neighbour.word, Substitute(neighbour.word, neighbour.relation, sense))
    for word in PUBLISHED.get(verb, ()):
        if word in allowed:
            found.setdefault(word, Substitute(word, "published", 0))
    return [found[word] for word in sorted(found)]


def _noun_choices(noun: str, wordnet: WordNet) -> list[Substitute]:
    """Return all neighbours of a noun in the sense given by `NOUN_SENSES`, without proper names."""
    sense = min(NOUN_SENSES.get(noun, 1), wordnet.senses(noun, "noun"))
    return [
        Substitute(neighbour.word.lower(), neighbour.relation, sense)
        for neighbour in wordnet.neighbours(noun, "noun", sense)
        if " " in neighbour.word or not neighbour.word[0].isupper()
    ]


def _fitting(choices: Iterable[Substitute], noun: NounPhraseHead, others: Collection[str]) -> list[Substitute]:
    """Return the choices as they would be written there, without those that end in one of the other nouns."""
    head, plural = noun.lemma.rpartition(" ")[2], _plural(noun.lemma)
    return [
        replace(choice, word=_plural(choice.word) if noun.plural else choice.word)
        for choice in choices
        for last in (choice.word.rpartition(" ")[2],)
        if choice.word != plural and (last not in others or last == head)
    ]


def _plural(word: str) -> str:
    if re.search(r"[^s]s$", word):
        return word
    if re.search(r"(lf|ife)$", word):
        return re.sub(r"fe?$", "ves", word)
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


LEVELS = (0, 1, 2, 3, 4)
"""How many words are replaced: W0 to W4."""


@dataclass(frozen=True)
class Substitution:
    """One replaced word: its position, the original and new word, and the relation that allows it (`Substitute`)."""

    start: int
    original: str
    substitute: str
    lemma: str
    part: PartOfSpeech
    sense: int
    relation: Relation | Literal["published"]


@dataclass(frozen=True)
class Substituted:
    """An instruction with replaced words; its level is the number of substitutions, in the original text's order.

    Attributes:
        text: as given to the policy.
        original: the instruction at level 0.
        substitutions: the replaced words.
        source: name and version of the WordNet.
    """

    text: str
    original: str
    substitutions: tuple[Substitution, ...]
    source: str


def substitute(
    instruction: str,
    level: int,
    generator: "np.random.Generator",
    wordnet: WordNet,
    avoid: Collection[str] = (),
    screen: Screen | None = None,
) -> Substituted:
    """Replace `level` of the instruction's slots: each subset is equally likely, and each choice for a slot.

    Two different nouns do not become the same word, as box and drawer might become container, if one of them has
    another choice.

    Args:
        instruction: any text; the rest of it is unchanged.
        level: one of `LEVELS`.
        generator: the same state gives the same text.
        wordnet: gives the nouns' neighbours.
        avoid: names of the scene's other things, in which no substitute may end.
        screen: see `find_slots`.

    Raises:
        VlaError: the level is unknown, or the instruction has fewer slots.
    """
    if level not in LEVELS:
        raise VlaError(f"substitution level {level}: expected one of {', '.join(map(str, LEVELS))}")
    slots = find_slots(instruction, wordnet, avoid, screen)
    if level > len(slots):
        names = ", ".join(slot.lemma for slot in slots) or "none"
        most = f"use W{min(len(slots), LEVELS[-1])} or lower" if slots else "no level of word replacement is possible"
        raise VlaError(
            f"W{level} of {instruction!r}: it has {len(slots)} replaceable words ({names}), expected at least {level}; "
            f"{most}"
        )
    some = [slots[index] for index in sorted(generator.permutation(len(slots))[:level].tolist(), reverse=True)]
    return _substituted(instruction, some, lambda choices: choices[int(generator.integers(len(choices)))], wordnet)


def every_substitution(instruction: str, level: int, wordnet: WordNet, screen: Screen) -> Iterator[Substituted]:
    """Yield all texts that `substitute` can draw, each once, in a fixed order; none if there are too few slots."""
    slots = find_slots(instruction, wordnet, screen=screen)
    if level not in LEVELS or level > len(slots):
        return
    seen: set[str] = set()

    def drawn(rng: random.Random) -> Substituted:
        some = rng.sample(range(len(slots)), level)
        return _substituted(instruction, [slots[index] for index in reversed(some)], rng.choice, wordnet)

    for found in every_draw(drawn):
        if found.text not in seen:
            seen.add(found.text)
            yield found


def _substituted(
    instruction: str, slots: Sequence[WordSlot], choose: Callable[[Sequence[Substitute]], Substitute], wordnet: WordNet
) -> Substituted:
    """Return the instruction with these slots replaced; they are given from last to first in the text."""
    done = []
    became: dict[str, str] = {}
    for slot in slots:
        choices = [c for c in slot.choices if became.get(c.word, slot.lemma) == slot.lemma] or slot.choices
        choice = choose(choices)
        became[choice.word] = slot.lemma
        for start, end in ((slot.start, slot.end), *slot.again):
            original = instruction[start:end]
            word = choice.word[0].upper() + choice.word[1:] if original[0].isupper() else choice.word
            done.append(Substitution(start, original, word, slot.lemma, slot.part, choice.sense, choice.relation))
    done.sort(key=lambda each: each.start)
    text = instruction
    for each in reversed(done):
        before = _article(text[: each.start], each.substitute)
        text = before + each.substitute + text[each.start + len(each.original) :]
    return Substituted(text, instruction, tuple(done), f"{wordnet.name} {wordnet.version}")


def _article(before: str, word: str) -> str:
    """Return the text before a substitute, its final ``a`` or ``an`` adapted to the substitute."""
    fit = "an" if word[0].lower() in "aeiou" else "a"
    return re.sub(r"\b([Aa])n?(?=\s+$)", lambda match: match.group(1) + fit[1:], before)


# The screen of our own protocol: WordNet neighbours that keep the task the same.


@dataclass(frozen=True)
class Screened:
    """A `Screen` for a scene: words in ``screened.toml`` that name no other thing there.

    A noun that is in no list and has a single sense may be replaced by synonyms that are not more specific.
    """

    scene: SceneNames

    def verbs(self, verb: str) -> Collection[str]:
        """Return the listed replacements for a verb; none for an unlisted verb."""
        return screened_words()["verbs"].get(verb, ())

    def nouns(self, noun: NounPhraseHead, wordnet: WordNet) -> Sequence[Substitute]:
        """Return the listed replacements for a noun, with the nouns before it, that fit the scene."""
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
    """Return the replacements for ``verbs`` and ``nouns``, as listed in ``screened.toml``."""
    table = tomllib.loads((Path(__file__).parent / "screened.toml").read_text(encoding="utf-8"))
    return {part: {word: tuple(others) for word, others in lists.items()} for part, lists in table.items()}


def _neighbours(noun: str, wordnet: WordNet) -> dict[str, Substitute]:
    """Return a noun's neighbours in all senses, without proper names, each with its first sense."""
    found: dict[str, Substitute] = {}
    for sense in range(1, wordnet.senses(noun, "noun") + 1):
        for neighbour in wordnet.neighbours(noun, "noun", sense):
            if neighbour.word.islower():
                found.setdefault(neighbour.word, Substitute(neighbour.word, neighbour.relation, sense))
    return found

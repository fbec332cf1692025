"""VLA-Arena's W0-W4: K of an instruction's verbs and nouns give way to others (`pytest_vla.language.slots`)."""

import random
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.language.every_draw import every_draw
from pytest_vla.language.slots import Choice, Screen, Slot, find_slots
from pytest_vla.language.wordnet import PartOfSpeech, Relation, WordNet

if TYPE_CHECKING:
    import numpy as np

LEVELS = (0, 1, 2, 3, 4)
"""How many words are replaced: W0 to W4."""


@dataclass(frozen=True)
class Substitution:
    """One replaced word: where it stood, what it was and became, and why that is allowed."""

    start: int
    original: str
    substitute: str
    lemma: str
    part: PartOfSpeech
    sense: int
    relation: Relation


@dataclass(frozen=True)
class Substituted:
    """An instruction of level K = the number of its substitutions, which are in the order of the original text.

    Attributes:
        text: what the policy is told.
        original: what it is told at level 0.
        substitutions: what was replaced.
        source: the WordNet that they come from: name and version.
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
    """Replaces `level` of the instruction's slots: each subset equally likely, and each choice of a slot.

    Two different nouns do not become the same word, as box and drawer might become container, where one of them has
    another choice.

    Args:
        instruction: any text; what is not replaced stays as it is.
        level: one of `LEVELS`.
        generator: the same state gives the same text.
        wordnet: where the nouns' neighbours come from.
        avoid: names of the scene's other things, which no substitute may end in.
        screen: see `find_slots`.

    Raises:
        VlaError: the level is not known, or the instruction has fewer slots.
    """
    if level not in LEVELS:
        raise VlaError(f"substitution level {level}: expected one of {', '.join(map(str, LEVELS))}")
    slots = find_slots(instruction, wordnet, avoid, screen)
    if level > len(slots):
        names = ", ".join(slot.lemma for slot in slots) or "none"
        most = f"ask for W{min(len(slots), LEVELS[-1])} or lower" if slots else "it has no level of them"
        raise VlaError(
            f"W{level} of {instruction!r}: it has {len(slots)} replaceable words ({names}), expected at least {level}; "
            f"{most}"
        )
    some = [slots[index] for index in sorted(generator.permutation(len(slots))[:level].tolist(), reverse=True)]
    return _substituted(instruction, some, lambda choices: choices[int(generator.integers(len(choices)))], wordnet)


def every_substitution(instruction: str, level: int, wordnet: WordNet, screen: Screen) -> Iterator[Substituted]:
    """All that `substitute` can draw, each text once, in one order; none where the instruction has fewer slots."""
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
    instruction: str, slots: Sequence[Slot], choose: Callable[[Sequence[Choice]], Choice], wordnet: WordNet
) -> Substituted:
    """The instruction with these slots replaced, of which the last in the text stands first."""
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
    """The text before a substitute, its last ``a`` or ``an`` made fit for it."""
    fit = "an" if word[0].lower() in "aeiou" else "a"
    return re.sub(r"\b([Aa])n?(?=\s+$)", lambda match: match.group(1) + fit[1:], before)

"""A notation for sentences with their trees: one template is filled in (generation) and matched (parsing).

A template is a row of parts. ``could:aux`` is a word that depends on the phrase's head by ``aux``; ``put*`` is the
head; ``( the:det cup* )dobj`` is a phrase inside the phrase; ``{thing}:dobj`` is a slot, filled by the caller; a slot
without a label is filled with labelled words. ``can|could:aux`` is either word. ``open/ADJ.JJ`` gives the part of
speech and the Penn tag explicitly, instead of the word list's.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

HEAD = "*"
"""The label of a phrase's head, until it hangs from something."""

NO_SPACE_BEFORE = frozenset((",", ".", "?", "!", "n't", "'s", "'m", "'d", "'re", "'ve", "'ll"))


@dataclass(frozen=True)
class Word:
    """A word in a phrase.

    Attributes:
        text: lower-cased.
        pos: universal part of speech.
        tag: Penn tag.
        dep: its dependency label; `HEAD` for the phrase's own head.
        head: index in the phrase of the word that it depends on; its own index for the phrase's head.
    """

    text: str
    pos: str
    tag: str
    dep: str
    head: int


Phrase = tuple[Word, ...]
Hanging = tuple[str, Phrase]
"""A phrase and the label by which it hangs; `HEAD`: the others hang from it."""


@dataclass(frozen=True)
class WordChoice:
    """One of several words with the same label; empty pos and tag mean the word list's."""

    texts: tuple[str, ...]
    pos: str
    tag: str
    dep: str


@dataclass(frozen=True)
class PhraseSlot:
    """A place for a phrase; an empty dep means that the content brings its own labels."""

    name: str
    dep: str


@dataclass(frozen=True)
class PhraseGroup:
    """A phrase inside a phrase."""

    parts: "tuple[Part, ...]"
    dep: str


Part = WordChoice | PhraseSlot | PhraseGroup
Fill = Callable[[str], Sequence[Hanging]]
"""What goes into a slot, by its name."""
Choose = Callable[[Sequence[str]], str]
Describe = Callable[[str], tuple[str, str]]
"""Part of speech and Penn tag of a word that is written without."""


class NotationError(ValueError):
    """An invalid template; the text names it and the reason."""


@cache
def template(text: str) -> tuple[Part, ...]:
    """Parse a template into its parts. Raises NotationError for an unmatched bracket or a word without a label."""
    stack: list[list[Part]] = [[]]
    for piece in text.split():
        if piece == "(":
            stack.append([])
        elif piece.startswith(")"):
            if len(stack) == 1 or len(piece) == 1:
                raise NotationError(f"{text}: {piece} has no opening bracket or no label")
            parts = stack.pop()
            stack[-1].append(PhraseGroup(tuple(parts), piece[1:]))
        else:
            stack[-1].append(_part(piece, text))
    if len(stack) > 1:
        raise NotationError(f"{text}: a bracket is not closed")
    return tuple(stack[0])


def _part(piece: str, text: str) -> Part:
    slot = re.fullmatch(r"\{([\w.+-]+)\}(?:(\*)|:(\w+))?", piece)
    if slot:
        return PhraseSlot(slot[1], slot[2] or slot[3] or "")
    word = re.fullmatch(r"(.+?)(?:/([A-Z]+)\.([A-Z$.,]+))?(?:(\*)|:(\w+))", piece)
    if not word:
        raise NotationError(f"{text}: {piece} has no label")
    return WordChoice(tuple(word[1].split("|")), word[2] or "", word[3] or "", word[4] or word[5])


def filled(parts: Sequence[Part], fill: Fill, choose: Choose, describe: Describe) -> list[Hanging]:
    """Return the parts with their slots filled, in order."""
    hanging: list[Hanging] = []
    for part in parts:
        if isinstance(part, WordChoice):
            hanging.append(_literal(part, choose(part.texts), describe))
        elif isinstance(part, PhraseGroup):
            hanging.append((part.dep, joined(filled(part.parts, fill, choose, describe))))
        else:
            hanging.extend(labelled(part, fill(part.name)))
    return hanging


def slots_of(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the names of all slots, including those in groups."""
    for part in parts:
        if isinstance(part, PhraseSlot):
            yield part.name
        elif isinstance(part, PhraseGroup):
            yield from slots_of(part.parts)


def labelled(slot: PhraseSlot, hanging: Sequence[Hanging]) -> list[Hanging]:
    """Return the content of a slot, with the slot's label if it has one."""
    return [(slot.dep, joined(hanging))] if slot.dep else list(hanging)


def _literal(part: WordChoice, text: str, describe: Describe) -> Hanging:
    pos, tag = (part.pos, part.tag) if part.pos else describe(text)
    return part.dep, (Word(text, pos, tag, HEAD, 0),)


def joined(hanging: Sequence[Hanging]) -> Phrase:
    """Join words into one phrase whose head is labelled `HEAD`. Raises NotationError unless there is one head."""
    if [dep for dep, _ in hanging].count(HEAD) != 1:
        text = " ".join(word.text for _, phrase in hanging for word in phrase)
        raise NotationError(f"{text!r}: expected one head")
    root, start = 0, 0
    for dep, phrase in hanging:
        if dep == HEAD:
            root = start + next(i for i, word in enumerate(phrase) if word.dep == HEAD)
        start += len(phrase)
    words: list[Word] = []
    for dep, phrase in hanging:
        start = len(words)
        for word in phrase:
            if word.dep != HEAD:
                words.append(replace(word, head=start + word.head))
            else:
                words.append(replace(word, dep=dep, head=root))
    return tuple(words)


Find = Callable[[str, int], Iterator[tuple[int, Any]]]
"""Where what a slot stands for can end when it begins at a token, and what it then is."""


def matches(
    parts: Sequence[Part], tokens: Sequence[str], start: int, find: Find
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every match of the parts with the tokens from ``start`` on: the end index, and the slots' values."""
    if not parts:
        yield start, {}
        return
    first, rest = parts[0], parts[1:]
    ways: Iterator[tuple[int, dict[str, Any]]]
    if isinstance(first, WordChoice):
        ways = iter([(start + 1, {})] if start < len(tokens) and tokens[start] in first.texts else [])
    elif isinstance(first, PhraseGroup):
        ways = matches(first.parts, tokens, start, find)
    else:
        name = first.name
        ways = ((end, {name: value}) for end, value in find(name, start))
    for end, values in ways:
        for last, others in matches(rest, tokens, end, find):
            yield last, {**values, **others}


def text_of(words: Sequence[str]) -> str:
    """Join words into text: no space before a comma or a contracted ending."""
    text = ""
    for word in words:
        text += word if not text or word in NO_SPACE_BEFORE else f" {word}"
    return text


def tokens_of(text: str) -> list[str]:
    """Split a text into lower-cased words and marks as spaCy does: ``what's`` is two, ``can't`` is ca and n't."""
    return _TOKEN.findall(text.lower().replace("\u2019", "'"))


_TOKEN = re.compile(r"[^\W_]+?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b|[^\W_]+(?:-[^\W_]+)*|\S")

"""The words of the grammar, screened by hand, as listed in ``lexicon.toml``."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from pytest_vla.language.notation import Part, template

HABITUAL, CONTEXTUAL = "habitual", "contextual"

ADJECTIVES = frozenset(
    ("middle", "top", "bottom", "left", "right", "front", "back", "black", "white", "red", "yellow", "wooden",
     "small", "tall", "soft", "fresh", "smoky", "creamy", "electric", "canned", "tinned", "bottled",
     "boxed", "printed", "sliding", "ceramic")
)  # fmt: skip
"""Of the words before a noun; all others are nouns."""

OF = " of "
"""In a name, between its head and what that is full of: ``bottle of wine``."""

IRREGULAR_PLURALS = {"shelf": "shelves", "dish": "dishes", "box": "boxes"}


@dataclass(frozen=True)
class Action:
    """An action that an instruction can ask for.

    Attributes:
        name: its name in meanings, ``turn on``.
        verbs: its wordings in instructions, with the particle: ``turn on``.
        takes_place: whether it has a target place.
        others: other verbs, by way (`HABITUAL`, `CONTEXTUAL`) and by ``any``, kind of thing or relation.
        states: the states after and before the action; empty if they cannot be expressed.
    """

    name: str
    verbs: tuple[str, ...]
    takes_place: bool
    others: Mapping[str, Mapping[str, tuple[str, ...]]]
    states: tuple[str, ...]

    def other_verbs(self, way: str, kind: str, relation: str) -> tuple[str, ...]:
        """Return the verbs of a way that fit a kind of thing and a relation."""
        by = self.others.get(way, {})
        return tuple(dict.fromkeys(verb for key in ("any", kind, relation) for verb in by.get(key, ())))

    def every_verb(self) -> tuple[str, ...]:
        """Return all verbs that mean the action."""
        others = (verb for by in self.others.values() for verbs in by.values() for verb in verbs)
        return tuple(dict.fromkeys((*self.verbs, *others)))


@dataclass(frozen=True)
class LexiconNoun:
    """A thing's names.

    Attributes:
        name: its name in instructions.
        kind: the kind of thing, if verbs depend on it: drawer or door.
        additions: words that may come right before the name.
        others: other names, by way.
        article: whether it takes an article.
    """

    name: str
    kind: str
    additions: tuple[str, ...]
    others: Mapping[str, tuple[str, ...]]
    article: bool

    def every_name(self) -> tuple[str, ...]:
        """Return all names of the thing."""
        return (self.name, *(name for names in self.others.values() for name in names))


@dataclass(frozen=True)
class Name:
    """A name as it occurs in a text.

    Attributes:
        words: its words.
        called: the alternative name used, or empty for the thing's own name.
        noun: the thing.
        many: whether it is the plural.
    """

    words: tuple[str, ...]
    called: str
    noun: str
    many: bool


@dataclass(frozen=True)
class Relation:
    """A spatial relation, for a target place or to distinguish a thing from others of its name.

    Attributes:
        name: ``on top of``.
        parts: its words and tree, with a slot for the landmark if it has one.
        state: its wording in a sentence about a state.
        landmark: whether there is one.
    """

    name: str
    parts: tuple[Part, ...]
    state: tuple[Part, ...]
    landmark: bool


@dataclass(frozen=True)
class Lexicon:
    """All words: actions, things, relations, details after a name, manners, modifiers."""

    actions: Mapping[str, Action]
    nouns: Mapping[str, LexiconNoun]
    relations: Mapping[str, Relation]
    details: Mapping[str, Relation]
    manners: tuple[str, ...]
    modifiers: tuple[str, ...]
    tags: Mapping[str, tuple[str, str]]

    def describe(self, text: str) -> tuple[str, str]:
        """Return part of speech and Penn tag of a word that templates name without them. Raises KeyError for others."""
        return self.tags[text]

    @cached_property
    def names(self) -> tuple[Name, ...]:
        """Every name of every thing."""
        pairs = [(name, noun.name) for noun in self.nouns.values() for name in noun.every_name()]
        return tuple(
            Name(tuple(text.split()), "" if name == noun else name, noun, many)
            for name, noun in pairs
            for text, many in ((name, False), (plural(name), True))
        )

    @cached_property
    def verbs(self) -> tuple[tuple[str, str, str], ...]:
        """Every verb: base, particle, its action's name."""
        pairs = [(verb, action.name) for action in self.actions.values() for verb in action.every_verb()]
        return tuple((verb.split()[0], " ".join(verb.split()[1:]), action) for verb, action in pairs)


@cache
def lexicon() -> Lexicon:
    """Return the lexicon of this package."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    tags: dict[str, tuple[str, str]] = {}
    for key, texts in table["words"].items():
        pos, tag = key.split(".", 1)
        tags.update((text, (pos, tag)) for text in texts.split())
    tags.update((manner, ("ADV", "RB")) for manner in table["manners"]["any"])
    actions = {
        name: Action(
            name,
            tuple(entry["verbs"]),
            entry.get("place", False),
            {way: {key: tuple(verbs) for key, verbs in entry.get(way, {}).items()} for way in (HABITUAL, CONTEXTUAL)},
            tuple(table["states"].get(name, ())),
        )
        for name, entry in table["actions"].items()
    }
    nouns = {
        name: LexiconNoun(
            name,
            entry.get("kind", ""),
            tuple(entry.get("additions", ())),
            {way: tuple(entry.get(way, ())) for way in (HABITUAL, CONTEXTUAL)},
            entry.get("article", True),
        )
        for name, entry in table["things"].items()
    }
    relations = {
        name: _relation(name, entry["tree"], entry.get("state", "")) for name, entry in table["relations"].items()
    }
    details = {name: _relation(name, tree, "") for name, tree in table["details"].items()}
    modifiers = tuple(table["modifiers"]["names"])
    return Lexicon(actions, nouns, relations, details, tuple(table["manners"]["any"]), modifiers, tags)


def _relation(name: str, tree: str, state: str) -> Relation:
    return Relation(name, template(tree), template(state or tree), "{landmark}" in tree)


def plural(name: str) -> str:
    """Return the plural of a thing's name: ``moka pots``, ``bottles of wine``."""
    named, of, what = name.partition(OF)
    head = named.split()[-1]
    return named[: len(named) - len(head)] + IRREGULAR_PLURALS.get(head, f"{head}s") + of + what

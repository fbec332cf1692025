"""Instructions as commands: parsed from a task's instruction and recognised in every phrasing, by known words."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.language.morphology import inflected
from pytest_vla.language.notation import HEAD, Fill, Hanging, Part, Word, filled, joined, matches, template, tokens_of

# The words of the grammar, screened by hand, as listed in ``lexicon.toml``.

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
    table = tomllib.loads((Path(__file__).parent / "lexicon.toml").read_text(encoding="utf-8"))
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


# The parts of an instruction: clauses with an action, a thing and a place; its meaning has pronouns resolved.

IT, THEM = "it", "them"
PICK_UP, FIND, PUT = "pick up", "find", "put"


@dataclass(frozen=True)
class InstructionObject:
    """The object of an action, or a landmark.

    Attributes:
        noun: its name in the lexicon; `IT` or `THEM` for a thing named before.
        modifiers: distinguishing words before the name: middle, black.
        details: distinguishing phrases after the name.
        many: several of one name: both moka pots.
        others: things named together with it: both the soup and the sauce.
        called: another name for the same noun; with a pronoun: "that drawer". Not part of the meaning, like `addition`.
        addition: an additional word before its name.
    """

    noun: str
    modifiers: tuple[str, ...] = ()
    details: "tuple[Detail, ...]" = ()
    many: bool = False
    others: "tuple[InstructionObject, ...]" = ()
    called: str = field(default="", compare=False)
    addition: str = field(default="", compare=False)

    @property
    def plural(self) -> bool:
        """Whether it takes a verb in the plural."""
        return self.many or bool(self.others) or self.noun == THEM

    @property
    def pronoun(self) -> bool:
        """Whether it was named before."""
        return self.noun in (IT, THEM)


@dataclass(frozen=True)
class Detail:
    """A phrase that distinguishes a thing from others of its name: next to the ramekin; at the back."""

    relation: str
    landmarks: tuple[InstructionObject, ...] = ()


@dataclass(frozen=True)
class InstructionPlace:
    """The target place of a thing; without a landmark, the inside of the thing named before."""

    relation: str
    landmark: InstructionObject | None = None


@dataclass(frozen=True)
class Clause:
    """One action.

    Attributes:
        action: its name in the lexicon.
        thing: the object of the action.
        place: the target, for actions that have one.
        verb: the wording, ``pull open``. Not part of the meaning, like `manner`.
        manner: an adverb before the verb.
    """

    action: str
    thing: InstructionObject
    place: InstructionPlace | None = None
    verb: str = field(default="", compare=False)
    manner: str = field(default="", compare=False)


@dataclass(frozen=True)
class InstructionCommand:
    """An instruction: one clause, or two."""

    clauses: tuple[Clause, ...]

    @property
    def meaning(self) -> tuple[Clause, ...]:
        """The clauses to be done, independent of wording.

        Pronouns are resolved, and clauses that only lead to the next one (pick it up, find it) are left out.
        """
        resolved: list[Clause] = []
        for clause in self.clauses:
            resolved.append(_resolved(clause, resolved[-1] if resolved else None))
        return tuple(
            clause
            for clause, after in zip(resolved, [*resolved[1:], None], strict=True)
            if not (clause.action in (PICK_UP, FIND) and after is not None and after.thing == clause.thing)
        )


def named_before(clause: Clause, before: Clause) -> InstructionObject:
    """Return the object that a clause's "it" or "them" refers to in the clause before it."""
    landmark = before.place.landmark if before.place is not None else None
    if landmark is not None and clause.thing.noun == THEM and not before.thing.plural:
        return replace(before.thing, others=(landmark,))
    # What is closed behind a putting is what something was put into, not what was put.
    return landmark if landmark is not None and clause.thing.noun == IT and clause.place is None else before.thing


def _resolved(clause: Clause, before: Clause | None) -> Clause:
    if before is None:
        return clause
    thing, place = clause.thing, clause.place
    if thing.pronoun:
        thing = named_before(clause, before)
    if place is not None and (place.landmark is None or place.landmark.pronoun):
        place = InstructionPlace("in" if place.landmark is None else place.relation, before.thing)
    return replace(clause, thing=thing, place=place)


# From a command to words with their tree: things, places and clauses in the forms that frames ask for.

FORMS = {"do": "VB", "doing": "VBG", "have_done": "VBN", "done": "VBN", "to_be_done": "VBN"}
"""The forms of a clause, and its verb's tag: put x on y; putting x; (have) put x; x put on y; x to be put on y."""

PASSIVE = frozenset(("done", "to_be_done"))
TAKES_OBJECT = frozenset(("on", "to"))
"""Particles that are prepositions in en_core_web_sm's trees: turn (on the stove)."""


def word(text: str, pos: str, tag: str, dep: str) -> Hanging:
    """Return one word with its dependency label."""
    return dep, (Word(text, pos, tag, HEAD, 0),)


def thing_words(thing: InstructionObject, lexicon: Lexicon, *, subject: bool = False) -> list[Hanging]:
    """Return a thing's words, with the last word of the name as head."""
    if thing.noun == IT and thing.called:
        return [word("that", "DET", "DT", "det"), *_name(thing.called, False)]
    if thing.pronoun:
        return [word("both" if subject and thing.noun == THEM else thing.noun, "PRON", "PRP", HEAD)]
    words: list[Hanging] = []
    noun = lexicon.nouns[thing.noun]
    if thing.others:
        words.append(word("both", "CCONJ", "CC", "preconj"))
    if thing.many:
        words.append(word("both", "DET", "DT", "det"))
    elif noun.article:
        words.append(word("the", "DET", "DT", "det"))
    for modifier in thing.modifiers:
        words.append(_modifier(modifier))
    for text in thing.addition.split():
        words.append(_before_noun(text))
    words += _name(thing.called or thing.noun, thing.many)
    for detail in thing.details:
        relation = lexicon.details[detail.relation]
        words += filled(relation.parts, _landmarks(detail.landmarks, lexicon), _first, lexicon.describe)
    for other in thing.others:
        words += [word("and", "CCONJ", "CC", "cc"), ("conj", joined(thing_words(other, lexicon)))]
    return words


def _landmarks(things: Sequence[InstructionObject], lexicon: Lexicon) -> Fill:
    """Return the content of a landmark slot: the landmarks' words, joined by "and"."""
    words = thing_words(things[0], lexicon) if things else []
    for other in things[1:]:
        words += [word("and", "CCONJ", "CC", "cc"), ("conj", joined(thing_words(other, lexicon)))]
    return lambda _: words


def _first(texts: Sequence[str]) -> str:
    return texts[0]


def _modifier(modifier: str) -> Hanging:
    first, *rest = modifier.split()
    parts = [word(first, "ADJ", "JJ", HEAD)]
    if rest:
        parts += [word("and", "CCONJ", "CC", "cc"), word(rest[-1], "ADJ", "JJ", "conj")]
    return "amod", joined(parts)


def _before_noun(text: str) -> Hanging:
    return word(text, "ADJ", "JJ", "amod") if text in ADJECTIVES else word(text, "NOUN", "NN", "compound")


def _name(name: str, many: bool) -> list[Hanging]:
    named, of, what = (plural(name) if many else name).partition(OF)
    *before, head = named.split()
    words = [*(_before_noun(text) for text in before), word(head, "NOUN", "NNS" if many else "NN", HEAD)]
    if of:
        words.append(("prep", joined([word("of", "ADP", "IN", HEAD), ("pobj", joined(_name(what, False)))])))
    return words


def place_words(place: InstructionPlace | None, lexicon: Lexicon, *, state: bool = False) -> list[Hanging]:
    """Return a place's words, labelled by their dependency on the verb; no words for no place."""
    if place is None:
        return []
    relation = lexicon.relations[place.relation]
    parts = relation.state if state else relation.parts
    landmarks = (place.landmark,) if place.landmark is not None else ()
    return filled(parts, _landmarks(landmarks, lexicon), _first, lexicon.describe)


def verb_words(verb: str, tag: str) -> list[Hanging]:
    """Return a verb in a form, as head, followed by its particle."""
    base, _, particle = verb.partition(" ")
    words = [word(inflected(base, tag), "VERB", tag, HEAD)]
    return [*words, _particle(particle)] if particle else words


def _particle(particle: str) -> Hanging:
    if particle in ("open", "shut"):
        return word(particle, "ADJ", "JJ", "prt")
    return word(particle, "ADP", "RP", "prt")


def clause_words(clause: Clause, form: str, lexicon: Lexicon) -> list[Hanging]:
    """Return a clause in one of `FORMS`, with its verb as head."""
    tag = FORMS[form]
    place = place_words(clause.place, lexicon)
    if form in PASSIVE:
        subject = joined(thing_words(clause.thing, lexicon, subject=True))
        if form == "done":
            return [("nsubj", subject), *verb_words(clause.verb, tag), *place]
        be = [word("to", "PART", "TO", "aux"), word("be", "AUX", "VB", "auxpass")]
        return [("nsubjpass", subject), *be, *verb_words(clause.verb, tag), *place]
    thing = thing_words(clause.thing, lexicon)
    manner = [word(clause.manner, "ADV", "RB", "advmod")] if clause.manner else []
    base, _, particle = clause.verb.partition(" ")
    verb = word(inflected(base, tag), "VERB", tag, HEAD)
    if not particle:
        return [*manner, verb, ("dobj", joined(thing)), *place]
    if clause.thing.pronoun:
        return [*manner, verb, ("dobj", joined(thing)), _particle(particle), *place]
    if particle in TAKES_OBJECT:
        phrase = joined([word(particle, "ADP", "IN", HEAD), ("pobj", joined(thing))])
        return [*manner, verb, ("prep", phrase), *place]
    return [*manner, verb, _particle(particle), ("dobj", joined(thing)), *place]


def clauses_words(clauses: Sequence[Clause], form: str, lexicon: Lexicon) -> list[Hanging]:
    """Join clauses in a form by "and"; the first clause's verb is the head."""
    words = clause_words(clauses[0], form, lexicon)
    for clause in clauses[1:]:
        words += [word("and", "CCONJ", "CC", "cc"), ("conj", joined(clause_words(clause, form, lexicon)))]
    return words


# From words to things, places and clauses: every reading of a row of tokens.

OF_WORD = "of"
"""The one detail with a landmark of its own that a landmark has: "on the stove on the plate" is two places, not one."""

AGREEING = {
    "is": ("is", "are"),
    "has": ("has", "have"),
    "does": ("does", "do"),
    "needs": ("needs", "need"),
    "belongs": ("belongs", "belong"),
}
"""Verbs that are as their subject is, one or many."""


@dataclass(frozen=True)
class Verb:
    """A verb as parsed; `late` means that its particle is still to come."""

    action: str
    text: str
    late: str = ""


@dataclass(frozen=True)
class Reader:
    """A parser over a row of tokens; its methods yield pairs: the end index and the parsed part."""

    tokens: tuple[str, ...]
    lexicon: Lexicon

    @cached_property
    def _names(self) -> list[Name]:
        known = set(self.tokens)
        return [name for name in self.lexicon.names if known.issuperset(name.words)]

    def at(self, index: int, *words: str) -> bool:
        """Whether the tokens at an index are these words."""
        return self.tokens[index : index + len(words)] == words

    def things(
        self, start: int, *, subject: bool = False, landmark: bool = False
    ) -> Iterator[tuple[int, InstructionObject]]:
        """Parse things: pronouns, "the middle drawer of the cabinet", "both the soup and the sauce"."""
        for pronoun in (IT, THEM):
            if self.at(start, "both" if subject and pronoun == THEM else pronoun):
                yield start + 1, InstructionObject(pronoun)
        if self.at(start, "that"):
            for end, name, addition in self._named(start + 1):
                if not name.many and not addition:
                    yield end, InstructionObject(IT, called=name.called or name.noun)
        if self.at(start, "both", "the"):
            for middle, first in self._single(start + 1, landmark):
                if self.at(middle, "and", "the"):
                    for end, second in self._single(middle + 1, landmark):
                        yield end, replace(first, others=(second,))
        else:
            yield from self._single(start, landmark)

    def _single(self, start: int, landmark: bool) -> Iterator[tuple[int, InstructionObject]]:
        article, both = self.at(start, "the"), self.at(start, "both")
        for middle, modifiers in self._modifiers(start + (article or both)):
            for end, name, addition in self._named(middle):
                if name.many == both and (both or article == self.lexicon.nouns[name.noun].article):
                    thing = InstructionObject(name.noun, modifiers, (), name.many, (), name.called, addition)
                    yield from self._detailed(end, thing, landmark)

    def _modifiers(self, start: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        yield start, ()
        for modifier in self.lexicon.modifiers:
            words = modifier.split()
            if self.at(start, *words):
                for end, others in self._modifiers(start + len(words)):
                    yield end, (modifier, *others)

    def _named(self, start: int) -> Iterator[tuple[int, Name, str]]:
        for name in self._names:
            if self.at(start, *name.words):
                yield start + len(name.words), name, ""
            for addition in self.lexicon.nouns[name.noun].additions:
                if self.at(start, addition, *name.words):
                    yield start + 1 + len(name.words), name, addition

    def _detailed(
        self, start: int, thing: InstructionObject, landmark: bool
    ) -> Iterator[tuple[int, InstructionObject]]:
        yield start, thing
        for relation in self.lexicon.details.values():
            if landmark and relation.landmark and relation.name != OF_WORD:
                continue
            for end, values in matches(relation.parts, self.tokens, start, lambda _, at: self._landmarks(at)):
                landmarks = values.get("landmark", ())
                if (relation.name == "between") == (len(landmarks) > 1):
                    yield end, replace(thing, details=(Detail(relation.name, landmarks),))

    def _landmarks(self, start: int) -> Iterator[tuple[int, tuple[InstructionObject, ...]]]:
        for end, thing in self.things(start, landmark=True):
            yield end, (thing,)
            if self.at(end, "and"):
                for last, other in self.things(end + 1, landmark=True):
                    yield last, (thing, other)

    def places(self, start: int, *, state: bool = False) -> Iterator[tuple[int, InstructionPlace]]:
        """Parse places: "on top of the cabinet", "inside"."""
        for relation in self.lexicon.relations.values():
            parts = relation.state if state else relation.parts
            find = lambda _, at: self.things(at, landmark=True)  # noqa: E731
            for end, values in matches(parts, self.tokens, start, find):
                yield end, InstructionPlace(relation.name, values.get("landmark"))

    def verbs(self, start: int, tag: str) -> Iterator[tuple[int, Verb]]:
        """Parse verbs in a form, with their particle or with the particle still to come."""
        for base, particle, action in self.lexicon.verbs:
            if start < len(self.tokens) and self.tokens[start] == inflected(base, tag):
                if not particle:
                    yield start + 1, Verb(action, base)
                    continue
                if self.at(start + 1, particle):
                    yield start + 2, Verb(action, f"{base} {particle}")
                yield start + 1, Verb(action, f"{base} {particle}", particle)

    def clauses(self, start: int, form: str) -> Iterator[tuple[int, tuple[Clause, ...]]]:
        """Parse one clause, or two joined by "and", in one of `FORMS`."""
        for end, clause in self.clause(start, form):
            yield end, (clause,)
            if self.at(end, "and"):
                for last, other in self.clause(end + 1, form):
                    yield last, (clause, other)

    def clause(self, start: int, form: str) -> Iterator[tuple[int, Clause]]:
        """Parse a clause in one of `FORMS`."""
        if form in PASSIVE:
            for after_thing, thing in self.things(start, subject=True):
                if form == "to_be_done":
                    if not self.at(after_thing, "to", "be"):
                        continue
                    after_thing += 2
                for after_verb, verb in self.verbs(after_thing, FORMS[form]):
                    if not verb.late:
                        yield from self._ended(after_verb, verb, thing, "")
            return
        manner = self.tokens[start] if start < len(self.tokens) and self.tokens[start] in self.lexicon.manners else ""
        for after_verb, verb in self.verbs(start + bool(manner), FORMS[form]):
            for after_thing, thing in self.things(after_verb):
                if not verb.late and not (" " in verb.text and thing.noun in (IT, THEM) and not thing.called):
                    yield from self._ended(after_thing, verb, thing, manner)
                elif verb.late and thing.pronoun and self.at(after_thing, verb.late):
                    yield from self._ended(after_thing + 1, verb, thing, manner)

    def _ended(self, start: int, verb: Verb, thing: InstructionObject, manner: str) -> Iterator[tuple[int, Clause]]:
        if not self.lexicon.actions[verb.action].takes_place:
            yield start, Clause(verb.action, thing, None, verb.text, manner)
            return
        for end, place in self.places(start):
            yield end, Clause(verb.action, thing, place, verb.text, manner)

    def states(self, start: int, *, done: bool) -> Iterator[tuple[int, tuple[str, InstructionPlace | None]]]:
        """Parse an action's goal state (open, on the plate), or its opposite (closed) if `done` is False."""
        for action in self.lexicon.actions.values():
            if action.states and self.at(start, action.states[0 if done else 1]):
                yield start + 1, (action.name, None)
        if done:
            for end, place in self.places(start, state=True):
                yield end, (PUT, place)

    @cached_property
    def _slots(self) -> dict[tuple[str, int], list[tuple[int, Any]]]:
        return {}

    def slot(self, name: str, start: int) -> Iterator[tuple[int, Any]]:
        """Parse a frame's slot; see ``frames.toml``. Raises KeyError for an unknown slot."""
        # Many frames ask for the same at the same word.
        kind = name.removeprefix("first.").removeprefix("second.").rstrip("12")
        key = (kind if name != kind and "." in name else f"{kind}+", start)
        if key not in self._slots:
            self._slots[key] = list(self._slot(name, kind, start))
        return iter(self._slots[key])

    def _slot(self, name: str, kind: str, start: int) -> Iterator[tuple[int, Any]]:
        if kind in FORMS:
            yield from (self.clauses if name == kind else self.clause)(start, kind)
        elif kind in AGREEING:
            yield from ((start + 1, form) for form in AGREEING[kind] if self.at(start, form))
        elif kind == "thing":
            yield from self.things(start, subject=True)
        elif kind == "participle":
            yield from ((end, verb) for end, verb in self.verbs(start, "VBN") if not verb.late)
        elif kind == "place":
            yield start, None
            yield from self.places(start)
        elif kind in ("state", "unstate"):
            yield from self.states(start, done=kind == "state")
        else:
            raise KeyError(name)


def clauses_of(values: dict[str, Any], lexicon: Lexicon) -> tuple[Clause, ...] | None:
    """Return the clauses made from a frame's slots, or None if they do not fit, such as an action without its place."""
    for form in FORMS:
        if form in values:
            clauses: tuple[Clause, ...] = values[form]
            return clauses
    for first, second in ((f"first.{form}", f"second.{other}") for form in FORMS for other in FORMS):
        if first in values and second in values:
            return (values[first], values[second])
    found = []
    for number in ("1", "2"):
        if f"thing{number}" not in values:
            break
        thing, place = values[f"thing{number}"], values.get(f"place{number}")
        state = values.get(f"state{number}") or values.get(f"unstate{number}")
        if state is not None:
            action, place = state
        else:
            action = values[f"participle{number}"].action if f"participle{number}" in values else PUT
        if lexicon.actions[action].takes_place != (place is not None):
            return None
        found.append(Clause(action, thing, place))
    return tuple(found)


SAID = "said"
"""The frame of an instruction as suites have it: the command itself."""


@cache
def frames() -> Mapping[str, tuple[tuple[Part, ...], ...]]:
    """Return the frames for phrasing a command, by action type; `SAID` for the command itself."""
    table = tomllib.loads((Path(__file__).parent / "frames.toml").read_text(encoding="utf-8"))
    return {name: tuple(template(line) for line in lines) for name, lines in table.items()}


def read(instruction: str) -> InstructionCommand:
    """Parse an instruction into its command.

    Raises:
        VlaError: the grammar does not know one of its words, or finds no reading or more than one.
    """
    reader = Reader(tuple(tokens_of(instruction)), lexicon())
    size = len(reader.tokens)
    commands = {InstructionCommand(clauses): None for end, clauses in reader.clauses(0, "do") if end == size}
    if len(commands) != 1:
        found = "more than one reading" if commands else "no reading" + _unknown(reader)
        raise VlaError(
            f"the instruction {instruction!r} has {found} in the grammar of pytest_vla.language. The grammar covers "
            "putting, pushing, picking up, opening, closing, and turning on or off the things in lexicon.toml."
        )
    return next(iter(commands))


def _unknown(reader: Reader) -> str:
    words = lexicon()
    known = set(words.tags)
    known.update(word for name in words.names for word in name.words)
    known.update(word for base, particle, _ in words.verbs for word in (base, *particle.split()))
    known.update(word for modifier in words.modifiers for word in modifier.split())
    known.update(word for relation in words.relations for word in relation.split())
    known.update(word for detail in words.details for word in detail.split())
    unknown = [token for token in reader.tokens if token not in known]
    return f" (unknown: {', '.join(unknown)})" if unknown else ""


@lru_cache(4096)
def meanings(text: str) -> frozenset[tuple[Clause, ...]]:
    """Return every meaning of a text in any phrasing of the grammar; empty for a text that it does not know."""
    return frozenset(InstructionCommand(clauses).meaning for clauses in _readings(text))


def _readings(text: str) -> Iterator[tuple[Clause, ...]]:
    reader = Reader(tuple(tokens_of(text)), lexicon())
    for several in frames().values():
        for parts in several:
            for end, values in matches(parts, reader.tokens, 0, reader.slot):
                if end == len(reader.tokens):
                    clauses = clauses_of(values, reader.lexicon)
                    if clauses is not None:
                        yield clauses

"""From words to things, places and clauses: every way in which a row of tokens can be one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pytest_vla.language.command import IT, PUT, THEM, Clause, Detail, Place, Thing
from pytest_vla.language.lexicon import Lexicon, Name
from pytest_vla.language.morphology import inflected
from pytest_vla.language.notation import matches
from pytest_vla.language.wording import FORMS, PASSIVE

OF = "of"
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
    """A verb as it was read; late: its particle is still to come."""

    action: str
    text: str
    late: str = ""


@dataclass(frozen=True)
class Reader:
    """A row of tokens, and what its parts can be. All methods give pairs: the end, and what it is."""

    tokens: tuple[str, ...]
    lexicon: Lexicon

    @cached_property
    def _names(self) -> list[Name]:
        known = set(self.tokens)
        return [name for name in self.lexicon.names if known.issuperset(name.words)]

    def at(self, index: int, *words: str) -> bool:
        """Whether these words stand there."""
        return self.tokens[index : index + len(words)] == words

    def things(self, start: int, *, subject: bool = False, landmark: bool = False) -> Iterator[tuple[int, Thing]]:
        """Things: pronouns, "the middle drawer of the cabinet", "both the soup and the sauce"."""
        for pronoun in (IT, THEM):
            if self.at(start, "both" if subject and pronoun == THEM else pronoun):
                yield start + 1, Thing(pronoun)
        if self.at(start, "that"):
            for end, name, addition in self._named(start + 1):
                if not name.many and not addition:
                    yield end, Thing(IT, called=name.called or name.noun)
        if self.at(start, "both", "the"):
            for middle, first in self._single(start + 1, landmark):
                if self.at(middle, "and", "the"):
                    for end, second in self._single(middle + 1, landmark):
                        yield end, replace(first, others=(second,))
        else:
            yield from self._single(start, landmark)

    def _single(self, start: int, landmark: bool) -> Iterator[tuple[int, Thing]]:
        article, both = self.at(start, "the"), self.at(start, "both")
        for middle, modifiers in self._modifiers(start + (article or both)):
            for end, name, addition in self._named(middle):
                if name.many == both and (both or article == self.lexicon.nouns[name.noun].article):
                    thing = Thing(name.noun, modifiers, (), name.many, (), name.called, addition)
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

    def _detailed(self, start: int, thing: Thing, landmark: bool) -> Iterator[tuple[int, Thing]]:
        yield start, thing
        for relation in self.lexicon.details.values():
            if landmark and relation.landmark and relation.name != OF:
                continue
            for end, values in matches(relation.parts, self.tokens, start, lambda _, at: self._landmarks(at)):
                landmarks = values.get("landmark", ())
                if (relation.name == "between") == (len(landmarks) > 1):
                    yield end, replace(thing, details=(Detail(relation.name, landmarks),))

    def _landmarks(self, start: int) -> Iterator[tuple[int, tuple[Thing, ...]]]:
        for end, thing in self.things(start, landmark=True):
            yield end, (thing,)
            if self.at(end, "and"):
                for last, other in self.things(end + 1, landmark=True):
                    yield last, (thing, other)

    def places(self, start: int, *, state: bool = False) -> Iterator[tuple[int, Place]]:
        """Places: "on top of the cabinet", "inside"."""
        for relation in self.lexicon.relations.values():
            parts = relation.state if state else relation.parts
            find = lambda _, at: self.things(at, landmark=True)  # noqa: E731
            for end, values in matches(parts, self.tokens, start, find):
                yield end, Place(relation.name, values.get("landmark"))

    def verbs(self, start: int, tag: str) -> Iterator[tuple[int, Verb]]:
        """Verbs in a form, with their particle or without it yet."""
        for base, particle, action in self.lexicon.verbs:
            if start < len(self.tokens) and self.tokens[start] == inflected(base, tag):
                if not particle:
                    yield start + 1, Verb(action, base)
                    continue
                if self.at(start + 1, particle):
                    yield start + 2, Verb(action, f"{base} {particle}")
                yield start + 1, Verb(action, f"{base} {particle}", particle)

    def clauses(self, start: int, form: str) -> Iterator[tuple[int, tuple[Clause, ...]]]:
        """One clause or two joined by "and", in one of `FORMS`."""
        for end, clause in self.clause(start, form):
            yield end, (clause,)
            if self.at(end, "and"):
                for last, other in self.clause(end + 1, form):
                    yield last, (clause, other)

    def clause(self, start: int, form: str) -> Iterator[tuple[int, Clause]]:
        """A clause in one of `FORMS`."""
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

    def _ended(self, start: int, verb: Verb, thing: Thing, manner: str) -> Iterator[tuple[int, Clause]]:
        if not self.lexicon.actions[verb.action].takes_place:
            yield start, Clause(verb.action, thing, None, verb.text, manner)
            return
        for end, place in self.places(start):
            yield end, Clause(verb.action, thing, place, verb.text, manner)

    def states(self, start: int, *, done: bool) -> Iterator[tuple[int, tuple[str, Place | None]]]:
        """What is so when an action is done (open, on the plate), or what is while it is not (closed)."""
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
        """What a frame's slot can be; see ``frames.toml``. Raises KeyError for an unknown slot."""
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
    """The clauses that a frame's slots make; None where they do not fit: an action without the place that it takes."""
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

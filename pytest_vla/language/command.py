"""What an instruction says: clauses of an action, a thing and a place; and what it means, pronouns resolved."""

from dataclasses import dataclass, field, replace

IT, THEM = "it", "them"
PICK_UP, FIND, PUT = "pick up", "find", "put"


@dataclass(frozen=True)
class Thing:
    """What an action is done to, or where.

    Attributes:
        noun: the lexicon's name for it; `IT` or `THEM`: what was named before.
        modifiers: what tells it from its like, before its name: middle, black.
        details: what tells it from its like, behind its name.
        many: several of one name: both moka pots.
        others: named with it: both the soup and the sauce.
        called: another name for the same; with a pronoun: "that drawer". No part of the meaning, as what follows.
        addition: a word more before its name.
    """

    noun: str
    modifiers: tuple[str, ...] = ()
    details: "tuple[Detail, ...]" = ()
    many: bool = False
    others: "tuple[Thing, ...]" = ()
    called: str = field(default="", compare=False)
    addition: str = field(default="", compare=False)

    @property
    def plural(self) -> bool:
        """Whether its verb is in the plural."""
        return self.many or bool(self.others) or self.noun == THEM

    @property
    def pronoun(self) -> bool:
        """Whether it was named before."""
        return self.noun in (IT, THEM)


@dataclass(frozen=True)
class Detail:
    """What tells a thing from its like: next to the ramekin; at the back."""

    relation: str
    landmarks: tuple[Thing, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where a thing goes; no landmark: inside of what was named before."""

    relation: str
    landmark: Thing | None = None


@dataclass(frozen=True)
class Clause:
    """One action.

    Attributes:
        action: the lexicon's name for it.
        thing: to what.
        place: to where, for actions that have it.
        verb: how it is said, ``pull open``. No part of the meaning, as what follows.
        manner: an adverb before the verb.
    """

    action: str
    thing: Thing
    place: Place | None = None
    verb: str = field(default="", compare=False)
    manner: str = field(default="", compare=False)


@dataclass(frozen=True)
class Command:
    """An instruction: one clause, or two."""

    clauses: tuple[Clause, ...]

    @property
    def meaning(self) -> tuple[Clause, ...]:
        """What is to be done, whatever it is called: pronouns resolved, and without clauses that only lead to the
        next (pick it up, find it)."""
        resolved: list[Clause] = []
        for clause in self.clauses:
            resolved.append(_resolved(clause, resolved[-1] if resolved else None))
        return tuple(
            clause
            for clause, after in zip(resolved, [*resolved[1:], None], strict=True)
            if not (clause.action in (PICK_UP, FIND) and after is not None and after.thing == clause.thing)
        )


def named_before(clause: Clause, before: Clause) -> Thing:
    """What a clause's "it" or "them" is, by the clause before it."""
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
        place = Place("in" if place.landmark is None else place.relation, before.thing)
    return replace(clause, thing=thing, place=place)

"""Paraphrases of a suite's instructions in LIBERO-Para's two axes (arXiv 2603.28301), from a grammar, offline."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from pytest_vla.errors import VlaError
from pytest_vla.language.grammar import (
    AGREEING,
    CONTEXTUAL,
    FIND,
    FORMS,
    HABITUAL,
    IT,
    PICK_UP,
    PUT,
    SAID,
    THEM,
    Clause,
    Detail,
    InstructionCommand,
    InstructionObject,
    InstructionPlace,
    Lexicon,
    clause_words,
    clauses_words,
    frames,
    lexicon,
    meanings,
    named_before,
    place_words,
    read,
    thing_words,
    verb_words,
    word,
)
from pytest_vla.language.morphology import lemma
from pytest_vla.language.notation import HEAD, Hanging, Part, Phrase, filled, joined, slots_of, text_of
from pytest_vla.language.scene_names import SceneNames
from pytest_vla.language.similarity import Sentence, Token
from pytest_vla.language.wordnet import best_wordnet
from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES
from pytest_vla.util.enumerate_choices import every_draw

ADDITION = "addition_deletion"
WAYS = {"same_polarity_contextual": CONTEXTUAL, "same_polarity_habitual": HABITUAL}
"""The lexicon's word for a type: by a name or verb that fits here, or by an everyday one."""

LEXICAL = (ADDITION, *WAYS)
"""Types of either axis that change words and no more."""

CELLS = tuple((thing, action) for thing in OBJECT_TYPES for action in ACTION_TYPES if (thing, action) != (NONE, NONE))
"""LIBERO-Para's 43 cells: object type and action type."""

TRIES = 40
"""Draws for each paraphrase that is asked for; a small cell runs dry before."""


@dataclass(frozen=True)
class GeneratedParaphrase:
    """A paraphrase of an instruction.

    Attributes:
        text: as given to the policy.
        object_type: one of `pytest_vla.metrics.pride.OBJECT_TYPES`.
        action_type: one of its `ACTION_TYPES`.
        tree: its words, parsed in the style of our parsers.
    """

    text: str
    object_type: str
    action_type: str
    tree: Sentence


def paraphrases(
    instruction: str,
    others: Iterable[str],
    rng: random.Random,
    count: int,
    object_type: str,
    action_type: str,
    scene: SceneNames | None = None,
) -> list[str]:
    """Draw up to ``count`` different texts in a cell that mean the same as an instruction, in the order drawn.

    A cell may have fewer texts than ``count``.

    Args:
        instruction: the task's.
        others: the instructions of the suite's other tasks; no paraphrase equals one or shares the meaning of a
            different one.
        rng: the same state gives the same texts.
        count: the number of texts wanted.
        object_type: one of `pytest_vla.metrics.pride.OBJECT_TYPES`.
        action_type: one of its `ACTION_TYPES`; not both ``none``.
        scene: the names of the scene's things: no paraphrase uses a name that could also mean another thing there. If
            None, all names in the lexicon are allowed.

    Raises:
        VlaError: there is no such cell, or the grammar cannot read the instruction.
    """
    return [variant.text for variant in variants(instruction, others, rng, count, object_type, action_type, scene)]


def variants(
    instruction: str,
    others: Iterable[str],
    rng: random.Random,
    count: int,
    object_type: str,
    action_type: str,
    scene: SceneNames | None = None,
) -> list[GeneratedParaphrase]:
    """Draw paraphrases as `paraphrases` does, with their trees."""
    _check_cell(object_type, action_type)
    command = read(instruction)
    draws = (said(command, rng, object_type, action_type, scene) for _ in range(count * TRIES))
    return list(islice(_usable(command, draws, (instruction, *others), object_type, action_type), count))


def every_variant(
    instruction: str, others: Iterable[str], object_type: str, action_type: str, scene: SceneNames | None = None
) -> list[GeneratedParaphrase]:
    """Return all that `variants` can draw in a cell, each text once, in a fixed order. Args and errors as there."""
    _check_cell(object_type, action_type)
    command = read(instruction)
    draws = every_draw(lambda rng: said(command, rng, object_type, action_type, scene))
    return list(_usable(command, draws, (instruction, *others), object_type, action_type))


def _check_cell(object_type: str, action_type: str) -> None:
    if (object_type, action_type) not in CELLS:
        raise VlaError(
            f"there is no cell {object_type}/{action_type}. Object types: {', '.join(OBJECT_TYPES)}; action types: "
            f"{', '.join(ACTION_TYPES)}; one of the two must not be none."
        )


def _usable(
    command: InstructionCommand,
    draws: Iterable[Phrase | None],
    known: Iterable[str],
    object_type: str,
    action_type: str,
) -> Iterator[GeneratedParaphrase]:
    """Yield the paraphrases that mean what the command does, each text once, without known texts."""
    taken = {text.lower() for text in known}
    for phrase in draws:
        if phrase is None:
            continue
        text = _written(phrase, plain=action_type in (NONE, *LEXICAL))
        # One meaning, the instruction's: so no instruction that means another thing has the same paraphrase.
        if text.lower() in taken or meanings(text) != {command.meaning}:
            continue
        taken.add(text.lower())
        yield GeneratedParaphrase(text, object_type, action_type, tree_of(phrase))


def tree_of(phrase: Phrase) -> Sentence:
    """Return a phrase as a parsed sentence, with lemmas and ``ROOT``."""
    return tuple(
        Token(
            entry.text,
            lemma(entry.text, entry.pos, entry.tag),
            entry.pos,
            "ROOT" if entry.dep == HEAD else entry.dep,
            entry.head,
        )
        for entry in phrase
    )


def _written(phrase: Phrase, *, plain: bool) -> str:
    """Format a phrase: a plain command in lower case, as suites write theirs, any other as a sentence."""
    texts = [entry.text for entry in phrase]
    if plain:
        return text_of(texts)
    text = text_of([text if text != "i" else "I" for text in texts])
    return text[0].upper() + text[1:]


def said(
    command: InstructionCommand, rng: random.Random, object_type: str, action_type: str, scene: SceneNames | None = None
) -> Phrase | None:
    """Draw one phrasing of a command in a cell, with its tree; None if this draw found none."""
    words = lexicon()
    clauses: Sequence[Clause] | None = command.clauses
    if object_type != NONE:
        clauses = _things_said_otherwise(command.clauses, rng, object_type, words, scene)
    if clauses is not None and action_type in LEXICAL:
        clauses = _actions_said_otherwise(clauses, rng, action_type, words)
    if clauses is None:
        return None
    several = frames()[SAID if action_type in (NONE, *LEXICAL) else action_type]
    usable = [parts for parts in several if _fits(parts, clauses, words)]
    if not usable:
        return None
    parts = rng.choice(usable)
    named = set(slots_of(parts))
    if any(name.startswith("first.") for name in named):
        clauses = _in_two(clauses, rng)
    elif not named & {"do", "doing"}:
        clauses = _told(clauses)
    fill = _filler(clauses, rng, words)
    return joined(filled(parts, fill, rng.choice, words.describe))


def _fits(parts: tuple[Part, ...], clauses: Sequence[Clause], words: Lexicon) -> bool:
    """Whether a frame can express these clauses."""
    named = set(slots_of(parts))
    told = _told(clauses)
    if not any(name[-1] in "12" for name in named):
        return True
    if ("thing2" in named) != (len(told) == 2):
        return False
    for index, clause in enumerate(told, 1):
        states = words.actions[clause.action].states
        if f"state{index}" in named and clause.action != PUT and not states:
            return False
        if f"unstate{index}" in named and not states:
            return False
        if f"participle{index}" not in named and f"place{index}" in named and clause.action != PUT:
            return False
    return True


def _filler(clauses: Sequence[Clause], rng: random.Random, words: Lexicon) -> Callable[[str], list[Hanging]]:
    def fill(name: str) -> list[Hanging]:
        order, _, form = name.rpartition(".")
        if order:
            return clause_words(clauses[0 if order == "first" else 1], form, words)
        if name in FORMS:
            return clauses_words(clauses, name, words)
        clause = clauses[1 if name.endswith("2") else 0]
        kind = name.rstrip("12")
        if kind in AGREEING:
            text = AGREEING[kind][clause.thing.plural]
            pos = "AUX" if kind in ("is", "has", "does") else "VERB"
            return [word(text, pos, "VBP" if clause.thing.plural else "VBZ", HEAD)]
        if kind == "thing":
            return thing_words(clause.thing, words, subject=True)
        if kind == "participle":
            return verb_words(clause.verb, "VBN")
        if kind == "place":
            return place_words(clause.place, words)
        if clause.place is not None:
            return place_words(clause.place, words, state=True)
        return [word(words.actions[clause.action].states[kind == "unstate"], "ADJ", "JJ", "acomp")]

    return fill


def _told(clauses: Sequence[Clause]) -> tuple[Clause, ...]:
    """Return the clauses for a sentence about things: no lead-in ("pick it up and"), no "it" for one of two."""
    if clauses[0].action == PICK_UP and len(clauses) == 2 and clauses[1].thing.pronoun:
        return (replace(clauses[1], thing=clauses[0].thing),)
    if len(clauses) == 2 and clauses[1].thing.noun == IT:
        meant = named_before(clauses[1], clauses[0])
        # "The microwave" is short enough to be said again; "the top drawer of the cabinet" becomes "that drawer".
        long = meant.modifiers or meant.details or meant.others or meant.many
        again = InstructionObject(IT, called=meant.called or meant.noun) if long else meant
        return (clauses[0], replace(clauses[1], thing=again))
    return tuple(clauses)


def _in_two(clauses: Sequence[Clause], rng: random.Random) -> tuple[Clause, ...]:
    """Split the command into two clauses: finding or picking up the thing, and the action on it."""
    if len(clauses) == 2:
        return tuple(clauses)
    clause = clauses[0]
    words = lexicon()
    if clause.action == PUT:
        action = PICK_UP
        verb = rng.choice(words.actions[PICK_UP].every_verb())
    else:
        action = FIND
        verb = rng.choice(words.actions[FIND].verbs)
    first = Clause(action, clause.thing, None, verb)
    return (first, replace(clause, thing=InstructionObject(THEM if clause.thing.plural else IT)))


def _actions_said_otherwise(
    clauses: Sequence[Clause], rng: random.Random, way: str, words: Lexicon
) -> tuple[Clause, ...] | None:
    """Return the clauses with an adverb or other verbs in one or both of them, or None if there are no other verbs."""
    if way == ADDITION:
        manners = words.manners
        chosen = rng.randrange(len(clauses))
        return tuple(
            replace(clause, manner=rng.choice(manners)) if index == chosen else clause
            for index, clause in enumerate(clauses)
        )
    changed = []
    for index, clause in enumerate(clauses):
        thing = named_before(clause, clauses[index - 1]) if clause.thing.pronoun else clause.thing
        relation = clause.place.relation.split()[0].removesuffix("side") if clause.place is not None else ""
        verbs = words.actions[clause.action].other_verbs(WAYS[way], words.nouns[thing.noun].kind, relation)
        others = [verb for verb in verbs if verb != clause.verb]
        changed.append(replace(clause, verb=rng.choice(others)) if others else clause)
    keep = rng.randrange(-1, len(clauses)) if len(clauses) > 1 else -1
    told = tuple(old if index == keep else new for index, (old, new) in enumerate(zip(clauses, changed, strict=True)))
    return told if [c.verb for c in told] != [c.verb for c in clauses] else None


def _things_said_otherwise(
    clauses: Sequence[Clause], rng: random.Random, way: str, words: Lexicon, scene: SceneNames | None
) -> tuple[Clause, ...] | None:
    """Return the clauses with other names for some things, each used consistently, or None if there are none."""
    choices = {}
    wordnet = best_wordnet() if scene is not None else None
    for noun in dict.fromkeys(thing.noun for clause in clauses for thing in _things_of(clause) if not thing.pronoun):
        known = words.nouns[noun]
        several = known.additions if way == ADDITION else known.others.get(WAYS[way], ())
        if way != ADDITION and scene is not None and wordnet is not None:
            several = tuple(name for name in several if scene.fits(name, noun, wordnet))
        if several:
            choices[noun] = several
    if not choices:
        return None
    nouns = rng.sample(list(choices), rng.randint(1, len(choices)))
    names = {noun: rng.choice(choices[noun]) for noun in nouns}

    def renamed(thing: InstructionObject) -> InstructionObject:
        details = tuple(Detail(d.relation, tuple(renamed(landmark) for landmark in d.landmarks)) for d in thing.details)
        thing = replace(thing, details=details, others=tuple(renamed(other) for other in thing.others))
        if thing.noun not in names:
            return thing
        name = names[thing.noun]
        return replace(thing, addition=name) if way == ADDITION else replace(thing, called=name)

    return tuple(
        replace(clause, thing=renamed(clause.thing), place=_place_renamed(clause.place, renamed)) for clause in clauses
    )


def _place_renamed(
    place: InstructionPlace | None, renamed: Callable[[InstructionObject], InstructionObject]
) -> InstructionPlace | None:
    if place is None or place.landmark is None:
        return place
    return InstructionPlace(place.relation, renamed(place.landmark))


def _things_of(clause: Clause) -> Iterator[InstructionObject]:
    """Yield all things that a clause names."""
    first = [clause.thing]
    if clause.place is not None and clause.place.landmark is not None:
        first.append(clause.place.landmark)
    while first:
        thing = first.pop(0)
        yield thing
        first += [*thing.others, *(landmark for detail in thing.details for landmark in detail.landmarks)]

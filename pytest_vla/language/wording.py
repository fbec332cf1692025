"""From a command to words with their tree: things, places and clauses in the forms that frames ask for."""

from collections.abc import Sequence

from pytest_vla.language.command import IT, THEM, Clause, Place, Thing
from pytest_vla.language.lexicon import ADJECTIVES, OF, Lexicon, plural
from pytest_vla.language.morphology import inflected
from pytest_vla.language.notation import HEAD, Fill, Hanging, Word, filled, joined

FORMS = {"do": "VB", "doing": "VBG", "have_done": "VBN", "done": "VBN", "to_be_done": "VBN"}
"""The forms of a clause, and its verb's tag: put x on y; putting x; (have) put x; x put on y; x to be put on y."""

PASSIVE = frozenset(("done", "to_be_done"))
TAKES_OBJECT = frozenset(("on", "to"))
"""Particles that are prepositions in en_core_web_sm's trees: turn (on the stove)."""


def word(text: str, pos: str, tag: str, dep: str) -> Hanging:
    """One word that hangs by a label."""
    return dep, (Word(text, pos, tag, HEAD, 0),)


def thing_words(thing: Thing, lexicon: Lexicon, *, subject: bool = False) -> list[Hanging]:
    """A thing's words, the name's last as head."""
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


def _landmarks(things: Sequence[Thing], lexicon: Lexicon) -> Fill:
    """What goes into a slot for landmarks: their words, joined by "and"."""
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


def place_words(place: Place | None, lexicon: Lexicon, *, state: bool = False) -> list[Hanging]:
    """A place's words, with the label by which they hang from the verb; none for no place."""
    if place is None:
        return []
    relation = lexicon.relations[place.relation]
    parts = relation.state if state else relation.parts
    landmarks = (place.landmark,) if place.landmark is not None else ()
    return filled(parts, _landmarks(landmarks, lexicon), _first, lexicon.describe)


def verb_words(verb: str, tag: str) -> list[Hanging]:
    """A verb in a form as head, its particle behind it."""
    base, _, particle = verb.partition(" ")
    words = [word(inflected(base, tag), "VERB", tag, HEAD)]
    return [*words, _particle(particle)] if particle else words


def _particle(particle: str) -> Hanging:
    if particle in ("open", "shut"):
        return word(particle, "ADJ", "JJ", "prt")
    return word(particle, "ADP", "RP", "prt")


def clause_words(clause: Clause, form: str, lexicon: Lexicon) -> list[Hanging]:
    """A clause in one of `FORMS`, its verb as head."""
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
    """Clauses in a form, joined by "and"; the first one's verb is the head."""
    words = clause_words(clauses[0], form, lexicon)
    for clause in clauses[1:]:
        words += [word("and", "CCONJ", "CC", "cc"), ("conj", joined(clause_words(clause, form, lexicon)))]
    return words

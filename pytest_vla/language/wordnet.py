"""WordNet's nouns and verbs: senses and neighbouring words, from the table in this package or nltk's corpus.

The table holds WordNet 3.0. Its licence is in the first part and in ``wordnet.LICENSE``; ``scripts/wordnet_table.py``
made it.
"""

import gzip
import importlib
import importlib.resources
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

PartOfSpeech = Literal["noun", "verb"]
PARTS: tuple[PartOfSpeech, ...] = ("noun", "verb")

Relation = Literal["synonym", "hypernym", "hyponym"]
RELATIONS: tuple[Relation, ...] = ("synonym", "hypernym", "hyponym")

TABLE = "wordnet.txt.gz"
"""In this package: the licence, the synsets of nouns and of verbs, their irregular forms; a blank line between.

A synset's line: its words, ``bowl:3`` for a word's third sense and ``bowl`` for its first; a tab; the line numbers of
its hypernyms in the same part, from 0. What it is an instance of counts as a hypernym.
"""

VERSION = "3.0"

# WordNet's own rules of detachment (morphy), in its order: an ending, and what stands in its place.
_ENDINGS: Mapping[PartOfSpeech, str] = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
}
_SUFFIXES: Mapping[PartOfSpeech, tuple[tuple[str, ...], ...]] = {
    part: tuple(tuple(rule.split(":")) for rule in _ENDINGS[part].split()) for part in PARTS
}


@dataclass(frozen=True)
class Neighbour:
    """A word or collocation, words separated by spaces, as WordNet writes it: some have capitals."""

    word: str
    relation: Relation


class WordNet(Protocol):
    """The WordNet queries that substitution needs. Words are lower-case, those of a collocation separated by spaces.

    Attributes:
        name: the source, ``table`` or ``nltk``.
        version: WordNet's.
    """

    def __hash__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    def base_form(self, word: str, part: PartOfSpeech) -> str | None:
        """Return the word itself if it has a sense, otherwise its dictionary form, or None if it has none."""

    def senses(self, word: str, part: PartOfSpeech) -> int:
        """Return the number of senses of a base form; 0 for an unknown word."""

    def neighbours(self, word: str, part: PartOfSpeech, sense: int) -> tuple[Neighbour, ...]:
        """Return the other words in the synset of a base form's sense, and those one edge above and below.

        Sense 1 is the most frequent. Synonyms come first, then hypernyms, then hyponyms, each in alphabetical order; a
        word that is reached in two ways is named once. Raises KeyError if the word has no such sense.
        """

    def covers(self, word: str, part: PartOfSpeech, senses: int | None = None) -> frozenset[str]:
        """Return the words in a base form's synsets and in all synsets above, in lower case, with the word itself.

        Only the most frequent `senses` count, or all; the result is empty for an unknown word.
        """


@dataclass(frozen=True)
class _Part:
    """One part of speech: synsets by number, and the index of words."""

    words: Sequence[tuple[str, ...]]
    hypernyms: Sequence[tuple[int, ...]]
    hyponyms: Mapping[int, Sequence[int]]
    senses: Mapping[str, Mapping[int, int]]
    exceptions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class _Table:
    """`WordNet` in memory; compared by identity, so that results can be cached by table."""

    parts: Mapping[PartOfSpeech, _Part]
    name: str = "table"
    version: str = VERSION

    def base_form(self, word: str, part: PartOfSpeech) -> str | None:
        known, form = self.parts[part], word.replace(" ", "_")
        if form in known.exceptions:
            forms: Iterable[str] = known.exceptions[form]
        else:
            forms = (form[: -len(old)] + new for old, new in _SUFFIXES[part] if form.endswith(old))
        return next((base.replace("_", " ") for base in (form, *forms) if base in known.senses), None)

    def senses(self, word: str, part: PartOfSpeech) -> int:
        return len(self.parts[part].senses.get(word.replace(" ", "_"), ()))

    def neighbours(self, word: str, part: PartOfSpeech, sense: int) -> tuple[Neighbour, ...]:
        known = self.parts[part]
        synset = known.senses[word.replace(" ", "_")][sense]
        above, below = known.hypernyms[synset], known.hyponyms.get(synset, ())
        return _ordered(
            word,
            {
                "synonym": known.words[synset],
                "hypernym": (name for other in above for name in known.words[other]),
                "hyponym": (name for other in below for name in known.words[other]),
            },
        )

    def covers(self, word: str, part: PartOfSpeech, senses: int | None = None) -> frozenset[str]:
        known = self.parts[part]
        found: set[int] = set()
        numbered = known.senses.get(word.replace(" ", "_"), {})
        ahead = [numbered[sense] for sense in sorted(numbered)[:senses]]
        while ahead:
            synset = ahead.pop()
            if synset not in found:
                found.add(synset)
                ahead.extend(known.hypernyms[synset])
        return frozenset(name.replace("_", " ").lower() for synset in found for name in known.words[synset])


def _ordered(word: str, names: Mapping[Relation, Iterable[str]]) -> tuple[Neighbour, ...]:
    seen = {word.lower()}
    found = []
    for relation in RELATIONS:
        for name in sorted((text.replace("_", " ") for text in names[relation]), key=lambda text: (text.lower(), text)):
            if name.lower() not in seen:
                seen.add(name.lower())
                found.append(Neighbour(name, relation))
    return tuple(found)


@cache
def shipped_wordnet() -> WordNet:
    """Load this package's table: 0.4 s, once per process."""
    content = importlib.resources.files("pytest_vla.language").joinpath(TABLE).read_bytes()
    return parse_table(gzip.decompress(content).decode("ascii"))


def parse_table(text: str) -> WordNet:
    """Parse a table, see `TABLE`. Raises ValueError if it does not have that format."""
    _licence, *synsets, nouns, verbs = text.rstrip("\n").split("\n\n")
    exceptions = dict(zip(PARTS, (nouns, verbs), strict=True))
    lines = dict(zip(PARTS, synsets, strict=True))
    return _Table({part: _parse_part(lines[part].split("\n"), exceptions[part].split("\n")) for part in PARTS})


def _parse_part(lines: Sequence[str], exceptions: Sequence[str]) -> _Part:
    words, hypernyms = [], []
    hyponyms: dict[int, list[int]] = {}
    senses: dict[str, dict[int, int]] = {}
    for number, line in enumerate(lines):
        names, _, above = line.partition("\t")
        texts = []
        for name in names.split(" "):
            text, _, sense = name.partition(":")
            texts.append(text)
            senses.setdefault(text.lower(), {})[int(sense or 1)] = number
        words.append(tuple(texts))
        parents = tuple(map(int, above.split()))
        hypernyms.append(parents)
        for parent in parents:
            hyponyms.setdefault(parent, []).append(number)
    irregular = {form: tuple(bases) for form, *bases in (line.split(" ") for line in exceptions)}
    return _Part(words, hypernyms, hyponyms, senses, irregular)


@dataclass(frozen=True)
class _Corpus:
    """`WordNet` by nltk's reader."""

    reader: Any
    name: str = "nltk"
    version: str = VERSION

    def base_form(self, word: str, part: PartOfSpeech) -> str | None:
        base: str | None = self.reader.morphy(word.replace(" ", "_"), part[0])
        return None if base is None else base.replace("_", " ")

    def senses(self, word: str, part: PartOfSpeech) -> int:
        return len(self._synsets(word, part))

    def neighbours(self, word: str, part: PartOfSpeech, sense: int) -> tuple[Neighbour, ...]:
        synsets = self._synsets(word, part)
        if not 1 <= sense <= len(synsets):
            raise KeyError(sense)
        synset = synsets[sense - 1]
        above = (*synset.hypernyms(), *synset.instance_hypernyms())
        below = (*synset.hyponyms(), *synset.instance_hyponyms())
        return _ordered(word, {"synonym": synset.lemma_names(), "hypernym": _names(above), "hyponym": _names(below)})

    def covers(self, word: str, part: PartOfSpeech, senses: int | None = None) -> frozenset[str]:
        found = set(self._synsets(word, part)[:senses])
        for synset in tuple(found):
            found.update(synset.closure(lambda each: (*each.hypernyms(), *each.instance_hypernyms())))
        return frozenset(name.replace("_", " ").lower() for name in _names(found))

    def _synsets(self, word: str, part: PartOfSpeech) -> Sequence[Any]:
        # nltk looks for inflected words' base forms too, and this one is to be a base form.
        name = word.replace(" ", "_")
        found = dict.fromkeys(self.reader.synsets(name, part[0]))
        return [synset for synset in found if name in (text.lower() for text in synset.lemma_names())]


def _names(synsets: Iterable[Any]) -> Iterator[str]:
    return (name for synset in synsets for name in synset.lemma_names())


def nltk_wordnet() -> WordNet | None:
    """Return nltk's ``wordnet`` corpus, or None if nltk or the corpus is missing, incomplete or of another version."""
    if not _may_have_corpus():
        return None
    try:
        reader = importlib.import_module("nltk.corpus").wordnet
        version = reader.get_version()
    except (ImportError, LookupError, OSError):
        return None
    return _Corpus(reader) if version == VERSION else None


def _may_have_corpus() -> bool:
    """Whether nltk may find the corpus in its default folders; checked first, because importing nltk takes 1 to 2 s."""
    # Whoever has imported it may have told it another folder; on Windows it looks on all sorts of drives.
    if "nltk" in sys.modules or os.name == "nt":
        return True
    given = [folder for folder in os.environ.get("NLTK_DATA", "").split(os.pathsep) if folder]
    # nltk's documented folders.
    above = ["~", sys.prefix]
    above += [f"{prefix}/{part}" for prefix in (sys.prefix, "/usr", "/usr/local") for part in ("share", "lib")]
    corpora = [f"{folder}/corpora/wordnet" for folder in (*given, *(f"{each}/nltk_data" for each in above))]
    # What the variable names may be an archive itself.
    return any(folder.endswith(".zip") for folder in given) or any(
        os.path.exists(os.path.expanduser(corpus + suffix)) for corpus in corpora for suffix in ("", ".zip")
    )


def best_wordnet() -> WordNet:
    """Return nltk's corpus if it is installed, otherwise our table; both give the same answers."""
    return nltk_wordnet() or shipped_wordnet()

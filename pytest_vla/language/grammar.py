"""Instructions as commands: read from a task's instruction, and found again in every way of saying them."""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.language.command import Clause, Command
from pytest_vla.language.lexicon import lexicon
from pytest_vla.language.notation import Part, matches, template, tokens_of
from pytest_vla.language.reading import Reader, clauses_of

SAID = "said"
"""The frame of an instruction as suites have it: the command itself."""


@cache
def frames() -> Mapping[str, tuple[tuple[Part, ...], ...]]:
    """The ways of saying a command, by action type; `SAID` for the command itself."""
    table = tomllib.loads((Path(__file__).parent / "frames.toml").read_text(encoding="utf-8"))
    return {name: tuple(template(line) for line in lines) for name, lines in table.items()}


def read(instruction: str) -> Command:
    """The command that an instruction is.

    Raises VlaError where the grammar does not know a word of it, has no reading for it, or more than one.
    """
    reader = Reader(tuple(tokens_of(instruction)), lexicon())
    size = len(reader.tokens)
    commands = {Command(clauses): None for end, clauses in reader.clauses(0, "do") if end == size}
    if len(commands) != 1:
        found = "more than one reading" if commands else "no reading" + _unknown(reader)
        raise VlaError(
            f"the instruction {instruction!r} has {found} in the grammar of pytest_vla.language. Instructions are read "
            "that put, push, pick up, open, close or turn on and off a thing of lexicon.toml."
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
    """Every meaning that a text has, said in any of the grammar's ways; empty for a text that it does not know."""
    return frozenset(Command(clauses).meaning for clauses in _readings(text))


def _readings(text: str) -> Iterator[tuple[Clause, ...]]:
    reader = Reader(tuple(tokens_of(text)), lexicon())
    for several in frames().values():
        for parts in several:
            for end, values in matches(parts, reader.tokens, 0, reader.slot):
                if end == len(reader.tokens):
                    clauses = clauses_of(values, reader.lexicon)
                    if clauses is not None:
                        yield clauses

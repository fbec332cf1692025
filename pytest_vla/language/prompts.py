"""Checks of a task's prompt against its goal, for `pytest-vla lint`."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from pytest_vla.language.morphology import inflected
from pytest_vla.language.scene_names import known_things, things_of
from pytest_vla.language.wordnet import PARTS, shipped_wordnet
from pytest_vla.plan.task import language_of
from pytest_vla.scene.bddl import Atom, LocatedToken
from pytest_vla.scene.lint.conditions import leaves
from pytest_vla.scene.lint.reading import LintFinding, TaskText, catalogue_of
from pytest_vla.scene.literals import names_of
from pytest_vla.scene.problem import Literal, Problem

_POSITIONS = frozenset(("left", "right", "front", "back", "middle", "top", "bottom", "center"))
_MOVING = frozenset(("pick", "put", "place", "take", "push", "stack", "move", "grab", "lift"))
# Where what is moved has been said.
_ENDS = {
    *("on", "in", "to", "into", "onto", "at", "from", "under", "between", "next", "out", "of", "inside", "with"),
    *("behind", "beside", "near", "then", "over", "above", "below", "off", "that", "which", "it", "them"),
}
_VERBS = _MOVING | {"open", "close", "turn", "shut"}
# Verb, its particle, and the predicates of which one has to be in the goal.
_STATES = (
    ("close", "", ("close",)),
    ("shut", "", ("close",)),
    ("turn", "on", ("turnon",)),
    ("turn", "off", ("turnoff",)),
    ("open", "", ("open", "in", "close")),
)
_WORDS = {
    *("with", "from", "into", "onto", "them", "then", "that", "this", "these", "those", "both", "each", "between"),
    *("beside", "behind", "under", "inside", "wooden", "lit", "afterward", "last", "which", "without"),
    *("its", "their"),
}
_CLOSE = 0.8  # difflib's ratio; pocelain and porcelain have 0.94


@dataclass(frozen=True)
class _Mention:
    """A thing's name in a text: its words from `start` to before `end`, and the categories that it may mean."""

    start: int
    end: int
    name: str
    categories: frozenset[str]


@dataclass(frozen=True)
class _Prompt:
    """A task's prompt, and the possible meanings of its words.

    Attributes:
        task, problem: the prompt's task.
        words: the prompt's words, with corrected spelling.
        misspelt: misspelt words and their corrections.
        declared: the categories of the task's things.
        names: names of things, with the categories that each name may mean.
        catalogue: the known categories besides the declared ones.
        mentions: the things that the prompt names.
    """

    task: TaskText
    problem: Problem
    words: Sequence[str]
    misspelt: Mapping[str, str]
    declared: Mapping[str, str]
    names: Mapping[str, frozenset[str]]
    catalogue: frozenset[str]
    mentions: Sequence[_Mention]

    def meant(self, mention: _Mention) -> frozenset[str]:
        """Return the declared categories that a mention may mean: without a white bowl, "white bowl" means any bowl."""
        known = frozenset(self.declared.values())
        if found := mention.categories & known:
            return found
        return self.names.get(mention.name.rpartition(" ")[2], frozenset()) & known

    def found(self, code: str, place: LocatedToken | None, message: str) -> LintFinding:
        return self.task.found(code, place, message)


def check_prompt(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    """Yield findings about :language, compared with the goal and the file's name."""
    declared = {item.name: item.category for item in (*problem.fixtures, *problem.objects)}
    catalogue = frozenset((*catalogue_of(problem), *known_things()))
    names = _meanings(catalogue | frozenset(declared.values()))
    said = _words(problem.language)
    meant = _misspelt(said, names, declared)
    for word, right in meant.items():
        message = f"{word!r} is not a known word; did you mean {right}? The policy gets the text as written"
        yield task.found("P002", _word(task, word), message)
    # Nothing more follows from a slip of the pen.
    words = [meant.get(word, word) for word in said]
    prompt = _Prompt(task, problem, words, meant, declared, names, catalogue, _mentions(words, names))
    for check in (_unnamed, _otherwise_named, _less, _file_name):
        yield from check(prompt)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9']+|,", text.lower())


@cache
def _names_of(category: str) -> frozenset[str]:
    """Return the names of a category or its parts, in singular and plural."""
    words = [word for word in category.split("_") if not word.isdigit()] or [category]
    # Upstream's names for the same mesh in another pose or make.
    if words[-2:] == ["no", "rotation"]:
        del words[-2:]
    while len(words) > 1 and words[-1] in ("n", "x", "pi"):
        words.pop()
    if len(words) > 1 and words[0] == "rotated":
        del words[0]
    ends = {" ".join(words[start:]) for start in range(len(words))}
    listed = {name for thing in things_of(category) for name in thing.names} if category in known_things() else set()
    parts = {"layer"} if "drawer" in listed else set()
    single = ends | listed | parts
    return frozenset(single | {_plural(name) for name in single})


def _plural(name: str) -> str:
    first, space, last = name.rpartition(" ")
    return f"{first}{space}{inflected(last, 'NNS')}"


@lru_cache(512)
def _meanings(categories: frozenset[str]) -> Mapping[str, frozenset[str]]:
    """Return the names of things in these categories, with the categories that each name may mean."""
    found: dict[str, set[str]] = {}
    for category in categories:
        for name in _names_of(category):
            found.setdefault(name, set()).add(category)
    return {name: frozenset(meant) for name, meant in found.items()}


def _mentions(words: Sequence[str], meanings: Mapping[str, frozenset[str]]) -> list[_Mention]:
    """Return the things that a text names, the longest name at each place."""
    longest = max(len(name.split()) for name in meanings)
    found = []
    start = 0
    while start < len(words):
        for end in range(min(len(words), start + longest), start, -1):
            name = " ".join(words[start:end])
            if name in meanings and not (name == "layer" and words[start - 1 : start] == ["two"]):
                found.append(_Mention(start, end, name, meanings[name]))
                start = end - 1
                break
        start += 1
    return found


def _goal_things(prompt: _Prompt) -> list[tuple[Literal, tuple[str, ...]]]:
    """Return the goal's literals with the things that they are about; a region counts as its owner."""
    problem = prompt.problem
    movable = _movable(problem)
    owner = {region.key: region.target for region in problem.regions}
    found = []
    for literal in leaves(problem.goal):
        names = (owner.get(name, name) for name in names_of(literal))
        found.append((literal, tuple(name for name in names if prompt.declared.get(name) in movable)))
    return found


def _movable(problem: Problem) -> frozenset[str]:
    """Return the categories of a problem's things, except the surface that all of them stand on."""
    targets = {region.target for region in problem.regions if region.ranges}
    return frozenset(
        item.category for item in (*problem.objects, *(each for each in problem.fixtures if each.name not in targets))
    )


def _unnamed(prompt: _Prompt) -> Iterator[LintFinding]:
    meant = frozenset[str]().union(*map(prompt.meant, prompt.mentions))
    told: set[str] = set()
    for literal, things in _goal_things(prompt):
        for name in things:
            if prompt.declared[name] not in meant and name not in told:
                told.add(name)
                others = ", ".join(dict.fromkeys(mention.name for mention in prompt.mentions)) or "nothing known"
                yield prompt.found(
                    "P001",
                    literal,
                    f"{literal} is about {name}, which the prompt does not name (it names {others}): a policy that "
                    "follows the prompt fails; change the goal or :language",
                )


def _otherwise_named(prompt: _Prompt) -> Iterator[LintFinding]:
    """Yield findings about things that the prompt calls by another category's full name, such as porcelain bowl."""
    known = frozenset(prompt.declared.values())
    goal = {name for _, things in _goal_things(prompt) for name in things}
    for mention in prompt.mentions:
        exact = mention.name.replace(" ", "_")
        meant = [each for each in prompt.meant(mention) if mention.name not in _names_of(each)]
        called = sorted(name for name in goal if prompt.declared[name] in meant)
        if " " in mention.name and exact in prompt.catalogue and exact not in known and called:
            yield prompt.found(
                "P005",
                _word(prompt.task, mention.name.split()[0]),
                f"the prompt calls {called[0]}, a {prompt.declared[called[0]]}, by the name of another category, "
                f"{exact}: a policy may look for that one",
            )


def _less(prompt: _Prompt) -> Iterator[LintFinding]:
    """Yield findings about requests in the prompt that the goal does not have."""
    goal, words = list(leaves(prompt.problem.goal)), prompt.words
    if not goal:
        return
    about = {prompt.declared[name] for _, things in _goal_things(prompt) for name in things}

    def found(asked: str, lacking: str) -> LintFinding:
        return prompt.found("G004", goal[0], f"the prompt says {asked!r}, but {lacking}; add it to the goal")

    predicates = {literal.predicate for literal in goal}
    for verb, particle, wanted in _STATES:
        for index, word in enumerate(words):
            said = word == verb and (not particle or particle in words[index + 1 : index + 2])
            # "the open drawer" is no order.
            if said and words[index - 1 : index] != ["the"] and not predicates.intersection(wanted):
                yield found(f"{verb} {particle}".strip(), f"the goal has no literal ({wanted[0]} ...)")
    for mention in _moved(words, prompt.mentions):
        meant = prompt.meant(mention)
        if meant and not meant & about:
            yield found(" ".join(words[mention.start - 1 : mention.end]), f"the goal does not mention a {mention.name}")
    yield from _all_of_them(prompt, found)


def _moved(words: Sequence[str], mentions: Sequence[_Mention]) -> Iterator[_Mention]:
    """Yield the things that the prompt asks to move: those between a verb and its target place."""
    moving = False
    for index, word in enumerate(words):
        if word in _VERBS:
            moving = word in _MOVING
        elif word in _ENDS and not (word == "out" and words[index - 1] == "take"):
            moving = False
        elif moving:
            yield from (mention for mention in mentions if mention.start == index)


def _all_of_them(prompt: _Prompt, found: Callable[[str, str], LintFinding]) -> Iterator[LintFinding]:
    """Yield findings about ``all of the apples``, ``both moka pots``, ``all of the drawers``."""
    problem, declared, words = prompt.problem, prompt.declared, prompt.words
    named = [name for literal in leaves(problem.goal) for name in names_of(literal)]
    for mention in prompt.mentions:
        before = [word for word in words[max(0, mention.start - 3) : mention.start] if word not in ("of", "the")]
        after = words[mention.end : mention.end + 2]
        if (
            not before
            or before[-1] not in ("all", "both", "every", "each")
            or (before[-1] == "both" and "and" in after)
        ):
            continue
        if mention.name.split()[-1] in ("drawer", "drawers", "layer", "layers"):
            members = [
                region.key
                for region in problem.regions
                if not region.ranges and region.name.endswith("_region") and region.target in declared
            ]
        else:
            members = [name for name, category in declared.items() if category in mention.categories]
        left = [name for name in members if name not in named]
        wanted = 2 if before[-1] == "both" else len(members)
        if len(members) - len(left) < min(wanted, len(members)):
            yield found(f"{before[-1]} {mention.name}", f"the goal lacks {', '.join(left)}")


def _misspelt(words: Iterable[str], names: Mapping[str, frozenset[str]], declared: Mapping[str, str]) -> dict[str, str]:
    """Return misspelt words with their corrections: the closest known or declared word."""
    vocabulary = {word for name in (*names, *(each.replace("_", " ") for each in declared)) for word in name.split()}
    found = {}
    for word in dict.fromkeys(words):
        if len(word) < 4 or not word.isalpha() or word in vocabulary or word in _WORDS or _is_word(word):
            continue
        if close := difflib.get_close_matches(word[:40], sorted(vocabulary), n=1, cutoff=_CLOSE):
            found[word] = close[0]
    return found


@cache
def _is_word(word: str) -> bool:
    wordnet = shipped_wordnet()
    return any(wordnet.base_form(word, part) is not None for part in PARTS)


def _word(task: TaskText, word: str) -> Atom | None:
    """Return a word's position in the prompt."""
    section = task.sections.get(":language")
    atoms = [item for item in (section.items if section else ()) if isinstance(item, Atom)]
    return next((atom for atom in atoms[1:] if word in _words(atom.text)), None)


def _file_name(prompt: _Prompt) -> Iterator[LintFinding]:
    words, task = prompt.words, prompt.task
    path = Path(task.source)
    if path.suffix != ".bddl":
        return
    # VLA-Arena numbers files whose prompts are alike.
    stem = re.sub(r"_\d+\Z", "", path.stem)
    said = [prompt.misspelt.get(word, word) for word in _words(language_of(stem))]
    if said == list(words):
        return
    named = _mentions(said, prompt.names)
    other = _lacking(named, prompt.mentions), _lacking(prompt.mentions, named)
    places = sorted(_POSITIONS.intersection(said) - {*words}), sorted(_POSITIONS.intersection(words) - {*said})
    section = task.sections.get(":language")
    shown = " ".join(said)[:200]
    for one, two in (other, places):
        if one and two:
            yield prompt.found(
                "P003",
                section,
                f"the file is called {shown!r}, but the prompt has {', '.join(two)} instead of {', '.join(one)}; "
                "rename the file or change :language",
            )
            return
    yield prompt.found(
        "P004",
        section,
        f"the file is called {shown!r}, which is LIBERO's instruction, but :language differs: policies get one of "
        "the two; make them equal",
    )


def _lacking(mentions: Iterable[_Mention], others: Sequence[_Mention]) -> list[str]:
    """Return the names of mentions that cannot mean the same as any of the others."""
    return sorted({each.name for each in mentions if not any(each.categories & other.categories for other in others)})

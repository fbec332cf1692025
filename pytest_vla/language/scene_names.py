"""Which things a scene has and what they are called, so that a text of ours never calls one by another's name."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.language.wordnet import WordNet

if TYPE_CHECKING:
    from pytest_vla.scene.problem import Problem


@dataclass(frozen=True)
class SceneThing:
    """A thing of a scene, or a part of one, such as a drawer.

    Attributes:
        names: what it is called; an instruction with one of them means it.
        others: further words that it could be taken for.
        unfit: words that others of its names could be said otherwise by, and it could not.
    """

    names: tuple[str, ...]
    others: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()


@dataclass(frozen=True)
class SceneNames:
    """The things of a scene, each category once."""

    things: tuple[SceneThing, ...]

    def meant_by(self, phrase: str) -> tuple[SceneThing, ...]:
        """The things that a noun phrase without its article means: by the longest of its ends that is a name.

        Empty where it names none of them.
        """
        words = phrase.lower().split()
        for start in range(len(words)):
            end = " ".join(words[start:])
            if found := tuple(thing for thing in self.things if end in thing.names):
                return found
        return ()

    def fits(self, word: str, phrase: str, wordnet: WordNet) -> bool:
        """Whether a word in the place of a phrase's name is right for what the phrase means, and for nothing else here.

        It is for something else where it is a name of that, as bottle may be of the ketchup, or ends in one (salad
        bowl, where a bowl is there too) and the phrase does not; where it stands above one in WordNet, in any sense
        (container, where a bottle is there); and where it stands below one in its first sense (skillet, and a pan).

        Args:
            word: one, or several: ``dinner plate``.
            phrase: what the instruction calls the thing, without its article.
            wordnet: what is above and below.
        """
        word, phrase = word.lower(), phrase.lower()
        meant = self.meant_by(phrase)
        if any(word in thing.unfit for thing in meant):
            return False
        last = word.rpartition(" ")[2]
        said = {word} | ({last} if last != phrase.rpartition(" ")[2] else set())
        kinds = _above(word, wordnet, 1)
        return not any(
            said & _called(thing) or word in _taken_for(thing, wordnet) or kinds.intersection(thing.names)
            for thing in self.things
            if thing not in meant
        )


@cache
def known_things() -> Mapping[str, tuple[SceneThing, ...]]:
    """By category, the thing and its parts, as ``scene_names.toml`` lists them."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {
        category: (
            SceneThing(tuple(entry["names"]), tuple(entry["others"]), tuple(entry.get("unfit", ()))),
            *(SceneThing((part,)) for part in entry.get("parts", ())),
        )
        for category, entry in table["things"].items()
    }


def scene_names(problem: "Problem", added: Iterable[str] = ()) -> SceneNames:
    """What the things of a problem are called.

    Args:
        problem: of a task; its fixtures, objects and what they stand on.
        added: categories of things that a variation may put there.
    """
    from pytest_vla.scene.workspaces import workspace

    declared = (item.category for item in (*problem.fixtures, *problem.objects))
    categories = (*declared, *added, workspace(problem.name, problem.source).category)
    return SceneNames(tuple(dict.fromkeys(thing for category in categories for thing in things_of(category))))


def things_of(category: str) -> tuple[SceneThing, ...]:
    """A category's thing and its parts; of one that nobody has listed by the words of its name."""
    return known_things().get(category) or (SceneThing(tuple(_ends(category.split("_")))),)


def _ends(words: Sequence[str]) -> Iterator[str]:
    """``red coffee mug``, ``coffee mug``, ``mug``; numbers are no words."""
    named = [word for word in words if not word.isdigit()] or list(words)
    return (" ".join(named[start:]) for start in range(len(named)))


@lru_cache(4096)
def _above(name: str, wordnet: WordNet, senses: int | None = None) -> frozenset[str]:
    """A name, and all that is above it in WordNet, in so many senses, or all: what can be said of other things too."""
    base = wordnet.base_form(name, "noun")
    return frozenset((name,)) | (wordnet.covers(base, "noun", senses) if base is not None else frozenset())


@lru_cache(4096)
def _called(thing: SceneThing) -> frozenset[str]:
    """What could be said of it. A name's last word is a name too: who has a wine rack has a rack."""
    return frozenset((*thing.names, *thing.others, *(name.rpartition(" ")[2] for name in thing.names)))


@lru_cache(4096)
def _taken_for(thing: SceneThing, wordnet: WordNet) -> frozenset[str]:
    return frozenset[str]().union(*(_above(name, wordnet) for name in (*thing.names, *thing.others)))

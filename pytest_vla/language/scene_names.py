"""Names of the things in a scene, so that a generated text never uses one thing's name for another."""

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
    """A thing in a scene, or a part such as a drawer.

    Attributes:
        names: its names; an instruction that contains one means this thing.
        others: further words that might be understood as this thing.
        unfit: words that can replace its name for other things of that name, but not for this one.
    """

    names: tuple[str, ...]
    others: tuple[str, ...] = ()
    unfit: tuple[str, ...] = ()


@dataclass(frozen=True)
class SceneNames:
    """The things in a scene, each category once."""

    things: tuple[SceneThing, ...]

    def meant_by(self, phrase: str) -> tuple[SceneThing, ...]:
        """Return the things that a noun phrase without its article means, by its longest ending that is a name.

        Empty if no ending is a name.
        """
        words = phrase.lower().split()
        for start in range(len(words)):
            end = " ".join(words[start:])
            if found := tuple(thing for thing in self.things if end in thing.names):
                return found
        return ()

    def fits(self, word: str, phrase: str, wordnet: WordNet) -> bool:
        """Whether a word that replaces a phrase's name fits the thing that the phrase means, and no other thing here.

        A word fits another thing if it is a name of it, as bottle may be for the ketchup; if it ends in such a name
        (salad bowl, if there is a bowl too) and the phrase does not; if it is above such a name in WordNet, in any
        sense (container, if there is a bottle); or if it is below such a name in its first sense (skillet, and a pan).

        Args:
            word: one or several: ``dinner plate``.
            phrase: the instruction's name for the thing, without its article.
            wordnet: gives the words above and below.
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
    """Return each category's thing and its parts, as listed in ``scene_names.toml``."""
    table = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {
        category: (
            SceneThing(tuple(entry["names"]), tuple(entry["others"]), tuple(entry.get("unfit", ()))),
            *(SceneThing((part,)) for part in entry.get("parts", ())),
        )
        for category, entry in table["things"].items()
    }


def scene_names(problem: "Problem", added: Iterable[str] = ()) -> SceneNames:
    """Return the names of a problem's things.

    Args:
        problem: its fixtures, objects and the surface that they stand on are named.
        added: categories of things that a variation may add.
    """
    from pytest_vla.scene.workspaces import workspace

    declared = (item.category for item in (*problem.fixtures, *problem.objects))
    categories = (*declared, *added, workspace(problem.name, problem.source).category)
    return SceneNames(tuple(dict.fromkeys(thing for category in categories for thing in things_of(category))))


def things_of(category: str) -> tuple[SceneThing, ...]:
    """Return a category's thing and its parts; an unlisted category is named by the words of its name."""
    return known_things().get(category) or (SceneThing(tuple(_ends(category.split("_")))),)


def _ends(words: Sequence[str]) -> Iterator[str]:
    """Yield ``red coffee mug``, ``coffee mug``, ``mug``; numbers are no words."""
    named = [word for word in words if not word.isdigit()] or list(words)
    return (" ".join(named[start:]) for start in range(len(named)))


@lru_cache(4096)
def _above(name: str, wordnet: WordNet, senses: int | None = None) -> frozenset[str]:
    """Return a name and all words above it in WordNet, in so many senses or all: words that fit other things too."""
    base = wordnet.base_form(name, "noun")
    return frozenset((name,)) | (wordnet.covers(base, "noun", senses) if base is not None else frozenset())


@lru_cache(4096)
def _called(thing: SceneThing) -> frozenset[str]:
    """Return the words that may name a thing. A name's last word counts too: a wine rack may be called a rack."""
    return frozenset((*thing.names, *thing.others, *(name.rpartition(" ")[2] for name in thing.names)))


@lru_cache(4096)
def _taken_for(thing: SceneThing, wordnet: WordNet) -> frozenset[str]:
    return frozenset[str]().union(*(_above(name, wordnet) for name in (*thing.names, *thing.others)))

"""All that a task can be asked by in other words: what `language.paraphrase` and `language.words` can draw, whole.

What keeps the meaning: a paraphrase is read back by the grammar, and has to have one meaning, the instruction's; words
of WordNet are those that were screened by hand, and where the grammar knows the text that they make, it has to mean the
same too. Neither calls a thing by a name that another thing of the scene could have, nor is what another task of the
suite is asked by.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_vla.errors import VlaError
from pytest_vla.plan.labels import OURS
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import INSTRUCTION
from pytest_vla.vary.axes.language import (
    WORD_LEVELS,
    names_in,
    other_instructions,
    params_of_paraphrase,
    params_of_words,
    paraphrase_cells,
)
from pytest_vla.vary.chosen import Change, change_of


@dataclass(frozen=True)
class Rewording:
    """A task's instruction in other words.

    Attributes:
        change: of the kind that can draw it.
        sorts: what it changes, by axis: ``words`` how many; or ``object`` and ``action``, LIBERO-Para's types.
    """

    change: Change
    sorts: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """What the robot is told."""
        return str(self.change.params[INSTRUCTION])


def rewordings(task: Task) -> tuple[Rewording, ...]:
    """All rewordings of a task, each text once: paraphrases first, by cell, then words, by number.

    Raises:
        VlaError: there is none: the grammar cannot read the instruction, and WordNet has no word for one of its.
    """
    why = ""
    found: dict[str, Rewording] = {}
    known = {text.lower() for text in (task.language, *other_instructions(task))}
    try:
        paraphrased = tuple(_paraphrases(task))
    except VlaError as error:
        why, paraphrased = str(error), ()
    for each in (*paraphrased, *_words(task)):
        if each.text.lower() not in known:
            found.setdefault(each.text.lower(), each)
    if not found:
        raise VlaError(f"{task.id} cannot be asked in other words: WordNet has none for {task.language!r}, and {why}")
    return tuple(found.values())


def _paraphrases(task: Task) -> Iterator[Rewording]:
    from pytest_vla.language.generator import every_variant

    others, scene = other_instructions(task), names_in(task)
    for types in paraphrase_cells():
        for each in every_variant(task.language, others, *types, scene):
            change = change_of("language.paraphrase", params_of_paraphrase(task, *types, each.text))
            yield Rewording(change, (("object", types[0]), ("action", types[1])))


def _words(task: Task) -> Iterator[Rewording]:
    from pytest_vla.language.grammar import meanings
    from pytest_vla.language.screened import Screened
    from pytest_vla.language.substitution import every_substitution
    from pytest_vla.language.wordnet import best_wordnet

    screen, own = Screened(names_in(task)), meanings(task.language)
    for level in WORD_LEVELS:
        for each in every_substitution(task.language, level, best_wordnet(), screen):
            # The grammar does not know all words; what it reads at all it reads right.
            if (meant := meanings(each.text)) and own and meant != own:
                continue
            yield Rewording(change_of("language.words", params_of_words(each, OURS)), (("words", str(level)),))

"""What can be varied about an instruction, on any suite: probes of whether a policy listens, words, paraphrases."""

import hashlib
import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.suite import Task, load_suite
from pytest_vla.variation import Variation

DIMENSION = "language"

# No English word begins so.
_BEGINNINGS = ("zv", "vl", "zl", "kv", "tl", "dv", "zm", "vr")
_ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "dr", "gl", "kr", "pl", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_ENDS = ("", "", "l", "m", "n", "p", "rk", "s", "t", "x")


def generator_of(task: Task, label: str, seed: int) -> random.Random:
    """What a variation of a task is drawn from: the same task, label and seed give the same."""
    text = f"{task.files}/{task.name}/{label}/{seed}"
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


def blank(task: Task, label: str, seed: int) -> Variation:
    """No text at all."""
    return Variation(label, DIMENSION, "blank", instruction="")


def nonsense(task: Task, label: str, seed: int) -> Variation:
    """As many words as the instruction has, none of which is English."""
    drawn = generator_of(task, label, seed)
    words = [_nonword(drawn) for _ in task.language.split()]
    return Variation(label, DIMENSION, "nonsense", instruction=" ".join(words))


def other_task(task: Task, label: str, seed: int) -> Variation:
    """The instruction of another task of the same scene, which is right for no goal here.

    Raises:
        VlaError: the scene has no other task in this suite.
    """
    others = _scene_mates(task)
    if not others:
        raise VlaError(f"{label}: no other task of {task.suite} is in the scene of {task.name}")
    other = generator_of(task, label, seed).choice(others)
    return Variation(label, DIMENSION, "other-task", parameters={"other": other.name}, instruction=other.language)


def words(task: Task, label: str, seed: int, level: int) -> Variation:
    """VLA-Arena's W1 to W4: so many of the instruction's words become their neighbours in WordNet.

    Raises:
        VlaError: the instruction has fewer words that can be replaced.
    """
    import numpy as np

    from pytest_vla.language.substitution import substitute
    from pytest_vla.language.wordnet import best_wordnet

    drawn = generator_of(task, label, seed)
    numbers = np.random.Generator(np.random.PCG64(drawn.getrandbits(128)))
    result = substitute(task.language, level, numbers, best_wordnet())
    replaced = [f"{each.original}: {each.substitute} ({each.relation})" for each in result.substitutions]
    parameters = {"replaced": "; ".join(replaced), "source": f"WordNet, {result.source}"}
    return Variation(label, DIMENSION, "words", level, parameters, result.text)


def paraphrase(task: Task, label: str, seed: int, object_type: str, action_type: str) -> Variation:
    """A paraphrase of our own of one of LIBERO-Para's 43 kinds, which means the same.

    Raises:
        VlaError: the grammar cannot read the instruction, or has no such paraphrase of it.
    """
    from pytest_vla.language.generator import paraphrases

    others = [other.language for other in _tasks(task) if other.name != task.name]
    found = paraphrases(task.language, others, generator_of(task, label, seed), 1, object_type, action_type)
    if not found:
        raise VlaError(f"{label}: there is no such paraphrase of {task.language!r}")
    types: dict[str, Any] = {"object_type": object_type, "action_type": action_type, "index": seed}
    return Variation(label, DIMENSION, "paraphrase", None, {**types, "original": task.language}, found[0])


def paraphrase_cells() -> tuple[tuple[str, str], ...]:
    """LIBERO-Para's 43 kinds: object type and action type, not both none."""
    from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES

    return tuple((one, other) for one in OBJECT_TYPES for other in ACTION_TYPES if (one, other) != (NONE, NONE))


def _nonword(drawn: random.Random) -> str:
    syllables = (_BEGINNINGS, _VOWELS, _ENDS, _ONSETS, _VOWELS, _ENDS)[: drawn.choice((3, 6, 6))]
    return "".join(drawn.choice(part) for part in syllables)


def _tasks(task: Task) -> Sequence[Task]:
    return load_suite(task.suite, data=task.data).tasks


@cache
def _scene_mates(task: Task) -> tuple[Task, ...]:
    from pytest_vla.plan import Case
    from pytest_vla.scene.affinity import scene_names

    tasks = _tasks(task)
    scenes = scene_names([Case(other.suite, other.name, 0) for other in tasks], task.data)
    here = scenes[Case(task.suite, task.name, 0)]
    same = [other for other in tasks if scenes[Case(other.suite, other.name, 0)] == here]
    return tuple(other for other in same if other.language != task.language)

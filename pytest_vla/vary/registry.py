"""Every variation, registered once: kinds that any suite's tasks can have, and what varied suites consist of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pytest_vla.errors import VlaError
from pytest_vla.suite import Task, did_you_mean
from pytest_vla.variation import Variation
from pytest_vla.vary import language


@dataclass(frozen=True)
class Kind:
    """A kind of variation that any task may have.

    Attributes:
        name: ``DIMENSION.KIND``, as ``--vla-vary`` has it, and the beginning of its labels.
        about: one line.
        source: where it comes from.
        make: gives the variation of a task, label and seed at a level; raises VlaError where the task has none.
        levels: how much, in order; empty: it is not graded.
        needs_files: whether it reads files that the user has to have: it is then taken only where it is named.
        parts: further names in a label, of which each is a variation; empty: the kind is one.
    """

    name: str
    about: str
    source: str
    make: Callable[[Task, str, int, int, str], Variation]
    levels: tuple[int, ...] = ()
    needs_files: bool = False
    parts: Callable[[], tuple[str, ...]] = lambda: ()

    def labels(self, levels: Sequence[int] = ()) -> tuple[str, ...]:
        """Of all its variations, or of those of some levels."""
        if self.levels:
            return tuple(f"{self.name}-L{level}" for level in levels or self.levels)
        return tuple(f"{self.name}.{part}" for part in self.parts()) or (self.name,)


def _cells() -> tuple[str, ...]:
    return tuple(".".join(cell) for cell in language.paraphrase_cells())


def _libero_pro(task: Task, label: str, seed: int) -> Variation:
    from pytest_vla.vary.libero_pro import paraphrase

    return paraphrase(task, label, seed)


def _libero_plus(task: Task, label: str, seed: int) -> Variation:
    from pytest_vla.vary.libero_plus_language import rewrite

    return rewrite(task, label, seed)


KINDS = (
    Kind(
        "language.blank",
        "no instruction at all",
        "a probe of ours",
        lambda task, label, seed, level, part: language.blank(task, label, seed),
    ),
    Kind(
        "language.nonsense",
        "as many words, none of them English",
        "a probe of ours",
        lambda task, label, seed, level, part: language.nonsense(task, label, seed),
    ),
    Kind(
        "language.other_task",
        "the instruction of another task of the scene, right for no goal here",
        "a probe of ours",
        lambda task, label, seed, level, part: language.other_task(task, label, seed),
    ),
    Kind(
        "language.words",
        "so many words replaced by neighbours in WordNet",
        "VLA-Arena, W1-W4",
        lambda task, label, seed, level, part: language.words(task, label, seed, level),
        levels=(1, 2, 3, 4),
    ),
    Kind(
        "language.paraphrase",
        "the same meaning in other words, of each of LIBERO-Para's 43 kinds",
        "a grammar of ours",
        lambda task, label, seed, level, part: language.paraphrase(task, label, seed, *part.split(".")),
        parts=_cells,
    ),
    Kind(
        "language.pro",
        "a paraphrase of your LIBERO-PRO's ood_language.yaml",
        "LIBERO-PRO",
        lambda task, label, seed, level, part: _libero_pro(task, label, seed),
        needs_files=True,
    ),
    Kind(
        "language.plus",
        "a rewritten instruction of your LIBERO-Plus's BDDL files",
        "LIBERO-Plus",
        lambda task, label, seed, level, part: _libero_plus(task, label, seed),
        needs_files=True,
    ),
)


def _libero_para(task: Task) -> Mapping[str, Variation]:
    from pytest_vla.vary.libero_para import paraphrases

    return paraphrases(task)


SOURCES: Mapping[str, Callable[[Task], Mapping[str, Variation]]] = {"libero_para": _libero_para}
"""What varied suites consist of, by the name in their manifests: a task's variations by label, in their order."""


def labels_of(task: Task, vary: Sequence[str] = ()) -> tuple[str, ...]:
    """The labels of a task's variations; the empty one where there are none to be.

    Args:
        task: of any suite.
        vary: labels that ``--vla-vary`` asks for, from `parse_vary`; a suite that is varied by itself takes none.

    Raises:
        VlaError: the suite's variations cannot be read, or it is varied by itself and is to be varied again.
    """
    if not task.varied:
        return tuple(vary) or ("",)
    if vary:
        raise VlaError(f"--vla-vary: {task.suite} is varied by itself; take the suite {task.files} for others")
    return tuple(SOURCES[task.varied](task))


def find_variation(task: Task, label: str, seed: int) -> Variation | None:
    """The variation of a label; None for the empty one.

    Raises:
        VlaError: there is none of that label, with close matches, or the task has none of that kind.
    """
    if not label:
        return None
    if task.varied:
        known = SOURCES[task.varied](task)
        if label in known:
            return known[label]
        raise VlaError(f"{task.suite}/{task.name} has no variation {label!r}.{did_you_mean(label, known)}")
    return _drawn(task, label, seed)


@cache
def _drawn(task: Task, label: str, seed: int) -> Variation:
    kind = next((kind for kind in KINDS if label in kind.labels()), None)
    if kind is None:
        known = [name for kind in KINDS for name in kind.labels()]
        raise VlaError(f"there is no variation {label!r}.{did_you_mean(label, known)}")
    level = int(label.rpartition("-L")[2]) if kind.levels else 0
    made = kind.make(task, label, seed, level, label.removeprefix(f"{kind.name}."))
    if made.instruction is not None and made.instruction == task.language:
        raise VlaError(f"{label} of {task.suite}/{task.name} with seed {seed} changes nothing")
    return made


def parse_vary(text: str) -> tuple[str, ...]:
    """Labels from ``language.blank,language.words:1-3`` or ``language``. Raises VlaError, with close matches."""
    labels: dict[str, None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, colon, levels = part.partition(":")
        of_dimension = [kind for kind in KINDS if kind.name.startswith(f"{name}.") and not kind.needs_files]
        kinds = [kind for kind in KINDS if kind.name == name] or of_dimension
        exact = [label for kind in KINDS for label in kind.labels() if label == name]
        if not kinds and not exact:
            known = [*dict.fromkeys(kind.name.partition(".")[0] for kind in KINDS), *(kind.name for kind in KINDS)]
            raise VlaError(f"no variation is {name!r}.{did_you_mean(name, known)} `--vla-vary=list` lists them")
        for kind in kinds:
            labels.update(dict.fromkeys(kind.labels(_levels(kind, levels) if colon else ())))
        labels.update(dict.fromkeys(exact if not kinds else ()))
    if not labels:
        raise VlaError("nothing to vary is given; `--vla-vary=list` lists what there is")
    return tuple(labels)


def _levels(kind: Kind, text: str) -> tuple[int, ...]:
    from pytest_vla.plan import parse_seeds

    if not kind.levels:
        raise VlaError(f"{kind.name} has no levels: leave :{text} out")
    levels = parse_seeds(text)
    if wrong := [level for level in levels if level not in kind.levels]:
        raise VlaError(f"{kind.name} has levels {kind.levels[0]} to {kind.levels[-1]}, and not {wrong[0]}")
    return levels


def kinds_table() -> tuple[str, ...]:
    """Every kind in a line or two: name, levels, what it does, its source."""
    lines = []
    for kind in KINDS:
        levels = f":{kind.levels[0]}-{kind.levels[-1]}" if kind.levels else ""
        number = f" ({len(kind.labels())} variations)" if len(kind.labels()) > 1 else ""
        lines.append(f"{kind.name + levels:24}{kind.about}{number}; {kind.source}")
    return tuple(lines)

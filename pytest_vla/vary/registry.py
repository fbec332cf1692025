"""Every variation, registered once: kinds that any suite's tasks can have, and what varied suites consist of."""

import importlib
import itertools
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from pytest_vla.errors import UnchangedError, UnfitError, VlaError
from pytest_vla.plan.labels import JOINT, OURS, PAPER, UPSTREAM, parts_of
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation, joined
from pytest_vla.util.text import did_you_mean
from pytest_vla.vary.kind import Draw, Kind

_MODULES = (
    "pytest_vla.suites.libero_pro.variations",
    *(f"pytest_vla.vary.axes.{name}" for name in ("layout", "background", "light", "camera", "robot", "noise")),
    "pytest_vla.suites.vla_arena.visual",
    *(f"pytest_vla.vary.axes.{name}" for name in ("language", "action")),
)
"""Those with kinds, in the order in which the parts of a joint variation are done."""

PAIRS = "pairs"
"""``--vla-vary=pairs``: every two of these dimensions at once."""

PAIRED = ("layout", "background", "light", "camera", "robot", "language")
"""LIBERO-Plus's dimensions without sensor noise: fifteen pairs."""

PAIRS_LEVEL = 3

_WIDTH = 100


@cache
def kinds() -> tuple[Kind, ...]:
    """All kinds, in the order of their dimensions."""
    modules = (importlib.import_module(name) for name in _MODULES)
    return tuple(kind for module in modules for kind in module.KINDS)


def _libero_para(task: Task, protocol: str) -> Mapping[str, Variation]:
    from pytest_vla.suites.libero_para.variations import paraphrases

    return paraphrases(task)


def _libero_plus(task: Task, protocol: str) -> Mapping[str, Variation]:
    from pytest_vla.suites.libero_plus.variations import variations

    return variations(task, protocol)


SOURCES: Mapping[str, Callable[[Task, str], Mapping[str, Variation]]] = {
    "libero_para": _libero_para,
    "libero_plus": _libero_plus,
}
"""What varied suites consist of, by the name in their manifests: a task's variations by label, in their order, as the
paper says (`PAPER`) or as upstream's code does it (`UPSTREAM`)."""

TWO_PROTOCOLS = ("libero_plus",)
"""Those in which these are not the same."""


def labels_of(task: Task, vary: Sequence[str] = (), protocol: str = OURS) -> tuple[str, ...]:
    """The labels of a task's variations; the empty one where there are none to be.

    Args:
        task: of any suite.
        vary: labels that ``--vla-vary`` asks for, from `parse_vary`; a suite that is varied by itself takes none.
        protocol: one of `pytest_vla.plan.labels.PROTOCOLS`: of suites that are varied by themselves, and by `PAPER`
            kinds give way to those that are as published.

    Raises:
        VlaError: the suite's variations cannot be read, or it is varied by itself and is to be varied again.
    """
    if not task.varied:
        return tuple(dict.fromkeys(map(_as_published, vary) if protocol == PAPER else vary)) or ("",)
    if vary:
        raise VlaError(f"--vla-vary: {task.suite} is varied by itself; take the suite {task.files} for others")
    prefix = f"{UPSTREAM}." if protocol == UPSTREAM and task.varied in TWO_PROTOCOLS else ""
    return tuple(f"{prefix}{label}" for label in SOURCES[task.varied](task, PAPER))


def _as_published(label: str) -> str:
    """A label with the kinds that stand, as published, for those of its parts that are otherwise under our protocol."""
    parts = []
    for part in parts_of(label):
        kind = _kind_of(part)
        other = "" if kind is None else kind.as_published
        parts.append(part if kind is None or not other else f"{other}{part.removeprefix(kind.name)}")
    return JOINT.join(parts)


def find_variation(task: Task, label: str, seed: int) -> Variation | None:
    """The variation of a label; None for the empty one.

    Raises:
        VlaError: there is none of that label, with close matches, or the task has none of that kind.
    """
    if not label:
        return None
    if task.varied:
        known = SOURCES[task.varied](task, PAPER)
        if label.startswith(f"{UPSTREAM}."):
            known = _of_upstream(task)
        if label in known:
            return known[label]
        raise VlaError(f"{task.suite}/{task.name} has no variation {label!r}.{did_you_mean(label, known)}")
    return _drawn(task, label, seed)


@cache
def _of_upstream(task: Task) -> Mapping[str, Variation]:
    """As upstream's code does it; ids say so."""
    found = SOURCES[task.varied](task, UPSTREAM) if task.varied in TWO_PROTOCOLS else {}
    return {f"{UPSTREAM}.{label}": _named(each, f"{UPSTREAM}.{label}") for label, each in found.items()}


def _named(variation: Variation, label: str) -> Variation:
    """A variation under another label, however often it is drawn."""
    redraw = variation.redraw
    again = None if redraw is None else lambda time: _named(redraw(time), label)
    return replace(variation, label=label, redraw=again)


def unavailable(tasks: Sequence[Task]) -> Mapping[str, int]:
    """How many variations of varied suites cannot be had here, by what they need. Raises as `labels_of`."""
    from pytest_vla.suites.libero_plus.variations import unavailable as of_libero_plus

    found = [task for task in tasks if task.varied == "libero_plus"]
    return of_libero_plus(found) if found else {}


def dimensions_of(label: str) -> str:
    """What a label's variation changes: ``camera``, ``camera+light``; the label itself where no kind has it."""
    return parts_told_apart(label)[0]


def parts_told_apart(label: str) -> tuple[str, str, str]:
    """Of a label the dimension, the kind, and what tells it apart within the kind: ``light``, ``light.spot``, ``-L3``.

    Of a joint one those of its parts, with ``+`` between. Where no kind has it, the label is the dimension.
    """
    parts = [(part, _kind_of(part)) for part in parts_of(label)]
    known = [(part, kind) for part, kind in parts if kind is not None]
    if len(known) < len(parts):
        return label, "", ""
    dimensions, kinds, rests = (
        [kind.dimension for _, kind in known],
        [kind.name for _, kind in known],
        [part.removeprefix(kind.name) for part, kind in known],
    )
    return JOINT.join(dimensions), JOINT.join(kinds), JOINT.join(rests)


def name_of(label: str) -> str:
    """A label without its level or number, such as ``camera.wider``; the label itself where it has none."""
    kind = _kind_of(label)
    counted = kind is not None and (kind.levels or label.removeprefix(f"{kind.name}.").isdigit())
    return kind.name if kind is not None and counted else label


def evenness_of(labels: Iterable[str]) -> tuple[str, ...]:
    """What is to be said of the kinds of these labels whose levels do not grow evenly in everything."""
    found = {kind.name: kind for label in labels for part in parts_of(label) if (kind := _kind_of(part)) is not None}
    told: dict[str, list[str]] = {}
    for name in sorted(found):
        if found[name].evenness:
            told.setdefault(found[name].evenness, []).append(name)
    return tuple(f"{what}: {', '.join(names)}" for what, names in told.items())


def compiles_anew(task: Task, label: str, seed: int) -> bool:
    """Whether under a label the task's scene is another one, which has to be compiled by itself."""
    if not label:
        return False
    if task.varied:
        found = find_variation(task, label, seed)
        return bool(found and found.problem)
    return any(kind is not None and kind.scene for kind in map(_kind_of, parts_of(label)))


@cache
def _drawn(task: Task, label: str, seed: int) -> Variation:
    parts = parts_of(label)
    _check_joint(label, parts)
    made = tuple(_single(Draw(task, part, seed)) for part in parts)
    if len(made) == 1:
        return made[0]
    try:
        return joined(label, made)
    except VlaError as error:
        raise UnfitError(label, f"{task.suite}/{task.name}", str(error)) from error


def _single(draw: Draw) -> Variation:
    kind = _kind_of(draw.label)
    if kind is None:
        known = [name for kind in kinds() for name in kind.labels()]
        raise VlaError(f"there is no variation {draw.label!r}.{did_you_mean(draw.label, known)}")
    level = int(draw.label.rpartition("-L")[2]) if kind.levels else 0
    part = "" if kind.levels or draw.label == kind.name else draw.label.removeprefix(f"{kind.name}.")
    whose = f"{draw.task.suite}/{draw.task.name}"
    try:
        made = kind.make(Draw(draw.task, draw.label, draw.seed, level, part, draw.time))
    except VlaError as error:
        raise UnfitError(draw.label, whose, str(error)) from error
    same_text = made.instruction is None or made.instruction == draw.task.language
    if same_text and not _changes_world(draw.task, made):
        raise UnchangedError(f"{draw.label} of {whose} with seed {draw.seed} changes nothing")
    return made


def _changes_world(task: Task, variation: Variation) -> bool:
    if not variation.problem:
        return variation.changes_world
    from pytest_vla.scene.task_files import problem_of

    original = problem = problem_of(task)
    for edit in variation.problem:
        problem = edit(problem)
    return problem != original


@cache
def _by_label() -> Mapping[str, Kind]:
    return {label: kind for kind in kinds() for label in kind.labels()}


def _kind_of(label: str) -> Kind | None:
    return _by_label().get(label)


def _check_joint(label: str, parts: Sequence[str]) -> None:
    """Refuse what does not go together. Raises VlaError."""
    if len(parts) == 1:
        return
    found = [kind for kind in map(_kind_of, parts) if kind is not None]
    alone = next((kind for kind in found if kind.alone), None)
    if alone is not None:
        raise VlaError(f"{label}: {alone.name} makes another task of it, and goes with no other variation")
    dimensions = [kind.dimension for kind in found]
    if len(set(dimensions)) < len(dimensions):
        raise VlaError(f"{label}: two variations of one dimension do not go together; take them one by one")
    ordered = JOINT.join(_in_order(parts))
    if label != ordered:
        raise VlaError(f"{label}: there is no such order; what is done first stands first: {ordered}")


def _in_order(labels: Sequence[str]) -> list[str]:
    """Parts of a joint variation in the order in which they are done."""
    order = list(dict.fromkeys(kind.dimension for kind in kinds()))
    return sorted(labels, key=lambda label: order.index(dimensions_of(label)) if _kind_of(label) else -1)


def parse_vary(text: str) -> tuple[str, ...]:
    """Labels from ``camera,light:3,noise:1-5``, ``camera+light:3`` or ``pairs``. Raises VlaError, with close matches.

    A name is a dimension, a kind or a label. The parts of a joint variation have the same level, where none is given.
    """
    labels: dict[str, None] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        if item.partition(":")[0].strip() == PAIRS and item != PAIRS:
            raise VlaError(f"{PAIRS} are of level {PAIRS_LEVEL}: leave {item.removeprefix(PAIRS).strip()} out")
        if item == PAIRS:
            pairs = itertools.combinations(PAIRED, 2)
            found = [label for pair in pairs for label in _joint([f"{name}:{PAIRS_LEVEL}" for name in pair])]
        else:
            found = _joint([part.strip() for part in item.split(JOINT)])
        labels.update(dict.fromkeys(found))
    if not labels:
        raise VlaError("nothing to vary is given; `--vla-vary=list` lists what there is")
    return tuple(labels)


def _joint(parts: Sequence[str]) -> list[str]:
    """The labels of one item of ``--vla-vary``."""
    if len(parts) == 1:
        return _expanded(parts[0])
    some_level = any(":" in part for part in parts[:-1]) or any(part in _by_label() for part in parts)
    if ":" in parts[-1] and not some_level:
        # One level at the end is that of all.
        shared = parts[-1].rpartition(":")[2]
        parts = [part if ":" in part else f"{part}:{shared}" for part in parts]
    choices = [[label for label in _expanded(part) if _goes_with_others(label)] for part in parts]
    if empty := [part for part, found in zip(parts, choices, strict=True) if not found]:
        raise VlaError(f"{empty[0]} makes another task of it, and goes with no other variation")
    joint = []
    for chosen in itertools.product(*choices):
        levels = {level for level in map(_level_of, chosen) if level}
        if len(levels) > 1 and not some_level:
            continue
        ordered = _in_order(chosen)
        label = JOINT.join(ordered)
        _check_joint(label, ordered)
        joint.append(label)
    return joint


def _goes_with_others(label: str) -> bool:
    kind = _kind_of(label)
    return kind is not None and not kind.alone


def _level_of(label: str) -> int:
    kind = _kind_of(label)
    return int(label.rpartition("-L")[2]) if kind is not None and kind.levels else 0


def _expanded(text: str) -> list[str]:
    """The labels of a dimension, kind or label, of all its levels or of those that stand behind a colon."""
    name, colon, levels = (part.strip() for part in text.partition(":"))
    if not name:
        raise VlaError("a part of a joint variation is missing; expected, for example, camera+light:3")
    if name in _by_label():
        if colon:
            raise VlaError(f"{name} is of one level: leave :{levels} out")
        return [name]
    named = [kind for kind in kinds() if kind.name == name]
    of_name = [kind for kind in kinds() if kind.dimension == name]
    # Benchmarks' own kinds, and some probes, come only where they are named; some dimensions are theirs alone.
    of_dimension = [kind for kind in of_name if not (kind.needs_files or kind.published or kind.by_name)] or of_name
    if not named and not of_dimension:
        known = [*dict.fromkeys(kind.dimension for kind in kinds()), *(kind.name for kind in kinds()), PAIRS]
        raise VlaError(f"no variation is {name!r}.{did_you_mean(name, known)} `--vla-vary=list` lists them")
    if named or not colon:
        return [
            label for kind in named or of_dimension for label in kind.labels(_levels(kind, levels) if colon else ())
        ]
    # Of a dimension some kinds are not graded, or not as far.
    wanted = _numbers(levels)
    found = [
        label
        for kind in of_dimension
        for label in (
            kind.labels([level for level in wanted if level in kind.levels]) if set(wanted) & set(kind.levels) else ()
        )
    ]
    if not found:
        raise VlaError(f"{name} has no level {levels}; `--vla-vary=list` lists what there is")
    return found


def _levels(kind: Kind, text: str) -> tuple[int, ...]:
    if not kind.levels:
        raise VlaError(f"{kind.name} has no levels: leave :{text} out")
    levels = _numbers(text)
    if wrong := [level for level in levels if level not in kind.levels]:
        raise VlaError(f"{kind.name} has levels {kind.levels[0]} to {kind.levels[-1]}, and not {wrong[0]}")
    return levels


def _numbers(text: str) -> tuple[int, ...]:
    from pytest_vla.util.ranges import parse_seeds

    try:
        return parse_seeds(text)
    except VlaError as error:
        raise VlaError(f"levels {text!r}: expected a level such as 3, or some such as 1-3") from error


def kinds_table() -> tuple[str, ...]:
    """Every kind in a line or two: name, levels, what it does, how far the levels go, its source."""
    lines = []
    for dimension, group in itertools.groupby(kinds(), key=lambda kind: kind.dimension):
        lines.append(dimension)
        for kind in group:
            levels = f":{kind.levels[0]}-{kind.levels[-1]}" if kind.levels else ""
            number = "" if kind.levels or len(kind.labels()) == 1 else f" ({len(kind.labels())} variations)"
            told = "; ".join(filter(None, (f"{kind.about}{number}", kind.grades, kind.evenness, kind.source)))
            first, rest = f"  {kind.name + levels:26}", " " * 28
            lines += textwrap.wrap(told, _WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    return tuple(lines)


def drawn_for(task: Task, label: str, seed: int, parameters: Mapping[str, object]) -> Variation | None:
    """The variation as an episode's record has it, which may have been drawn more than once.

    Args:
        task, label, seed: of the record.
        parameters: of its variation.

    Raises:
        VlaError: as `find_variation`, or no draw gives these parameters: another version of pytest-vla made them.
    """
    found = find_variation(task, label, seed)
    if found is None:
        return None
    if not found.parts:
        drawn = _draw_with(found, parameters)
    else:
        # Each part was drawn by itself.
        parts = []
        for part in found.parts:
            prefix = f"{part.dimension}.{part.kind}."
            own = {name.removeprefix(prefix): each for name, each in parameters.items() if name.startswith(prefix)}
            parts.append(_draw_with(part, own))
        drawn = joined(label, tuple(part for part in parts if part)) if all(parts) else None
    if drawn is None:
        raise VlaError(
            f"{label} of {task.suite}/{task.name} with seed {seed} is drawn otherwise than its record says: the record "
            "is of another version of pytest-vla, or of other files"
        )
    return drawn


def _draw_with(first: Variation, parameters: Mapping[str, object]) -> Variation | None:
    from pytest_vla.vary.kind import MOST_DRAWS

    draws = range(1, MOST_DRAWS) if first.redraw is not None else ()
    for time in (0, *draws):
        drawn = first if not time or first.redraw is None else first.redraw(time)
        if dict(drawn.parameters) == dict(parameters):
            return drawn
    return None

"""The registry of variations: kinds that tasks of any suite can have, and the lists of varied suites."""

import itertools
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pytest_vla import extensions, hook_modules
from pytest_vla.errors import EpisodeError, UnchangedError, UnfitError, VlaError
from pytest_vla.plan.case import (
    OURS,
    PAPER,
    UPSTREAM,
    chosen_name,
    is_upstreams,
    joint_of,
    level_of,
    part_of,
    parts_of,
    upstreams,
)
from pytest_vla.plan.task import Task, check_unvaried
from pytest_vla.scene.variation import Params, Variation, changed_problem, joined
from pytest_vla.util.text import did_you_mean
from pytest_vla.vary.chosen import chosen_variation, is_chosen
from pytest_vla.vary.kind import AMOUNT, Draw, VariationKind, VariationListing, guarded
from pytest_vla.vary.space import TEXT, complaints

_WIDTH = 100
_FACT_SEEDS = 3


@hook_modules.until_changed
def kinds() -> tuple[VariationKind, ...]:
    """Return all kinds, in the order of their dimensions; those of packages and projects are `guarded`.

    Raises VlaError if a package's kind is invalid.
    """
    found: dict[str, tuple[VariationKind, str]] = {}
    for entry in extensions.variations():
        listed = extensions.load(entry)
        if not isinstance(listed, (list, tuple)):
            what = type(listed).__name__
            raise VlaError(f"{entry.origin}: {entry.load} is {what}, expected a tuple of VariationKind")
        for kind in listed:
            if not isinstance(kind, VariationKind):
                what = type(kind).__name__
                raise VlaError(f"{entry.origin}: {entry.load} has {what}, expected pytest_vla.vary.kind.VariationKind")
            if kind.name in found:
                raise VlaError(
                    f"two packages define the variation {kind.name!r}: {found[kind.name][1]} and {entry.origin}. "
                    "Uninstall or rename one of them"
                )
            is_ours = extensions.is_built_in(entry)
            found[kind.name] = kind if is_ours else guarded(kind, entry.origin), entry.origin
    return tuple(kind for kind, _ in found.values())


@hook_modules.until_changed
def listing(name: str) -> VariationListing:
    """Return the list for suites with ``varied = "NAME"``. Raises VlaError if no package has it."""
    entries = extensions.lists()
    if name not in entries:
        raise VlaError(f"a suite has varied = {name!r}, but no package has such a list.{did_you_mean(name, entries)}")
    found = extensions.load(entries[name])
    if not isinstance(found, VariationListing):
        whose = f"{entries[name].origin}: {entries[name].load}"
        raise VlaError(f"{whose} is {type(found).__name__}, expected pytest_vla.vary.kind.VariationListing")
    return found


def labels_of(task: Task, vary: Sequence[str] = (), protocol: str = OURS) -> tuple[str, ...]:
    """Return the labels of a task's variations; only the empty label if it has none.

    Args:
        task: in any suite.
        vary: labels from `parse_vary`; must be empty if the suite lists its own variations.
        protocol: one of `pytest_vla.plan.case.PROTOCOLS`: chooses the list of a varied suite. `PAPER` and `UPSTREAM`
            also replace kinds by their published or upstream counterparts.

    Raises:
        VlaError: the suite's variations cannot be read, or `vary` is given for a suite that lists its own.
    """
    if not task.varied:
        return tuple(dict.fromkeys(_by_protocol(label, protocol) for label in vary)) or ("",)
    if vary:
        check_unvaried(task, "--vla-vary")
    of_suite = listing(task.varied)
    labels = tuple(of_suite.variations(task, PAPER))
    return tuple(map(upstreams, labels)) if protocol == UPSTREAM and of_suite.two_protocols else labels


def _by_protocol(label: str, protocol: str) -> str:
    """Return a label with our kinds replaced by the protocol's."""
    parts = []
    for part in parts_of(label):
        kind = kind_of(part)
        other = "" if kind is None else {PAPER: kind.as_published, UPSTREAM: kind.as_upstream}.get(protocol, "")
        parts.append(part if kind is None or not other else f"{other}{part.removeprefix(kind.name)}")
    return joint_of(parts)


def find_variation(task: Task, label: str, seed: int) -> Variation | None:
    """Return the variation with a label, or None for the empty label.

    Raises:
        VlaError: no variation has that label (close matches are named), or the task cannot have the kind.
    """
    if not label:
        return None
    if task.varied:
        known = listing(task.varied).variations(task, PAPER)
        if is_upstreams(label):
            known = _of_upstream(task)
        if label in known:
            return known[label]
        raise VlaError(f"{task.id} has no variation {label!r}.{did_you_mean(label, known)}")
    # What is chosen is made at once, and a search chooses tens of thousands.
    return _made_of(task, label, seed) if any(map(chosen_name, parts_of(label))) else _drawn(task, label, seed)


@hook_modules.until_changed
def _of_upstream(task: Task) -> Mapping[str, Variation]:
    """Return a task's variations as upstream's code makes them, under upstream labels."""
    of_suite = listing(task.varied)
    found = of_suite.variations(task, UPSTREAM) if of_suite.two_protocols else {}
    return {upstreams(label): _named(each, upstreams(label)) for label, each in found.items()}


def _named(variation: Variation, label: str) -> Variation:
    """Return a variation under another label, which later draws keep."""
    redraw, remade = variation.redraw, variation.remade
    again = None if redraw is None else lambda time: _named(redraw(time), label)
    given = None if remade is None else lambda params: _named(remade(params), label)
    return replace(variation, label=label, redraw=again, remade=given)


def unavailable(tasks: Sequence[Task]) -> Mapping[str, int]:
    """Count the varied suites' variations that are missing here, by requirement. Raises VlaError as `labels_of`."""
    found: dict[str, list[Task]] = {}
    for task in tasks:
        if task.varied:
            found.setdefault(task.varied, []).append(task)
    lacking: Counter[str] = Counter()
    for name, some in found.items():
        lacking.update(listing(name).unavailable(some))
    return lacking


def dimensions_of(label: str) -> str:
    """Return the dimensions of a label, such as ``camera`` or ``camera+light``; the label itself if unknown."""
    return parts_told_apart(label)[0]


def parts_told_apart(label: str) -> tuple[str, str, str]:
    """Split a label into dimension, kind and the rest, such as ``light``, ``light.spot`` and ``-L3``.

    The parts of a joint label are joined by ``+``. If no kind has the label, the label is the dimension.
    """
    parts = [(part, kind_of(part)) for part in parts_of(label)]
    known = [(part, kind) for part, kind in parts if kind is not None]
    if len(known) < len(parts):
        return label, "", ""
    dimensions, kinds, rests = (
        [kind.dimension for _, kind in known],
        [kind.name for _, kind in known],
        [part.removeprefix(kind.name) for part, kind in known],
    )
    return joint_of(dimensions), joint_of(kinds), joint_of(rests)


def name_of(label: str) -> str:
    """Return a label without its level or number, such as ``camera.wider``; the label itself if it has neither."""
    kind = kind_of(label)
    counted = kind is not None and (kind.levels or label.removeprefix(f"{kind.name}.").isdigit())
    return kind.name if kind is not None and counted else label


def evenness_of(labels: Iterable[str]) -> tuple[str, ...]:
    """Return notes on the kinds of these labels whose levels do not grow evenly in amount and picture.

    If the amount grows unevenly, the note says how much each level is.
    """
    found = {kind.name: kind for label in labels for part in parts_of(label) if (kind := kind_of(part)) is not None}
    told: dict[str, list[str]] = {}
    for name in sorted(found):
        kind = found[name]
        if kind.evenness:
            grades = f" ({kind.grades})" if AMOUNT in kind.uneven else ""
            told.setdefault(kind.evenness, []).append(f"{name}{grades}")
    return tuple(f"{what}: {', '.join(names)}" for what, names in told.items())


def compiles_anew(task: Task, label: str, seed: int) -> bool:
    """Whether the task's scene changes under a label, so that it has to be compiled separately."""
    if not label:
        return False
    if task.varied:
        found = find_variation(task, label, seed)
        return bool(found and found.problem)
    return any(kind is not None and kind.scene for kind in map(kind_of, parts_of(label)))


@hook_modules.until_changed
def _drawn(task: Task, label: str, seed: int) -> Variation:
    return _made_of(task, label, seed)


def _made_of(task: Task, label: str, seed: int) -> Variation:
    parts = parts_of(label)
    check_joint(label, parts)
    made = tuple(_single(Draw(task, part, seed)) for part in parts)
    if len(made) == 1:
        return made[0]
    try:
        return joined(label, made)
    except VlaError as error:
        raise UnfitError(label, f"{task.id}", str(error)) from error


def _single(draw: Draw) -> Variation:
    kind = known_kind(draw.label)
    whose = f"{draw.task.id}"
    if misfit := kind.misfit(draw.task):
        raise UnfitError(draw.label, whose, misfit)
    try:
        made = _made(kind, draw)
    except EpisodeError:
        # A kind that is broken is not one that the task cannot have.
        raise
    except VlaError as error:
        raise UnfitError(draw.label, whose, str(error)) from error
    compiles = bool(made.problem or made.removed or made.init_states or made.asked)
    if draw.task.world is not None and (compiles or (draw.task.scene is None and (made.model or made.state))):
        raise UnfitError(draw.label, whose, "its edits are of a scene that the suite's own world does not have")
    same_text = made.instruction is None or made.instruction == draw.task.language
    if same_text and not _changes_world(draw.task, made):
        raise UnchangedError(f"{draw.label} of {whose} with seed {draw.seed} changes nothing")
    return made


def _made(kind: VariationKind, draw: Draw) -> Variation:
    if is_chosen(draw.label):
        return chosen_variation(kind, draw.task, draw.label)
    return kind.make(_draw_of(kind, draw))


def _draw_of(kind: VariationKind, draw: Draw) -> Draw:
    """Return a draw with the level or part that its label has."""
    if kind.levels:
        return replace(draw, level=level_of(draw.label))
    return replace(draw, part=part_of(draw.label, kind.name))


def _changes_world(task: Task, variation: Variation) -> bool:
    if not variation.problem:
        return variation.changes_world
    from pytest_vla.scene.problem import problem_of

    original = problem_of(task)
    return changed_problem(original, variation) != original


@hook_modules.until_changed
def kinds_by_label() -> Mapping[str, VariationKind]:
    """Return every label that a single variation can have, with its kind."""
    return {label: kind for kind in kinds() for label in kind.labels()}


def kind_of(label: str) -> VariationKind | None:
    """Return the kind of a single variation's label, or None if no kind has it."""
    name = chosen_name(label)
    return _kinds_by_name().get(name) if name else kinds_by_label().get(label)


def kind_named(name: str) -> VariationKind:
    """Return the kind with a name, such as ``camera.azimuth``.

    Raises:
        VlaError: there is none; close matches are named.
    """
    found = _kinds_by_name().get(name)
    if found is None:
        raise VlaError(f"there is no kind of variation {name!r}.{did_you_mean(name, _kinds_by_name())}")
    return found


@hook_modules.until_changed
def _kinds_by_name() -> Mapping[str, VariationKind]:
    return {kind.name: kind for kind in kinds()}


def params_fault(kind: VariationKind, task: Task, params: Params) -> tuple[str, str]:
    """Return what is wrong with parameters that were chosen for a kind, and the name of one that is at fault.

    Both are empty if nothing is; the name also if one is missing.

    Names beside the kind's space are facts, which its draws have too; any other one is a misspelt parameter.

    Raises:
        VlaError: the task cannot have the kind.
    """
    space = kind.space(task)
    known = sorted(each.name for each in space)
    strange = [name for name in params if name not in known]
    if strange:
        facts = _facts(kind.name, task)
        strange = [name for name in strange if name not in facts]
    problems = "; ".join([*complaints(space, params), f"parameters: {', '.join(known) or 'none'}"])
    if strange:
        # Of a misspelt name a missing one follows.
        return f"{kind.name}: unknown parameter {strange[0]!r};{did_you_mean(strange[0], known)} {problems}", strange[0]
    wrong = (each.name for each in space if complaints((each,), params))
    at = next(wrong, None)
    return ("", "") if at is None else (f"{kind.name}: {problems}", at if at in params else "")


@hook_modules.until_changed
def _facts(name: str, task: Task) -> frozenset[str]:
    """Return the names that a kind's draws for a task have, its parameters and the facts beside them."""
    kind, found = kind_named(name), set[str]()
    for label, seed in itertools.product(kind.labels(), range(_FACT_SEEDS)):
        try:
            found |= set(kind.sample(_draw_of(kind, Draw(task, label, seed))))
        except EpisodeError:
            raise
        except VlaError:
            # Of words an instruction has only so many.
            continue
    return frozenset(found)


def check_joint(label: str, parts: Sequence[str]) -> None:
    """Check that the parts of a joint label can be combined. Raises VlaError if not."""
    if len(parts) == 1:
        return
    found = [kind for kind in map(kind_of, parts) if kind is not None]
    alone = next((kind for kind in found if kind.alone), None)
    if alone is not None:
        raise VlaError(f"{label}: {alone.name} changes the task and cannot be combined")
    dimensions = [kind.dimension for kind in found]
    if len(set(dimensions)) < len(dimensions):
        raise VlaError(f"{label}: two variations of one dimension cannot be combined; run them separately")
    ordered = joint_of(in_order(parts))
    if label != ordered:
        raise VlaError(f"{label}: the parts are in the wrong order; write {ordered}")


def in_order(labels: Sequence[str]) -> list[str]:
    """Sort the parts of a joint variation in the order in which they are applied."""
    order = list(dict.fromkeys(kind.dimension for kind in kinds()))
    return sorted(labels, key=lambda label: order.index(dimensions_of(label)) if kind_of(label) else -1)


def known_kind(label: str) -> VariationKind:
    """Return the kind of a label. Raises VlaError, with close matches, if no kind has it."""
    kind = kind_of(label)
    if kind is None:
        known = [name for each in kinds() for name in each.labels()]
        raise VlaError(f"there is no variation {label!r}.{did_you_mean(label, known)}")
    return kind


def kinds_table() -> tuple[str, ...]:
    """Return a line or two for every kind: name, levels, description, range of the levels, source."""
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


# Rows of the reference page on kinds, in Markdown.

KIND_COLUMNS = ("kind", "levels", "what it does", "edits", "notes", "source")
PARAMETER_COLUMNS = ("kind", "parameter", "values", "changes nothing")
_OF_ASSETS = ("pro",)
"""Dimensions whose choices depend on the assets that are installed."""
_WITHOUT_A_TASK = {"background": "model", "language": "instruction", "pro": "instruction"}
"""What kinds of a dimension edit that do not change the scene."""


def kind_row(kind: VariationKind, tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the cells of `KIND_COLUMNS` for a kind; what it edits goes by the first task that can have it."""
    found = _on_a_task(kind, tasks)
    edited = "scene" if kind.scene else _WITHOUT_A_TASK.get(kind.dimension, "")
    edited = edited if found is None else ", ".join(found[1].edits)
    notes = [kind.grades, kind.evenness]
    notes += ["reads files of the benchmark"] if kind.needs_files else []
    notes += ["by name only"] if kind.needs_files or kind.published or kind.by_name else []
    notes += ["goes with no other variation"] if kind.alone else []
    levels = f"{kind.levels[0]}-{kind.levels[-1]}" if kind.levels else ""
    return f"`{kind.name}`", levels, kind.about, edited, "; ".join(filter(None, notes)), kind.source


def parameter_rows(kind: VariationKind, tasks: Sequence[Task]) -> tuple[tuple[str, ...], ...]:
    """Return the cells of `PARAMETER_COLUMNS` for each parameter that a kind has of the first task that can have it."""
    rows = []
    found = _on_a_task(kind, tasks)
    for each in kind.space(found[0]) if found is not None else ():
        benign = "left out" if each.optional else "" if each.benign is None else f"`{each.benign_value()}`"
        benign = "the task's own" if each.form == TEXT else benign
        rows.append((f"`{kind.name}`", f"`{each.name}`", each.in_words(), benign))
    return tuple(rows)


def _on_a_task(kind: VariationKind, tasks: Sequence[Task]) -> tuple[Task, Variation] | None:
    """Return the first task that can have a kind, with its strongest variation; None if it depends on files."""
    if kind.needs_files or kind.dimension in _OF_ASSETS:
        return None
    label = kind.labels()[-1]
    for task in tasks:
        with suppress(VlaError):
            return task, _drawn(task, label, 0)
    return None


# Parsing ``--vla-vary`` into labels.

PAIRS = "pairs"
"""``--vla-vary=pairs``: every two of these dimensions at once."""

PAIRED = ("layout", "background", "light", "camera", "robot", "noise")
"""The six dimensions of LIBERO-Plus's Tables 7 and 8, which leave language out: fifteen pairs."""

PAIRS_LEVEL = 3


def parse_vary(text: str) -> tuple[str, ...]:
    """Parse ``camera,light:3,noise:1-5``, ``camera+light:3`` or ``pairs`` into labels.

    A name is a dimension, a kind or a label. If no level is given, all parts of a joint variation have the same level.

    Raises:
        VlaError: the text is invalid; close matches are named.
    """
    labels: dict[str, None] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        if item.partition(":")[0].strip() == PAIRS and item != PAIRS:
            raise VlaError(f"{PAIRS} always have level {PAIRS_LEVEL}; leave out {item.removeprefix(PAIRS).strip()}")
        if item == PAIRS:
            pairs = itertools.combinations(PAIRED, 2)
            found = [label for pair in pairs for label in _joint([f"{name}:{PAIRS_LEVEL}" for name in pair])]
        else:
            found = _joint([part.strip() for part in parts_of(item)])
        labels.update(dict.fromkeys(found))
    if not labels:
        raise VlaError("--vla-vary is empty; `--vla-vary=list` lists the variations")
    return tuple(labels)


def _joint(parts: Sequence[str]) -> list[str]:
    """Return the labels for one item of ``--vla-vary``."""
    if len(parts) == 1:
        return _expanded(parts[0])
    some_level = any(":" in part for part in parts[:-1]) or any(part in kinds_by_label() for part in parts)
    if ":" in parts[-1] and not some_level:
        # One level at the end is that of all.
        shared = parts[-1].rpartition(":")[2]
        parts = [part if ":" in part else f"{part}:{shared}" for part in parts]
    choices = [[label for label in _expanded(part) if _goes_with_others(label)] for part in parts]
    if empty := [part for part, found in zip(parts, choices, strict=True) if not found]:
        raise VlaError(f"{empty[0]} changes the task and cannot be combined")
    joint = []
    for chosen in itertools.product(*choices):
        levels = {level for level in map(_level_of, chosen) if level}
        if len(levels) > 1 and not some_level:
            continue
        ordered = in_order(chosen)
        label = joint_of(ordered)
        check_joint(label, ordered)
        joint.append(label)
    return joint


def _goes_with_others(label: str) -> bool:
    kind = kind_of(label)
    return kind is not None and not kind.alone


def _level_of(label: str) -> int:
    kind = kind_of(label)
    return level_of(label) if kind is not None and kind.levels else 0


def _expanded(text: str) -> list[str]:
    """Return the labels of a dimension, kind or label, for all its levels or those after the colon."""
    name, colon, levels = (part.strip() for part in text.partition(":"))
    if not name:
        raise VlaError("a part of a joint variation is missing; expected, for example, camera+light:3")
    if name in kinds_by_label():
        if colon:
            raise VlaError(f"{name} is a single variation; leave out :{levels}")
        return [name]
    named = [kind for kind in kinds() if kind.name == name]
    of_name = [kind for kind in kinds() if kind.dimension == name]
    # Benchmarks' own kinds, and some probes, come only where they are named; some dimensions are theirs alone.
    unnamed = [kind for kind in of_name if not kind.by_name]
    of_dimension = [kind for kind in unnamed if not (kind.needs_files or kind.published)] or unnamed or of_name
    if not named and not of_dimension:
        known = [*dict.fromkeys(kind.dimension for kind in kinds()), *(kind.name for kind in kinds()), PAIRS]
        raise VlaError(f"there is no variation {name!r}.{did_you_mean(name, known)} `--vla-vary=list` lists them")
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
        raise VlaError(f"{name} has no level {levels}; `--vla-vary=list` lists the levels")
    return found


def _levels(kind: VariationKind, text: str) -> tuple[int, ...]:
    if not kind.levels:
        raise VlaError(f"{kind.name} has no levels; leave out :{text}")
    levels = _numbers(text)
    if wrong := [level for level in levels if level not in kind.levels]:
        raise VlaError(f"{kind.name} has levels {kind.levels[0]} to {kind.levels[-1]}, not {wrong[0]}")
    return levels


def _numbers(text: str) -> tuple[int, ...]:
    from pytest_vla.util.text import parse_seeds

    try:
        return parse_seeds(text)
    except VlaError as error:
        raise VlaError(f"levels {text!r}: expected a level such as 3, or a range such as 1-3") from error

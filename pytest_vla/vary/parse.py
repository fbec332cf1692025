"""Which variations ``--vla-vary`` asks for: its text, as labels."""

import itertools
from collections.abc import Sequence

from pytest_vla.errors import VlaError
from pytest_vla.plan.labels import joint_of, level_of, parts_of
from pytest_vla.util.text import did_you_mean
from pytest_vla.vary.kind import Kind
from pytest_vla.vary.registry import check_joint, in_order, kind_of, kinds, kinds_by_label

PAIRS = "pairs"
"""``--vla-vary=pairs``: every two of these dimensions at once."""

PAIRED = ("layout", "background", "light", "camera", "robot", "noise")
"""The six dimensions of LIBERO-Plus's Tables 7 and 8, which leave language out: fifteen pairs."""

PAIRS_LEVEL = 3


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
            found = _joint([part.strip() for part in parts_of(item)])
        labels.update(dict.fromkeys(found))
    if not labels:
        raise VlaError("nothing to vary is given; `--vla-vary=list` lists what there is")
    return tuple(labels)


def _joint(parts: Sequence[str]) -> list[str]:
    """The labels of one item of ``--vla-vary``."""
    if len(parts) == 1:
        return _expanded(parts[0])
    some_level = any(":" in part for part in parts[:-1]) or any(part in kinds_by_label() for part in parts)
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
    """The labels of a dimension, kind or label, of all its levels or of those that stand behind a colon."""
    name, colon, levels = (part.strip() for part in text.partition(":"))
    if not name:
        raise VlaError("a part of a joint variation is missing; expected, for example, camera+light:3")
    if name in kinds_by_label():
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

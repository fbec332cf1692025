"""Kinds of variation, and the draws that a variation is made from."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_vla.plan.case import chosen_name, dimension_of, level_of, levelled, part_of, parted, within
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import INSTRUCTION, Edits, Params, Variation, varied
from pytest_vla.vary.space import Space

if TYPE_CHECKING:
    import numpy as np

LEVELS = (1, 2, 3, 4, 5)
"""Of every kind of ours, even steps, see `Draw.share`; what is not even about them, `VariationKind.uneven` says."""

AMOUNT, PICTURE = "the amount", "the picture"
"""Quantities that may grow evenly from level to level."""

SHARE = "share"
"""The parameter of kinds that go so much of the way to level 5."""


MOST_DRAWS = 10
"""How often a variation is drawn until the task's objects are in sight and in reach."""


@dataclass(frozen=True)
class Draw:
    """The input of a variation: equal draws give equal variations, on any machine.

    Attributes:
        task: in any suite.
        label: the variation's label.
        seed: the case's seed.
        level: the strength, from 1; 0 if the kind has no levels.
        part: one of the kind's parts, or empty if it has none.
        time: 0, or the number of earlier draws that could not be used.
    """

    task: Task
    label: str
    seed: int
    level: int = 0
    part: str = ""
    time: int = 0

    def generator(self) -> random.Random:
        """Return a new generator, the same for equal draws."""
        again = f"/{self.time}" if self.time else ""
        text = f"{self.task.files}/{self.task.key}/{self.label}/{self.seed}{again}"
        return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))

    def shared(self, name: str) -> random.Random:
        """Return a generator seeded by `name` instead of the label.

        With the name of a kind, all its levels share their draws and differ only in strength.
        """
        return replace(self, label=name).generator()

    @property
    def share(self) -> float:
        """This level's fraction of the highest of `LEVELS`, in (0, 1]."""
        return self.level / LEVELS[-1]

    def numbers(self) -> "np.random.Generator":
        """Return a numpy generator, the same for equal draws."""
        import numpy as np

        return np.random.Generator(np.random.PCG64(self.generator().getrandbits(128)))

    def again(self, time: int) -> "Draw":
        """Return this draw with another `time`."""
        return replace(self, time=time)


def never(task: Task, params: Params) -> bool:
    """`VariationKind.again` for kinds whose draw never needs to be repeated."""
    return False


def always(task: Task, params: Params) -> bool:
    """`VariationKind.again` for kinds whose draw may not fit a scene, so that another one is tried."""
    return True


@dataclass(frozen=True)
class VariationKind:
    """A kind of variation that any task may have; drawing its parameters is separate from applying them.

    Parameters are plain data, which a record keeps: `given` makes the variation from them again, without drawing.

    Attributes:
        name: ``DIMENSION.KIND``, as in ``--vla-vary``, and the beginning of its labels.
        about: one line.
        source: the origin of the kind, such as a benchmark.
        sample: draws the parameters; equal draws give equal ones. ``instruction`` is the text given to the policy.
            Entries that are not in `space` are facts recorded with the parameters. Raises VlaError if the task cannot
            have the kind.
        apply: makes a task's edits from parameters; draws nothing. Raises VlaError if they cannot be had.
        space: a task's parameters, with bounds and benign values; empty if there is nothing to choose.
        levels: the levels in order, or empty.
        grades: the meaning of the levels in a line, such as ``0.1 to 0.5 rad``; empty without levels.
        needs_files: whether it reads files that the user provides; such a kind runs only if it is named.
        parts: further names in a label, one for each variation; empty if the kind is a single variation.
        scene: whether it changes the problem, so that the scene has to be compiled anew.
        alone: whether it cannot be combined, because it changes the task that is asked for.
        published: whether it is a benchmark's own, with the benchmark's parameters; it then runs only if it is named,
            and not with its dimension.
        by_name: whether it runs only if it is named, though it is ours: a probe, which counts in no rate.
        as_published: for a kind that follows a benchmark with our changes, the name of the kind without them, which
            ``--vla-protocol=paper`` uses instead; empty if there is none.
        as_upstream: for a kind that follows a paper whose code differs, the name of the kind that follows the code,
            which ``--vla-protocol=upstream`` uses instead; empty if there is none.
        uneven: quantities that do not grow evenly from level to level: `AMOUNT` is the quantity in `grades`, `PICTURE`
            the grey-level difference between camera pictures and benign ones, as measured by
            ``tests/support/levels.py``. Empty if both grow evenly.
        probe: see `Variation.probe`.
        in_sight: see `Variation.in_sight`.
        again: whether another draw may help if a scene cannot have this one.
        recorded: its name in records, without the dimension, if different; ``{part}`` is the label's part.
        part_is: the parameter that the label's part gives, or empty.
        anywhere: whether it changes only pictures, words or actions, so that a suite with its own world can have it
            too.
    """

    name: str
    about: str
    source: str
    sample: Callable[[Draw], Params]
    apply: Callable[[Task, Params], Edits]
    space: Space = lambda task: ()
    levels: tuple[int, ...] = ()
    grades: str = ""
    needs_files: bool = False
    parts: Callable[[], tuple[str, ...]] = lambda: ()
    scene: bool = False
    alone: bool = False
    published: bool = False
    by_name: bool = False
    as_published: str = ""
    as_upstream: str = ""
    uneven: tuple[str, ...] = ()
    probe: bool = False
    in_sight: bool = False
    again: Callable[[Task, Params], bool] = never
    recorded: str = ""
    part_is: str = ""
    anywhere: bool = False

    def make(self, draw: Draw) -> Variation:
        """Return the variation for a draw, with its redraw function. Raises VlaError if the task cannot have it."""
        params = self.sample(draw)
        made = self.given(draw.task, draw.label, params)
        again = self.again(draw.task, params)
        return replace(made, redraw=lambda time: self.make(draw.again(time))) if again else made

    def given(self, task: Task, label: str, params: Params) -> Variation:
        """Return the variation for given parameters, without drawing.

        Raises:
            VlaError: the task cannot have it.
        """
        edits = self.apply(task, params)
        told = params if edits.told is None else edits.told
        parameters = {name: value for name, value in told.items() if name != INSTRUCTION}
        kind = self.recorded_name(label)
        level = level_of(label) or None if self.levels else None
        return varied(label, self.dimension, kind, level, parameters, edits, probe=self.probe, in_sight=self.in_sight)

    def recorded_name(self, label: str) -> str:
        """Return the name used in records, without the dimension."""
        return self.recorded.format(part=part_of(label, self.name)) or within(self.dimension, self.name)

    def implied(self, label: str) -> dict[str, Any]:
        """Return the parameters that a label implies, which older records do not name."""
        if chosen_name(label):
            return {}
        by_level = {SHARE: level_of(label) / LEVELS[-1]} if self.levels else {}
        return by_level | ({self.part_is: part_of(label, self.name)} if self.part_is else {})

    @property
    def dimension(self) -> str:
        """The dimension that it varies."""
        return dimension_of(self.name)

    @property
    def evenness(self) -> str:
        """A note on the quantity in which levels grow evenly; empty if they grow evenly in both."""
        even = [each for each in (AMOUNT, PICTURE) if each not in self.uneven]
        if not self.uneven:
            return ""
        return f"level steps are even in {even[0]}, not in {self.uneven[0]}" if even else "level steps are not even"

    def labels(self, levels: Sequence[int] = ()) -> tuple[str, ...]:
        """Return the labels of all variations, or of some levels."""
        if self.levels:
            return tuple(levelled(self.name, level) for level in levels or self.levels)
        return tuple(parted(self.name, part) for part in self.parts()) or (self.name,)


@dataclass(frozen=True)
class VariationListing:
    """The contents of suites that list their own variations.

    Attributes:
        variations: a task's variations by label, in order, per the paper (`PAPER`) or per upstream's code (`UPSTREAM`);
            raises VlaError if they cannot be read.
        two_protocols: whether paper and code differ.
        unavailable: the number of these tasks' variations that are missing here, by requirement.
        by_lot: whether a sample is balanced over dimensions and kinds only, and drawn by lot within a kind: levels and
            tasks then occur in the proportions of the list.
    """

    variations: Callable[[Task, str], Mapping[str, Variation]]
    two_protocols: bool = False
    unavailable: Callable[[Sequence[Task]], Mapping[str, int]] = lambda tasks: {}
    by_lot: bool = False

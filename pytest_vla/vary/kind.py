"""What a kind of variation is, and what one is drawn from."""

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

AMOUNT, PICTURE = "the amount", "what is seen"
"""What may grow evenly from level to level."""

SHARE = "share"
"""The parameter of kinds that go so much of the way to level 5."""


MOST_DRAWS = 10
"""How often a variation is drawn until the task's objects are in sight and in reach."""


@dataclass(frozen=True)
class Draw:
    """What a variation is made of: equal draws give equal variations, on any machine.

    Attributes:
        task: of any suite.
        label: the variation's to be.
        seed: of the case.
        level: how much, 1 and on; 0: the kind is not graded.
        part: which of the kind's parts; empty: it has none.
        time: 0; 1 and on, where what was drawn before could not be used.
    """

    task: Task
    label: str
    seed: int
    level: int = 0
    part: str = ""
    time: int = 0

    def generator(self) -> random.Random:
        """A new generator, the same for equal draws."""
        again = f"/{self.time}" if self.time else ""
        text = f"{self.task.files}/{self.task.key}/{self.label}/{self.seed}{again}"
        return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))

    def shared(self, name: str) -> random.Random:
        """As `generator`, the same for all labels that name what they draw so.

        By the name of a kind its levels differ in how much only.
        """
        return replace(self, label=name).generator()

    @property
    def share(self) -> float:
        """How much of the highest of `LEVELS` this level has, in (0, 1]."""
        return self.level / LEVELS[-1]

    def numbers(self) -> "np.random.Generator":
        """As `generator`, numpy's."""
        import numpy as np

        return np.random.Generator(np.random.PCG64(self.generator().getrandbits(128)))

    def again(self, time: int) -> "Draw":
        """The same, drawn for another time."""
        return replace(self, time=time)


def never(task: Task, params: Params) -> bool:
    """Of kinds that another draw does not help: nothing is drawn, or any draw will do."""
    return False


def always(task: Task, params: Params) -> bool:
    """Of kinds whose draws a scene may not have, so that another one is tried."""
    return True


@dataclass(frozen=True)
class VariationKind:
    """A kind of variation that any task may have: what is drawn, apart from what that does.

    What is drawn is plain data, which a record keeps: `given` makes the variation of it again, without drawing.

    Attributes:
        name: ``DIMENSION.KIND``, as ``--vla-vary`` has it, and the beginning of its labels.
        about: one line.
        source: where it comes from.
        sample: draws the parameters; equal draws give equal ones. ``instruction`` is what the robot is told; what is no
            parameter of the `space` is a fact that is told with them. Raises VlaError where the task has none.
        apply: what parameters do to a task; draws nothing. Raises VlaError where they cannot be had.
        space: the parameters of a task, with their bounds and benign values; empty: there is nothing to choose.
        levels: how much, in order; empty: it is not graded.
        grades: what the levels are, in a line, such as ``0.1 to 0.5 rad``; empty: they are not graded.
        needs_files: whether it reads files that the user has to have: it is then taken only where it is named.
        parts: further names in a label, of which each is a variation; empty: the kind is one.
        scene: whether it changes the problem, so that its scene is another one and has to be compiled.
        alone: whether it goes with no other variation: what is asked of the robot is another task.
        published: whether it is a benchmark's own, with that one's parameters: it is then taken only where it is named,
            and not with its dimension.
        by_name: whether it is taken only where it is named, though it is ours: a probe, which is in no rate.
        as_published: of a kind that follows a benchmark with changes of ours the name of the one without them, which
            ``--vla-protocol=paper`` takes in its stead; empty: there is none.
        as_upstream: the same for a kind that does as a paper says, whose code does something else, which
            ``--vla-protocol=upstream`` takes in its stead.
        uneven: what does not grow evenly from level to level: `AMOUNT`, what its grades are; `PICTURE`, of those that
            change what cameras give, how much grey levels differ from the benign picture's, as the module
            ``tests/support/levels.py`` measures it. Empty: all does.
        probe: see `Variation.probe`.
        in_sight: see `Variation.in_sight`.
        again: whether another draw may help where a scene cannot have this one.
        recorded: its name in records, without the dimension, where it has another one; ``{part}`` is the label's part.
        part_is: the parameter that the label's part is; empty: it is none.
        anywhere: whether it changes only pictures, words or actions, so that a suite with a world of its own can have
            it too.
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
        """The variation of a draw, and how it is drawn for another time. Raises VlaError where the task has none."""
        params = self.sample(draw)
        made = self.given(draw.task, draw.label, params)
        again = self.again(draw.task, params)
        return replace(made, redraw=lambda time: self.make(draw.again(time))) if again else made

    def given(self, task: Task, label: str, params: Params) -> Variation:
        """The variation that parameters make, without drawing.

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
        """What records call it, without the dimension."""
        return self.recorded.format(part=part_of(label, self.name)) or within(self.dimension, self.name)

    def implied(self, label: str) -> dict[str, Any]:
        """The parameters that a label has by itself, which older records do not name."""
        if chosen_name(label):
            return {}
        by_level = {SHARE: level_of(label) / LEVELS[-1]} if self.levels else {}
        return by_level | ({self.part_is: part_of(label, self.name)} if self.part_is else {})

    @property
    def dimension(self) -> str:
        """What it changes."""
        return dimension_of(self.name)

    @property
    def evenness(self) -> str:
        """What the levels grow evenly in, where that is not all; else empty."""
        even = [each for each in (AMOUNT, PICTURE) if each not in self.uneven]
        if not self.uneven:
            return ""
        return f"levels grow evenly in {even[0]}, not in {self.uneven[0]}" if even else "levels do not grow evenly"

    def labels(self, levels: Sequence[int] = ()) -> tuple[str, ...]:
        """Of all its variations, or of those of some levels."""
        if self.levels:
            return tuple(levelled(self.name, level) for level in levels or self.levels)
        return tuple(parted(self.name, part) for part in self.parts()) or (self.name,)


@dataclass(frozen=True)
class VariationListing:
    """What suites consist of that are varied by themselves.

    Attributes:
        variations: gives a task's by label, in their order, as the paper says (`PAPER`) or as upstream's code does it
            (`UPSTREAM`); raises VlaError where they cannot be read.
        two_protocols: whether these are not the same.
        unavailable: how many variations of these tasks cannot be had here, by what they need.
        by_lot: whether a sample is spread over dimensions and kinds alone, and within a kind is drawn by lot: levels
            and tasks are then as many as the list has.
    """

    variations: Callable[[Task, str], Mapping[str, Variation]]
    two_protocols: bool = False
    unavailable: Callable[[Sequence[Task]], Mapping[str, int]] = lambda tasks: {}
    by_lot: bool = False

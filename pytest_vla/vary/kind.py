"""What a kind of variation is, and what one is drawn from."""

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation

if TYPE_CHECKING:
    import numpy as np

LEVELS = (1, 2, 3, 4, 5)
"""Of every kind of ours, even steps, see `Draw.share`; what is not even about them, `Kind.uneven` says."""

AMOUNT, PICTURE = "the amount", "what is seen"
"""What may grow evenly from level to level."""


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
        text = f"{self.task.files}/{self.task.name}/{self.label}/{self.seed}{again}"
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


@dataclass(frozen=True)
class Kind:
    """A kind of variation that any task may have.

    Attributes:
        name: ``DIMENSION.KIND``, as ``--vla-vary`` has it, and the beginning of its labels.
        about: one line.
        source: where it comes from.
        make: gives the variation; raises VlaError where the task has none.
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
        uneven: what does not grow evenly from level to level: `AMOUNT`, what its grades are; `PICTURE`, of those that
            change what cameras give, how much grey levels differ from the benign picture's, as ``benchmarks/levels.py``
            measures it. Empty: all does.
    """

    name: str
    about: str
    source: str
    make: Callable[[Draw], Variation]
    levels: tuple[int, ...] = ()
    grades: str = ""
    needs_files: bool = False
    parts: Callable[[], tuple[str, ...]] = lambda: ()
    scene: bool = False
    alone: bool = False
    published: bool = False
    by_name: bool = False
    as_published: str = ""
    uneven: tuple[str, ...] = ()

    @property
    def dimension(self) -> str:
        """What it changes."""
        return self.name.partition(".")[0]

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
            return tuple(f"{self.name}-L{level}" for level in levels or self.levels)
        return tuple(f"{self.name}.{part}" for part in self.parts()) or (self.name,)

MOST_DRAWS = 10
"""How often a variation is drawn until the task's objects are in sight and in reach."""

"""What a variation is: one controlled change of a task, as a value. Pure: no simulator, no pytest."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_vla.errors import VlaError

LABEL = r"[A-Za-z0-9_.+-]+"
"""What stands in ids for a variation; a regular expression."""


@dataclass(frozen=True)
class Variation:
    """One controlled change of a task.

    Attributes:
        label: its name in ids, unique within a task; of letters, digits, ``_``, ``.``, ``+`` and ``-``.
        dimension: what is changed: ``language``.
        kind: how, within the dimension.
        level: how much, where that is graded; None: it is not.
        parameters: all that was drawn, of texts and numbers.
        instruction: what the robot is told instead of the task's own; None: that.
    """

    label: str
    dimension: str
    kind: str
    level: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    instruction: str | None = None

    def __post_init__(self) -> None:
        if re.fullmatch(LABEL, self.label) is None:
            raise VlaError(f"a variation's label is of letters, digits, _ . + and -, not {self.label!r}")

    def table(self) -> dict[str, Any]:
        """As it stands in a record; the instruction is there by itself."""
        return {
            "label": self.label,
            "dimension": self.dimension,
            "kind": self.kind,
            "level": self.level,
            "parameters": dict(self.parameters),
        }

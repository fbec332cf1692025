"""Changes whose parameters are chosen, by a search or in a file of cases, rather than drawn.

Their labels end with a digest of the parameters, so that equal labels mean equal changes in every process. A process
knows the parameters of a label after `remember`; every record holds them too.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import chosen, chosen_name
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Params, Variation
from pytest_vla.vary.kind import VariationKind
from pytest_vla.vary.space import complaints

_DIGITS = 6
"""Numbers are rounded to so many places, so that a file has them as they are."""


@dataclass(frozen=True)
class Change:
    """A kind of variation with its parameters.

    Attributes:
        kind: a name in `pytest_vla.vary.registry.kinds`.
        params: values in the kind's parameter space, plain data.
    """

    kind: str
    params: Params

    @property
    def label(self) -> str:
        """The change's name in ids, such as ``camera.azimuth-x1f09a2c4``."""
        text = json.dumps(self.params, sort_keys=True, separators=(",", ":"))
        return chosen(self.kind, hashlib.sha256(text.encode()).hexdigest()[:8])


# By label: what a label means does not depend on who said it, nor on when.
_KNOWN: dict[str, Change] = {}


def change_of(kind: str, params: Params) -> Change:
    """Return a change with its numbers rounded, as in files and records."""
    return Change(kind, {name: _rounded(value) for name, value in sorted(params.items())})


def remember(change: Change) -> str:
    """Store the change for `remembered` in this process, and return its label."""
    _KNOWN[change.label] = change
    return change.label


def remembered(label: str) -> Change:
    """Return the change with a label. Raises VlaError if `remember` did not store it in this process."""
    found = _KNOWN.get(label)
    if found is None:
        raise VlaError(
            f"the parameters of {label} are unknown; run it with the file of cases that lists them (--vla-cases)"
        )
    return found


@contextmanager
def remembering(changes: Iterable[Change]) -> Iterator[None]:
    """Restore the set of known changes at the end of the block: those of `changes` that were new are forgotten.

    A search tries tens of thousands, and needs each only once.
    """
    added = [change.label for change in changes if change.label not in _KNOWN]
    try:
        yield
    finally:
        for label in added:
            _KNOWN.pop(label, None)


def chosen_variation(kind: VariationKind, task: Task, label: str) -> Variation:
    """Return the variation with a label written by `chosen`.

    Raises:
        VlaError: the parameters are unknown or do not belong to the kind, or the task cannot have them.
    """
    change = remembered(label)
    if wrong := complaints(kind.space(task), change.params):
        raise VlaError("; ".join(wrong))
    return kind.given(task, label, change.params)


def is_chosen(label: str) -> bool:
    """Whether a label is a single variation with chosen parameters."""
    return bool(chosen_name(label))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        # Not -0.0, which other texts would be of than of 0.0.
        return round(value, _DIGITS) + 0.0
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return value

"""The choices of a gate, with their defaults. No imports, since pytest reads this module in every project."""

from typing import Literal

Verdict = Literal["better", "no worse", "regression", "undecided", "not comparable"]

MARGIN, ALPHA = 5.0, 0.05
"""Defaults: points of success that may be lost, and the share of runs in which a claim may be wrong."""

BEYOND, ANY = REGRESSIONS = ("margin", "any")
"""Which loss is a regression: one that is shown to exceed the margin (default), or any loss that is shown."""

LABELS = ("suite", "task", "task_level", "dimension", "kind", "level", "label", "test", "group")
"""By which episodes may be grouped; test and group are of the user's own tests: their function, and what the marker
names."""

BY = ("suite", "dimension")
"""By which they are where nothing else is said."""


def label_error(name: str) -> str:
    """Return the message for a label by which nothing can be grouped."""
    from pytest_vla.util.text import did_you_mean

    return f"cannot group by {name!r}: expected some of {', '.join(LABELS)}.{did_you_mean(name, LABELS)}"


FIXED, SEQUENTIAL = RULES = ("fixed", "sequential")
"""When a run is judged; fixed: once, when all of its episodes have ended; sequential: while they end, and a group whose
verdict is found stops."""

NO_REGRESSION = "no-regression"

REQUIRED: dict[str, tuple[Verdict, ...]] = {
    NO_REGRESSION: ("better", "no worse", "undecided"),
    "no-worse": ("better", "no worse"),
    "better": ("better",),
}
"""By what is asked for, the verdicts with which it is met."""

STOPS: dict[str, tuple[Verdict, ...]] = {
    NO_REGRESSION: ("regression", "no worse", "better"),
    "no-worse": ("regression", "no worse", "better"),
    "better": ("regression", "better"),
}
"""By what is asked for, the verdicts at which a group of a sequential gate stops: no more episodes would change whether
it is met. A group of which better is asked for may be no worse, and still become better."""

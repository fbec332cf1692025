"""In which conditions two sides ran otherwise, and how it is said."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args

from pytest_vla.errors import STOPPED
from pytest_vla.gate.baseline import INIT_STATE, CaseResult
from pytest_vla.gate.conditions import CONDITIONS, OTHER, Effect, row_of
from pytest_vla.util.text import counted, printable

_OTHERWISE_KNOWN = ("run_seed", "protocol.init_states")
"""Conditions that are not compared: by the one cases are found, and of the other the init state itself tells."""

_ALARM = "provenance.stop_when"
_SHOWN = 3
_LONGEST = 80


@dataclass(frozen=True)
class Disagreement:
    """A condition in which cases differ.

    Attributes:
        name: of the condition.
        effect: of it, in `CONDITIONS`; what one side alone must say, and does not, warns only.
        baseline: what the baseline says, as JSON has it; None: nothing.
        new: what the run says.
        cases: whose (`CaseResult.case`, of the run), in order.
    """

    name: str
    effect: Effect
    baseline: Any
    new: Any
    cases: tuple[str, ...]

    @property
    def text(self) -> str:
        """``step budget (protocol.max_steps): 300 in the baseline, 400 in the run, 40 cases: more steps, ...``."""
        row = row_of(self.name)
        sides = f"{_value_text(self.baseline)} in the baseline, {_value_text(self.new)} in the run"
        return f"{row.about} ({self.name}): {sides}, {counted(len(self.cases), 'case')}: {row.why}"


def lines_of(disagreements: Iterable[Disagreement]) -> list[str]:
    """A line for each disagreement; of one condition no more than a few, and how many more there are."""
    by_name: dict[str, list[Disagreement]] = {}
    for each in disagreements:
        by_name.setdefault(each.name, []).append(each)
    lines = []
    for name, some in by_name.items():
        lines += [each.text for each in some[:_SHOWN]]
        if more := some[_SHOWN:]:
            cases = counted(sum(len(each.cases) for each in more), "case")
            lines.append(f"{row_of(name).about} ({name}): {len(more)} more such differences, {cases}")
    return lines


def disagreements_of(
    compared: Iterable[tuple[CaseResult, CaseResult, Iterable[str]]],
) -> tuple[Disagreement, ...]:
    """In which conditions cases differ, those first that refuse, in the order of `CONDITIONS`.

    Args:
        compared: of each comparison the baseline's case, the run's, and the names of conditions that may differ.
    """
    cases: dict[tuple[str, str, str], list[str]] = {}
    values: dict[tuple[str, str, str], tuple[Effect, Any, Any]] = {}
    for one, other, names in compared:
        known_of_all = one.is_counted and other.is_counted
        for name in names:
            before, now = _value_of(one, name), _value_of(other, name)
            if name in _OTHERWISE_KNOWN or before == now:
                continue
            is_told = known_of_all or (name == _ALARM and _knows_alarm(one) and _knows_alarm(other))
            if not is_told and None in (before, now):
                # Whoever died could not tell.
                continue
            row, unknown = row_of(name), None in (before, now)
            if row is OTHER and unknown:
                continue
            key = name, json.dumps(before, sort_keys=True), json.dumps(now, sort_keys=True)
            cases.setdefault(key, []).append(other.case)
            values[key] = "warns" if row.must_be_known and unknown else row.effect, before, now
    found = [Disagreement(key[0], *values[key], tuple(dict.fromkeys(some))) for key, some in cases.items()]
    effects, rows = get_args(Effect), [row.name for row in (*CONDITIONS, OTHER)]
    return tuple(
        sorted(
            found,
            key=lambda each: (
                effects.index(each.effect),
                rows.index(row_of(each.name).name),
                each.name,
                -len(each.cases),
                each.cases,
            ),
        )
    )


def _knows_alarm(case: CaseResult) -> bool:
    """Whether a case that says of no rule had none: all that an alarm stopped says by which."""
    return case.is_counted or case.reason == STOPPED


def _value_of(case: CaseResult, name: str) -> Any:
    if name == INIT_STATE:
        return case.init_state
    return (case.parameters or None) if name == "parameters" else case.condition(name)


def _value_text(value: Any) -> str:
    text = "not said" if value is None else value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")

"""What a search has found, for programs."""

from typing import Any

from pytest_vla.fuzz.found import Found, Searched


def task_table(name: str, seen: Searched) -> dict[str, Any]:
    """A task's search: ``fails`` are of the ``scenes`` that were drawn evenly, and are a rate of that space."""
    return {
        "task": name,
        "scenes": seen.proposed,
        "fails": seen.failed,
        "passes": seen.passed,
        "aside": dict(seen.aside),
        "guided_scenes": seen.guided,
        "guided_fails": seen.guided_failed,
        "again": seen.again,
        "pending": seen.pending,
        "twins_left_out": [{"seed": seed, "why": why} for seed, why in seen.left_out],
        "found": [found_table(each) for each in seen.found],
    }


def found_table(found: Found) -> dict[str, Any]:
    """A failure at its smallest."""
    smallest = found.shrunk.candidate
    return {
        "label": smallest.label,
        "seed": smallest.seed,
        "changes": {change.kind: dict(change.params) for change in smallest.changes},
        "first": {change.kind: dict(change.params) for change in found.first.changes},
        "source": found.source,
        "number": found.number,
        "boundaries": [
            {
                "kind": side.kind,
                "along": None if side.along is None else str(side.along),
                "passes": None if side.passes is None else dict(side.passes),
                "fails": dict(side.fails),
            }
            for side in found.shrunk.boundaries
        ],
        "episodes": found.shrunk.tried,
        "complete": found.shrunk.complete,
        "failed_run_seeds": found.failed,
        "run_seeds": found.tried,
        "rival": found.rival,
    }

"""LIBERO-Para's paraphrases (arXiv 2603.28301) as variations of LIBERO-Goal's tasks, from the user's CSV."""

import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.language.published import (
    FILE,
    Paraphrase,
    Published,
    find_csv,
    load_published,
    missing_paraphrases,
)
from pytest_vla.plan.task import Task
from pytest_vla.plan.user_files import find_given
from pytest_vla.scene.variation import Variation
from pytest_vla.vary.kind import Listing

if TYPE_CHECKING:
    from pytest_vla.suites.libero_para.logs import ParaEpisode


def label_of(row: "Paraphrase | ParaEpisode") -> str:
    """``OBJECT_TYPE.ACTION_TYPE.BATCH_IDX``, unique within a task."""
    return f"{row.object_type}.{row.action_type}.{row.batch_idx}"


def variation_of(row: "Paraphrase | ParaEpisode", original: str, published: "Published | None" = None) -> Variation:
    """A row of the CSV, or an episode of a log, as a variation of the task with this instruction.

    Args:
        row: names the paraphrase.
        original: the task's own instruction.
        published: has the similarities that go with it, S_K and S_T; None: nothing is known of them.
    """
    types = {"object_type": row.object_type, "action_type": row.action_type}
    parameters: dict[str, Any] = {**types, "index": row.batch_idx, "original": original}
    known = published.by_key.get(row.key) if published is not None else None
    if published is not None and known is not None:
        parameters |= {"s_k": known.keyword, "s_t": known.structural, "similarity_by": _backend_text(published)}
    return Variation(label_of(row), "language", "paraphrase", None, parameters, row.instruction)


def paraphrases(task: Task) -> Mapping[str, Variation]:
    """A task's paraphrases by label, in the CSV's order; warns once of a CSV that has fewer than are published.

    Raises:
        VlaError: the CSV is nowhere, cannot be read, or has none of this task.
    """
    file = _find(task.data)
    found = _by_task(file, file.stat().st_mtime_ns).get(task.language)
    if found is None:
        raise VlaError(f"{file} has no paraphrase of {task.language!r}; expected LIBERO-Para's {FILE}")
    return found


def _find(data: Path | None) -> Path:
    return find_given(data, find_csv, "LIBERO-Para", FILE)


def _backend_text(published: "Published") -> str:
    from pytest_vla.language.backends import published_backend

    return str(published_backend(published))


@cache
def _by_task(file: Path, changed: int) -> Mapping[str, Mapping[str, Variation]]:
    found: dict[str, dict[str, Variation]] = {}
    published = load_published(file)
    if missing := missing_paraphrases(published):
        warnings.warn(f"{file} has {missing}", stacklevel=2)
    for row in published.rows:
        found.setdefault(row.original, {})[label_of(row)] = variation_of(row, row.original, published)
    return found


LISTING = Listing(lambda task, protocol: paraphrases(task))
"""As the registry of variations takes it."""

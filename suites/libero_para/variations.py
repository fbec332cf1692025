"""LIBERO-Para's paraphrases (arXiv 2603.28301) as variations of LIBERO-Goal's tasks, from the user's CSV."""

import hashlib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.language.published import (
    FILE,
    Published,
    PublishedParaphrase,
    cell_of,
    find_csv,
    load_published,
    missing_paraphrases,
    texts_key,
)
from pytest_vla.metrics.language import OWN
from pytest_vla.metrics.pride import ParaphraseOutcome
from pytest_vla.plan.data_roots import find_given
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.vary.kind import VariationListing


def label_of(row: "PublishedParaphrase | ParaEpisode") -> str:
    """Return ``OBJECT_TYPE.ACTION_TYPE.BATCH_IDX``, unique within a task; an own text has its digest for the number."""
    if isinstance(row, PublishedParaphrase) and row.is_own:
        # A number would be that of a published text, or of another one after a change of the file.
        digest = hashlib.sha256(texts_key("", row.instruction)[1].encode()).hexdigest()[:8]
        return f"{row.object_type}.{row.action_type}.{OWN}-{digest}"
    return f"{row.object_type}.{row.action_type}.{row.batch_idx}"


def variation_of(
    row: "PublishedParaphrase | ParaEpisode", original: str, published: "Published | None" = None
) -> Variation:
    """Return a row of the CSV, or an episode in a log, as a variation of the task with this instruction.

    Args:
        row: identifies the paraphrase.
        original: the task's own instruction.
        published: holds the paraphrase's similarities, S_K and S_T, or None if they are unknown.
    """
    types = {"object_type": row.object_type, "action_type": row.action_type}
    parameters: dict[str, Any] = {**types, "index": row.batch_idx, "original": original}
    known = published.by_key.get(row.key) if published is not None else None
    if known is not None and known.is_own:
        parameters["texts"] = OWN
    elif published is not None and known is not None:
        parameters |= {"s_k": known.keyword, "s_t": known.structural, "similarity_by": _backend_text(published)}
    return Variation(label_of(row), "language", "paraphrase", None, parameters, row.instruction)


def paraphrases(task: Task) -> Mapping[str, Variation]:
    """Return a task's paraphrases by label, in the CSV's order; warn once if the CSV has fewer than published.

    Raises:
        VlaError: the CSV is missing, cannot be read, or has none for this task.
    """
    file = _find(task.data)
    by_task = _by_task(file, file.stat().st_mtime_ns)
    found = by_task.get(task.language)
    if found is None and any(
        each.parameters.get("texts") == OWN for some in by_task.values() for each in some.values()
    ):
        return {}
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
    is_own = any(row.is_own for row in published.rows)
    if not is_own and (missing := missing_paraphrases(published)):
        warnings.warn(f"{file} has {missing}", stacklevel=2)
    for row in published.rows:
        found.setdefault(row.original, {})[label_of(row)] = variation_of(row, row.original, published)
    return found


LISTING = VariationListing(lambda task, protocol: paraphrases(task))
"""As the registry of variations takes it."""


# LIBERO-Para's logs as upstream writes them: a folder of ``eval0.json`` to ``eval9.json``, one file per task.

_EXPECTED = "expected a log of LIBERO-Para's evaluation"
_OTHER_CSV = "expected the CSV with which the log was made"
_FILE = r"eval([0-9]{1,4})\.json"
_BDDL = re.compile(r"(act|obj|comp)_([a-z+]+?)_([a-z_+]+)_eval([0-9]{1,4})_ver([0-9]{1,6})\.bddl")


@dataclass(frozen=True)
class ParaEpisode:
    """An episode of a log.

    Attributes:
        task: LIBERO-Para's number, as `pytest_vla.language.published.PublishedParaphrase.task`.
        object_type: one of `pytest_vla.metrics.pride.OBJECT_TYPES`.
        action_type: one of `pytest_vla.metrics.pride.ACTION_TYPES`.
        batch_idx: number of the paraphrase within cell and task.
        instruction: what the policy was told.
        success: whether the task was done.
        steps: of the policy.
        init_state: index of the init state.
        episode: number among those of one paraphrase and init state.
        place: file, and number in it, for messages.
    """

    task: int
    object_type: str
    action_type: str
    batch_idx: int
    instruction: str
    success: bool
    steps: int
    init_state: int
    episode: int
    place: str

    @property
    def key(self) -> tuple[str, str, int, int]:
        """The paraphrase's identity, as in `pytest_vla.language.published.PublishedParaphrase.key`."""
        return self.object_type, self.action_type, self.task, self.batch_idx


def read_para_log(folder: Path) -> tuple[ParaEpisode, ...]:
    """Read a log's episodes, task by task, in the files' order.

    Raises:
        VlaError: a file is missing or not as upstream writes it, or an episode is there twice; names the file and the
            episode, counted from 0.
    """
    files = _files(folder)
    if not files:
        raise VlaError(f"{folder}: no eval0.json or similar; {_EXPECTED}, one file per task")
    episodes: list[ParaEpisode] = []
    for task, file in files:
        episodes.extend(_episodes(file, task))
    seen: dict[tuple[object, ...], ParaEpisode] = {}
    for each in episodes:
        if (same := seen.setdefault((each.key, each.init_state, each.episode), each)) is not each:
            raise VlaError(
                f"{each.place}: {_paraphrase(each)} is there twice for init state {each.init_state} and episode_idx "
                f"{each.episode}; the first is {same.place}. Take one of them out, or give it another episode_idx"
            )
    return tuple(episodes)


def find_para_logs(folder: Path) -> tuple[Path, ...]:
    """Return the logs in a folder, by name: the folder itself, or its subfolders one or two levels deep.

    Raises:
        VlaError: it cannot be read, or there is no log.
    """
    if _files(folder):
        return (folder,)
    found = {path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/eval*.json")}
    logs = sorted((each for each in found if _files(each)), key=lambda each: [_natural(part) for part in each.parts])
    if not logs:
        raise VlaError(f"{folder}: no eval0.json or similar, nor in its subfolders; {_EXPECTED}, one file per task")
    return tuple(logs)


def log_name(folder: Path) -> tuple[str, int | None]:
    """Model and seed of a folder such as ``xiaomi-robotics-0_seed7``, or ``xiaomi-robotics-0/seed7``.

    The seed is None where the name has none; then the model is the whole name.
    """
    folder = folder.resolve()
    match = re.fullmatch(r"(?:(.+?)[\s_-]*)?seed[\s_-]*([0-9]{1,9})", folder.name, re.IGNORECASE)
    if match is None:
        return folder.name, None
    return match[1] or folder.parent.name or folder.name, int(match[2])


def in_rounds(episodes: Sequence[ParaEpisode]) -> tuple[tuple[ParaEpisode, ...], ...]:
    """Return each paraphrase's first episode, then each one's second, and so on; by number and init state."""
    of_paraphrase: dict[tuple[object, ...], list[ParaEpisode]] = {}
    for each in episodes:
        of_paraphrase.setdefault(each.key, []).append(each)
    ordered = [sorted(some, key=lambda each: (each.episode, each.init_state)) for some in of_paraphrase.values()]
    longest = max(map(len, ordered), default=0)
    return tuple(tuple(some[index] for some in ordered if index < len(some)) for index in range(longest))


def published_outcomes(
    episodes: Sequence[ParaEpisode], published: Published, backend: str
) -> tuple[ParaphraseOutcome, ...]:
    """Return the episodes with the published similarities of their paraphrases; tasks are named by their instructions.

    Args:
        episodes: from one log or several.
        published: the CSV.
        backend: the backend's text, for the tables.

    Raises:
        VlaError: a paraphrase is not in the CSV, or has another text there; names the log's file.
    """
    outcomes = []
    for each in episodes:
        row = published.by_key.get(each.key)
        if row is None:
            raise VlaError(
                f"{each.place}: task {each.task}, {_paraphrase(each)} is not in LIBERO-Para's CSV: "
                f"{each.instruction!r}; {_OTHER_CSV}"
            )
        if texts_key("", row.instruction) != texts_key("", each.instruction):
            raise VlaError(
                f"{each.place}: task {each.task}, {_paraphrase(each)}: the log has {each.instruction!r}, LIBERO-Para's "
                f"CSV {row.instruction!r}; {_OTHER_CSV}"
            )
        types = (row.object_type, row.action_type)
        outcomes.append(ParaphraseOutcome(each.success, row.keyword, row.structural, *types, row.original, backend))
    return tuple(outcomes)


def _paraphrase(episode: ParaEpisode) -> str:
    return f"{episode.object_type} with {episode.action_type}, paraphrase {episode.batch_idx}"


def _files(folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a log by their tasks' numbers."""
    named = {path: re.fullmatch(_FILE, path.name) for path in _listed(folder)}
    return sorted((int(match[1]), path) for path, match in named.items() if match is not None)


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key for names with numbers: seed7 before seed10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", text)]


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise VlaError(f"{folder} cannot be read: {error.strerror}; {_EXPECTED}, a folder of eval0.json ...") from error


def _episodes(file: Path, task: int) -> list[ParaEpisode]:
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise VlaError(f"{file} cannot be read: {error}; {_EXPECTED}") from error
    if not isinstance(value, dict) or not isinstance(value.get("episodes"), list):
        raise VlaError(f"{file} has no list of episodes; {_EXPECTED}")
    if _whole(value.get("eval_id")) != task:
        raise VlaError(f"{file}: its eval_id is {value.get('eval_id')!r}, its name says {task}; {_EXPECTED}")
    if not value["episodes"]:
        raise VlaError(f"{file} has no episode; {_EXPECTED}")
    return [_episode(each, task, f"{file}, episode {number}") for number, each in enumerate(value["episodes"])]


def _episode(value: Any, task: int, place: str) -> ParaEpisode:
    if not isinstance(value, dict):
        raise VlaError(f"{place} is not a table; {_EXPECTED}")
    name = value.get("bddl_file")
    match = _BDDL.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise VlaError(f"{place}: bddl_file is {name!r}, such as act_lexical_coordination_eval0_ver0.bddl; {_EXPECTED}")
    high, mid, low, of_task, variant = match.groups()
    told = {
        "paraphrase_type": (value.get("paraphrase_type"), high),
        "categories": (_joined(value.get("categories")), mid),
        "subcategories": (_joined(value.get("subcategories")), low),
        "variant_id": (_whole(value.get("variant_id")), int(variant)),
        "eval_id": (task, int(of_task)),
    }
    for field, (said, in_name) in told.items():
        if said != in_name:
            raise VlaError(f"{place}: {field} is {said!r}, but {name} says {in_name!r}; {_EXPECTED}")
    cell = cell_of(high, low)
    if cell is None:
        raise VlaError(f"{place}: LIBERO-Para has no cell with {high} and {low}")
    instruction, success = value.get("paraphrased_instruction"), value.get("success")
    if not isinstance(instruction, str) or not instruction.strip():
        raise VlaError(f"{place}: paraphrased_instruction is {instruction!r}, expected a text; {_EXPECTED}")
    if not isinstance(success, bool):
        raise VlaError(f"{place}: success is {success!r}, expected true or false; {_EXPECTED}")
    numbers = {field: _whole(value.get(field)) for field in ("num_steps", "initial_state_idx", "episode_idx")}
    for field, found in numbers.items():
        if found is None:
            raise VlaError(f"{place}: {field} is {value.get(field)!r}, expected a whole number; {_EXPECTED}")
    steps, init_state, number = (int(found or 0) for found in numbers.values())
    return ParaEpisode(task, *cell, int(variant), instruction, success, steps, init_state, number, place)


def _joined(value: Any) -> str | None:
    return "+".join(map(str, value)) if isinstance(value, list) else None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else None

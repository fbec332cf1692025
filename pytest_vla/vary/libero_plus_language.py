"""LIBERO-Plus's rewritten instructions as variations of LIBERO's tasks, from the BDDL files of the user's checkout."""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.scene.problem import parse_problem
from pytest_vla.suite import Task
from pytest_vla.variation import Variation
from pytest_vla.vary.given import find_given, first_at
from pytest_vla.vary.language import DIMENSION, generator_of
from pytest_vla.vary.libero_pro import as_bddl

LIST = "benchmark/task_classification.json"

_CATEGORY = "Language Instructions"
_NAME = re.compile(r"(?P<task>\w+)_language_(?P<index>[0-9]{1,4})_view_0_0_100_0_0_initstate_0", re.ASCII)
# What a language model said before its list: it stands in two of upstream's files in place of a rewrite.
_PREAMBLE = re.compile(r"\bhere (are|is)\b.*\b(variation|rewrite|version|paraphrase)s?\b|\bthe given instruction\b")
# Of a checkout, of the package in it, and of a checkout in a data folder.
_PLACES = (f"libero/libero/{LIST}", LIST, f"libero_plus/libero/libero/{LIST}", f"*/libero/libero/{LIST}")


def rewrite(task: Task, label: str, seed: int) -> Variation:
    """One of the rewrites of a task that LIBERO-Plus's list of tasks has, drawn by the seed.

    What is no instruction, or is the task's own, is passed over for the next one drawn, which the parameters say.

    Raises:
        VlaError: the checkout is nowhere or not whole, has no rewrite of this task, or none that can be used.
    """
    file = _find(task.data)
    listed = _listed(file, file.stat().st_mtime_ns).get((task.files, task.name), {})
    passed_over: list[int] = []
    for index in generator_of(task, label, seed).sample(sorted(listed), len(listed)):
        bddl = file.parents[1] / "bddl_files" / task.files / f"{task.name}_language_{index}.bddl"
        if not bddl.is_file():
            raise VlaError(f"{label}: {file} lists {bddl.stem}, but there is no {bddl}. Give a whole checkout")
        text, digest = _read(bddl, bddl.stat().st_mtime_ns)
        if text == task.language or _PREAMBLE.search(text):
            passed_over.append(index)
            continue
        difficulty = listed[index]
        parameters = {
            "file": bddl.name,
            "digest": digest,
            "index": index,
            **({} if difficulty is None else {"difficulty": difficulty}),
            **({"passed_over": ", ".join(map(str, passed_over))} if passed_over else {}),
            "original": task.language,
        }
        return Variation(label, DIMENSION, "libero-plus", parameters=parameters, instruction=text)
    found = f"only what is no instruction: {', '.join(map(str, passed_over))}" if passed_over else "none"
    raise VlaError(f"{label}: {file} has no rewrite of {task.files}/{task.name} to be used, {found}")


def listed_rewrites(file: Path) -> Mapping[tuple[str, str], Mapping[int, int | None]]:
    """The numbers of the rewrites in ``task_classification.json``, by (suite, task), each with its difficulty.

    The difficulty is LIBERO-Plus's: one more than the number of its four models that failed, 1 to 5, or None.

    Raises:
        VlaError: the file cannot be read or is not LIBERO-Plus's list.
    """
    try:
        suites = json.loads(file.read_bytes())
        found: dict[tuple[str, str], dict[int, int | None]] = {}
        for suite, tasks in suites.items():
            for task in tasks:
                if task["category"] != _CATEGORY:
                    continue
                name, difficulty = _NAME.fullmatch(task["name"]), task["difficulty_level"]
                if name is None or not (difficulty is None or type(difficulty) is int):
                    raise ValueError(f"{task!r} is no rewritten instruction")
                found.setdefault((suite, name["task"]), {})[int(name["index"])] = difficulty
    except OSError as error:
        raise VlaError(f"{file} cannot be read: {error.strerror}") from error
    except KeyError as error:
        raise VlaError(f"{file} is not LIBERO-Plus's list of tasks: one has no {error}") from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise VlaError(f"{file} is not LIBERO-Plus's list of tasks: {error}") from error
    return found


def _find(data: Path | None) -> Path:
    """The list of tasks in a checkout."""
    return find_given(data, first_at(_PLACES), "LIBERO-Plus", f"libero/libero/{LIST}")


@cache
def _listed(file: Path, changed: int) -> Mapping[tuple[str, str], Mapping[int, int | None]]:
    return listed_rewrites(file)


@cache
def _read(bddl: Path, changed: int) -> tuple[str, str]:
    """The instruction as upstream's reader gives it, and the file's digest."""
    return as_bddl(parse_problem(bddl).language), hashlib.sha256(bddl.read_bytes()).hexdigest()[:16]

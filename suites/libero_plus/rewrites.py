"""LIBERO-Plus's rewritten instructions as variations of LIBERO's tasks, from the BDDL files of the user's checkout."""

import hashlib
import re
from functools import cache
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.scene.problem import parse_problem
from pytest_vla.scene.variation import INSTRUCTION, Params
from pytest_vla.suites.libero_plus.listing import entries_of, find_checkout, section_of
from pytest_vla.suites.libero_plus.names import SUITES
from pytest_vla.suites.libero_pro.tables import as_bddl
from pytest_vla.vary.kind import Draw

# What a language model said before its list: it stands in two of upstream's files in place of a rewrite.
_PREAMBLE = re.compile(r"\bhere (are|is)\b.*\b(variation|rewrite|version|paraphrase)s?\b|\bthe given instruction\b")


def draw_rewrite(draw: Draw) -> Params:
    """One of the rewrites of a task that LIBERO-Plus's list of tasks has.

    What is no instruction, or is the task's own, is passed over for the next one drawn, which the parameters say.

    Raises:
        VlaError: the checkout is nowhere or not whole, has no rewrite of this task, or none that can be used.
    """
    task, label = draw.task, draw.label
    given = find_checkout(task.data)
    listed = {entry.language: entry for entry in entries_of(given, task) if entry.language is not None}
    passed_over: list[int] = []
    for index in draw.generator().sample(sorted(listed), len(listed)):
        bddl, name = given.bddl(listed[index]), f"{listed[index].file}.bddl"
        if bddl is None:
            raise VlaError(f"{label}: {given.file} lists {name}, which is not there. Give a whole checkout")
        text, digest = read_rewrite(bddl)
        if text == task.language or is_preamble(text):
            passed_over.append(index)
            continue
        difficulty = listed[index].difficulty
        return {
            "file": name,
            "digest": digest,
            "index": index,
            **({} if difficulty is None else {"difficulty": difficulty}),
            **({"passed_over": ", ".join(map(str, passed_over))} if passed_over else {}),
            "original": task.language,
            INSTRUCTION: text,
        }
    if passed_over:
        raise VlaError(
            f"{label}: {given.file} has only rewrites of {task.files}/{task.name} that are no instruction, or the "
            f"task's own: {', '.join(map(str, passed_over))}"
        )
    why = "the list of its checkout has" if task.files in SUITES else f"it has rewrites of {', '.join(SUITES)} alone"
    raise VlaError(f"{label}: {given.file} lists no rewrite of {task.files}/{task.name}; {why}")


def read_rewrite(bddl: Path) -> tuple[str, str]:
    """The instruction of a BDDL file as upstream's reader gives it, and the file's digest. Raises VlaError."""
    return _read(bddl, bddl.stat().st_mtime_ns)


def is_preamble(text: str) -> bool:
    """Whether it is no instruction, but what a language model said before its list."""
    return _PREAMBLE.search(text) is not None


@cache
def _read(bddl: Path, changed: int) -> tuple[str, str]:
    text = section_of(bddl, ":language") or parse_problem(bddl).language
    return as_bddl(text), hashlib.sha256(bddl.read_bytes()).hexdigest()[:16]

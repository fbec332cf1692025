"""``pytest-vla pride``: computes how far a paraphrase is from its original, with the parts of the distance."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    from pytest_vla.language.backends import Backend, BackendChoice
    from pytest_vla.language.similarity import Sentence, Similarity

Parts = tuple["Similarity", "BackendChoice"]
"""A comparison by a backend that has parts, and that backend."""

# Heavy imports are inside the functions, so that --help is fast.


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    from pytest_vla.metrics.pride import ALPHA

    parser.epilog = (
        "The distance is LIBERO-Para's (arXiv 2603.28301): PD = 1 - (alpha S_K + (1 - alpha) S_T). S_K is the mean "
        "cosine of each content word of the original with its best match in the paraphrase, S_T is 1 - tree edit "
        "distance / nodes. The best available backend is used: the published values of LIBERO-Para's own pairs "
        "(published), spaCy's en_core_web_sm, pytest-vla's own parser (pytest-vla-small), or words alone, with low "
        "fidelity (template). The parsers need pip install 'pytest-vla[language]'. Published values are two numbers "
        "only; their words and trees come from the next best backend, with its own numbers."
    )
    parser.add_argument("original", metavar="ORIGINAL", help="the task's own instruction")
    parser.add_argument("paraphrase", metavar="PARAPHRASE", help="the instruction to compare with it")
    parser.add_argument("--alpha", metavar="A", type=alpha_of, default=ALPHA, help=f"weight of S_K (default: {ALPHA})")
    parser.add_argument(
        "--backend", metavar="NAME", help="use this backend, or fail without it (default: the best available)"
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder with LIBERO-Para's libero_para_metadata.csv, or the file (default: PYTEST_VLA_DATA)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Compare the two texts and print the parts of the distance. Raises VlaError: an empty text, or no such backend."""
    from pytest_vla.language.published import csv_of

    pair = (options.original, options.paraphrase)
    for name, text in zip(("ORIGINAL", "PARAPHRASE"), pair, strict=True):
        if not text.strip():
            raise VlaError(f"{name} is empty. Give an instruction, in quotes")
    found, choice = _compare(options.backend, csv_of(options.data), pair)
    # Published values have no parts. If the user names the backend, no other one is loaded.
    parts = _compare(None, None, pair) if found.matches is None and options.backend is None else None
    if options.json:
        print(json.dumps(as_table(found, choice, options.alpha, parts), indent=2))
    else:
        print("\n".join(printable(line) for line in as_text(found, choice, options.alpha, parts)))


def _compare(prefer: str | None, csv: Path | None, pair: tuple[str, str]) -> Parts:
    """Compare two texts; print a notice if a parser or an embedding model has to be loaded and loading is slow."""
    from pytest_vla.errors import UnloadedError
    from pytest_vla.language.backends import choose_backend
    from pytest_vla.util.live_line import told_when_slow

    try:
        choice = choose_backend(prefer, csv, [pair], loading=False)
        (found,) = choice.backend.compare([pair])
    except UnloadedError:
        with told_when_slow("comparing the texts: a parser and an embedding model are loaded", sys.stderr):
            choice = choose_backend(prefer, csv, [pair])
            (found,) = choice.backend.compare([pair])
    return found, choice


def as_text(found: "Similarity", choice: "BackendChoice", alpha: float, parts: "Parts | None" = None) -> Iterator[str]:
    """Yield the lines of a comparison for the terminal; published values take their parts from a second backend."""
    from pytest_vla.metrics.pride import paraphrase_distance
    from pytest_vla.reports.text import aligned

    yield f"original    {found.original}"
    yield f"paraphrase  {found.paraphrase}"
    yield from _backend_lines("backend", choice)
    shown, suffix = found, ""
    if found.matches is None:
        yield ""
        yield from _values(found, alpha, f" by {choice.backend.name}")
        if parts is None:
            yield ""
            yield f"Only the values are published. Without --backend={choice.backend.name} the parts are shown too"
            return
        shown, by = parts
        # The published values were used, so the second backend does not list them as passed over.
        passed_over = {name: why for name, why in by.passed_over.items() if name != choice.backend.name}
        yield ""
        yield from _backend_lines("parts by", replace(by, passed_over=passed_over))
        suffix = f" by {by.backend.name}"
    yield ""
    if shown.matches is not None:
        rows = [("word", "best match", "cosine")]
        rows += [(match.word, match.best or "-", f"{match.cosine:.4f}") for match in shown.matches]
        if shown.matches:
            yield from aligned(rows, 2, width=None)
        else:
            yield "one of the texts has no content word"
    yield f"S_K {shown.keyword:.4f}{suffix}"
    yield ""
    if shown.structure is not None:
        yield from _side_by_side(*_structure_lines(shown))
        first, second = len(shown.structure.original), len(shown.structure.paraphrase)
        yield f"edit distance {shown.structure.edit_distance}, nodes {first} + {second}"
    yield f"S_T {shown.structural:.4f}{suffix}"
    yield ""
    distance = paraphrase_distance(shown.keyword, shown.structural, alpha)
    yield f"PD  {distance:.4f} = 1 - ({alpha:g} S_K + {1 - alpha:g} S_T){suffix}"


def _backend_lines(title: str, choice: "BackendChoice") -> Iterator[str]:
    yield f"{title.ljust(12)}{choice.backend}"
    for name, why in choice.passed_over.items():
        yield f"            not {name}: {why}"


def _values(found: "Similarity", alpha: float, suffix: str) -> Iterator[str]:
    from pytest_vla.metrics.pride import paraphrase_distance

    distance = paraphrase_distance(found.keyword, found.structural, alpha)
    yield f"S_K {found.keyword:.4f}{suffix}"
    yield f"S_T {found.structural:.4f}{suffix}"
    yield f"PD  {distance:.4f} = 1 - ({alpha:g} S_K + {1 - alpha:g} S_T){suffix}"


def as_table(
    found: "Similarity", choice: "BackendChoice", alpha: float, parts: "Parts | None" = None
) -> dict[str, Any]:
    """Return a comparison for JSON: tables, lists, texts and numbers.

    Args:
        found: the comparison.
        choice: its backend.
        alpha: the weight of S_K.
        parts: if the values come without parts, the comparison by the best backend that has parts, else None.
    """
    return {
        "original": found.original,
        "paraphrase": found.paraphrase,
        **_compared(found, choice, alpha),
        "parts": None if parts is None else _compared(*parts, alpha),
    }


def _compared(found: "Similarity", choice: "BackendChoice", alpha: float) -> dict[str, Any]:
    from pytest_vla.metrics.pride import paraphrase_distance

    structure, matches = found.structure, found.matches
    return {
        "backend": _backend_table(choice.backend),
        "passed_over": choice.passed_over,
        "s_k": found.keyword,
        "s_t": found.structural,
        "alpha": alpha,
        "pd": paraphrase_distance(found.keyword, found.structural, alpha),
        "matches": None
        if matches is None
        else [{"word": match.word, "best": match.best or None, "cosine": match.cosine} for match in matches],
        "edit_distance": None if structure is None else structure.edit_distance,
        "trees": None if structure is None else [_nodes(structure.original), _nodes(structure.paraphrase)],
    }


def _backend_table(backend: "Backend") -> dict[str, Any]:
    return {"name": backend.name, "version": backend.version, "low_fidelity": backend.low_fidelity}


def _nodes(side: "Sentence | tuple[str, ...]") -> list[Any]:
    return [
        node if isinstance(node, str) else {"text": node.text, "dep": node.dep, "pos": node.pos, "head": node.head}
        for node in side
    ]


def _structure_lines(found: "Similarity") -> tuple[list[str], list[str]]:
    from pytest_vla.language.similarity import TreeComparison, tree_lines

    structure = found.structure
    if isinstance(structure, TreeComparison):
        return ["original's tree", *tree_lines(structure.original)], [
            "paraphrase's tree",
            *tree_lines(structure.paraphrase),
        ]
    assert structure is not None
    return ["original", " ".join(structure.original)], ["paraphrase", " ".join(structure.paraphrase)]


def _side_by_side(left: list[str], right: list[str]) -> Iterator[str]:
    width = max(map(len, left)) + 4
    for one, other in zip_longest(left, right, fillvalue=""):
        yield f"{one.ljust(width)}{other}".rstrip()


def alpha_of(text: str) -> float:
    try:
        alpha = float(text)
    except ValueError:
        alpha = -1.0
    if not 0 <= alpha <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a weight from 0 to 1")
    return alpha


COMMAND = Command(declare, run)

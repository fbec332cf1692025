"""``pytest-vla pride``: how far a paraphrase is from its original, with the parts that the distance is made of."""

import argparse
import json
import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.language.backends import Backend, Choice
    from pytest_vla.language.parsed import Sentence
    from pytest_vla.language.similarity import Similarity

# What the command needs is imported when it runs: --help has to come at once.


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    from pytest_vla.metrics.pride import ALPHA

    parser.epilog = (
        "LIBERO-Para (arXiv 2603.28301): PD = 1 - (alpha S_K + (1 - alpha) S_T). S_K is the mean cosine of the "
        "original's content words with the best of the paraphrase's, S_T is 1 - tree edit distance / nodes. The best "
        "backend that is here is taken: the published values of LIBERO-Para's own pairs (published), spaCy's "
        "en_core_web_sm, the parser that comes with pytest-vla (pytest-vla-small), or the words alone, of low fidelity "
        "(template). The parsers need pip install 'pytest-vla[language]'."
    )
    parser.add_argument("original", metavar="ORIGINAL", help="the task's own instruction")
    parser.add_argument("paraphrase", metavar="PARAPHRASE", help="what is said instead of it")
    parser.add_argument("--alpha", metavar="A", type=alpha_of, default=ALPHA, help=f"weight of S_K (default: {ALPHA})")
    parser.add_argument("--backend", metavar="NAME", help="this one or none (default: the best that is here)")
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder with LIBERO-Para's libero_para_metadata.csv, or the file (default: PYTEST_VLA_DATA)",
    )
    parser.add_argument("--json", action="store_true", help="for programs")


def run(options: argparse.Namespace) -> None:
    """Compares the two texts and prints the parts. Raises VlaError."""
    from pytest_vla.language.backends import choose_backend

    pair = (options.original, options.paraphrase)
    for name, text in zip(("ORIGINAL", "PARAPHRASE"), pair, strict=True):
        if not text.strip():
            raise VlaError(f"{name} is empty: give an instruction, in quotes")
    choice = choose_backend(options.backend, csv_of(options.data), [pair])
    (found,) = choice.backend.compare([pair])
    if options.json:
        print(json.dumps(as_table(found, choice, options.alpha), indent=2))
    else:
        print("\n".join(_printable(line) for line in as_text(found, choice, options.alpha)))


def as_text(found: "Similarity", choice: "Choice", alpha: float) -> Iterator[str]:
    """A comparison for people, line by line."""
    from pytest_vla.metrics.pride import paraphrase_distance

    yield f"original    {found.original}"
    yield f"paraphrase  {found.paraphrase}"
    yield f"backend     {choice.backend}"
    for name, why in choice.passed_over.items():
        yield f"            not {name}: {why}"
    yield ""
    if found.matches is not None:
        rows = [("word", "best match", "cosine")]
        rows += [(match.word, match.best or "-", f"{match.cosine:.4f}") for match in found.matches]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for word, best, cosine in rows if found.matches else ():
            yield f"{word.ljust(widths[0])}  {best.ljust(widths[1])}  {cosine.rjust(widths[2])}"
        if not found.matches:
            yield "one of the texts has no content word"
    yield f"S_K {found.keyword:.4f}"
    yield ""
    if found.structure is not None:
        yield from _side_by_side(*_structure_lines(found))
        first, second = len(found.structure.original), len(found.structure.paraphrase)
        yield f"edit distance {found.structure.edit_distance}, nodes {first} + {second}"
    yield f"S_T {found.structural:.4f}"
    yield ""
    if found.matches is None:
        yield "Published are the values alone; the parts are those of another backend: --backend NAME"
    distance = paraphrase_distance(found.keyword, found.structural, alpha)
    yield f"PD  {distance:.4f} = 1 - ({alpha:g} S_K + {1 - alpha:g} S_T)"


def as_table(found: "Similarity", choice: "Choice", alpha: float) -> dict[str, Any]:
    """A comparison for programs: tables, lists, texts and numbers."""
    from pytest_vla.metrics.pride import paraphrase_distance

    structure, matches = found.structure, found.matches
    return {
        "original": found.original,
        "paraphrase": found.paraphrase,
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
    from pytest_vla.language.trees import TreeComparison, tree_lines

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


def csv_of(data: Path | None) -> Path | None:
    from pytest_vla.language.published import FILE, find_csv

    if data is not None:
        found = find_csv(data)
        if found is None:
            raise VlaError(f"--data={data}: no {FILE} there; give LIBERO-Para's checkout, or the file itself")
        return found
    given = os.environ.get("PYTEST_VLA_DATA")
    return find_csv(Path(given)) if given else None


def alpha_of(text: str) -> float:
    try:
        alpha = float(text)
    except ValueError:
        alpha = -1.0
    if not 0 <= alpha <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a weight, 0 to 1")
    return alpha


def _printable(text: str) -> str:
    # A terminal would obey control characters.
    return "".join(c if c.isprintable() else "?" for c in text)

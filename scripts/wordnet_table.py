"""Make the table of WordNet that ships with us, and its licence notice, from WordNet 3.0's own files.

    python scripts/wordnet_table.py /usr/share/wordnet

The folder is that of Debian's package wordnet-base, or ``dict`` of Princeton's WordNet-3.0.tar.gz.
"""

import argparse
import gzip
import re
import sys
from pathlib import Path

from pytest_vla.language.wordnet import PARTS, TABLE

PACKAGE = Path(__file__).resolve().parent.parent / "pytest_vla" / "language"
FILES = tuple(name for part in PARTS for name in (f"data.{part}", f"index.{part}", f"{part}.exc"))


def licence(folder: Path) -> str:
    """The notice at the head of a data file, without its line numbers."""
    lines = (line for line in _lines(folder / "data.noun") if line.startswith("  "))
    return "".join(re.sub(r"^ +\d+ ?", "", line).rstrip() + "\n" for line in lines)


def table(folder: Path) -> str:
    """The table's text; `pytest_vla.language.wordnet.TABLE` says what is in it."""
    # A blank line ends a part.
    notice = re.sub(r"\n(?=\n)", "\n#", licence(folder)).rstrip("\n")
    exceptions = ("".join(_lines(folder / f"{part}.exc")).rstrip("\n") for part in PARTS)
    return "\n\n".join([notice, *(_synsets(folder, part) for part in PARTS), *exceptions]) + "\n"


def _synsets(folder: Path, part: str) -> str:
    senses = {}
    for line in _lines(folder / f"index.{part}"):
        if not line.startswith(" "):
            word, _, count, *rest = line.split()
            for sense, offset in enumerate(rest[-int(count) :], start=1):
                senses[word, offset] = sense
    rows = [line.partition(" | ")[0].split(" ") for line in _lines(folder / f"data.{part}") if not line.startswith(" ")]
    numbers = {row[0]: number for number, row in enumerate(rows)}
    lines = []
    for offset, _, _, count, *rest in rows:
        words = rest[: 2 * int(count, 16) : 2]
        pointers = rest[2 * int(count, 16) + 1 :]
        named = (f"{word}:{senses[word.lower(), offset]}".removesuffix(":1") for word in words)
        # A pointer: symbol, offset, part of speech, and 0000 where it joins synsets and not single words of theirs.
        quads = zip(*(iter(pointers[: 4 * int(rest[2 * int(count, 16)])]),) * 4, strict=True)
        above = (str(numbers[target]) for symbol, target, _, _ in quads if symbol in ("@", "@i"))
        lines.append(f"{' '.join(named)}\t{' '.join(above)}")
    return "\n".join(lines)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="ascii", errors="replace").splitlines(keepends=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="WordNet 3.0's folder of data.noun, index.noun and so on")
    parser.add_argument("--output", type=Path, default=PACKAGE, help="where the table and its licence go")
    arguments = parser.parse_args()
    missing = [name for name in FILES if not (arguments.folder / name).is_file()]
    if missing:
        sys.exit(f"{arguments.folder}: expected WordNet's {', '.join(missing)} (Debian: apt-get install wordnet-base)")
    (arguments.output / TABLE).write_bytes(gzip.compress(table(arguments.folder).encode("ascii"), 9, mtime=0))
    (arguments.output / "wordnet.LICENSE").write_text(licence(arguments.folder))


if __name__ == "__main__":
    main()

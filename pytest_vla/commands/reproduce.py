"""``pytest-vla reproduce``: recomputes the numbers that a paper prints, from published data."""

import argparse
from pathlib import Path

from pytest_vla import extensions
from pytest_vla.entries import Command


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    papers = "; ".join(f"{entry.name} ({entry.about})" for entry in extensions.papers().values())
    parser.epilog = (
        f"Papers: {papers}. For each number it prints equals, differs by how much, or cannot and why. A number equals "
        "the printed one if rounding explains the difference. Exit code 1: a number differs without a known reason, or "
        "none could be recomputed."
    )
    parser.add_argument("paper", metavar="PAPER", help="the paper, by one of the names below")
    parser.add_argument("table", metavar="TABLE", nargs="?", help="one of its tables, such as 3 (default: all)")
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder with published data, such as a checkout of LIBERO-Para (default: PYTEST_VLA_DATA)",
    )


def run(options: argparse.Namespace) -> int:
    """Recompute and print the numbers; return 1 if one differs without a known reason, or none was recomputed."""
    from pytest_vla.reports.papers import reproduce, reproduced_blocks
    from pytest_vla.reports.text import block_lines, terminal_width

    found = list(reproduce(options.paper, options.table, options.data))
    print("\n".join(block_lines(reproduced_blocks(options.paper, found), terminal_width())))
    differ = sum(each.count("differs") for each in found)
    return int(differ > 0 or not any(each.count("equals", "known") for each in found))


COMMAND = Command(declare, run)

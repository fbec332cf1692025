"""Texts of command lines as values, for pytest's options and for pytest-vla's; light, as --help has to come at once."""

import argparse

from pytest_vla.errors import VlaError
from pytest_vla.plan import parse_seeds


def comma_list(text: str) -> tuple[str, ...]:
    """``a, b`` as names, each once; for argparse."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r} names nothing")
    return names


def seed_list(text: str) -> tuple[int, ...]:
    """Seeds as `parse_seeds` reads them; for argparse."""
    try:
        return parse_seeds(text)
    except VlaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error

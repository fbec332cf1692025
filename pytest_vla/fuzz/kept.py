"""Searches that were kept, to be gone on with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_vla.episode.rollout import Conditions
from pytest_vla.errors import VlaError
from pytest_vla.fuzz.journal import read_head
from pytest_vla.fuzz.names import FILE, FOLDER, LAST
from pytest_vla.util.text import did_you_mean
from pytest_vla.versions import installed_versions

_OF_THE_POLICY, _OF_VERSIONS = "policy_digest", "versions"


def kept_search(results: Path, name: str) -> Path:
    """The file of a search.

    Args:
        results: the folder of all runs.
        name: of the search, or `LAST`.

    Raises:
        VlaError: there is none of that name, with close matches.
    """
    folder = results / FOLDER
    names = sorted(each.parent.name for each in folder.glob(f"*/{FILE}"))
    if not names:
        raise VlaError(f"--resume: there is no search in {folder}")
    if name != LAST and name not in names:
        raise VlaError(f"--resume={name}: no search in {folder} is called so.{did_you_mean(name, names)}")
    return folder / (names[-1] if name == LAST else name) / FILE


def head_of(options: Mapping[str, Any], conditions: Conditions) -> dict[str, Any]:
    """What a search's file begins with: `options`, as JSON has them, and what its numbers depend on beside them."""
    return {
        "options": dict(options),
        _OF_VERSIONS: installed_versions(),
        _OF_THE_POLICY: conditions.policy_digest,
    }


def begun_options(file: Path) -> dict[str, Any]:
    """The options that a search was begun with, as JSON has them. Raises VlaError."""
    options = read_head(file).get("options")
    if not isinstance(options, dict):
        raise VlaError(f"{file}:1: its options are missing; begin a new search")
    return options


def check_head(file: Path, head: Mapping[str, Any]) -> None:
    """Refuse what would make one search of two. Raises VlaError."""
    before = read_head(file)
    for key, what in ((_OF_THE_POLICY, "the policy"), (_OF_VERSIONS, "what is installed")):
        if before.get(key) != head[key]:
            raise VlaError(
                f"--resume={file.parent.name}: {what} is not what it was when the search began (then "
                f"{before.get(key)}, now {head[key]}); begin a new search"
            )

"""What the command line says, and the node of an own test in the results that it is asked about."""

import pytest

from pytest_vla.cli import main

OWN = "test_mine.py::test_bowl[turn_on_the_stove-seed0]"


def said(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command says, on the one stream that it is for."""
    assert main(arguments) == code
    out, err = capfd.readouterr()
    assert bool(err) == bool(code)
    assert not (out and err)
    return out or err

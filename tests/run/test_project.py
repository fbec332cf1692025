"""What an ini file says of a project."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.run.project import named_models


def test_a_name_stands_for_a_policy() -> None:
    lines = ["a = expert", "mine.2 = policies:policy?gain=2", "random = random?seed=1"]
    assert named_models(lines, None) == {"a": "expert", "mine.2": "policies:policy?gain=2", "random": "random?seed=1"}


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["a: expert"], "expected NAME = POLICY, got 'a: expert'"),
        (["a b = expert"], "expected NAME = POLICY"),
        (["a = b", "b = expert"], "a = b, but b is itself a name of this file; write its policy: expert"),
        (["a = b?speed=2", "b = expert"], "b is itself a name of this file"),
    ],
)
def test_what_is_no_name_is_told(lines: list[str], complaint: str) -> None:
    with pytest.raises(VlaError, match=f"pyproject.toml: vla_models: .*{complaint}"):
        named_models(lines, Path("pyproject.toml"))

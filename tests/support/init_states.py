"""Files of init states as numpy and torch write them, and what is said of one that is refused."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import SceneError
from pytest_vla.scene.init_states import read_init_states

STATES = np.random.default_rng(0).normal(size=(5, 19))


def torch_zip(data: bytes, compression: int = zipfile.ZIP_STORED, prefix: str = "archive/") -> bytes:
    """The zip that torch.save writes around a pickle."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.writestr(f"{prefix}data.pkl", data)
        archive.writestr(f"{prefix}version", b"3\n")
    return stream.getvalue()


def saved(value: object, protocol: int = 2) -> bytes:
    return torch_zip(pickle.dumps(value, protocol))


def npy(array: np.ndarray[Any, Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def refusal(file: Path, member: str | None = None) -> str:
    """The message of the error that `file` gives, which names it first."""
    with pytest.raises(SceneError) as caught:
        read_init_states(file, member)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert len(message) < len(str(file)) + 500
    return message


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name.replace("__", "/"), data)
    return stream.getvalue()

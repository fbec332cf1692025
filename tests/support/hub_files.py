"""What the hub has of LIBERO's data, in small."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from pytest_vla.commands import fetch
from pytest_vla.commands.fetch import HubFile
from pytest_vla.plan.manifests import load_suite

REVISION = "0123456789abcdef0123456789abcdef01234567"
CONTENT = {
    "articulated_objects/flat_stove.xml": b"<mujoco/>",
    "scenes/table.xml": b"<mujoco/>\n",
    "stable_hope_objects/butter/butter.xml": b"",
    "stable_scanned_objects/plate/plate.msh": bytes(range(256)) * 40,
    "turbosquid_objects/moka_pot/moka_pot.xml": b"<mujoco>\n</mujoco>",
}
IN_GIT = {name: content for name, content in CONTENT.items() if not name.endswith(".msh")}


def hub_file(name: str, content: bytes) -> HubFile:
    """As the hub lists it: small files by git's digest, large ones by their SHA-256."""
    if name in IN_GIT:
        return HubFile(name, len(content), "sha1", hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest())
    return HubFile(name, len(content), "sha256", hashlib.sha256(content).hexdigest())


def make_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with the tasks of one suite, other things, and a name that leaves its folder."""
    path = folder / "hf_libero-0.1.4-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for task in load_suite("libero_goal").tasks:
            archive.writestr(f"libero/libero/bddl_files/libero_goal/{task.name}.bddl", "(define)")
            archive.writestr(f"libero/libero/init_files/libero_goal/{task.name}.pruned_init", "states")
        archive.writestr("libero/libero/__init__.py", "raise SystemExit")
        about = "hf_libero-0.1.4.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: hf-libero\nVersion: 0.1.4\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
        archive.writestr("libero/libero/bddl_files/../../x.bddl", "out")
    monkeypatch.setattr(fetch, "PACKAGE_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path

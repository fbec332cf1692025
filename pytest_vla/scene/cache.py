"""Compiled scenes on disk: found by the content of what made them, written atomically, bounded in size.

Place: ``PYTEST_VLA_CACHE``, else ``$XDG_CACHE_HOME/pytest-vla`` (``~/.cache/pytest-vla``). Limit:
``PYTEST_VLA_CACHE_LIMIT`` in bytes or like ``5GB`` (default 5 GB); the least recently used scenes go first.
``pytest-vla cache`` shows what it holds.

MuJoCo loads a model as it is, so files that other users may write are not read. If they may write the cache's folder,
scenes are in ``scenes-UID`` in it, which belongs to this user.

A scene is two files: ``KEY-DIGEST.mjb`` (MuJoCo's binary model) and ``KEY-DIGEST.json`` (parts, every input file with
its hash, that of the first file, and the model's digest), the second written last. KEY is made of the problem's parts
and the versions, DIGEST of the inputs.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import SceneError
from pytest_vla.plan.data_roots import DataRoot, data_roots
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.scene import SceneSpec, scene_from_json, scene_parts, scene_to_json
from pytest_vla.util.files import USER, cache_folder, cache_limit, exclusive, is_trusted, trusted_content
from pytest_vla.util.live_line import preparing

if TYPE_CHECKING:
    import mujoco


# Stand-ins for LIBERO's assets that are known to be about: flat textures and simplified visual meshes.
# Where an original is too large to pass on, such a file takes its place. Physics does not depend on them, since
# visual geoms carry no mass; pixels do, so records say which a scene was drawn with.

SHA256_OF_STAND_INS = frozenset(
    {
        "033927d42604c36749072ec43da02f74439883e1f611d02d49402cab2e3a993a",
        "16ca6c514e422a275959aa612c6fceaec7689bebaaebf787f154e14d7074c0c7",
        "26b5f898b14cb77101c1014e4b617d9ab997bb37ef9e91ed269cec4c6b912127",
        "2c49849fd530dd68087ce9b5318d6d12ab75d8850b0ff60cb30e50229819ad92",
        "30db70dc348d1c59cf3697916562229b2427a2c15db2cccc0d630c0b8a71f835",
        "52d3649bd479e9c7945d1563f7bae4b7209afba8f8f8f94a20e712ea1a6ac7a2",
        "5de6403b8ce45d31d64ab28e7b898d007aa410ea11a6ed3d3fae22fd0d17a6f8",
        "81328ae92c7a4261badbd8900a2c87ebea24c4188c32c9aefc6f02d1a4cabad3",
        "8355672d304508c28d28681ad0337390975f2ec8152fd4bb5856934b1dd228cd",
        "8c2747386b5a555ccdf8157cb50156bd9e0b0f784bfdc0c41179f2645fcdadd1",
        "c575ba8363ae6fa03f64bafe8787412be06b9d2bafbd35c7e747044fd48ad485",
        "c78e4657463c7e54c8e0a02252fa06b207a5987838193e023733ad6a9da3e44e",
        "cb8abfaacf40c40da77ec6562406f4a767737d206a5c85f84f84ef00672615b1",
        "cbff13fdfbd67c2305a808f7053728859ee3d3d2ed2dce4b428e574a8ca4908f",
        "d7f67c9c8c7b554a26243fd9f2e7b21ea213eb9cde6a0c4c26b3cfb5509beb00",
        "d9fc56abe729b0f455aa022b278a70e18bf15124edc2fac09c45bfc976397cbe",
        "ec164838974d6b0a98bfce71cc3f5d32b381472603d02dcde51e419a13663420",
    }
)
"""By content: a file of the same name may be the original."""


# Files younger than this may be another worker's unfinished work.
_GRACE_SECONDS = 3600.0
# Hex digits of a scene's digests in records.
_SHORT = 32


@dataclass(frozen=True)
class CompiledScene:
    """A model with its parts.

    `digest` names the content of everything that made it, `stand_ins` the assets that are known to be no originals, and
    `compiled` the model's own content (`model_digest`): it is another where a processor rounds differently, or the
    cache was changed.
    """

    model: "mujoco.MjModel"
    scene: SceneSpec
    digest: str
    stand_ins: tuple[str, ...]
    compiled: str


def compiled_scene(problem: Problem, roots: tuple[DataRoot, ...] | None = None) -> CompiledScene:
    """Return the compiled model of a problem's scene, from the cache or compiled now.

    Args:
        problem: the problem to build.
        roots: folders in which assets are looked for, or None for the default roots.

    Raises:
        SceneError: the scene cannot be composed or compiled.
    """
    roots = data_roots() if roots is None else roots
    folder = scene_folder()
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    key = scene_key(problem)
    if (found := _load(folder, key, roots)) is not None:
        return found
    lock = folder / f"{key}.lock"
    with exclusive(lock):
        # Another worker may have compiled it while this one waited.
        if next(_entries(folder, key, roots), None) is None:
            return _compile(problem, roots, folder, key)
    # Not under the lock: waiting workers would also wait for each other's loading.
    if (found := _load(folder, key, roots)) is not None:
        return found
    with exclusive(lock):
        # A damaged one is compiled once too.
        return _load(folder, key, roots) or _compile(problem, roots, folder, key)


def scene_folder() -> Path:
    """Return the folder of compiled scenes, which may not exist yet. Raises VlaError as `cache_folder`."""
    folder = cache_folder()
    return folder / f"scenes-{USER}" if folder.exists() and not is_trusted(folder.resolve()) else folder


def scene_key(problem: Problem) -> str:
    """Return 32 hex digits that identify a problem's parts and the versions that compile them.

    Equal for the tasks of one scene.

    Raises:
        SceneError: the problem class is not known.
    """
    parts = scene_parts(problem) | {"mujoco": version("mujoco"), "robosuite": version("robosuite")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def model_digest(model: "mujoco.MjModel") -> str:
    """Return 32 hex digits that identify a model's content: sizes, options, arrays and names, by their exact bytes.

    Its assets' paths are left out, which the model's file has: the same scene has the same digest in any installation.
    """
    import numpy as np

    digest = hashlib.sha256()
    for name, value in _content(model):
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype.str} {value.shape}\n".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(f"{name} {value!r}\n".encode())
    return digest.hexdigest()[:_SHORT]


def _content(struct: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and values of MuJoCo's struct and of those in it, but for paths and the sizes with them."""
    import numpy as np

    for name in dir(struct):
        # The signature is that of the source, and 0 in a model that was loaded.
        left_out = name in ("paths", "npaths", "nbuffer", "signature")
        if left_out or name.startswith("_") or name.endswith("_pathadr"):
            continue
        value = getattr(struct, name)
        if isinstance(value, np.ndarray | int | float | bytes):
            yield prefix + name, value
        elif not callable(value):
            yield from _content(value, f"{prefix}{name}.")


def clear(folder: Path | None = None) -> int:
    """Remove all compiled scenes; return how many bytes were freed."""
    freed = 0
    for path in _files(folder or scene_folder()):
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            freed += size
    return freed


def held(folder: Path) -> tuple[int, int]:
    """Return the number of compiled scenes, and the bytes that they take."""
    sizes = []
    for path in _files(folder):
        with contextlib.suppress(OSError):
            sizes += [path.stat().st_size] if path.suffix == ".mjb" else []
    return len(sizes), sum(sizes)


def evict(folder: Path, limit: int, keep: str = "") -> None:
    """Remove the least recently used scenes until the rest fit `limit` bytes; the scene named `keep` stays."""
    entries: dict[str, list[os.stat_result]] = {}
    now = time.time()
    for path in _files(folder):
        with contextlib.suppress(OSError):
            status = path.stat()
            if path.suffix not in (".mjb", ".json"):
                if now - status.st_mtime > _GRACE_SECONDS:
                    path.unlink()
                continue
            entries.setdefault(path.stem, []).append(status)
    total = sum(status.st_size for statuses in entries.values() for status in statuses)
    for stem in sorted(entries, key=lambda name: max(status.st_mtime for status in entries[name])):
        if total <= limit:
            break
        if stem == keep:
            continue
        total -= sum(status.st_size for status in entries[stem])
        # The description goes first: without it the model is not found.
        for suffix in (".json", ".mjb"):
            (folder / f"{stem}{suffix}").unlink(missing_ok=True)


def _files(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in folder.iterdir() if re.match(r"[0-9a-f]{32}", path.name) and path.is_file())


def _load(folder: Path, key: str, roots: tuple[DataRoot, ...]) -> CompiledScene | None:
    import mujoco

    for description, value in _entries(folder, key, roots):
        try:
            binary = description.with_suffix(".mjb")
            if not is_trusted(binary) or value["model_sha256"] != _sha256(binary):
                continue
            scene, digest = scene_from_json(value["scene"]), value["digest"]
            stand_ins = _stand_ins(value["inputs"])
            model = mujoco.MjModel.from_binary_path(str(binary))
            # Descriptions of earlier versions have none.
            compiled = value["compiled"] if "compiled" in value else model_digest(model)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # A damaged or missing entry is compiled again and overwritten.
            continue
        with contextlib.suppress(OSError):
            os.utime(description)
        return CompiledScene(model, scene, digest, stand_ins, compiled)
    return None


def _entries(folder: Path, key: str, roots: tuple[DataRoot, ...]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the descriptions of scenes whose inputs have not changed, each with its file."""
    for description in sorted(folder.glob(f"{key}-*.json")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            value = json.loads(trusted_content(description))
            if description.stem == f"{key}-{value['digest']}" and _unchanged(value["inputs"], roots):
                yield description, value


def _unchanged(inputs: list[dict[str, Any]], roots: tuple[DataRoot, ...]) -> bool:
    robosuite = importlib.util.find_spec("robosuite")
    if robosuite is None or robosuite.origin is None:
        return False
    robosuite_assets = Path(robosuite.origin).parent / "models" / "assets"
    for item in inputs:
        folders = [robosuite_assets] if item["origin"] == "robosuite" else [root.assets for root in roots]
        path = next((base / item["name"] for base in folders if base and (base / item["name"]).is_file()), None)
        if path is None:
            return False
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == (item["bytes"], item["mtime_ns"]):
            continue
        if status.st_size != item["bytes"] or _sha256(path) != item["sha256"]:
            return False
    return True


def _stand_ins(inputs: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(sorted(item["name"] for item in inputs if item["sha256"] in SHA256_OF_STAND_INS))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compile(problem: Problem, roots: tuple[DataRoot, ...], folder: Path, key: str) -> CompiledScene:
    with preparing(f"compiling the scene of {Path(problem.source).stem}"):
        return _compile_now(problem, roots, folder, key)


def _compile_now(problem: Problem, roots: tuple[DataRoot, ...], folder: Path, key: str) -> CompiledScene:
    import mujoco

    from pytest_vla.scene.compose import compose

    composition = compose(problem, roots)
    inputs = []
    for origin, name, path in composition.inputs:
        # Stat before hashing: a file that changes meanwhile is noticed at the next use.
        status = path.stat()
        inputs.append(
            {
                "origin": origin,
                "name": name,
                "sha256": _sha256(path),
                "bytes": status.st_size,
                "mtime_ns": status.st_mtime_ns,
            }
        )
    content = key + json.dumps(sorted((item["origin"], item["name"], item["sha256"]) for item in inputs))
    digest = hashlib.sha256(content.encode()).hexdigest()[:_SHORT]
    try:
        model = mujoco.MjModel.from_xml_string(composition.xml)
    except ValueError as error:
        raise SceneError(f"{problem.source}: MuJoCo refuses the composed scene: {error}") from error
    # Once: it takes as long as hashing the file.
    compiled = model_digest(model)
    scene = scene_to_json(composition.scene)
    description = {"digest": digest, "inputs": inputs, "scene": scene, "compiled": compiled}
    _store(folder, f"{key}-{digest}", model, description)
    return CompiledScene(model, composition.scene, digest, _stand_ins(inputs), compiled)


def _store(folder: Path, stem: str, model: "mujoco.MjModel", description: dict[str, Any]) -> None:
    """Write both files under temporary names and rename them.

    On a full disk, the run continues without the cache.
    """
    import mujoco

    limit = cache_limit()
    temporary: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in (".mjb", ".json"):
            handle, name = tempfile.mkstemp(prefix=f"{stem}.", suffix=f"{suffix}.part", dir=folder)
            os.close(handle)
            temporary.append(Path(name))
        mujoco.mj_saveModel(model, str(temporary[0]), None)
        size = temporary[0].stat().st_size
        if size < mujoco.mj_sizeModel(model):
            raise OSError("the model was written short: is the disk full?")
        if size > limit:
            print(
                f"pytest-vla: compiled scene not cached: its {size / 1e6:.0f} MB exceed PYTEST_VLA_CACHE_LIMIT",
                file=sys.stderr,
            )
            evict(folder, limit)
            return
        description["model_sha256"] = _sha256(temporary[0])
        temporary[1].write_text(json.dumps(description), encoding="utf-8")
        for path in temporary:
            # mkstemp's files are private; others may read a cache, and not write it.
            path.chmod(0o644 & ~_umask())
        os.replace(temporary[0], folder / f"{stem}.mjb")
        os.replace(temporary[1], folder / f"{stem}.json")
        evict(folder, limit, keep=stem)
    except (OSError, mujoco.FatalError) as error:
        print(f"pytest-vla: compiled scene not cached in {folder}: {error}", file=sys.stderr)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

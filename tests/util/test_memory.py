"""Memory for further processes, in the words of Linux."""

from pathlib import Path

from pytest_vla.util.processes import available_bytes


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        file = root / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


MEMORY = {"proc__meminfo": "MemTotal:  16000 kB\nMemAvailable:    8000 kB\n"}


def test_what_the_machine_has(tmp_path: Path) -> None:
    assert available_bytes(written(tmp_path, **MEMORY)) == 8000 * 1024


def test_what_a_container_leaves(tmp_path: Path) -> None:
    group = tmp_path / "sys" / "fs" / "cgroup"
    written(tmp_path, **MEMORY)
    for name, text in (("memory.max", "5000000"), ("memory.current", "4000000"), ("memory.stat", "inactive_file 1000")):
        group.mkdir(parents=True, exist_ok=True)
        (group / name).write_text(f"{text}\n")
    assert available_bytes(tmp_path) == 1_001_000
    (group / "memory.max").write_text("max\n")
    assert available_bytes(tmp_path) == 8000 * 1024
    old = group / "memory"
    old.mkdir()
    (old / "memory.limit_in_bytes").write_text("3000000\n")
    (old / "memory.usage_in_bytes").write_text("2000000\n")
    (old / "memory.stat").write_text("cache 7\n")
    assert available_bytes(tmp_path) == 1_000_000
    (old / "memory.limit_in_bytes").write_text(f"{(1 << 63) - 4096}\n")
    assert available_bytes(tmp_path) == 8000 * 1024


def test_nobody_can_tell(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    assert available_bytes(written(tmp_path, proc__meminfo="MemAvailable: many kB\n")) is None

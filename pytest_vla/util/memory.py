"""How much memory there is for further processes."""

from pathlib import Path

_UNLIMITED = 1 << 60  # Version 1 of cgroups says about 2**63 where there is no limit.


def available_bytes(root: Path = Path("/")) -> int | None:
    """What further processes may take without swapping, also within a container; None where nobody can tell.

    Args:
        root: of the file system that has ``proc`` and ``sys``.
    """
    known = [_of_machine(root / "proc" / "meminfo"), *_of_container(root / "sys" / "fs" / "cgroup")]
    return min((each for each in known if each is not None), default=None)


def _of_machine(file: Path) -> int | None:
    try:
        lines = file.read_text(encoding="ascii", errors="replace").splitlines()
        found = next(line.split() for line in lines if line.startswith("MemAvailable:"))
        return int(found[1]) * 1024
    except (OSError, StopIteration, IndexError, ValueError):
        return None


def _of_container(folder: Path) -> tuple[int | None, ...]:
    """What the control group leaves, by either version: what it may have, without what it has and cannot give back."""
    ways = (("memory.max", "memory.current", ""), ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory"))
    return tuple(_left(folder / below, limit, used) for limit, used, below in ways)


def _left(folder: Path, limit: str, used: str) -> int | None:
    try:
        most, taken = int((folder / limit).read_text()), int((folder / used).read_text())
        lines = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        files = next((int(value) for name, value in lines if name == "inactive_file"), 0)
    except (OSError, ValueError):
        # "max" is no limit.
        return None
    return None if most >= _UNLIMITED else max(0, most - taken + files)

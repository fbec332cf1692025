"""A wrapper for an object on another machine. Its class is sent by value; the object's class is imported there."""

from typing import Any

SCRATCH = "PYTEST_VLA_SCRATCH"
"""The variable that names a worker's own folder on another machine."""


class FarObject:
    """A wrapper that makes an object of a module, and calls its methods."""

    def __init__(self, path: list[str], module: str, name: str, table: dict[str, Any]) -> None:
        """Make ``module.name(**table)``.

        Args:
            path: where Python finds modules, before its own entries.
            module: of pytest-vla.
            name: of the class.
            table: of builtin types, since it arrives before anything is imported.
        """
        import importlib
        import sys

        sys.path[:] = [*path, *(each for each in sys.path if each not in path)]
        self._own = getattr(importlib.import_module(module), name)(**table)

    def call(self, name: str, *values: Any) -> Any:
        """Return the result of a method."""
        return getattr(self._own, name)(*values)

    def clock(self) -> float:
        """Return this machine's time, seconds since 1970."""
        import time

        return time.time()

    def node_id(self) -> str:
        """Return Ray's id of this machine."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

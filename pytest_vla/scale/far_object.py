"""An object of ours on another machine. This class is sent there by value; what it makes is imported there."""

from typing import Any

SCRATCH = "PYTEST_VLA_SCRATCH"
"""The variable that names a worker's own folder on another machine."""


class FarObject:
    """Makes an object of a module, and calls it."""

    def __init__(self, path: list[str], module: str, name: str, table: dict[str, Any]) -> None:
        """Makes ``module.name(**table)``.

        Args:
            path: where Python is to find modules, before what it has.
            module: of ours.
            name: of the class.
            table: of builtin types, since it arrives before anything is imported.
        """
        import importlib
        import sys

        sys.path[:] = [*path, *(each for each in sys.path if each not in path)]
        self._own = getattr(importlib.import_module(module), name)(**table)

    def call(self, name: str, *values: Any) -> Any:
        """What a method gives."""
        return getattr(self._own, name)(*values)

    def clock(self) -> float:
        """This machine's time, seconds since 1970."""
        import time

        return time.time()

    def node_id(self) -> str:
        """Ray's name of this machine."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

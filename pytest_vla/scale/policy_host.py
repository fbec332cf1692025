"""The policy on a machine of a cluster: a Ray actor that starts its process there and watches it."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.scale.scratch import Scratch
from pytest_vla.serving.process import NotBatched, NotShared
from pytest_vla.serving.replicas import Replicas

_LOG_BYTES = 1 << 16


class PolicyHost:
    """One process of the policy, which is started again on this machine where it died, as without a cluster."""

    def __init__(
        self, spec: Mapping[str, Any], most: int, processes: int, host: str, variables: Mapping[str, str | None]
    ) -> None:
        """Loads it; nothing is raised, see `begun`.

        Args:
            spec: of the policy, as a table.
            most: questions in a batch.
            processes: of the run's policy, this one among them.
            host: this machine's address for workers on others; empty: Ray's.
            variables: of the process's environment; None: without it.
        """
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._notices: list[str] = []
        self._replicas: Replicas | None = None
        self._scratch = Scratch()
        self._log, self._told = self._scratch.path / "policy.log", 0
        found = ModelSpec.of(dict(spec))
        try:
            self._replicas = Replicas(
                found,
                [found.device],
                most,
                notice=self._notices.append,
                log=self._log,
                listen=host or _address(),
                cores=0,
                processes=processes,
            )
            self._begun: dict[str, Any] = {
                "about": asdict(self._replicas.about),
                "patience": self._replicas.patience,
                "path": str(self._replicas.addresses[0].path),
                "network": self._replicas.network[0].table(),
            }
        except NotBatched as error:
            self._begun = {"not_batched": str(error), "not_shared": isinstance(error, NotShared)}
        except (VlaError, OSError) as error:
            self._begun = {"error": str(error)}

    def begun(self) -> dict[str, Any]:
        """What came of loading it: what it says of itself and where it listens, or why it does not."""
        return self._begun

    def state(self) -> dict[str, Any]:
        """How it goes: what was seen, and since the last call what happened and what the policy printed."""
        assert self._replicas is not None
        notices, self._notices[:] = [*self._notices], []
        printed = b""
        with suppress(OSError), self._log.open("rb") as stream:
            stream.seek(self._told)
            printed = stream.read(_LOG_BYTES)
            self._told += len(printed)
        (seen,) = self._replicas.seen()
        return {"seen": seen.table(), "notices": notices, "lost": self._replicas.lost(0), "printed": printed}

    def close(self) -> None:
        """Ends the process."""
        if self._replicas is not None:
            self._replicas.close()
        self._scratch.remove()


def _address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())

"""A policy that answers in the process that holds it, while that process waits, for `pytest_vla.evaluate`.

The batch server (`pytest_vla.serving.batch_server`) is a separate process, as for a run's policy process.
"""

import os
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import WireError
from pytest_vla.policies.in_memory import LivePolicy
from pytest_vla.serving.batch_server_process import DeskProcess
from pytest_vla.serving.process import About, PolicyAddress
from pytest_vla.serving.replicas import tell_lost
from pytest_vla.serving.stats import ServingStats

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy
    from pytest_vla.serving.computing import Computer

_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5  # Seconds between two checks of a call's duration.
_PATIENCE = 60.0


class Lending:
    """The policy of this process, which the workers of another process use.

    Attributes:
        lost: the reason for which it can no longer be used; empty if it can, or if `stop` was called.
    """

    def __init__(self, policy: "BatchPolicy", address: PolicyAddress, most: int) -> None:
        """Start to listen; questions are answered during `answer`.

        Args:
            policy: called in the thread of `answer` only.
            address: where to listen.
            most: the most questions in a batch.

        Raises:
            VlaError: the batch server cannot be started.
        """
        self._policy, self._address = policy, address
        self._stopped = threading.Event()
        self.lost = ""
        # Signs of life are for the starter of a policy's process; here both are this process.
        self._nobody = open(os.devnull, "w")  # noqa: SIM115
        try:
            # Ctrl-C is for this process.
            self._desk = DeskProcess(self._nobody, own_group=True)
        except BaseException:
            self._nobody.close()
            raise
        try:
            self._desk.open(str(address.path), address.secret.hex(), list(policy.reads), most, 1)
            self._desk.give_signs_of_life()
        except BaseException:
            self.close()
            raise

    def answer(self, limit: float) -> None:
        """Answer in this thread until `stop` is called.

        Args:
            limit: seconds that one call of the policy may take; its workers then get an error, and the call
                continues.
        """
        from pytest_vla.serving.computing import Computer

        computer = Computer(self._policy, self._desk.channel)
        threading.Thread(target=self._watch, args=(computer, limit), name="vla-watch", daemon=True).start()
        try:
            computer.run()
        except WireError as error:
            if not self._stopped.is_set():
                self.lost = f"the policy's batch server (the process that serves the workers) has ended: {error}"
                tell_lost(self._address, self.lost)
        finally:
            self._stopped.set()
            computer.close()

    def stop(self) -> None:
        """Make `answer` return as soon as the policy's current call ends; for any thread."""
        self._stopped.set()
        # Closing the channel would not wake its reader.
        with suppress(OSError):
            self._desk.channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the batch server."""
        self._desk.close()
        self._nobody.close()

    def _watch(self, computer: "Computer", limit: float) -> None:
        told: float | None = None
        while not self._stopped.wait(min(max(limit / 8, _SHORTEST_LOOK), _LONGEST_LOOK)):
            since = computer.busy_since
            if since is not None and since != told and computer.give_up(limit):
                told = since
                print(f"pytest-vla: one call of the policy takes longer than {limit:g} s", file=sys.stderr, flush=True)


class LentPolicy:
    """The lent policy as pytest sees it, with the interface of `pytest_vla.serving.replicas.Replicas`.

    Attributes:
        about: the policy's description of itself.
        patience: seconds after which a policy that does not answer counts as lost.
    """

    def __init__(self, live: LivePolicy) -> None:
        """Refer to the policy `live` of the process that started pytest."""
        self.about, self.patience = About(**live.about), _PATIENCE
        self._address = PolicyAddress(Path(live.socket), bytes.fromhex(live.secret))

    def address_of(self, worker: int) -> PolicyAddress:
        """Return the address for a worker with this number."""
        return self._address

    def seen(self) -> tuple[ServingStats, ...]:
        """Return no statistics: they go to the process that holds the policy."""
        return ()

    def close(self) -> None:
        """Do nothing: the policy stays in its process."""

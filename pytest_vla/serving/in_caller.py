"""A policy that answers in the process that has it, while that process waits: as `pytest_vla.evaluate` has it.

The desk (`pytest_vla.serving.batch_server`) is a process of its own, as it is for a policy's process of a run.
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
from pytest_vla.serving.replicas import lost_file
from pytest_vla.serving.stats import ServingStats

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy
    from pytest_vla.serving.computing import Computer

_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5  # At how long a call takes.
_PATIENCE = 60.0


class Lending:
    """A policy of this process, which workers of another one's ask.

    Attributes:
        lost: why nobody can ask it any more; empty: they can, or it was `stop` that ended it.
    """

    def __init__(self, policy: "BatchPolicy", address: PolicyAddress, most: int) -> None:
        """Starts to listen; nobody is answered before `answer`.

        Args:
            policy: called in the thread of `answer` only.
            address: where to listen.
            most: questions in a batch.

        Raises:
            VlaError: the desk cannot be started.
        """
        self._policy, self._address = policy, address
        self._stopped = threading.Event()
        self.lost = ""
        # Signs of life are for who started a policy's process, and this one knows that it lives.
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
        """Answers, in this thread, until `stop` is called.

        Args:
            limit: seconds that one call of the policy may take; who waits for it is then told that it took too long,
                and the call goes on.
        """
        from pytest_vla.serving.computing import Computer

        computer = Computer(self._policy, self._desk.channel)
        threading.Thread(target=self._watch, args=(computer, limit), name="vla-watch", daemon=True).start()
        try:
            computer.run()
        except WireError as error:
            if not self._stopped.is_set():
                self.lost = f"the process that talks to workers for the policy (its desk) is gone: {error}"
                # Whoever waits for it to come back looks for this file.
                with suppress(OSError):
                    lost_file(self._address).write_text(self.lost, encoding="utf-8")
        finally:
            self._stopped.set()
            computer.close()

    def stop(self) -> None:
        """From any thread: `answer` returns, as soon as the policy does."""
        self._stopped.set()
        # Closing it would not wake who reads from it.
        with suppress(OSError):
            self._desk.channel.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the desk."""
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
    """The same policy as pytest sees it: what `pytest_vla.serving.replicas.Replicas` is of one that it starts itself.

    Attributes:
        about: the policy.
        patience: seconds after which a policy that does not answer is known to be lost.
    """

    def __init__(self, live: LivePolicy) -> None:
        """`live`: of the process that started pytest."""
        self.about, self.patience = About(**live.about), _PATIENCE
        self._address = PolicyAddress(Path(live.socket), bytes.fromhex(live.secret))

    def address_of(self, worker: int) -> PolicyAddress:
        """Whom a worker asks, by its number."""
        return self._address

    def seen(self) -> tuple[ServingStats, ...]:
        """Nothing: that goes to the process that has the policy."""
        return ()

    def close(self) -> None:
        """Nothing: it goes on where it is."""

"""The processes of a run's policy, one a device, for who started them: one that dies is started again, once."""

import dataclasses
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.policies.spec import AUTO, ModelSpec
from pytest_vla.serving.process import About, PolicyAddress, PolicyProcess, start

RESTARTS = 1
"""How often a process is started again that died."""

_LOST = "lost"


class Replicas:
    """Starts and watches them. Belongs to the process that holds the session.

    Attributes:
        addresses: where they listen, one a device; the same also after a restart.
        about: the policy.
    """

    def __init__(
        self,
        spec: ModelSpec,
        devices: Sequence[str],
        most: int,
        *,
        told: Callable[[float], None] = lambda seconds: None,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Starts all at once, and waits until each has loaded its policy.

        Args:
            spec: of the policy; its device is replaced.
            devices: a process for each.
            most: questions in a batch.
            told: called about once a second while they load, with the seconds that it took so far.
            notice: called from another thread with what happens to them later, for a person.

        Raises:
            NotBatched: the policy is no `BatchPolicy`; see `pytest_vla.serving.process.start`.
            VlaError: it could not be loaded.
        """
        self._most, self._notice = most, notice
        self._specs = [dataclasses.replace(spec, device=device) for device in devices]
        self.addresses = [PolicyAddress.new() for _ in devices]
        self._processes: list[PolicyProcess | None] = [None for _ in devices]
        self._lock, self._closing = threading.Lock(), threading.Event()
        errors: list[BaseException] = []

        def load(number: int) -> None:
            tell = told if number == 0 else lambda seconds: None
            try:
                self._processes[number] = start(self._specs[number], most, self.addresses[number], told=tell)
            except BaseException as error:
                errors.append(error)

        # The first in this thread, which is the one that may print.
        others = [threading.Thread(target=load, args=(number,)) for number in range(1, len(devices))]
        try:
            for other in others:
                other.start()
            load(0)
            for other in others:
                other.join()
            if errors:
                raise errors[0]
        except BaseException:
            self.close()
            raise
        self.about: About = next(process.about for process in self._processes if process is not None)
        for number in range(len(devices)):
            threading.Thread(target=self._watch, args=(number,), name="vla-replica", daemon=True).start()

    def address_of(self, worker: int) -> PolicyAddress:
        """Whom a worker asks, by its number."""
        return self.addresses[worker % len(self.addresses)]

    def close(self) -> None:
        """Ends them all, and removes their addresses."""
        with self._lock:
            self._closing.set()
        for process in self._processes:
            if process is not None:
                process.close()
        for address in self.addresses:
            address.remove()

    def _watch(self, number: int) -> None:
        device = self._specs[number].device
        name = "the policy's process" + (f" on {device}" if device != AUTO else "")
        for attempt in range(RESTARTS + 1):
            process = self._processes[number]
            assert process is not None
            code = process.wait()
            with self._lock:
                if self._closing.is_set():
                    return
            ended = f"{name} ended with {_code(code)}"
            if attempt == RESTARTS:
                self._give_up(number, f"{ended}, for the second time")
                return
            self._notice(f"{ended}; it is started again, and its open episodes are run again")
            try:
                started = start(self._specs[number], self._most, self.addresses[number])
            except VlaError as error:
                self._give_up(number, f"{ended}, and could not be started again: {error}")
                return
            with self._lock:
                if self._closing.is_set():
                    started.close()
                    return
                self._processes[number] = started

    def _give_up(self, number: int, why: str) -> None:
        self._notice(why)
        # Who waits for it to come back looks for this file; with the folder gone, nobody is left to wait for.
        try:
            lost_file(self.addresses[number]).write_text(why, encoding="utf-8")
        except OSError:
            return


def lost_file(address: PolicyAddress) -> Path:
    """The file that is there once nobody will listen at an address any more; it says why."""
    return address.path.with_name(_LOST)


def _code(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

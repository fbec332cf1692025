"""The processes of a run's policy, one per device, for the process that started them; a crash is restarted once."""

import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies.devices import AUTO
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.process import (
    DESK_GONE,
    FROZEN,
    HUNG,
    About,
    PolicyAddress,
    PolicyProcess,
    longest_silence,
    start,
)
from pytest_vla.serving.stats import ServingStats
from pytest_vla.util.files import whole_file

RESTARTS = 1
"""How often a process that died is restarted. After a call that hung, or a freeze, it is always restarted."""

_LOST, _EXITED = "lost", "exited"
_LEAST_PATIENCE, _PATIENCE = (
    60.0,
    5.0,
)  # The limit for loading again: seconds, or a multiple of the first loading time if that is more.
_SLACK = 60.0  # Seconds, for a busy machine.
_LAST_WORDS = 2000


class Replicas:
    """The policy's processes of a run, which are started and watched by the process that holds the session.

    Attributes:
        addresses: where they listen, one per device; unchanged by a restart.
        network: where they listen for workers on other hosts, one per device; empty without network.
        about: the policy's description of itself.
        patience: seconds after which a process that does not answer is either back or known to be lost.
    """

    def __init__(
        self,
        spec: ModelSpec,
        devices: Sequence[str],
        most: int,
        *,
        told: Callable[[float], None] = lambda seconds: None,
        notice: Callable[[str], None] = lambda text: None,
        log: Path | None = None,
        listen: str | None = None,
        cores: int | None = None,
        processes: int | None = None,
    ) -> None:
        """Start all processes at once, and wait until each has loaded its policy.

        Args:
            spec: the policy; its device is replaced.
            devices: the devices, one process for each.
            most: the most questions in a batch.
            told: called about once a second while they load, with the seconds so far.
            notice: called from another thread with later events, as text for the user.
            log: the file for the policy's output after loading, or None for standard error.
            listen: an address of this machine for workers on other hosts, or None.
            cores: the number that workers share; 0 if each has its own; None for this machine's.
            processes: the number of processes of the run's policy, including these, or None for these only.

        Raises:
            NotBatched: the policy is not a `BatchPolicy`; see `pytest_vla.serving.process.start`.
            VlaError: it could not be loaded.
        """
        self._most, self._notice, self._log = most, notice, log
        self._specs = [dataclasses.replace(spec, device=device) for device in devices]
        self.addresses = [PolicyAddress.new() for _ in devices]
        self._processes: list[PolicyProcess | None] = [None for _ in devices]
        self._seen, self._lost = [ServingStats() for _ in devices], dict[int, str]()
        self._cores, self._many = cores, processes or len(devices)
        self._listen, self._ports = listen, [0 for _ in devices]
        self._lock, self._closing = threading.Lock(), threading.Event()
        errors: list[BaseException] = []

        def load(number: int) -> None:
            try:
                tell = told if number == 0 else lambda seconds: None
                self._processes[number] = self._begin(number, lambda: bool(errors), tell)
            except BaseException as error:
                errors.append(error)

        # The first process in this thread, which is the only one that may print.
        others = [threading.Thread(target=load, args=(number,)) for number in range(1, len(devices))]
        began = time.monotonic()
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
        self._loading = max(_LEAST_PATIENCE, _PATIENCE * (time.monotonic() - began))
        self._silence, self._timeout = longest_silence(spec.timeout), spec.timeout
        self.patience = self._silence + self._loading + _SLACK
        begun = [process.network for process in self._processes if process is not None]
        self.network = tuple(address for address in begun if address is not None)
        self._ports = [address.port for address in self.network] or self._ports
        self.about: About = next(process.about for process in self._processes if process is not None)
        for number in range(len(devices)):
            threading.Thread(target=self._watch, args=(number,), name="vla-replica", daemon=True).start()

    def address_of(self, worker: int) -> PolicyAddress:
        """Return the address for a worker with this number."""
        return self.addresses[worker % len(self.addresses)]

    def lost(self, number: int) -> str | None:
        """Return why a process will not listen any more, or None if it does or will again."""
        return self._lost.get(number)

    def seen(self) -> tuple[ServingStats, ...]:
        """Return each process's statistics, at most a second old; after a restart, those since the restart."""
        return tuple(self._seen)

    def close(self) -> None:
        """End all processes, and remove their addresses."""
        with self._lock:
            self._closing.set()
        for process in self._processes:
            if process is not None:
                process.close()
        for address in self.addresses:
            address.remove()
        if self._log is not None:
            with suppress(OSError):
                if not self._log.stat().st_size:
                    self._log.unlink()
                    # Remove the run's folder too if it is empty.
                    self._log.parent.rmdir()

    def _begin(
        self, number: int, given_up: Callable[[], bool], told: Callable[[float], None] = lambda seconds: None
    ) -> PolicyProcess:
        where = (self._specs[number], self._most, self.addresses[number])
        network: dict[str, Any] = {"listen": self._listen, "port": self._ports[number], "cores": self._cores}
        return start(*where, told=told, log=self._log, given_up=given_up, processes=self._many, **network)

    def _watch(self, number: int) -> None:
        device, deaths = self._specs[number].device, 0
        name = "the policy's process" + (f" on {device}" if device != AUTO else "")
        while True:
            process = self._processes[number]
            assert process is not None
            code = process.wait(self._silence, partial(self._note, number))
            with self._lock:
                if self._closing.is_set():
                    return
            # Its children may still be alive.
            process.close()
            deaths += code not in (HUNG, FROZEN)
            ended = f"{name} {self._ending(code)}"
            if deaths > RESTARTS:
                self._give_up(number, f"{ended}, for the second time{self._last_words()}")
                return
            self._notice(f"{ended}; it is restarted, and its open episodes run again")
            if code >= 0 and code not in (HUNG, FROZEN, DESK_GONE):
                # Not by a signal: its open episodes are retries.
                tell(exit_file(self.addresses[number]), ended)
            try:
                started = self._start_again(number)
            except VlaError as error:
                self._give_up(number, f"{ended}, and could not be restarted: {error}{self._last_words()}")
                return
            if started.about.digest != self.about.digest:
                started.close()
                self._give_up(number, f"{ended}, and its weights have changed since: no rate may cover both")
                return
            with self._lock:
                if self._closing.is_set():
                    started.close()
                    return
                self._processes[number] = started

    def _note(self, number: int, seen: ServingStats) -> None:
        self._seen[number] = seen

    def _ending(self, code: int) -> str:
        if code == HUNG:
            return "gave up a call that took too long (--vla-policy-timeout)"
        if code == DESK_GONE:
            return "ended, because its batch server (the process that serves the workers) had ended"
        if code == FROZEN:
            beyond = f"{self._silence - self._timeout:g} s beyond --vla-policy-timeout"
            return f"gave no sign of life for {self._silence:g} s, {beyond}, and was killed"
        return f"ended with {_code(code)}"

    def _start_again(self, number: int) -> PolicyProcess:
        began = time.monotonic()

        def given_up() -> bool:
            return self._closing.is_set() or time.monotonic() - began > self._loading

        self.addresses[number].path.parent.mkdir(mode=0o700, exist_ok=True)
        return self._begin(number, given_up)

    def _give_up(self, number: int, why: str) -> None:
        self._notice(why)
        self._lost[number] = why
        tell_lost(self.addresses[number], why)

    def _last_words(self) -> str:
        try:
            text = "" if self._log is None else self._log.read_text(errors="replace")[-_LAST_WORDS:].strip()
        except OSError:
            text = ""
        return f"; its last output:\n{text}" if text else ""


def tell_lost(address: PolicyAddress, why: str) -> None:
    """Tell waiting workers that an address is no longer served. They also give up if its folder is gone."""
    tell(lost_file(address), why)


def tell(file: Path, text: str) -> None:
    """Write a file for workers, if it can be written; it appears whole: who looks while it is written finds none."""
    with suppress(OSError, VlaError):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with whole_file(file) as stream:
            stream.write(text.encode())


def exit_file(address: PolicyAddress) -> Path:
    """Return the file that exists once a process of an address has ended by an exit of its own."""
    return address.path.with_name(_EXITED)


def lost_file(address: PolicyAddress) -> Path:
    """Return the file with the reason for which an address is no longer served; it exists only in that case."""
    return address.path.with_name(_LOST)


def _code(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"

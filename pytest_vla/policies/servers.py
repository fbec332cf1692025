"""A policy on several equal servers: ``--vla-model=openpi:HOST1:8000,HOST2:8000``.

The choice of the server does not change records: one server serves an episode from begin to end.
"""

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import Episode, Policy, Session
from pytest_vla.policies.devices import REQUEST_TIMEOUT
from pytest_vla.policies.fit import Traits, traits_of
from pytest_vla.policies.msgpack_arrays import pack
from pytest_vla.policies.openpi_connection import GONE, Address, AnswerLimit, await_server
from pytest_vla.records.counting import SAID
from pytest_vla.util.warnings import warn

CHECK_TIMEOUT = 10.0
"""Seconds that a server may take to answer before the first episode."""

_PAUSE, _LONGEST_PAUSE = 15.0, 300.0  # Seconds until a server that was away is retried: doubled each time.
_SHOWN = 80

Said = Mapping[Any, Any]
T = TypeVar("T")


class _Closes(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closes)


class PolicyServer(Policy, Protocol):
    """The policy of one server.

    Attributes:
        address: the server's address.
    """

    @property
    def address(self) -> Address: ...

    @property
    def said(self) -> Said:
        """The server's description of itself at the first connection. Raises EpisodeError."""

    def reach(self) -> Said:
        """Connect, and return the server's current description of itself. Raises EpisodeError."""


Make = Callable[[Address], PolicyServer]


@dataclass(frozen=True)
class OneServer(ABC):
    """What policies of one server have in common, whatever its protocol; `ask` is the protocol's.

    Attributes:
        address: the server's address. A key is read from the environment variable
            `pytest_vla.policies.openpi_connection.KEY`.
        timeout: seconds that connecting, or one request, may take in an episode; the first request may take
            `pytest_vla.policies.openpi_connection.FIRST_ANSWER` times as long.
    """

    address: Address
    timeout: float = REQUEST_TIMEOUT

    @abstractmethod
    def ask(self, timeout: float) -> Said:
        """Connect, and return the server's current description of itself. Raises EpisodeError."""

    @cached_property
    def said(self) -> Said:
        """The server's description of itself at the first connection. Raises EpisodeError."""
        return self.ask(self.timeout)

    @cached_property
    def limit(self) -> AnswerLimit:
        """The time limit of the server's answers, in all its episodes."""
        return AnswerLimit(self.timeout)

    def reach(self) -> Said:
        """Connect, and return the server's current description of itself.

        Raises:
            EpisodeError: no description within `CHECK_TIMEOUT`, or it is invalid.
        """
        return self.ask(CHECK_TIMEOUT)

    @property
    def digest(self) -> str | None:
        """The digest of the server's description of itself, or None if that is empty. Raises as `said`."""
        return said_digest(self.said)

    def check_alike(self, said: Said) -> None:
        """Check that the server describes itself as at the first connection. Raises EpisodeError."""
        if differs := differences(self.said, said):
            raise EpisodeError(GONE, f"{self.address} serves another policy than when the run began: {differs}")

    def checked(self, connection: C, said: Said) -> C:
        """Return a new connection after `check_alike`; it is closed if that raises EpisodeError."""
        try:
            self.check_alike(said)
        except BaseException:
            connection.close()
            raise
        return connection

    def recover(self, reason: str | None) -> bool:
        """Wait for a server that went away; see `pytest_vla.episode.rollout.play_until_it_counts`.

        Raises:
            VlaError: the server stayed away, or came back with another policy.
        """
        if reason != GONE:
            return False
        said = await_server(self.reach)
        self.limit.renew()
        try:
            self.check_alike(said)
        except EpisodeError as error:
            raise VlaError(
                f"{error.message}. The run stops. To go on with the first policy, serve it again, and use "
                "--vla-resume; evaluate the second one in a run of its own."
            ) from error
        return True


class ServersPolicy:
    """A policy on several servers: each worker has one, and uses another while its own is away.

    The worker's number determines its server, so that workers are spread evenly, and so that the workers of a server
    that is away are spread over the others. A server that is away is retried after pauses.

    Episodes end with the EpisodeErrors of the servers' own policies.
    """

    def __init__(self, addresses: Sequence[Address], make: Make, number: int) -> None:
        """Prepare the policies, without connecting.

        Args:
            addresses: the addresses of servers that serve one policy.
            make: returns the policy of one address.
            number: the number of this worker.
        """
        self._make, self._number = make, number
        self._servers = [make(address) for address in addresses]
        self._current = number % len(addresses)
        self._first: tuple[Address, Said] | None = None
        # For each server that is away, the time of its next retry, and the pause before it.
        self._away: dict[int, tuple[float, float]] = {}

    @property
    def replan(self) -> int | None:
        """The servers' own value. Raises EpisodeError if no server can be reached."""
        replan: int | None = getattr(self._one(), "replan", None)
        return replan

    @property
    def digest(self) -> str | None:
        """The servers' own digest. Raises EpisodeError if no server can be reached."""
        digest: str | None = getattr(self._one(), "digest", None)
        return digest

    @property
    def traits(self) -> Traits:
        """The servers' own traits. Raises EpisodeError if no server can be reached."""
        return traits_of(self._one())

    @property
    def served(self) -> object | None:
        """The policy's description if the servers are ``pytest-vla serve``, or None. Raises EpisodeError."""
        return getattr(self._one(), "served", None)

    def __call__(self, episode: Episode) -> Session:
        """Begin an episode at the first available server, in this worker's order."""
        return self._ask(lambda server: server(episode))

    def recover(self, reason: str | None) -> bool:
        """Wait until any server answers; see `pytest_vla.episode.rollout.play_until_it_counts`."""
        if reason != GONE:
            return False
        if self._current not in self._away:
            self._leave_alone(self._current, f"{self._servers[self._current].address} is gone")
        await_server(self._reach_one)
        return True

    def _one(self) -> PolicyServer:
        return self._ask(lambda server: server)

    def _ask(self, what: Callable[[PolicyServer], T]) -> T:
        """Return the result of `what` for the first available server. Raises EpisodeError."""
        trouble: EpisodeError | None = None
        tried: set[int] = set()
        # Computed anew each time: workers of a server that turns out to be away go to different ones.
        while rest := [number for number in self._in_order() if number not in tried]:
            number = rest[0]
            tried.add(number)
            try:
                if number in self._away:
                    self._meet_again(number)
                else:
                    self._check_alike(number, self._servers[number].said)
                found = what(self._servers[number])
            except EpisodeError as error:
                if error.reason != GONE:
                    raise
                trouble = error
                self._leave_alone(number, error.message)
            else:
                self._current = number
                self._away.pop(number, None)
                return found
        assert trouble is not None
        raise trouble

    def _in_order(self) -> list[int]:
        """Return the order of attempts: available servers, then those that are away, soonest retry first."""
        count, now = len(self._servers), time.monotonic()
        until = {number: self._away.get(number, (now, 0.0))[0] for number in range(count)}
        there = [number for number in range(count) if until[number] <= now]
        home = self._number % count
        turn = there.index(home) if home in there else self._number // count % max(1, len(there))
        return there[turn:] + there[:turn] + sorted({*until} - {*there}, key=until.__getitem__)

    def _leave_alone(self, number: int, why: str) -> None:
        """Mark a server as away, and do not ask it for a while."""
        _, before = self._away.get(number, (0.0, 0.0))
        if not before:
            warn(f"{why}; its episodes use the other servers until it is back")
        pause = min(2 * before, _LONGEST_PAUSE) or _PAUSE
        self._away[number] = time.monotonic() + pause, pause

    def _meet_again(self, number: int) -> None:
        """Reconnect to a server that was away, and check that it serves the same policy. Raises EpisodeError."""
        self._servers[number] = self._make(self._servers[number].address)
        self._check_alike(number, self._servers[number].reach())

    def _reach_one(self) -> None:
        """Reconnect to the first server that answers. Raises EpisodeError if none does."""
        troubles = []
        for number in self._in_order():
            try:
                self._meet_again(number)
            except EpisodeError as error:
                self._leave_alone(number, error.message)
                troubles.append(error.message)
            else:
                self._away.pop(number, None)
                return
        raise EpisodeError(GONE, f"none of {len(self._servers)} servers can be asked ({'; '.join(troubles)})")

    def _check_alike(self, number: int, said: Said) -> None:
        """Check that a server serves the same policy as the first that was asked. Raises EpisodeError."""
        address = self._servers[number].address
        if self._first is None:
            self._first = address, said
        elif differs := differences(self._first[1], said):
            raise EpisodeError(GONE, f"{address} serves another policy than {self._first[0]}: {differs}")


def policy_of_servers(addresses: Sequence[Address], make: Make, number: int) -> Policy:
    """Return the policy of one server as it is, or of several for the worker with this number."""
    return make(addresses[0]) if len(addresses) == 1 else ServersPolicy(addresses, make, number)


def check_servers(model: str, addresses: Sequence[Address], make: Make, expected: str) -> None:
    """Connect to each server once, and disconnect.

    Args:
        model: the text of ``--vla-model``.
        addresses: the addresses of servers that are to serve one policy.
        make: returns the policy of one address.
        expected: describes the required server, and how to start it.

    Raises:
        VlaError: some servers do not answer, or they serve different policies; the message names them.
    """

    def ask(address: Address) -> Said | EpisodeError:
        try:
            return make(address).reach()
        except EpisodeError as error:
            return error

    with ThreadPoolExecutor(len(addresses)) as pool:
        answers = list(pool.map(ask, addresses))
    troubles = [answer for answer in answers if isinstance(answer, EpisodeError)]
    if troubles:
        told = "; ".join(trouble.message for trouble in troubles)
        if len(addresses) > 1:
            told = f"{len(troubles)} of {len(addresses)} servers cannot be used: {told}"
            expected = f"{expected}; or remove missing servers from the list"
        raise VlaError(f"--vla-model={model}: {told}. Expected {expected}") from troubles[0]
    said = [answer for answer in answers if not isinstance(answer, EpisodeError)]
    for address, other in zip(addresses[1:], said[1:], strict=True):
        if differs := differences(said[0], other):
            raise VlaError(
                f"--vla-model={model}: {addresses[0]} and {address} serve different policies: {differs}. Serve "
                "the same policy on all servers of a run, or use separate runs."
            )


def weights_note(policy: object) -> str:
    """Return a note if new weights behind a server's address may go unnoticed; empty for any other policy.

    Raises:
        EpisodeError: the server cannot be asked.
    """
    if not isinstance(policy, OneServer | ServersPolicy) or not (digest := policy.digest or SAID).endswith(SAID):
        return ""
    if digest == SAID:
        return "the server says nothing of its policy, so other weights behind its address cannot be noticed"
    return "other weights behind the server's address are noticed only if its description of itself changes with them"


def differences(one: Said, other: Said) -> str:
    """Return the differences between two servers' descriptions as text, empty if there are none."""
    first, second = dict(_flat(one)), dict(_flat(other))
    names = [name for name in {**first, **second} if _packed(first.get(name)) != _packed(second.get(name))]
    return "; ".join(f"{name} is {_short(first.get(name))}, and {_short(second.get(name))}" for name in names)


def said_digest(said: Said) -> str | None:
    """Return a digest of a server's description of itself, or None if it describes nothing.

    It ends with `pytest_vla.records.counting.SAID`: equal descriptions do not prove equal weights.
    """
    content = hashlib.sha256()
    for name, value in sorted(_flat(said), key=lambda each: each[0]):
        content.update(repr((name, _packed(value))).encode())
    return f"{content.hexdigest()}{SAID}" if said else None


def _flat(said: Said, within: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in said.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{within}{name}.")
        else:
            yield f"{within}{name}", value


def _packed(value: object) -> bytes:
    try:
        return pack(value)
    except (TypeError, ValueError, OverflowError):
        return repr(value).encode(errors="surrogatepass")


def _short(value: object) -> str:
    text = "not said" if value is None else repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."

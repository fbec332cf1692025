"""Ctrl-C while something is half written."""

import signal
import threading

import pytest

from pytest_vla.util.processes import ended_as_interrupted, uninterrupted


def test_it_waits_until_the_block_has_ended() -> None:
    done = []
    handler = signal.getsignal(signal.SIGINT)

    def block() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_without_it_and_beside_another_error_all_is_as_ever() -> None:
    handler = signal.getsignal(signal.SIGINT)

    def block() -> None:
        with uninterrupted():
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert signal.getsignal(signal.SIGINT) is handler


def test_in_another_thread_and_where_ctrl_c_is_ignored_nothing_is_changed() -> None:
    seen = []

    def block() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    handler = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        block()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert seen == [handler, signal.SIG_IGN]


def test_sigterm_is_an_interrupt_within_the_block_alone() -> None:
    earlier = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_as_interrupted():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is earlier

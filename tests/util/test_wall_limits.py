"""An episode that does not end is stopped in its Python code, and nothing is stopped later on."""

import builtins
import contextlib
import io
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_vla.util import wall_limits as limits
from pytest_vla.util.wall_limits import WallLimitReached, hard_limit, lift_limits, terminal_stderr, wall_limit
from tests.support.waiting import HANG, LIMITS, until

LONG = HANG
"""Seconds that no test reaches unless what it tests is broken."""


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Every test leaves SIGALRM and its timer alone."""
    before = signal.getsignal(signal.SIGALRM)
    yield
    left, handler = signal.getitimer(signal.ITIMER_REAL), signal.getsignal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    assert left == (0, 0)
    assert handler is before or handler == before


def _sleep() -> None:
    time.sleep(LONG)


def _spin() -> None:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass


def _work(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def _wait_for_a_thread() -> None:
    threading.Event().wait(LONG)


def _wait_for_a_server() -> None:
    reader, writer = os.pipe()
    try:
        os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("hang", [_sleep, _spin, _wait_for_a_thread, _wait_for_a_server])
def test_code_that_does_not_end_is_stopped_at_the_users_own_line(hang: Callable[[], None]) -> None:
    for seconds in LIMITS:
        start = time.monotonic()
        with pytest.raises(WallLimitReached) as caught, wall_limit(seconds) as limit:
            hang()
        assert time.monotonic() - start >= seconds
        if caught.value.place.endswith(f" in {hang.__name__}"):
            break
    # Not the line of the standard library that it waits in.
    assert re.fullmatch(rf"{re.escape(__file__)}:[0-9]+ in {hang.__name__}", caught.value.place)
    assert str(caught.value) == limit.reached == f"no end within {seconds:g} s; stopped at {caught.value.place}"
    functions = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert hang.__name__ in functions


def test_a_policys_own_error_handling_lets_it_pass() -> None:
    retries: list[Exception] = []

    def retry() -> None:
        try:
            _sleep()
        except Exception as error:
            retries.append(error)

    with pytest.raises(WallLimitReached), wall_limit(0.02):
        retry()
    assert retries == []


def test_code_that_swallows_it_is_stopped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPEAT", 0.02)
    swallowed: list[str] = []

    def stubborn() -> None:
        while len(swallowed) < 5:
            try:
                _sleep()
            except BaseException as error:
                swallowed.append(str(error))
        _sleep()

    for seconds in LIMITS:
        with pytest.raises(WallLimitReached), wall_limit(seconds) as limit:
            stubborn()
        if swallowed:
            break
    assert limit.reached == swallowed[0]


def test_a_block_that_swallowed_it_and_ended_tells_it_all_the_same() -> None:
    came_in = False
    for seconds in LIMITS:
        with contextlib.suppress(WallLimitReached), wall_limit(seconds) as limit, contextlib.suppress(BaseException):
            came_in = True
            _sleep()
        if came_in:
            break
    assert limit.reached is not None


def test_a_block_that_ends_in_time_is_left_alone() -> None:
    start = time.monotonic()
    with wall_limit(LONG) as limit:
        left, _ = signal.getitimer(signal.ITIMER_REAL)
        assert LONG - (time.monotonic() - start) - 0.1 < left <= LONG
    assert limit.reached is None


def test_without_a_limit_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("touched")

    with monkeypatch.context() as patched:
        patched.setattr(signal, "signal", refuse)
        patched.setattr(signal, "setitimer", refuse)
        with wall_limit(None) as limit, hard_limit(None, 1.0, -1):
            assert limit.reached is None


def test_off_the_main_thread_there_is_no_soft_limit() -> None:
    ended: list[str | None] = []

    def work() -> None:
        with wall_limit(0.01) as limit:
            time.sleep(0.05)
        ended.append(limit.reached)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [None]


def test_nothing_is_raised_once_a_block_was_left() -> None:
    """Blocks whose end and whose limit fall together: what is raised comes out of the block, or not at all."""
    raised, handler, limit = 0, signal.getsignal(signal.SIGALRM), 100e-6
    for number in range(4000):
        inside = False
        try:
            with wall_limit(limit):
                inside = True
                _work(20e-6 * (1 + number % 10))
        except WallLimitReached:
            assert inside, "raised before the block was entered"
            raised += 1
            limit *= 1.02
        else:
            # It stays near to what blocks take, whatever that is on this machine.
            limit /= 1.02
        # Whatever is still under way would come here.
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        assert signal.getsignal(signal.SIGALRM) == handler
    time.sleep(0.01)
    assert 0 < raised < 4000, "the limits were not near the blocks' durations"


def test_blocks_too_short_for_their_limit_never_raise_inside_enter_or_exit() -> None:
    for _ in range(3000):
        try:
            with wall_limit(1e-6):
                pass
        except WallLimitReached as error:
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            assert "__enter__" not in names
            assert "__exit__" not in names
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def _handler(calls: list[float]) -> Callable[[int, Any], None]:
    return lambda signum, frame: calls.append(time.monotonic())


@pytest.fixture
def alarms() -> Iterator[list[float]]:
    """When the alarms of an earlier handler came, as pytest-timeout would have one."""
    calls: list[float] = []
    before = signal.signal(signal.SIGALRM, _handler(calls))
    yield calls
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_an_earlier_timer_goes_on_after_the_block(alarms: list[float]) -> None:
    handler, start = signal.getsignal(signal.SIGALRM), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, LONG, 7)
    with pytest.raises(WallLimitReached), wall_limit(0.05):
        _sleep()
    assert signal.getsignal(signal.SIGALRM) is handler
    left, interval = signal.getitimer(signal.ITIMER_REAL)
    assert LONG - (time.monotonic() - start) - 0.1 < left <= LONG - 0.04
    assert interval == 7
    assert alarms == []


def test_an_earlier_timer_that_is_due_in_the_block_comes_in_time(alarms: list[float]) -> None:
    start = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.03, 0.03)
    with wall_limit(2 * LONG) as limit:
        until(lambda: len(alarms) >= 3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(alarms) >= 3
    assert alarms[0] - start >= 0.03
    assert limit.reached is None


def test_an_earlier_timer_of_one_shot_comes_once(alarms: list[float]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    with pytest.raises(WallLimitReached), wall_limit(0.1):
        _sleep()
    assert len(alarms) == 1
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_no_earlier_alarm_is_lost_or_doubled_at_a_blocks_edges(alarms: list[float]) -> None:
    generator = random.Random(0)
    for _ in range(1500):
        alarms.clear()
        signal.setitimer(signal.ITIMER_REAL, generator.uniform(1e-6, 200e-6))
        for _ in range(2):
            with contextlib.suppress(WallLimitReached), wall_limit(generator.uniform(10e-6, 200e-6)):
                _work(generator.uniform(1e-6, 100e-6))
        end = time.monotonic() + LONG
        while not alarms and time.monotonic() < end:
            pass
        _work(200e-6)
        assert len(alarms) == 1
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_alarm_that_comes_when_no_timer_runs_is_the_earlier_handlers(alarms: list[float]) -> None:
    with wall_limit(LONG):
        signal.raise_signal(signal.SIGALRM)
        assert len(alarms) == 1
    with wall_limit(LONG) as limit:
        # As late as can be: nothing of the block runs after it.
        limit._armed = False
        signal.raise_signal(signal.SIGALRM)
    until(lambda: len(alarms) == 2)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_earlier_timer_that_repeats_survives_many_blocks(alarms: list[float]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    for number in range(2000):
        with contextlib.suppress(WallLimitReached), wall_limit(50e-6 * (1 + number % 5)):
            _work(50e-6 * (1 + number % 3))
    assert signal.getitimer(signal.ITIMER_REAL)[1] == pytest.approx(0.001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(alarms) > 20


def test_what_an_earlier_handler_raises_ends_the_block(alarms: list[float]) -> None:
    def fail(*_: Any) -> None:
        raise TimeoutError("as pytest-timeout does")

    def begin_both() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        with wall_limit(LONG):
            _sleep()

    signal.signal(signal.SIGALRM, fail)
    with pytest.raises(TimeoutError):
        begin_both()
    assert signal.getsignal(signal.SIGALRM) is fail
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_earlier_alarm_that_nobody_handles_ends_the_process_as_before() -> None:
    script = (
        "import signal, time; from pytest_vla.util.wall_limits import wall_limit; signal.setitimer(0, 0.1)\n"
        "with wall_limit(5000): time.sleep(5000)"
    )
    result = subprocess.run([sys.executable, "-c", script], timeout=LONG)
    assert result.returncode == -signal.SIGALRM


@pytest.mark.parametrize(("outer", "inner", "raised"), [(0.05, LONG, 0.05), (LONG, 0.05, 0.05)])
def test_of_nested_limits_the_shorter_one_is_raised(outer: float, inner: float, raised: float) -> None:
    with pytest.raises(WallLimitReached) as caught, wall_limit(outer), wall_limit(inner):
        _sleep()
    assert caught.value.seconds == raised


def test_an_outer_limit_holds_after_an_inner_one_was_left() -> None:
    left: list[float] = []

    def inner_ones() -> None:
        for _ in range(3):
            with wall_limit(LONG):
                time.sleep(0.01)
        try:
            with wall_limit(0.01):
                _sleep()
        except WallLimitReached as reached:
            if reached.seconds != 0.01:
                raise
        left.append(outer)
        _sleep()

    # As long as the inner ones take on this machine, and longer.
    for outer in (0.2, 2.0, 20.0, 200.0):
        with pytest.raises(WallLimitReached) as caught, wall_limit(outer):
            inner_ones()
        assert caught.value.seconds == outer
        if left:
            break
    assert left == [outer]


def test_a_debugger_is_not_interrupted(monkeypatch: pytest.MonkeyPatch, alarms: list[float]) -> None:
    with wall_limit(LONG) as limit:
        lift_limits()
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert limit.reached is None
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    lift_limits()
    until(lambda: alarms)
    assert len(alarms) == 1, "another's timer is not ours to stop"


def test_limits_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a file nor a thread of Python's nor a process an episode; a block takes some tens of microseconds."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("that is dear")

    stream = terminal_stderr()
    with monkeypatch.context() as patched:
        for owner, name in ((builtins, "open"), (io, "open"), (os, "open"), (threading.Thread, "start")):
            patched.setattr(owner, name, refuse)
        patched.setattr(subprocess, "Popen", refuse)
        for _ in range(200):
            with hard_limit(LONG, 1.0, stream), wall_limit(LONG):
                pass
    os.close(stream)


def test_the_module_is_light() -> None:
    heavy = "{'pytest', 'numpy', 'mujoco', 'sqlite3'}"
    script = f"import sys; import pytest_vla.util.wall_limits; print(*{heavy} & {{*sys.modules}})"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "\n"

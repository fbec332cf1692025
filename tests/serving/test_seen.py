"""What a policy's process saw: as a line, between two times, and as shares of the time."""

import json
from dataclasses import replace

import pytest

from pytest_vla.serving.stats import LONGEST_LINE, DeviceUse, ServingStats, read_seen, seen_line, seen_since, use_of

SEEN = ServingStats(
    seconds=10.0,
    busy=8.0,
    questions=100,
    calls={10: (9, 0.5), 5: (2, 0.25)},
    waited=3.0,
    thinking=(0.1, 0.3),
    away=(1.0,),
    episodes=5,
    workers=16,
    cores=4,
)


def test_a_line_says_all_of_it() -> None:
    line = seen_line(SEEN)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert read_seen(line) == SEEN


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"{}", b'{"seen": 1}', b'{"seen": {"seconds": 1}}', b"something\xff"]
)
def test_other_lines_say_nothing(line: bytes) -> None:
    assert read_seen(line) is None


def test_a_line_fits_into_a_pipe_however_many_sizes_there_were() -> None:
    samples = tuple(0.123456 for _ in range(64))
    many = replace(SEEN, calls={size: (size, 0.123456) for size in range(1, 1025)}, thinking=samples, away=samples)
    line = seen_line(many)
    assert len(line) <= LONGEST_LINE
    kept = [size for size, _, _ in json.loads(line)["seen"]["calls"]]
    assert kept == list(range(1025 - len(kept), 1025)), "the most frequent"
    assert len(kept) >= 64
    with pytest.raises(ValueError, match="9999 and 1 samples"):
        seen_line(replace(SEEN, thinking=(0.1,) * 9999))


def test_between_two_times() -> None:
    earlier = ServingStats(4.0, 3.0, 40, {10: (4, 0.9)}, 1.0, (9.0,), (), 2, 16, 4)
    assert seen_since(SEEN, earlier) == replace(
        SEEN, seconds=6.0, busy=5.0, questions=60, calls={10: (5, 0.5), 5: (2, 0.25)}, waited=2.0, episodes=3
    )
    assert seen_since(SEEN, SEEN).calls == {}
    restarted = replace(earlier, seconds=1.0)
    assert seen_since(restarted, SEEN) == restarted


def test_shares_of_the_time() -> None:
    # 100 questions of 0.2 s and 5 episodes of 1 s on 4 cores for 10 s.
    assert use_of([SEEN]) == DeviceUse(device=0.8, cores=25 / 40, batch=100 / 11, call=8 / 11)
    assert use_of([SEEN, replace(SEEN, busy=4.0)]) == DeviceUse(device=0.6, cores=1.0, batch=200 / 22, call=12 / 22)
    assert use_of([replace(SEEN, cores=0)]) == DeviceUse(device=0.8, cores=None, batch=100 / 11, call=8 / 11)
    assert use_of([replace(SEEN, busy=11.0)]) == DeviceUse(device=1.0, cores=25 / 40, batch=100 / 11, call=1.0)


def test_of_few_calls_nothing_is_told() -> None:
    assert use_of([]) is None
    assert use_of([ServingStats()]) is None
    assert use_of([replace(SEEN, calls={1: (4, 0.1)})]) is None

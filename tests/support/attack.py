"""`make attack`: hostile files and bytes by the thousand, and what becomes of each. It takes minutes.

Run it as ``python -m tests.support.attack [--scale=0.1] [KIND ...]`` from the root. `make test` draws a few of each.

Each of these has an outcome: it is read as if it were sound, it is one clear error, it is a traceback, or it hangs. The
last two are defects, and the exit code is 1 where there is any. `--scale=0.01` takes a hundredth of everything.
"""

import argparse
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.manifests import suite_folder
from pytest_vla.scene.bddl import VlaWarning
from pytest_vla.scene.problem import parse_problem_text
from tests.support import attack_stores
from tests.support.attack_stores import CLEAR, DONE, HANG, TRACEBACK

Outcome = tuple[str, str]
"""One of `CLEAR`, `DONE`, `TRACEBACK`, `HANG`, and what was done, for people."""

PATIENCE = 20.0
SHOWN = 5

_TOKENS = (
    "(", ")", "((", "))", ":goal", ":init", ":objects", "(and", "(not", "(On", "(:", "- ", "\0", "\x1b[2J", "nan",
    "1e999", "-0.0", "9" * 400, "0x1", "é", "\udc80", ";", "\n", "\t", '"', "(" * 300, " " * 300, "(:ranges ((", "inf",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Hostile files and bytes, and what becomes of each.")
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts (default: 1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(COUNTS)} (default: all)")
    options = parser.parse_args(arguments)
    if unknown := set(options.kinds) - set(COUNTS):
        parser.error(f"no kind {', '.join(sorted(unknown))}")
    counts = {kind: max(round(number * options.scale), 1) for kind, number in COUNTS.items()}
    bad = 0
    print(f"{'kind':<12}{'tried':>9}{'clear error':>13}{'read':>9}{'traceback':>11}{'hang':>6}{'s':>8}", flush=True)
    for kind in options.kinds or COUNTS:
        began = time.monotonic()
        found: Counter[str] = Counter()
        defects: list[str] = []
        for outcome, said in ATTACKS[kind](counts[kind], options.seed):
            found[outcome] += 1
            if outcome in (TRACEBACK, HANG):
                defects.append(f"{outcome}: {said}")
        bad += len(defects)
        print(
            f"{kind:<12}{found.total():>9}{found[CLEAR]:>13}{found[DONE]:>9}{found[TRACEBACK]:>11}{found[HANG]:>6}"
            f"{time.monotonic() - began:>8.0f}",
            flush=True,
        )
        for text in defects[:SHOWN]:
            print(text, file=sys.stderr)
    return int(bad > 0)


def bddl(number: int, seed: int) -> Iterator[Outcome]:
    """Task files with pieces cut, doubled, swapped and put in: each is a problem, or a located error."""
    folder = suite_folder("tabletop")
    assert folder is not None, "tabletop comes with its files"
    texts = [file.read_text() for file in sorted((folder / "bddl_files" / "tabletop").glob("*.bddl"))]
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VlaWarning)
        for _ in range(number):
            text = rng.choice(texts)
            for _ in range(rng.randint(1, 4)):
                text = _mutated_text(text, rng)
            yield _judged(partial(parse_problem_text, text, compat=rng.random() < 0.3), SceneError, repr(text))


def _mutated_text(text: str, rng: random.Random) -> str:
    first, second = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    second = min(second, first + rng.choice((1, 5, 60, 4000)))
    piece = text[first:second]
    kind = rng.randrange(5)
    if kind == 0:
        return text[:first] + text[second:]
    if kind == 1:
        return text[:second] + piece + text[second:]
    if kind == 2:
        return text[:first] + rng.choice(_TOKENS) + text[first:]
    if kind == 3:
        return text[:first] + rng.choice(_TOKENS) + text[second:]
    words = piece.split(" ")
    rng.shuffle(words)
    return text[:first] + " ".join(words) + text[second:]


def _judged(read: Callable[[], object], error: type[Exception], about: str) -> Outcome:
    # An alarm ends what hangs in Python; no parser of ours waits in C.
    before = signal.signal(signal.SIGALRM, _overdue)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        read()
        return DONE, ""
    except error as told:
        text = str(told)
        return (CLEAR, text) if text else (TRACEBACK, f"an error without a word: {about[:2000]}")
    except TimeoutError:
        return HANG, about[:2000]
    except Exception:
        return TRACEBACK, f"{about[:2000]}\n{traceback.format_exc()}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _overdue(*_: object) -> None:
    raise TimeoutError


def files(number: int, seed: int) -> Iterator[Outcome]:
    """Trajectories, replays, init states, category.toml and YAML files with flipped, cut and doubled bytes."""
    from pytest_vla.policies.random_and_replay import replay_policy
    from pytest_vla.records.trajectory import load_trajectory
    from pytest_vla.scene.catalog import read_category
    from pytest_vla.scene.init_states import read_init_states
    from pytest_vla.suites.libero_pro.tables import load_table

    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        states = np.zeros((3, 9))
        episode, table, states_file = Path(folder) / "a.npz", Path(folder) / "category.toml", Path(folder) / "a.npy"
        swaps = Path(folder) / "ood_spatial_relation.yaml"
        np.savez_compressed(episode, qpos=states, qvel=states, eef_pos=states, actions=np.zeros((2, 7)))
        table.write_text("yaw_degrees = [0, 90]\nburner = 'x'\n[articulation]\nturn_on = [1, 2]\nturn_off = [0, 0.1]\n")
        np.save(states_file, states)
        swaps.write_text("libero_goal: &a\n  turn_on_the_stove: [[x, y]]\nother: {<<: *a, more: [[a, b]]}\n")
        readers: Sequence[tuple[Path, Callable[[Path], object]]] = (
            (episode, load_trajectory),
            (episode, replay_policy),
            (states_file, read_init_states),
            (table, read_category),
            (swaps, lambda file: load_table("swap", file)),
        )
        sound = {file: file.read_bytes() for file, _ in readers}
        for _ in range(number):
            file, read = rng.choice(readers)
            file.write_bytes(_mutated_bytes(sound[file], rng))
            yield _judged(partial(read, file), VlaError, f"{file.name} {file.read_bytes()!r}")


def _mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data)), rng.choice((1, 4, 30, 300))
    kind = rng.randrange(5)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + data[at + size :]
    if kind == 2:
        return data[: at + size] + data[at:]
    if kind == 3:
        return data[:at] + rng.choice((b"[", b"{", b"9", b"&a ", b"*a ", b"\xff", b"\0")) * size + data[at:]
    changed = bytearray(data)
    for _ in range(size):
        changed[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(changed)


def stores(number: int, seed: int) -> Iterator[Outcome]:
    """Results folders that are no longer as they were left: three commands for each."""
    for _, command, outcome, said in attack_stores.attack(range(number), seed):
        yield outcome, f"{command}: {said}"


def frames(number: int, seed: int) -> Iterator[Outcome]:
    """Garbage for a server of `pytest-vla serve`: frames, half-open connections, bytes that are no websocket.

    Each is told that it is wrong; after each hundred a sound client is answered.
    """
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    from pytest_vla.policies.msgpack_arrays import pack, unpack
    from pytest_vla.serving.websocket import WebsocketServer, as_batch_policy

    rng = random.Random(seed)
    request = {
        "observation/image": np.zeros((8, 8, 3), np.uint8),
        "observation/wrist_image": np.zeros((8, 8, 3), np.uint8),
        "observation/state": np.zeros(8),
        "prompt": "do it",
    }
    sound = pack(request)
    told: list[str] = []
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = WebsocketServer(as_batch_policy(_still), listener, told=told.append)
    url, half_open = f"ws://127.0.0.1:{server.port}", list[socket.socket]()
    try:
        for count in range(number):
            if count % 3 == 2:
                # Left open, and forgotten.
                raw = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
                with suppress(OSError):
                    raw.sendall(_half_a_handshake(rng))
                half_open.append(raw)
                while len(half_open) > 100:
                    half_open.pop(0).close()
                yield DONE, ""
            else:
                frame = _garbage(sound, rng)
                try:
                    with connect(url, compression=None, max_size=None, close_timeout=1) as client:
                        client.recv(PATIENCE)
                        client.send(frame)
                        reply = client.recv(PATIENCE)
                    yield (CLEAR if isinstance(reply, str) else DONE), ""
                except ConnectionClosed:
                    yield CLEAR, ""
                except TimeoutError:
                    yield HANG, repr(frame[:500])
            if count % 100 == 99 or count == number - 1:
                yield _answers(connect, url, sound, unpack)
        for line in told:
            # What a server says of a defect of its own.
            if "Error: " in line and "/pytest_vla/" in line:
                yield TRACEBACK, line
    finally:
        for raw in half_open:
            raw.close()
        server.close()


def _still(episode: Any) -> Any:
    return lambda observation: np.zeros((5, 7))


def _answers(connect: Any, url: str, sound: bytes, unpack: Callable[[bytes], Any]) -> Outcome:
    try:
        with connect(url, compression=None, max_size=None) as client:
            client.recv(PATIENCE)
            client.send(sound)
            return (DONE, "") if "actions" in unpack(client.recv(PATIENCE)) else (TRACEBACK, "no actions")
    except TimeoutError:
        return HANG, "a sound client has no answer"
    except Exception:
        return TRACEBACK, f"a sound client has no answer\n{traceback.format_exc()}"


def _garbage(sound: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(6)
    if kind == 0:
        return rng.randbytes(rng.choice((0, 1, 10, 1000)))
    if kind == 1:
        size = rng.choice((1000, 1_000_000, 15_000_000))
        return b"\xdd" + size.to_bytes(4) + rng.choice((b"\x90", b"\x80", b"\xc0", b"\x91")) * size
    if kind == 2:
        return rng.choice((b"\x91", b"\x81\xa1a")) * rng.choice((10, 1000, 100_000))
    return _mutated_bytes(sound, rng)


def _half_a_handshake(rng: random.Random) -> bytes:
    whole = (
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    # Cut within the handshake, or within a frame that says that it is longer than what comes.
    longer = whole + b"\x82\xff\x00\x00\x00\x00\x00\x10"
    return rng.choice((whole[: rng.randrange(len(whole))], longer, rng.randbytes(80)))


_WRITER = """
import dataclasses, sys
from pathlib import Path
from pytest_vla.records.store import open_store
from tests.support.attack_stores import sample_records
with open_store(Path(sys.argv[1]), create=True) as store:
    records = [*sample_records(sys.argv[2], "random")]
    store.begin(sys.argv[2], [each.node for each in records], command="", model="random")
    print("begun", flush=True)
    for attempt in range(1, 1000):
        for record in records:
            store.add(dataclasses.replace(record, attempt=attempt))
            print(attempt, flush=True)
"""


def faults(number: int, seed: int) -> Iterator[Outcome]:
    """Processes killed while they write records: all that they said to have written is there."""
    from pytest_vla.records.store import open_store

    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        for count in range(number):
            run = f"run{count}"
            process = subprocess.Popen(
                [sys.executable, "-c", _WRITER, folder, run],
                cwd=Path(__file__).parents[2],
                stdout=subprocess.PIPE,
                text=True,
            )
            overdue = threading.Timer(6 * PATIENCE, process.kill)
            overdue.start()
            with process:
                assert process.stdout is not None
                lines = [process.stdout.readline() for _ in range(rng.randrange(2, 200))]
                process.kill()
                lines += process.stdout.read().splitlines(keepends=True)
            overdue.cancel()
            acknowledged = sum(line.endswith("\n") for line in lines) - 1
            if acknowledged < 1:
                yield HANG, f"{run}: it wrote nothing"
                continue
            try:
                with closing(open_store(Path(folder), create=False)) as store:
                    kept = len([*store.attempts(run)])
            except VlaError as error:
                yield TRACEBACK, f"{run}: {error}"
                continue
            lost = kept not in (acknowledged, acknowledged + 1)
            yield (TRACEBACK, f"{run}: {acknowledged} acknowledged, {kept} kept") if lost else (DONE, "")


COUNTS: Mapping[str, int] = {"bddl": 200_000, "files": 20_000, "stores": 1_900, "frames": 3_000, "faults": 50}
ATTACKS: Mapping[str, Callable[[int, int], Iterator[Outcome]]] = {
    "bddl": bddl,
    "files": files,
    "stores": stores,
    "frames": frames,
    "faults": faults,
}

if __name__ == "__main__":
    sys.exit(main())

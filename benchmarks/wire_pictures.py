"""What it costs to send pictures to a policy on another host, by codec, and which links are slow enough for it.

    python benchmarks/wire_pictures.py [--rounds=5]

Pictures are those of the expert's episodes, both cameras, a question every eight steps. A codec is timed on one core,
as the worker (to squeeze) and the desk (to take in what came, and unsqueeze it) do it, the fastest of the rounds.
Through a link that is slower than "pays below", squeezing, sending and unsqueezing takes less time than sending. The
desk is one thread: its milliseconds limit the questions of a policy's process. The last table sends through a link
that is slowed down, with what is chosen by itself. Codecs that are not installed are left out.
"""

import argparse
import importlib.util
import io
import os
import socket
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from upstream import libero_data, table

from pytest_vla import World, load_suite
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import VlaError
from pytest_vla.expert.policy import expert_policy
from pytest_vla.plan.case import Case
from pytest_vla.policies.base import Episode
from pytest_vla.policies.noise import noise_generator
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving import client
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.network import NetworkAddress, bound, connect
from pytest_vla.serving.process import PolicyAddress, start
from pytest_vla.serving.squeeze import Squeezer, Unsqueezer, known_codecs
from pytest_vla.serving.wire import Inbox, framed, inlined

SIDE, REPLAN = 256, 8
CAMERAS = ("agentview_image", "robot0_eye_in_hand_image")
SEEN = (
    ("tabletop", 0),
    ("tabletop", 3),
    ("libero_goal", 0),
    ("libero_spatial", 0),
    ("libero_object", 2),
    ("libero_10", 8),
)
LINKS = (50, 200, 1000, 10_000)
"""Mbit/s."""
_QUESTIONS, _PIECE = 60, 1 << 16

Question = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Codec:
    """Both sides of one connection.

    Attributes:
        pack: a question's arrays, and whether it is its episode's first.
        unpack: what came of it.
    """

    pack: Callable[[Question, bool], dict[str, Any]]
    unpack: Callable[[dict[str, Any]], Question]


def episodes() -> dict[str, list[list[Question]]]:
    """Questions of episodes, by where they are from."""
    found: dict[str, list[list[Question]]] = {"tabletop": [], "LIBERO": []}
    for suite, index in SEEN:
        if suite != "tabletop":
            try:
                libero_data()
            except (SystemExit, VlaError):
                continue
        task = load_suite(suite).tasks[index]
        with World(task, image_size=(SIDE, SIDE)) as world:
            case = Case(task.suite, task.name, 0)
            played = run_episode(case, task, expert_policy, lambda *_, w=world: w, Conditions("expert"))
            observation, questions = world.reset(0), []
            for number, action in enumerate(played.trajectory.actions):
                if number % REPLAN == 0:
                    questions.append(
                        {**{name: np.array(observation[name]) for name in CAMERAS}, "state": np.arange(8.0)}
                    )
                observation = world.step(action)
        found["tabletop" if suite == "tabletop" else "LIBERO"].append(questions)
    return {name: questions for name, questions in found.items() if questions}


def of_bytes(compress: Callable[[bytes], bytes], decompress: Callable[[bytes], bytes]) -> Callable[[], Codec]:
    """Of a codec of bytes, without differences."""
    return lambda: Codec(
        lambda arrays, _: {name: [a.dtype.str, a.shape, compress(a.tobytes())] for name, a in arrays.items()},
        lambda sent: {
            name: np.frombuffer(decompress(data), kind).reshape(shape) for name, (kind, shape, data) in sent.items()
        },
    )


def png() -> Codec:
    from PIL import Image

    def packed(array: NDArray[Any]) -> Any:
        if array.ndim != 3:
            return array.tobytes()
        Image.fromarray(array).save(stream := io.BytesIO(), "PNG", compress_level=1)
        return [stream.getvalue()]

    return Codec(
        lambda arrays, _: {name: packed(array) for name, array in arrays.items()},
        lambda sent: {
            name: np.frombuffer(data) if isinstance(data, bytes) else np.asarray(Image.open(io.BytesIO(data[0])))
            for name, data in sent.items()
        },
    )


def ours(codec: str) -> Callable[[], Codec]:
    return lambda: Codec(Squeezer(codec).squeezed, Unsqueezer().read)


def codecs() -> dict[str, Callable[[], Codec]]:
    """By name; each call is a new connection."""
    found: dict[str, Callable[[], Codec]] = {
        "as it is": lambda: Codec(lambda arrays, _: inlined(arrays), Unsqueezer().read),
        "PNG (Pillow, level 1)": png,
        "zlib level 1": of_bytes(lambda data: zlib.compress(data, 1), zlib.decompress),
    }
    if importlib.util.find_spec("lz4") is not None:
        import lz4.block

        found["lz4"] = of_bytes(lz4.block.compress, lz4.block.decompress)
    if "zstd" in known_codecs():
        import zstandard

        found["zstd level 1"] = of_bytes(
            zstandard.ZstdCompressor(level=1).compress, zstandard.ZstdDecompressor().decompress
        )
    found |= {f"{codec}, of differences (ours)": ours(codec) for codec in reversed(known_codecs())}
    return found


def codec_rows(questions: Sequence[Sequence[Question]], rounds: int) -> list[tuple[str, ...]]:
    """A row for each codec."""
    rows: list[tuple[str, ...]] = [
        ("codec", "KB a question", "ratio", "ms, worker", "ms, desk", "pays below, Mbit/s", "desk, questions/s")
    ]
    raw: tuple[float, float, float] | None = None
    for name, make in codecs().items():
        times, sizes = [], []
        for episode in questions:
            taken = [[9.0, 9.0] for _ in episode]
            for _ in range(rounds):
                codec, inbox = make(), Inbox()
                for number, question in enumerate(episode):
                    began = time.perf_counter()
                    sent = framed({"arrays": codec.pack(question, number == 0)})
                    there = time.perf_counter()
                    for start_at in range(0, len(sent), 1 << 18):
                        inbox.add(sent[start_at : start_at + (1 << 18)])
                    (message, _), *_ = inbox.messages()
                    found = codec.unpack(message["arrays"])
                    done = time.perf_counter()
                    taken[number] = [min(taken[number][0], there - began), min(taken[number][1], done - there)]
                    assert all(np.array_equal(found[each], question[each]) for each in question), name
                    sizes.append(len(sent))
            times += taken
        worker, desk = np.mean(times, axis=0)
        size = float(np.mean(sizes))
        raw = raw or (size, float(worker), float(desk))
        costs = worker + desk - raw[1] - raw[2]
        pays = f"{8 * (raw[0] - size) / costs / 1e6:,.0f}" if costs > 0 and size != raw[0] else ""
        shown = f"{size / 1e3:.0f}", f"{raw[0] / size:.1f}", f"{1e3 * worker:.2f}", f"{1e3 * desk:.2f}"
        rows.append((name, *shown, pays, f"{1 / desk:,.0f}"))
    return rows


class Link:
    """Carries one connection at so many Mbit/s towards the policy."""

    def __init__(self, to: NetworkAddress, speed: float) -> None:
        self._listener = bound("127.0.0.1", 0)
        self._listener.listen()
        self.address = NetworkAddress("127.0.0.1", self._listener.getsockname()[1], to.secret)
        threading.Thread(target=self._run, args=(to, speed), daemon=True).start()

    def _run(self, to: NetworkAddress, speed: float) -> None:
        # A link holds little: what the system keeps for both sides would hide how slow it is.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _PIECE)
        with self._listener, self._listener.accept()[0] as worker, connect(to, 3600) as desk:
            back = threading.Thread(target=self._carry, args=(desk, worker, None))
            back.start()
            self._carry(worker, desk, speed)
            back.join()

    def _carry(self, source: socket.socket, target: socket.socket, speed: float | None) -> None:
        free = time.perf_counter()
        while data := source.recv(_PIECE):
            if speed is not None:
                free = max(free, time.perf_counter()) + 8 * len(data) / speed / 1e6
                time.sleep(max(0.0, free - time.perf_counter()))
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def link_rows(questions: Sequence[Sequence[Question]]) -> list[tuple[str, ...]]:
    """What is chosen through slow links, and how long a question takes of a policy that answers at once."""
    # It is one host, which is to be told apart from a network nowhere.
    setattr(client, "is_this_host", lambda connection: False)  # noqa: B010
    rows: list[tuple[str, ...]] = [("link, Mbit/s", "chosen", "ms, chosen", "ms, as it is", "ms, squeezed")]
    folder = Path(__file__).parent
    with tempfile.TemporaryDirectory() as logs, ExitStack() as stack:
        address = PolicyAddress.new()
        stack.callback(address.remove)
        spec = ModelSpec("serving_calls:instant", folder)
        process = start(spec, 8, address, log=Path(logs) / "log", listen="127.0.0.1")
        stack.callback(process.close)
        assert process.network is not None
        for speed in LINKS:
            policy = ServedPolicy(Link(process.network, speed).address, 3600)
            stack.callback(policy.close)
            taken: list[float] = []
            episode = 0
            while len(taken) < _QUESTIONS:
                name = f"s/t[seed{episode}]"
                session = policy(Episode(name, "s", "t", "do it", episode, noise_generator(0, name)))
                for question in questions[episode % len(questions)]:
                    began = time.perf_counter()
                    session(question)
                    taken.append(time.perf_counter() - began)
                session.close()
                episode += 1
            link = policy._link
            medians = [1e3 * float(np.median(times)) for times in (link._times[False], link._times[True])]
            chosen = f"{1e3 * float(np.median(taken[-_QUESTIONS // 2 :])):.1f}"
            rows.append(
                (f"{speed:,}", "squeezed" if link.squeezes else "as it is", chosen, *(f"{m:.1f}" for m in medians))
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found = episodes()
    print(f"codecs here: {', '.join(known_codecs())}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name, questions in found.items():
        count = sum(map(len, questions))
        table(f"{count} questions of {name}, two pictures of {SIDE} x {SIDE}", codec_rows(questions, rounds))
    table("through a link that is slowed down, a policy that answers at once", link_rows(found["tabletop"]))


if __name__ == "__main__":
    main()

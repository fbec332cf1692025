"""Results folders as an attacker, or a bad disk, would leave them, and what the commands of pytest-vla say to them."""

import contextlib
import copy
import io
import json
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from pytest_vla.plan.case import Case
from pytest_vla.records.record import SCHEMA, Record
from pytest_vla.records.store import STORE, open_store
from pytest_vla.records.trajectory import Trajectory, save_trajectory

RUN = "20260102-030405-abcd"
OTHER_RUN = "20260103-030405-beef"
CLEAR, DONE, TRACEBACK, HANG = "clear error", "done", "traceback", "hang"
PATIENCE = 20.0
"""Seconds after which a store's commands hang; the slowest takes a tenth of it."""

_TASKS = ("turn_on_the_stove", "put_the_bowl_on_the_plate")
_VARIATIONS: tuple[dict[str, Any], ...] = (
    {},
    {"label": "camera.viewpoint-1", "dimension": "camera", "kind": "viewpoint", "level": 1, "probe": False,
     "parameters": {"azimuth_deg": 3.5, "moved": ["agentview"]}},
    {"label": "language.synonym", "dimension": "language", "kind": "synonym", "level": None, "probe": False,
     "parameters": {"original": "turn on the stove"}},
    {"label": "words-1", "dimension": "language", "kind": "para", "level": None, "probe": False, "suite": "libero_para",
     "parameters": {"object_type": "none", "action_type": "none", "original": "turn on the stove", "index": 3}},
    {"label": "list.entry", "dimension": "camera", "kind": "list", "level": 2, "probe": False,
     "suite": "libero_plus_goal",
     "parameters": {"protocol": "paper", "name": "turn_on_the_stove_light_1"}},
    {"label": "pro.environment", "dimension": "pro", "kind": "environment", "level": 1, "probe": False,
     "suite": "libero_goal", "parameters": {"left_out": ["x"], "unavailable": []}},
    {"label": "camera.blackout", "dimension": "camera", "kind": "blackout", "level": None, "probe": True,
     "parameters": {"view": "all"}},
    {"label": "language.empty", "dimension": "language", "kind": "empty", "level": None, "probe": True,
     "parameters": {}},
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, 0, -1, 1, 2**31, 2**62, -(2**63), 10**400, 1.5, -0.0, 1e308, float("nan"), float("inf"), True, False, "", "x",
    "../../x", "/etc/passwd", "\x1b]0;title\x07\x1b[2J", "a\nb", "\udcff", "\x00", "9" * 5000, "0001-01-01", "é" * 3000,
    [], {}, [[]], [None], {"x": None}, [1, [2, [3]]], {"": {"": {}}}, "success", "running", RUN,
)  # fmt: skip
_SCHEMA = (
    "DROP TABLE records",
    "DROP TABLE items",
    "DROP TABLE episodes",
    "DROP VIEW results",
    "ALTER TABLE runs DROP COLUMN picked",
    "ALTER TABLE runs RENAME COLUMN model TO other",
    "ALTER TABLE episodes RENAME TO eps",
    "ALTER TABLE runs ADD COLUMN extra",
    "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM episodes; END",
    "CREATE INDEX i ON episodes (json_extract(node, '$'))",
    "DROP TABLE records; CREATE VIEW records AS WITH RECURSIVE n(episode, line) AS"
    " (SELECT 1, '{}' UNION ALL SELECT episode + 1, line FROM n) SELECT * FROM n",
    "DROP VIEW results; CREATE VIEW results AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    " SELECT i AS run, i AS suite, i AS of_suite, i AS outcome, i AS reason, i AS case_id, i AS id FROM n",
    "DROP TABLE items; CREATE TABLE items (run, node, position, episode, status, own, counting)",
    "DROP TABLE runs; CREATE VIEW runs AS SELECT 1 AS id, zeroblob(100) AS name",
    "DROP VIEW results; CREATE TABLE results (run TEXT)",
    "PRAGMA user_version = 2",
    "PRAGMA user_version = 2000000000",
    "PRAGMA application_id = 7",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE' WHERE name = 'items'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 2 WHERE type = 'table'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET name = x'ff00' WHERE name = 'records'",
    "PRAGMA writable_schema = ON; DELETE FROM sqlite_master",
)


def sound_store(results: Path) -> None:
    """Two runs of the suite tabletop with varied episodes and trajectories, as a run of pytest leaves them."""
    with open_store(results, create=True) as store:
        for run, model in ((RUN, "expert"), (OTHER_RUN, "random")):
            records = [*sample_records(run, model)]
            invocation = {"settings": {"data": None}, "arguments": [], "folder": "/"}
            store.begin(run, [each.node for each in records], command="pytest", model=model, invocation=invocation)
            for record in records:
                if record.arrays is not None:
                    states = np.zeros((3, 41))
                    trajectory = Trajectory(states, states, np.zeros((3, 3)), np.zeros((2, 7)))
                    save_trajectory(results / run / record.arrays, trajectory, record.outcome)
            store.add_all(records)
            store.mark(run, {each.node: "passed" for each in records})
            store.end(run, "finished")


def mutated(results: Path, random: Random) -> str:
    """Spoil the store of a results folder. Returns how, for the table and for people."""
    how = random.choice((_cells, _cells, _lines, _lines, _lines, _invocation, _schema, _bytes, _trajectories))
    with contextlib.suppress(sqlite3.Error):
        return f"{how.__name__[1:]}: {how(results, random)}"
    return f"{how.__name__[1:]}: refused by SQLite"


def commands_for(number: int, results: Path) -> Sequence[Sequence[str]]:
    """Three commands to say to the store of this number: over some stores all of them."""
    where = ["--results", str(results)]
    several = (
        ["runs", *where],
        ["report", "last", *where],
        ["export", "all", *where, "-o", str(results / "out.csv")],
        ["runs", "--json", *where],
        ["report", *where],
        ["export", "last", *where, "-o", str(results / "out.jsonl")],
        ["report", RUN, "-o", str(results / "out.json"), *where],
        ["show", "last", *where, "-o", str(results / "out.png"), "--size", "64", "--seeds", "0"],
        ["export", "all", *where, "-o", str(results / "out.parquet")],
    )
    return [several[(number * 3 + step) % len(several)] for step in range(3)]


def attack(numbers: Sequence[int], seed: int) -> Iterator[tuple[int, str, str, str]]:
    """Spoil a store for each number and run its commands, all in one process; a new one only after a hang.

    Yields:
        The number, the command, one of `CLEAR`, `DONE`, `TRACEBACK`, `HANG`, and what was done and said.
    """
    left = list(numbers)
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder) / "sound"
        sound_store(sound)
        while left:
            here, there = multiprocessing.Pipe(duplex=False)
            # Not forked: a parent with threads of numba's or OpenGL's could leave a lock closed in the child.
            process = multiprocessing.get_context("spawn").Process(target=_work, args=(left, seed, sound, there))
            process.start()
            there.close()
            last: tuple[int, str, str] | None = None
            # The first one has everything to import.
            patience = 6 * PATIENCE
            while left:
                try:
                    told = here.recv() if here.poll(patience) else None
                except EOFError:
                    break
                if told is None:
                    break
                number, command, outcome, said = told
                if outcome == "begins":
                    last = (number, command, said)
                elif outcome == "next":
                    left.remove(number)
                    last, patience = None, PATIENCE
                else:
                    yield told
            if left and last is not None:
                alive = process.is_alive()
                yield last[0], last[1], HANG if alive else TRACEBACK, last[2] + "; the process died" * (not alive)
                left.remove(last[0])
            elif left:
                process.kill()
                raise RuntimeError("the process that spoils stores broke by itself: see its traceback above")
            process.kill()
            process.join()


def _work(numbers: Sequence[int], seed: int, sound: Path, told: Connection) -> None:
    from pytest_vla.cli import main

    os.chdir(sound.parent)
    for number in numbers:
        results = sound.parent / f"store{number}"
        shutil.copytree(sound, results)
        how = mutated(results, Random(f"{seed} {number}"))
        for command in commands_for(number, results):
            told.send((number, command[0], "begins", how))
            told.send((number, command[0], *_said(main, command, how)))
        told.send((number, "", "next", how))
        shutil.rmtree(results)
    told.close()


def _said(main: Any, command: Sequence[str], how: str) -> tuple[str, str]:
    # As a terminal or a pipe is: a text that cannot be encoded is an error there.
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(command)
            out.flush()
    except BaseException:
        return TRACEBACK, f"{how}\n$ {' '.join(command)}\n{traceback.format_exc()}"
    err.flush()
    said = err.buffer.getvalue().decode()
    shown = out.buffer.getvalue().decode() + said
    if bad := {c for c in shown if not c.isprintable() and c != "\n"}:
        return TRACEBACK, f"{how}\n$ {' '.join(command)}\nnot printable: {bad}"
    if code and not said.startswith("pytest-vla: "):
        return TRACEBACK, f"{how}\n$ {' '.join(command)}\nexit code {code} without a word"
    return (CLEAR if code else DONE), f"{how}\n{said}"


def sample_records(run: str, model: str) -> Iterator[Record]:
    """Records of a run: errors, successes and failures, varied and not, of several suites."""
    for task in _TASKS:
        for variation in _VARIATIONS:
            for seed in range(2):
                suite = variation.get("suite", "tabletop")
                case = Case(suite, task, seed, variation.get("label", ""))
                outcome = ("success", "failure", "error")[(seed + len(variation) + len(task)) % 3]
                yield replace(
                    _RECORD,
                    run=run,
                    case=case.id,
                    node=case.node_id,
                    suite=suite,
                    task=task,
                    seed=seed,
                    variation={name: value for name, value in variation.items() if name != "suite"},
                    outcome=outcome,
                    reason="policy-raised" if outcome == "error" else None,
                    message="ValueError: it broke" if outcome == "error" else None,
                    success_step=2 if outcome == "success" else None,
                    policy=model,
                    seeds={"run": 0, "scene": seed, "init_state": seed, "init_states": 10},
                    arrays=f"{suite}/{case.parameter_id}.npz",
                )


_RECORD = Record(
    schema=SCHEMA, run=RUN, case="", node="", suite="tabletop", task="", seed=0, variation={}, attempt=1, worker="",
    started="2026-01-02T03:04:05.678+00:00", instruction="turn on the stove", outcome="failure", reason=None,
    message=None, steps=2, success_step=None, literals={"(turnon flat_stove_1)": ((0, False), (2, True))},
    eef_pos=(0.1, -0.2, 1.0), costs=(), metrics={"asked_done": 1.0}, seeds={},
    protocol={"max_steps": 300, "cameras": ["agentview"], "init_state": None, "textures": "installed"}, replan=None,
    policy="expert", policy_digest="00", provenance={"mujoco": "3.3.7", "robosuite": "1.4.0"}, timings={"wall": 1.25},
    digest="00", arrays=None,
)  # fmt: skip


def _database(results: Path) -> sqlite3.Connection:
    return sqlite3.connect(results / STORE, isolation_level=None)


def _cells(results: Path, random: Random) -> str:
    with closing(_database(results)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        table = random.choice(("runs", "runs", "items", "episodes", "records"))
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, value = random.choice(columns), random.choice(_VALUES)
        if isinstance(value, list | dict):
            value = json.dumps(value)
        elif isinstance(value, str) and random.random() < 0.3:
            value = value.encode(errors="surrogateescape")
        elif isinstance(value, int) and abs(value) >= 2**63:
            value = str(value)
        elif isinstance(value, str):
            value = value.encode(errors="replace").decode()
        order = random.choice(("", " WHERE rowid = 1", " WHERE rowid % 2 = 0"))
        if table == "items":
            order = random.choice(("", " WHERE position = 0", " WHERE position % 2 = 0"))
        connection.execute(f"UPDATE {table} SET {column} = ?{order}", (value,))
        return f"{table}.{column} = {value!r:.60}{order}"


def _lines(results: Path, random: Random) -> str:
    with closing(_database(results)) as connection:
        number = connection.execute("SELECT count(*) FROM records").fetchone()[0]
        episodes = random.sample(range(1, number + 1), random.choice((1, number // 2, number)))
        path: list[Any] = []
        value = copy.deepcopy(random.choice((*_VALUES, "nested")))
        seed = random.random()
        for episode in episodes:
            (line,) = connection.execute("SELECT line FROM records WHERE episode = ?", (episode,)).fetchone()
            table = json.loads(line)
            path = _replace(table, value, Random(seed))
            text = json.dumps(table)
            if value == "nested":
                text = text.replace('"nested"', "[" * 900 + "]" * 900)
            connection.execute("UPDATE records SET line = ? WHERE episode = ?", (text, episode))
        return f"{'.'.join(map(str, path))} = {value!r:.60} in {len(episodes)}"


def _replace(table: dict[str, Any], value: Any, random: Random) -> list[Any]:
    path: list[Any] = []
    at: Any = table
    while True:
        # Where no field's own type says what may stand there.
        loose = [key for key in ("variation", "metrics", "seeds", "protocol") if at is table and key in table]
        keys = sorted(at) if isinstance(at, dict) else range(len(at))
        key = random.choice(loose if loose and random.random() < 0.6 else keys)
        path.append(key)
        if isinstance(at[key], dict | list) and at[key] and random.random() < 0.8:
            at = at[key]
            continue
        if random.random() < 0.15:
            del at[key]
        elif isinstance(at, dict) and random.random() < 0.1:
            at["unknown" if random.random() < 0.5 else "\x1b[31m"] = value
        else:
            at[key] = value
        return path


def _invocation(results: Path, random: Random) -> str:
    value = random.choice(_VALUES)
    with contextlib.suppress(UnicodeEncodeError), closing(_database(results)) as connection:
        if random.random() < 0.5:
            text = random.choice(("", "{", "[1]", "null", "[" * 5000, '{"settings": 3}', '{"settings": {"data": 3}}'))
        else:
            table = {"settings": {"data": None}, "arguments": [], "folder": "/"}
            _replace(table, value, random)
            text = json.dumps(table)
        connection.execute("UPDATE runs SET invocation = ?", (text,))
        return text[:60]
    return "refused"


def _schema(results: Path, random: Random) -> str:
    statement = random.choice(_SCHEMA)
    with closing(_database(results)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.executescript(statement)
    return statement


def _bytes(results: Path, random: Random) -> str:
    file = results / STORE
    data = bytearray(file.read_bytes())
    kind = random.choice(("flipped", "flipped", "cut", "copied", "zeros", "header"))
    if kind == "flipped":
        for _ in range(random.choice((1, 10, 1000))):
            data[random.randrange(len(data))] = random.randrange(256)
    elif kind == "header":
        data[random.randrange(100)] = random.randrange(256)
    elif kind == "cut":
        del data[random.randrange(len(data)) :]
    else:
        size, pages = 16384, len(data) // 16384
        source, target = random.randrange(pages) * size, random.randrange(pages) * size
        data[target : target + size] = data[source : source + size] if kind == "copied" else bytes(size)
    file.write_bytes(data)
    return kind


def _trajectories(results: Path, random: Random) -> str:
    files = sorted((results / OTHER_RUN).rglob("*.npz"))
    kind = random.choice(("flipped", "cut", "objects", "shape", "gone", "text", "nan"))
    for file in files:
        data = bytearray(file.read_bytes())
        if kind == "flipped":
            for _ in range(20):
                data[random.randrange(len(data))] = random.randrange(256)
            file.write_bytes(data)
        elif kind == "cut":
            file.write_bytes(data[: random.randrange(len(data))])
        elif kind == "gone":
            file.unlink()
        else:
            value: Any = {
                "objects": np.array([{}, []], dtype=object),
                "shape": np.zeros((2, 3, 4)),
                "text": np.array(["x"]),
                "nan": np.full((3, 41), np.nan),
            }[kind]
            np.savez(file, qpos=value, qvel=value, eef_pos=value, actions=value)
    return kind

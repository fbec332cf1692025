"""The store gives back what was put into it, whatever the order of things."""

import dataclasses
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from math import nan
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pytest_vla.errors import VlaError
from pytest_vla.metrics.selection import repeats_among
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.counting import Repeats, standings
from pytest_vla.records.items import STATUSES, RunItem, ending_of
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Count, is_alive
from pytest_vla.records.store import STORE, Store, open_store
from tests.support.examples import scaled
from tests.support.records import RECORD, record_of
from tests.support.varied import varied

NODES = tuple(record_of(seed).node for seed in range(4))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / ".vla", create=True) as store:
        yield store


class StoreMachine(RuleBasedStateMachine):
    """Does the same to a store and to dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = open_store(Path(self.folder.name), create=True)
        self.status: dict[str, str] = {}
        self.added: dict[str, list[Record]] = {}
        self.items: dict[str, dict[str, tuple[bool, str | None]]] = {}
        self.begun = 0

    @rule(nodes=st.permutations(NODES), count=st.integers(0, 4))
    def begin(self, nodes: list[str], count: int) -> None:
        name, self.begun = f"run{self.begun}", self.begun + 1
        episodes, others = nodes[:count], nodes[count : count + 1]
        run = self.store.begin(
            name,
            episodes,
            command="pytest",
            model="random",
            invocation={"n": [self.begun, None]},
            others=others,
        )
        assert (run.name, run.invocation, run.pid) == (name, {"n": [self.begun, None]}, os.getpid())
        self.items[name] = {**dict.fromkeys(others, (False, None)), **dict.fromkeys(episodes, (True, None))}
        self.status[name], self.added[name] = "running", []

    @precondition(lambda self: self.items)
    @rule(data=st.data(), seed=st.integers(0, 3), outcome=st.sampled_from(OUTCOMES), attempt=st.integers(1, 2))
    def add(self, data: st.DataObject, seed: int, outcome: str, attempt: int) -> None:
        record = record_of(seed, outcome, self._any_run(data), attempt=attempt, message="ümläut\n\0'")
        self.store.add(record)
        self.added[record.run].append(record)
        _, status = self.items[record.run].get(record.node, (True, None))
        self.items[record.run][record.node] = (True, status)

    @precondition(lambda self: self.items)
    @rule(data=st.data(), statuses=st.dictionaries(st.sampled_from(NODES), st.sampled_from(STATUSES)))
    def mark(self, data: st.DataObject, statuses: dict[str, str]) -> None:
        name = self._any_run(data)
        self.store.mark(name, statuses)
        items = self.items[name]
        items |= {node: (items[node][0], status) for node, status in statuses.items() if node in items}

    @precondition(lambda self: self.items)
    @rule(data=st.data(), status=st.sampled_from(["finished", "stopped"]))
    def end(self, data: st.DataObject, status: str) -> None:
        name = self._any_run(data)
        self.store.end(name, status)
        self.status[name] = status

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        name = self._any_run(data)
        assert self.store.resume(name).status == "running"
        self.status[name] = "running"

    @precondition(lambda self: self.items)
    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        name = self._any_run(data)
        self.store.discard(name)
        if not self.added[name]:
            for table in (self.items, self.status, self.added):
                del table[name]

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(Path(self.folder.name), create=True)

    @invariant()
    def it_says_what_it_was_told(self) -> None:
        runs = self.store.runs()
        assert [run.name for run in runs] == list(reversed(self.items))
        for run in runs:
            name, added = run.name, self.added[run.name]
            counting = [record for record, (how, _) in zip(added, standings(added), strict=True) if how == "counts"]
            assert (run.status, run.ended is None) == (self.status[name], self.status[name] == "running")
            assert run.planned == sum(episode for episode, _ in self.items[name].values())
            results = {record.node: (record.of_suite, record.outcome) for record in counting}
            expected = []
            for node, (episode, status) in self.items[name].items():
                of_suite, outcome = results.get(node, (None, None))
                # Of a suite's own item the record says how it ended, whoever was killed before it was noted.
                ending = status or (ending_of(outcome, False) if of_suite else None)
                expected.append(RunItem(node, episode, ending, of_suite, outcome))
            assert self.store.items(name) == tuple(expected)
            assert list(self.store.attempts(name)) == added
            assert list(self.store.records(name)) == counting
            assert run.done == len(counting)
            outcomes = {outcome: sum(record.outcome == outcome for record in counting) for outcome in OUTCOMES}
            counted = {count.outcome: count.episodes for count in run.counts}
            assert {outcome: counted.get(outcome, 0) for outcome in OUTCOMES} == outcomes
            assert run.repeats == repeats_among(added, standings(added))
            assert self.store.run(name) == run

    def _any_run(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.items)))

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=scaled(25), stateful_step_count=20)


def test_there_is_nothing_to_read_before_the_first_run(tmp_path: Path) -> None:
    results = tmp_path / ".vla"
    with pytest.raises(VlaError, match=r"no runs in .*\.vla yet. Run pytest with --vla-suite"):
        open_store(results, create=False)
    assert not results.exists(), "looking makes nothing"
    with open_store(results, create=True) as store, pytest.raises(VlaError, match="no runs in"):
        store.run("last")


def test_a_new_folder_of_runs_is_kept_out_of_git(tmp_path: Path) -> None:
    for _ in range(2):
        open_store(tmp_path / "deep" / ".vla", create=True).close()
    assert sorted(os.listdir(tmp_path / "deep" / ".vla")) == [".gitignore", STORE]
    assert (tmp_path / "deep" / ".vla" / ".gitignore").read_text() == "*\n"
    open_store(tmp_path, create=True).close()
    assert not (tmp_path / ".gitignore").exists(), "a folder that was there is the user's"


def test_runs_are_found_by_name_beginning_and_last(store: Store) -> None:
    for name in ("20260101-1-a", "20260101-1-ab", "20260102-1-c"):
        store.begin(name, NODES, command="pytest", model="random")
    assert store.run("20260101-1-a").name == "20260101-1-a", "a full name is not a beginning"
    assert store.run("20260102").name == store.run("last").name == "20260102-1-c"
    with pytest.raises(VlaError, match=r"2 runs in .* begin with '20260101': 20260101-1-ab, 20260101-1-a"):
        store.run("20260101")
    with pytest.raises(VlaError, match=r"no run '20260102-1-d' in .*Did you mean 20260102-1-c"):
        store.run("20260102-1-d")
    with pytest.raises(VlaError, match=r"no run 'xyz' in .*The latest are 20260102-1-c, 20260101-1-ab, 20260101-1-a"):
        store.run("xyz")


def test_a_run_counts_suites_and_own_tests_apart(store: Store) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    store.begin("a-run", NODES, command="pytest -n 2 'a b'", model="my:policy")
    own = "test_mine.py::test_bowl[turn_on_the_stove-seed0]"
    for record in (record_of(0, "success"), record_of(1, "error"), record_of(0, "success", node=own)):
        store.add(record)
    run = store.run("last")
    assert set(run.counts) == {
        Count("libero_goal", True, False, False, False, "success", None, 1),
        Count("libero_goal", True, False, False, False, "error", "policy-raised", 1),
        Count("libero_goal", False, False, False, False, "success", None, 1),
    }
    assert (run.command, run.model, run.planned, run.done) == ("pytest -n 2 'a b'", "my:policy", 5, 3)
    assert before <= datetime.fromisoformat(run.started) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("label", "given"),
    [
        ("light.diffuse-L2", False),
        ("light.diffuse-x0123abcd", True),
        ("camera.wider-L1+light.diffuse-x0123abcd", True),
        ("light.diffuse-x0123abcd+robot.joints-L1", True),
        ("pro.displace_x-L1", False),
    ],
)
def test_a_run_counts_given_cases_apart(store: Store, label: str, given: bool) -> None:
    record = varied(label, True)
    store.begin("a-run", (record.node,), command="pytest", model="random")
    store.add(dataclasses.replace(record, run="a-run"))
    (count,) = store.run("last").counts
    assert (count.is_given, count.in_no_rate) == (given, given) == (record.is_given, record.in_no_rate)


def test_nodes_that_are_no_utf_8_are_kept_and_repeated_ones_count_once(store: Store) -> None:
    odd = b"test_\xff.py::test_it".decode(errors="surrogateescape")
    store.begin("a-run", (odd, "b", odd), command=odd, model=odd)
    store.add(dataclasses.replace(RECORD, node=odd, policy=odd, message=odd))
    store.mark("a-run", {odd: "passed"})
    assert store.items("a-run") == (
        RunItem(r"test_\udcff.py::test_it", True, "passed", False, "failure"),
        RunItem("b", True, None),
    )
    assert [record.node for record in store.records("a-run")] == [odd]
    assert len(store.durations(odd)) == 1


def test_a_record_of_a_run_that_has_not_begun_is_refused(store: Store) -> None:
    with pytest.raises(VlaError, match=r"cannot write records: .*FOREIGN KEY"):
        store.add(RECORD)
    store.begin("a-run", NODES, command="", model="random")
    with pytest.raises(VlaError, match=r"cannot write records: .*UNIQUE"):
        store.begin("a-run", NODES, command="", model="random")
    assert store.run("a-run").done == 0


def test_many_records_are_written_together_or_not_at_all(store: Store) -> None:
    store.begin("a-run", NODES[:1], command="", model="random")
    records = [record_of(seed, "success") for seed in range(3)]
    for wrong in (record_of(3, run="b-run"), dataclasses.replace(RECORD, timings={"wall": nan})):
        with pytest.raises((VlaError, ValueError), match=r"FOREIGN KEY|not JSON compliant"):
            store.add_all([*records, wrong])
        assert (store.run("a-run").done, store.run("a-run").planned) == (0, 1), "the first three are gone too"
    store.add_all(iter(records))
    assert list(store.records("a-run")) == records
    assert (store.run("a-run").done, store.run("a-run").planned) == (3, 3)
    store.add_all([])
    assert store.run("a-run").done == 3


def test_durations_are_of_the_model_s_measured_episodes_newest_first(store: Store) -> None:
    for number, model in enumerate(["random", "other", "random"]):
        store.begin(f"run{number}", NODES, command="", model=model)
    for run in ("run0", "run1", "run2"):
        for seed, outcome in enumerate(OUTCOMES):
            store.add(record_of(seed, outcome, run, timings={"wall": 10.0 * int(run[3]) + seed}))
    store.add(record_of(3, "success", "run2", timings={}))
    task = ("libero_goal", "turn_on_the_stove")
    assert store.durations("random") == [(*task, 1, 21.0), (*task, 0, 20.0), (*task, 1, 1.0), (*task, 0, 0.0)]
    assert store.durations("third") == []


def test_durations_are_of_the_latest_ten_runs(store: Store) -> None:
    for number in range(12):
        store.begin(f"run{number}", NODES, command="", model="random")
        store.add(record_of(number, run=f"run{number}"))
    assert [seed for _, _, seed, _ in store.durations("random")] == list(range(11, 1, -1))


def test_a_run_is_alive_while_its_process_is(tmp_path: Path) -> None:
    results = tmp_path / ".vla"
    script = f"""
import pathlib, sys
from pytest_vla.records.store import open_store
open_store(pathlib.Path({str(results)!r}), create=True).begin("theirs", [], command="", model="random")
print("begun", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        with open_store(results, create=False) as store:
            run = store.run("theirs")
            assert is_alive(run) is True
            assert is_alive(dataclasses.replace(run, process="1")) is False, "another process has its number now"
            assert is_alive(dataclasses.replace(run, host="elsewhere")) is None
            assert is_alive(dataclasses.replace(run, status="stopped", host="elsewhere")) is False
            with pytest.raises(
                VlaError, match=f"run theirs is still running .process {process.pid}.. Wait for its end"
            ):
                store.resume("theirs")
            process.kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert is_alive(run) is False, "a zombie is dead"
            process.wait()
            assert is_alive(run) is False
            mine = store.resume("theirs")
            assert (mine.pid, is_alive(mine)) == (os.getpid(), True)
            assert is_alive(store.resume("theirs")) is True, "a process may take up its own"


def test_a_run_of_another_machine_can_be_taken_over(store: Store) -> None:
    store.begin("a-run", NODES, command="", model="random")
    store.add(record_of(0))
    with closing(sqlite3.connect(store.results / STORE)) as other:
        other.execute("UPDATE runs SET host = 'elsewhere', pid = 1")
        other.commit()
    assert store.run("last").host == "elsewhere"
    assert store.resume("last").pid == os.getpid()


def test_people_can_query_it_with_sqlite(store: Store) -> None:
    store.begin("a-run", NODES, command="", model="random")
    for outcome in ("error", "success"):
        store.add(record_of(0, outcome))
    with closing(sqlite3.connect(store.results / STORE)) as other:
        (row,) = other.execute("SELECT case_id, outcome, steps, wall FROM results").fetchall()
        assert row == ("libero_goal/turn_on_the_stove[seed0]", "success", 2, 1.25)
        assert other.execute("SELECT count(*) FROM episodes").fetchone() == (2,)
        assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_of_what_earlier_runs_picked_the_first_complete_record_of_the_store_counts(store: Store) -> None:
    """Of a run of everything its own records do, and of a policy that nobody tried before, too."""
    outcomes = {"full": ["failure", "failure", "error", "success"], "again": ["success", "failure"]}
    for run, picked in (("full", None), ("again", None), ("picked", "--lf")):
        store.begin(run, NODES, command="", model="random", picked=picked)
        for seed, outcome in enumerate(outcomes.get(run, ["error", "success", "success"])):
            store.add(record_of(seed, outcome, run, digest=f"{run} {seed}"))
            store.mark(run, {NODES[seed]: "passed" if outcome == "success" else "failed"})
    # Of seed 0 it was an error first, which is not what counts of it in the end.
    store.add(record_of(0, "success", "picked", digest="full 0"))
    other = dataclasses.replace(record_of(3, "failure", "picked"), policy_digest="another")
    store.add(other)
    assert [record.outcome for record in store.records("again")] == ["success", "failure"]
    assert [record.outcome for record in store.records("picked")] == ["success", "success", "success", "failure"]
    first, second = store.earlier("picked")
    assert (first.node, first.record.run, first.record.outcome) == (NODES[0], "full", "failure")
    assert (first.status, first.equal) == ("failed", True)
    assert (second.node, second.record.run, second.equal) == (NODES[1], "full", False)
    assert store.earlier("again") == ()
    run = store.run("picked")
    assert (run.picked, store.run("full").picked) == ("--lf", None)
    counted = {count.outcome: count.episodes for count in run.counts}
    assert counted == {"failure": 3, "success": 1}, "two of the first run's, the error's second try, another policy's"
    assert run.repeats == Repeats(2, 2, 2, 1)


def test_importing_it_loads_no_sqlite() -> None:
    script = "import sys, pytest_vla.records.store; print('sqlite3' in sys.modules, 'numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "False False\n"

"""Copies of a policy in a cluster: which a worker asks, and that all of them are one policy. The cluster is played."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.scale.far_replicas import FarReplicas
from pytest_vla.scale.ray_cluster import FarActor
from pytest_vla.serving.process import NotBatched
from pytest_vla.serving.stats import ServingStats
from tests.support.waiting import until


class Played:
    """A cluster whose actors say what they are told to, when they are told to."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = answers
        self.loaded = [threading.Event() for _ in answers]
        self.lost: set[int] = set()
        self.killed: list[int] = []
        self.started: list[FarActor] = []

    def start(self, name: str, module: str, kind: str, table: Any, **options: Any) -> FarActor:
        self.started.append(FarActor(name, len(self.started), f"node{len(self.started)}"))
        return self.started[-1]

    def place(self, actor: FarActor) -> None:
        """It is known."""

    def ask(self, actor: FarActor, method: str, *values: Any, seconds: float = 0) -> Any:
        number = actor.handle
        if method == "begun":
            self.loaded[number].wait()
        if number in self.lost:
            raise VlaError(f"{actor.name}: it is gone")
        if method == "begun":
            return self.answers[number]
        return {"seen": ServingStats().table(), "notices": [], "printed": b"", "lost": None}

    def kill(self, actor: FarActor) -> None:
        self.killed.append(actor.handle)


def answer(number: int, digest: str = "w") -> dict[str, Any]:
    network = {"host": "10.0.0.1", "port": 4000 + number, "secret": "00"}
    return {"about": {"digest": digest, "most": 4}, "patience": 1.0, "path": f"/p{number}", "network": network}


def copies(cluster: Played, number: int, said: list[str]) -> FarReplicas:
    spec: Any = SimpleNamespace(table=dict)
    return FarReplicas(cluster, spec, 4, number, gpus=1.0, variables={}, notice=said.append)  # type: ignore[arg-type]


def asked(replicas: FarReplicas, workers: int) -> list[str]:
    return [replicas.places(f"gw{number}", None).get("path", "") for number in range(workers)]


def test_a_copy_of_other_weights_is_never_asked() -> None:
    cluster, said = Played(answer(0, "one"), answer(1, "other"), answer(2, "one")), list[str]()
    cluster.loaded[0].set()
    replicas = copies(cluster, 3, said)
    for event in cluster.loaded:
        event.set()
    until(lambda: 1 in cluster.killed and set(asked(replicas, 8)) == {"/p0", "/p2"})
    assert replicas.about.digest == "one"
    assert any("its weights differ" in line for line in said)
    assert "/p1" not in asked(replicas, 8)
    replicas.close()


def test_also_where_they_load_side_by_side() -> None:
    cluster, said = Played(answer(0, "one"), answer(1, "other")), list[str]()
    for event in cluster.loaded:
        event.set()
    replicas = copies(cluster, 2, said)
    until(lambda: len({*cluster.killed} & {0, 1}) == 1)
    # Whichever came first is the run's.
    wrong = next(iter(cluster.killed))
    assert replicas.about.digest == cluster.answers[1 - wrong]["about"]["digest"]
    assert set(asked(replicas, 4)) == {f"/p{1 - wrong}"}
    replicas.close()


def test_a_worker_asks_the_copy_on_its_own_machine_else_the_one_that_the_fewest_ask() -> None:
    cluster = Played(answer(0), answer(1))
    for event in cluster.loaded:
        event.set()
    replicas = copies(cluster, 2, [])
    until(lambda: set(asked(replicas, 2)) == {"/p0", "/p1"})
    near = replicas.places("gw9", "node1")
    assert (near["path"], near["near"]) == ("/p1", True)
    for number in range(9):
        replicas.release(f"gw{number}")
    assert replicas.places("gw10", "elsewhere")["path"] == "/p0"
    replicas.close()


def test_one_that_is_lost_is_replaced_once_and_nobody_waits_for_it() -> None:
    cluster, said = Played(answer(0), answer(1), answer(2)), list[str]()
    for event in cluster.loaded:
        event.set()
    replicas = copies(cluster, 2, said)
    until(lambda: set(asked(replicas, 2)) == {"/p0", "/p1"})
    cluster.lost.add(1)
    until(lambda: set(asked(replicas, 4)) == {"/p0", "/p2"})
    assert len(cluster.started) == 3
    assert sum("another is started in its place" in line for line in said) == 1
    replicas.close()


def test_where_all_have_failed_workers_are_told_why() -> None:
    cluster = Played(answer(0), answer(1, "other"))
    cluster.loaded[0].set()
    replicas = copies(cluster, 1, [])
    cluster.lost.add(0)
    cluster.loaded[1].set()
    until(lambda: "lost" in replicas.places("gw0", None))
    assert "its weights differ" in replicas.places("gw0", None)["lost"]
    replicas.close()


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        ({"error": "no such weights"}, VlaError, "no such weights"),
        ({"not_batched": "one by one", "not_shared": False}, NotBatched, "one by one"),
    ],
)
def test_a_policy_that_cannot_be_loaded_or_shared_is_said_at_once(
    told: dict[str, Any], kind: type[VlaError], words: str
) -> None:
    cluster = Played(told)
    cluster.loaded[0].set()
    with pytest.raises(kind, match=words):
        copies(cluster, 1, [])

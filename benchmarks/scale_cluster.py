"""A run on a cluster as queues, event by event: hosts' cores, links, replicas of a policy, and the driver's loop.

A worker's episode is a reset, then questions with steps after each; workers of a host share its cores in equal parts.
A question crosses the link into the replica's host, one after the other, and waits for a batch of the replica that is
nearest to its host. When an episode has ended the driver takes its record, one after the other, and gives the worker
another item; of these a worker has two, as pytest-xdist's. It begins the second without waiting for the driver.

The loop is compiled by numba, so that a million episodes take a minute; `numba.njit`'s `py_func` is the same in Python.
"""

import dataclasses
import heapq
from typing import Any

import numpy as np
from numba import njit
from scale_costs import LATENCY_SECONDS, PICTURES_BYTES, SCENE_SECONDS, WAY_SECONDS, Cluster

_THOUGHT, _ARRIVED, _CALLED, _GIVEN, _STARTED = range(5)
_QUEUED = 2
"""Items of a worker: the one that it runs, and the next."""


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a run gave.

    Attributes:
        seconds: of all of it, its start included.
        rate: episodes a second, of all of it.
        steady: episodes a second between the ends of the first and the last fifth.
        devices_busy, cores_busy, links_busy, drivers_busy: shares of the time.
        batch: questions in a call, mean.
        calls: how many.
        waited: seconds of a question from its asking to its answer, mean.
        lag: the longest that a record waited for the driver, seconds.
    """

    seconds: float
    rate: float
    steady: float
    devices_busy: float
    cores_busy: float
    links_busy: float
    drivers_busy: float
    batch: float
    calls: int
    waited: float
    lag: float


def simulate(cluster: Cluster, episodes: int, seed: int = 0, *, wait_for: int = 0, compiled: bool = True) -> Ran:
    """A run of so many episodes.

    Args:
        cluster: the machines.
        episodes: how many.
        seed: of what thinking takes.
        wait_for: questions that a batch waits for, or for all workers of its replica that are left; 0: the best of
            several for this cluster, found on a part of it, or 1 where it is greedy.
        compiled: whether numba compiles the loop.
    """
    if not wait_for:
        wait_for = 1 if cluster.greedy or not cluster.asks else best_wait(cluster, seed, compiled=compiled)
    pair = cluster.pair if cluster.asks else 0.0
    drivers = max(1, cluster.drivers)
    loop: Any = _loop if compiled else _loop.py_func
    found = loop(
        np.array([cluster.hosts, cluster.workers, cluster.cores, cluster.devices, cluster.devices_a_host, drivers]),
        np.array([cluster.questions if cluster.asks else 0, episodes, cluster.most, wait_for]),
        np.array(
            [
                cluster.start, cluster.policy, cluster.reset, cluster.steps, pair, cluster.spread, cluster.record,
                PICTURES_BYTES / cluster.link if cluster.link else 0.0,
                (LATENCY_SECONDS if cluster.link else 0.0) + (WAY_SECONDS if cluster.asks else 0.0),
                cluster.scene_changes, SCENE_SECONDS,
                # Without a device all of an episode's steps are one thought.
                cluster.steps * cluster.questions,
            ]
        ),
        cluster.call_seconds(),
        np.random.default_rng(seed),
    )  # fmt: skip
    seconds, called, thought, sent, driven, calls, answered, waited, lag, first, last = found
    cores = cluster.hosts * cluster.cores
    links = -(-cluster.devices // cluster.devices_a_host)
    steady = 0.6 * episodes / (last - first) if last > first else episodes / seconds
    return Ran(
        seconds,
        episodes / seconds,
        steady,
        called / seconds / cluster.devices,
        thought / seconds / cores,
        sent / seconds / links,
        driven / seconds / drivers,
        answered / calls if calls else 0.0,
        int(calls),
        waited / answered if answered else 0.0,
        lag,
    )


def best_wait(cluster: Cluster, seed: int = 0, *, compiled: bool = True) -> int:
    """Of several numbers of questions to wait for, the one with the highest rate, as the policy's process finds it
    while it goes: tried on one device with its share of the hosts."""
    hosts = max(1, round(cluster.hosts / cluster.devices))
    part = dataclasses.replace(cluster, hosts=hosts, devices=1, drivers=1, record=0.0, start=0.0, policy=0.0)
    workers = hosts * cluster.workers
    shares = (0, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1)
    numbers = sorted({min(max(1, round(share * min(workers, cluster.most))), cluster.most) for share in shares})
    rates = {number: simulate(part, 6 * workers, seed, wait_for=number, compiled=compiled).steady for number in numbers}
    return max(rates, key=lambda number: rates[number])


@njit(cache=True)  # type: ignore[untyped-decorator]
def _loop(machines: Any, work: Any, times: Any, call_seconds: Any, rng: Any) -> Any:
    hosts, workers, cores, devices, of_link, drivers = machines
    questions, episodes, most, wait_for = work
    start, policy, reset, steps, pair, spread, record, sending, way, scene_changes, scene, whole = times
    count = hosts * workers

    # Thinking, by host: a clock that is slower the more share its cores.
    clock, since, thinkers = np.zeros(hosts), np.zeros(hosts), np.zeros(hosts, np.int64)
    ends = np.full((hosts, workers), np.inf)
    stamp = np.zeros(hosts, np.int64)
    # Of each worker: questions that its episode still has, items that it has been given, whether it waits for one.
    left, items, idle = np.zeros(count, np.int64), np.zeros(count, np.int64), np.ones(count, np.bool_)
    asked = np.zeros(count)
    device_of = np.array([host * devices // hosts for host in range(hosts)])
    driver_of = np.array([host * drivers // hosts for host in range(hosts)])
    room = workers * ((hosts + devices - 1) // devices)
    # Workers that are at an episode: nobody waits for the others.
    playing = np.zeros(devices, np.int64)
    queue = np.zeros((devices, room), np.int64)
    head, waiting = np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    inside, inside_count = np.zeros((devices, most), np.int64), np.zeros(devices, np.int64)
    link_free = np.zeros((devices + of_link - 1) // of_link)
    driver_free = np.zeros(drivers)

    called = thought = sent = driven = waited = lag = 0.0
    calls = answered = ended = 0
    first, last, now = 0.0, 0.0, 0.0
    unbegun = episodes
    events = [(0.0, -1, 0, 0)]
    events.pop()
    for worker in range(count):
        # The first ones have the first items.
        give = min(_QUEUED, unbegun)
        items[worker], unbegun = give, unbegun - give
        # Policies are loaded before the first worker is started.
        came = policy + start * max(1.0, workers / cores) * (0.5 + 0.5 * rng.random())
        heapq.heappush(events, (came, _STARTED, worker, 0))

    while ended < episodes:
        now, kind, number, mark = heapq.heappop(events)
        host = -1  # Whose thinkers have changed.
        asks = -1  # A device whose queue or rest has changed.
        begins = -1  # A worker that begins an episode if it has an item.
        if kind == _THOUGHT:
            if mark != stamp[number]:
                continue
            host = number
            pace = min(1.0, cores / thinkers[host])
            thought += (now - since[host]) * min(thinkers[host], cores)
            clock[host] += (now - since[host]) * pace
            since[host] = now
            place = ends[host].argmin()
            ends[host, place], thinkers[host] = np.inf, thinkers[host] - 1
            worker = host * workers + place
            if left[worker] > 0:
                asked[worker] = now
                link = device_of[host] // of_link
                begun = max(now, link_free[link])
                link_free[link] = begun + sending
                sent += sending
                heapq.heappush(events, (link_free[link] + way / 2, _ARRIVED, worker, 0))
            else:
                ended += 1
                if ended == episodes // 5:
                    first = now
                if ended == episodes - episodes // 5:
                    last = now
                items[worker] -= 1
                driver = driver_of[host]
                begun = max(now, driver_free[driver])
                lag = max(lag, begun - now)
                driver_free[driver] = begun + record
                driven += record
                heapq.heappush(events, (driver_free[driver], _GIVEN, worker, 0))
                begins = worker
        elif kind == _ARRIVED:
            asks = device_of[number // workers]
            queue[asks, (head[asks] + waiting[asks]) % room] = number
            waiting[asks] += 1
        elif kind == _GIVEN:
            if unbegun > 0:
                unbegun -= 1
                items[number] += 1
                if idle[number]:
                    begins = number
        elif kind == _STARTED:
            begins = number
        else:
            asks = number
            for place in range(inside_count[asks]):
                worker = inside[asks, place]
                waited += now - asked[worker] + way / 2
                left[worker] -= 1
                owner = worker // workers
                seconds = steps * (1 - spread + 2 * spread * rng.random()) + (pair if left[worker] > 0 else 0.0)
                if thinkers[owner]:
                    thought += (now - since[owner]) * min(thinkers[owner], cores)
                    clock[owner] += (now - since[owner]) * min(1.0, cores / thinkers[owner])
                since[owner] = now
                ends[owner, worker % workers] = clock[owner] + seconds
                thinkers[owner] += 1
                stamp[owner] += 1
                ahead = (ends[owner].min() - clock[owner]) * max(1.0, thinkers[owner] / cores)
                heapq.heappush(events, (now + ahead, _THOUGHT, owner, stamp[owner]))
            answered += inside_count[asks]
            inside_count[asks] = 0
        if begins >= 0:
            owner = begins // workers
            if items[begins] <= 0:
                if not idle[begins]:
                    asks = device_of[owner]
                    playing[asks] -= 1
                idle[begins] = True
            else:
                playing[device_of[owner]] += idle[begins]
                idle[begins] = False
                left[begins] = questions
                seconds = reset + (pair if questions else whole * (1 - spread / 5 + 2 * spread / 5 * rng.random()))
                if rng.random() < scene_changes:
                    seconds += scene
                if owner != host and thinkers[owner]:
                    thought += (now - since[owner]) * min(thinkers[owner], cores)
                    clock[owner] += (now - since[owner]) * min(1.0, cores / thinkers[owner])
                since[owner] = now
                ends[owner, begins % workers] = clock[owner] + seconds
                thinkers[owner] += 1
                host = owner
        if host >= 0:
            stamp[host] += 1
            if thinkers[host]:
                ahead = (ends[host].min() - clock[host]) * max(1.0, thinkers[host] / cores)
                heapq.heappush(events, (now + max(ahead, 0.0), _THOUGHT, host, stamp[host]))
        if asks >= 0 and not inside_count[asks] and waiting[asks] and waiting[asks] >= min(wait_for, playing[asks]):
            size = min(waiting[asks], most)
            for place in range(size):
                inside[asks, place] = queue[asks, (head[asks] + place) % room]
            head[asks] = (head[asks] + size) % room
            waiting[asks] -= size
            inside_count[asks] = size
            called += call_seconds[size]
            calls += 1
            heapq.heappush(events, (now + call_seconds[size], _CALLED, asks, 0))
    # The driver has all of them.
    return max(now, driver_free.max()), called, thought, sent, driven, calls, answered, waited, lag, first, last

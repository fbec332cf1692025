"""A policy that several servers serve: workers are spread over them, and what is away or unlike is named."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies import builtin, openpi_connection, servers
from pytest_vla.policies.base import Episode
from pytest_vla.policies.fit import Traits
from pytest_vla.policies.openpi import OpenpiPolicy
from pytest_vla.policies.openpi_connection import KEY, Address, parse_addresses
from pytest_vla.policies.policy_servers import check_server, server_policies
from pytest_vla.policies.servers import GONE, ServersPolicy, check_servers, differences
from tests.support import openpi_server
from tests.support.waiting import HANG
from tests.support.websocket_policies import Wandering, serving

EPISODE = Episode("s/a[seed0]", "s", "a", "do it", 0, np.random.default_rng(0))


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(KEY, raising=False)


def test_a_list_of_addresses_is_taken_apart() -> None:
    found = parse_addresses("openpi", "gpu1:9, gpu2,ws://gpu3/x", 8000)
    assert [str(each) for each in found] == ["ws://gpu1:9", "ws://gpu2:8000", "ws://gpu3/x"]
    assert [str(each) for each in parse_addresses("openpi", "gpu", 8000)] == ["ws://gpu:8000"]


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("gpu1,", "an address in the list is empty"),
        (",", "an address in the list is empty"),
        ("gpu1:8000,gpu2,gpu1", "openpi:gpu1:8000,gpu2,gpu1: ws://gpu1:8000 is given twice"),
        ("gpu1,gpu2:x", "is not a port number"),
        ("gpu1,me:secret@gpu2", KEY),
    ],
)
def test_what_is_no_list_of_addresses_is_refused(where: str, complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        parse_addresses("openpi", where, 8000)


class Fake:
    """A server that is up or not, and says something of itself."""

    up: dict[str, bool]
    says: dict[str, dict[str, Any]]
    asked: list[str]
    reached: list[str]
    now: list[float]

    def __init__(self, address: Address) -> None:
        self.address = address
        self.replan, self.digest, self.traits = 3, "d", {"control_freq": 20}

    @property
    def said(self) -> dict[str, Any]:
        return self.reach()

    def reach(self) -> dict[str, Any]:
        self.reached.append(str(self.address))
        if not self.up[str(self.address)]:
            raise EpisodeError(GONE, f"nothing listens at {self.address}")
        return self.says.get(str(self.address), {"model": {"digest": "a"}})

    def __call__(self, episode: Episode) -> Any:
        self.reach()
        if episode.instruction == "slow":
            raise EpisodeError("policy-timeout", "no answer")
        self.asked.append(str(self.address))
        return lambda observation: np.zeros(7)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    """All up; time passes where a test says so."""
    now = [0.0]
    places = {"up": dict.fromkeys("abc", True), "says": {}, "asked": [], "reached": [], "now": now}
    monkeypatch.setattr(servers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return type("Own", (Fake,), places)


def policy_of(fakes: type[Fake], number: int) -> ServersPolicy:
    return ServersPolicy([Address(name, "") for name in fakes.up], fakes, number)


@pytest.mark.filterwarnings("ignore:nothing listens")
def test_workers_are_spread_over_servers_and_over_the_others_where_one_is_away(fakes: type[Fake]) -> None:
    policies = [policy_of(fakes, number) for number in range(12)]
    for policy in policies:
        policy(EPISODE)
    assert fakes.asked == ["a", "b", "c"] * 4
    fakes.up["b"] = False
    fakes.asked.clear()
    for turn in range(2):
        for number, policy in enumerate(policies):
            if number == 1 and not turn:
                with pytest.warns(UserWarning, match="nothing listens at b; its episodes use the other servers"):
                    policy(EPISODE)
            else:
                policy(EPISODE)
    assert Counter(fakes.asked) == {"a": 12, "c": 12}


@pytest.mark.filterwarnings("ignore:nothing listens")
def test_one_that_is_away_is_tried_again_now_and_then(fakes: type[Fake]) -> None:
    policy, now = policy_of(fakes, 1), fakes.now
    fakes.up["b"] = False
    policy(EPISODE)
    fakes.reached.clear()
    for moment in range(0, 200, 5):
        now[0] = float(moment)
        policy(EPISODE)
    assert fakes.reached.count("b") == 3, "after 15, 45, 105 seconds"
    fakes.up["b"] = True
    now[0] = 1000.0
    policy(EPISODE)
    assert fakes.asked[-1] == "b"


@pytest.mark.filterwarnings("ignore:. is gone", "ignore:nothing listens")
def test_an_episode_whose_server_died_is_run_again_on_another(
    fakes: type[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = policy_of(fakes, 0)
    policy(EPISODE)
    assert not policy.recover("policy-timeout")
    assert not policy.recover(None)
    fakes.up["a"] = False
    assert policy.recover(GONE)
    policy(EPISODE)
    assert fakes.asked == ["a", "b"]
    fakes.up.update(a=False, b=False, c=False)
    with pytest.raises(EpisodeError, match="nothing listens"):
        policy(EPISODE)

    def later(seconds: float) -> None:
        fakes.now[0] += 7.0
        fakes.up["c"] = 40 < fakes.now[0] < 100

    clock = SimpleNamespace(monotonic=lambda: fakes.now[0], sleep=later)
    monkeypatch.setattr(openpi_connection, "time", clock)
    assert policy.recover(GONE)
    policy(EPISODE)
    assert fakes.asked[-1] == "c"
    fakes.now[0] = 1000.0
    fakes.up["c"] = False
    with pytest.raises(
        VlaError,
        match=r"no server came back within 60 s: none of 3 servers can be asked \(.*\)\. The run stops\. Start",
    ):
        policy.recover(GONE)


def test_what_is_no_servers_absence_is_the_episodes_own(fakes: type[Fake]) -> None:
    with pytest.raises(EpisodeError, match="no answer"):
        policy_of(fakes, 0)(Episode("c", "s", "t", "slow", 0, np.random.default_rng(0)))


@pytest.mark.filterwarnings("ignore:.*serves another policy", "ignore:. is gone", "ignore:nothing listens")
def test_one_that_comes_back_with_another_policy_is_not_asked(fakes: type[Fake]) -> None:
    policy, now = policy_of(fakes, 1), fakes.now
    policy(EPISODE)
    fakes.up["b"] = False
    assert policy.recover(GONE)
    fakes.says["b"] = {"model": {"digest": "other"}}
    fakes.up["b"] = True
    now[0] = 100.0
    policy(EPISODE)
    assert fakes.asked[-1] != "b"
    fakes.up.update(a=False, c=False)
    with pytest.raises(
        EpisodeError, match=r"nothing listens|b serves another policy than b: model.digest is 'a', and 'ot"
    ):
        policy(EPISODE)
    fakes.says.clear()
    now[0] = 1000.0
    policy(EPISODE)
    assert fakes.asked[-1] == "b"


@pytest.mark.filterwarnings("ignore:nothing listens")
def test_what_the_policy_says_of_itself_is_the_first_ones_that_is_there(fakes: type[Fake]) -> None:
    fakes.up["a"] = False
    policy = policy_of(fakes, 0)
    assert (policy.replan, policy.digest, policy.traits) == (3, "d", Traits(control_freq=20))
    fakes.up.update(b=False, c=False)
    with pytest.raises(EpisodeError, match="nothing listens"):
        policy.traits  # noqa: B018


def test_all_are_asked_before_the_run_and_named_where_they_are_not_there(fakes: type[Fake]) -> None:
    places = [Address(name, "") for name in fakes.up]
    check_servers("m:a,b,c", places, fakes, "a server")
    fakes.says["c"] = {"model": {"digest": "z" * 200}, "more": 1}
    with pytest.raises(
        VlaError, match=r"m:a,b,c: a and c serve different policies: model.digest is 'a', and 'z+\.\.\.; m"
    ):
        check_servers("m:a,b,c", places, fakes, "a server")
    fakes.up.update(a=False, c=False)
    with pytest.raises(
        VlaError,
        match=r"m:a,b,c: 2 of 3 servers cannot be used: nothing listens at a; nothing listens at c\. Expected a s",
    ):
        check_servers("m:a,b,c", places, fakes, "a server")
    with pytest.raises(VlaError, match=r"m:a: nothing listens at a. Expected a server$"):
        check_servers("m:a", places[:1], fakes, "a server")


def test_what_differs_is_said() -> None:
    one = {"a": 1, "b": {"c": [1, 2], "d": {}}, "e": np.zeros(2)}
    assert differences(one, {"e": np.zeros(2), "b": {"d": {}, "c": [1, 2]}, "a": 1}) == ""
    assert (
        differences(one, {**one, "b": {}})
        == "b.c is [1, 2], and not said; b.d is {}, and not said; b is not said, and {}"
    )
    assert differences({"x": object}, {"x": object}) == ""
    assert "array" in differences(one, {**one, "e": np.ones(2)})


@contextmanager
def served(*policies: Any, **options: Any) -> Iterator[str]:
    """Servers of ours, as a list of addresses."""
    with ExitStack() as stack:
        ports = [stack.enter_context(serving(policy, **options)).port for policy in policies]
        yield ",".join(f"127.0.0.1:{port}" for port in ports)


def answers(policy: Callable[[Episode], Any], seed: int) -> Any:
    session = policy(Episode(f"s/a[seed{seed}]", "s", "a", "do it", seed, np.random.default_rng(seed)))
    seen = {"agentview_image": np.full((8, 8, 3), seed, np.uint8), "state": np.arange(8.0)}
    found = [session(seen).actions for _ in range(3)]
    session.close()
    return np.array(found)


def number_in(told: Any) -> None:
    told.send(builtin._number())


def test_each_worker_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    assert builtin._number() == 0
    context = multiprocessing.get_context("fork")
    heard, told = context.Pipe()
    process = context.Process(target=number_in, args=(told,), name="vla-fuzz-5")
    process.start()
    assert heard.recv() == 5
    process.join()
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw12")
    assert builtin._number() == 12


def test_our_own_servers_answer_alike_whoever_is_asked() -> None:
    with served(Wandering(), Wandering(), digest="d") as where:
        check_server("openpi", where)
        policies = [server_policies("openpi", where, HANG, number) for number in range(2)]
        assert all(isinstance(policy, ServersPolicy) and policy.digest == "d" for policy in policies)
        assert isinstance(server_policies("openpi", where.partition(",")[0], HANG, 7), OpenpiPolicy)
        assert np.array_equal(answers(policies[0], 1), answers(policies[1], 1))


@pytest.mark.filterwarnings("ignore:.* is gone")
def test_a_server_of_ours_that_goes_leaves_the_episode_to_the_other() -> None:
    with served(Wandering()) as stays, ExitStack() as goes:
        port = goes.enter_context(serving(Wandering())).port
        policy = server_policies("openpi", f"127.0.0.1:{port},{stays}", HANG, 0)
        before = answers(policy, 1)
        session = policy(EPISODE)
        goes.close()
        with pytest.raises(EpisodeError) as error:
            session({"agentview_image": np.zeros((8, 8, 3), np.uint8), "state": np.arange(8.0)})
        assert isinstance(policy, ServersPolicy)
        assert policy.recover(error.value.reason)
        assert np.array_equal(answers(policy, 1), before)


def test_servers_of_different_policies_are_refused_by_name() -> None:
    with served(Wandering(), digest="one") as first, served(Wandering(replan=5), digest="two") as second:
        with pytest.raises(
            VlaError, match=r"serve different policies: pytest_vla.replan is 3, and 5; pytest_vla.digest"
        ):
            check_server("openpi", f"{first},{second}")
        policy = server_policies("openpi", f"{first},{second}", HANG, 0)
        answers(policy, 0)
        policy._away[0] = (time.monotonic() + HANG, HANG)  # type: ignore[attr-defined]
        with pytest.warns(UserWarning, match="serves another policy than"):
            answers(policy, 0)
    with (
        openpi_server.serving(lambda request: {}, metadata={"reset_pose": [0, 1]}) as first,
        openpi_server.serving(lambda request: {}, metadata={"reset_pose": [0, 2]}) as second,
        pytest.raises(VlaError, match=r"reset_pose is \[0, 1\], and \[0, 2\]"),
    ):
        check_server("openpi", f"127.0.0.1:{first.port},127.0.0.1:{second.port}")
